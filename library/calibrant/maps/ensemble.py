"""A mixture of maps of the whole vector and of their log-linear pool; and the identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np

from calibrant.core.batch import Predictions, softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.maps.ets import EnsembleTemperature
from calibrant.maps.linear_softmax import Dirichlet, MatrixScaling, VectorScaling
from calibrant.maps.parameters import (
    KeepOrder,
    Parameter,
    Parametric,
    Smoothing,
    function_document,
    read_array,
    read_part,
)
from calibrant.maps.ranks import OneVsRest
from calibrant.maps.softmax_map import HiddenSoftmax, NetworkSoftmax, SoftmaxRegression, smoothed_logits
from calibrant.maps.temperature import Temperature
from calibrant.maps.transforms import Takes, Transform, blocks_of_rows, in_order_of, logits_block, transformed

#: Tolerance of the sum of weights in documents, and the most members.
_SUM, _MOST = 1e-9, 100
#: Up to this many classes, linear members with the same features are applied together.
_STACKED = 32
#: Family name -> member of an ensemble.
MEMBERS: Mapping[str, type[Transform]] = MappingProxyType(
    {
        member.family: member
        for member in (
            Temperature,
            VectorScaling,
            MatrixScaling,
            SoftmaxRegression,
            HiddenSoftmax,
            NetworkSoftmax,
            OneVsRest,
        )
    }
)
#: Family name -> transform that may follow smoothing.
SMOOTHED: Mapping[str, type[Transform]] = MappingProxyType(
    {
        transform.family: transform
        for transform in (Temperature, VectorScaling, MatrixScaling, Dirichlet, EnsembleTemperature)
    }
)


@dataclass(frozen=True)
class _Members(Parameter):
    """Transforms, each with its family: one that may follow smoothing, or members of an ensemble."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the members."""
        documents, alone = read_array(parameters, name), self.shape == "1"
        if len(documents) > (1 if alone else _MOST):
            most = "one member" if alone else f"at most {_MOST} members"
            raise InvalidDocument.at(f"/parameters/{name}", f"must contain {most}")
        sizes[self.shape], families = len(documents), SMOOTHED if alone else MEMBERS
        return tuple(
            read_part(document, f"/parameters/{name}/{i}", families, sizes["K"]) for i, document in enumerate(documents)
        )

    def plain(self, value: Any) -> Any:
        """Return transforms as plain JSON, each with its family."""
        return [function_document(member) for member in value]


@dataclass(frozen=True)
class VectorIdentity(Parametric):
    """The given probabilities, or the softmax of given logits. Differentiable, no parameters."""

    family: ClassVar[str] = "vector-identity"
    formula: ClassVar[str] = "p, unchanged"
    takes: ClassVar[Takes] = "probabilities"

    def __call__(self, rows: Floats) -> Floats:
        """Return the probabilities ``(n, K)`` in float64. O(n K)."""
        return rows.astype(np.float64)


@dataclass(frozen=True)
class SmoothedVector(Parametric):
    """A transform of smoothed probabilities, for predictions of exactly 0."""

    family: ClassVar[str] = "smoothed-vector"
    formula: ClassVar[str] = "the member at (1 - a) p + a / K"
    takes: ClassVar[Takes] = "probabilities"
    smoothing: Smoothing
    members: Annotated[tuple[Transform, ...], _Members("the map of the whole vector", shape="1")]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K) and that of the transform."""
        calibrated, (member,) = np.empty(rows.shape), self.members
        for part in blocks_of_rows(rows):
            q = (1.0 - self.smoothing) * rows[part].astype(np.float64) + self.smoothing / rows.shape[1]
            calibrated[part] = member(logits_block(q, True) if member.takes == "logits" else q)
        return calibrated


@dataclass(frozen=True)
class SecondClass(Parametric):
    """A transform of the vectors (1 - p, p) as a curve of p, which measures and diagrams of an event use."""

    family: ClassVar[str] = "second-class"
    formula: ClassVar[str] = "the second class of the member at (1 - p, p)"
    members: Annotated[tuple[Transform, ...], _Members("the map of the whole vector", shape="1")]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n) and the cost of the transform."""
        return transformed(self.members[0], Predictions(np.column_stack([1.0 - p, p]), "probability"))[:, 1]

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n) and the cost of the transform."""
        return transformed(self.members[0], Predictions(np.column_stack([np.zeros(len(z)), z]), "logit"))[:, 1]


@dataclass(frozen=True)
class Ensemble(Parametric):
    """sum_m mixture_m P_m + pool_share softmax(sum_m pool_m ln max(P_m, 2^-52)), with P_m the result of member m.

    ``mixture (M,)`` and ``pool_share`` are non-negative with sum 1, ``pool (M,)`` is non-negative. ``keep_order``
    sorts the calibrated values of a row to preserve the order of the classes.
    """

    family: ClassVar[str] = "ensemble"
    formula: ClassVar[str] = "a mixture of the members and of their log-linear pool"
    takes: ClassVar[Takes] = "logits"
    members: Annotated[tuple[Transform, ...], _Members("maps of the whole vector", shape="M")]
    mixture: Annotated[Floats, Parameter("weights of the members", shape="M", low=0.0, high=1.0)]
    pool: Annotated[Floats, Parameter("exponents of the members in the pool", shape="M", low=0.0, high=1e6)]
    pool_share: Annotated[float, Parameter("weight of the pool", low=0.0, high=1.0)]
    keep_order: KeepOrder = False

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K) and the cost of the members."""
        calibrated = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            z = logits_block(rows[part], False)
            of_members = self._of_members(z)
            flat = of_members.reshape(len(of_members), -1)
            mixed = (self.mixture @ flat).reshape(z.shape)
            if self.pool_share > 0.0:
                np.log(np.maximum(flat, PROBABILITY_CLIP, out=flat), out=flat)
                mixed += self.pool_share * softmax_in_place((self.pool @ flat).reshape(z.shape))
            calibrated[part] = in_order_of(mixed, z) if self.keep_order else mixed
        return calibrated

    def _of_members(self, z: Floats) -> Floats:
        """Return the probabilities of every member ``(M, h, K)`` for logits ``z (h, K)``."""
        h, K = z.shape
        probabilities = np.empty((len(self.members), h, K))
        for first, chosen, weights, intercepts in self._stacks:
            if first.smoothing == 0.0:
                u = z / first.temperature
            else:
                u, _ = smoothed_logits(z, first.temperature, first.smoothing, first.prior)
            scores = (u @ weights).reshape(h, len(chosen), K) + intercepts
            probabilities[chosen] = scores.swapaxes(0, 1)
        if not self._alone:
            softmax_in_place(probabilities.reshape(-1, K))
            return probabilities
        if self._stacks:
            stacked = np.concatenate([chosen for _, chosen, _, _ in self._stacks])
            probabilities[stacked] = softmax_in_place(probabilities[stacked].reshape(-1, K)).reshape(-1, h, K)
        p = softmax_in_place(z.copy())
        for m in self._alone:
            member = self.members[m]
            probabilities[m] = member(z if member.takes == "logits" else p)
        return probabilities

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the weights do not sum to 1."""
        if abs(float(self.mixture.sum()) + self.pool_share - 1.0) > _SUM:
            raise InvalidDocument.at("/parameters/mixture", "and pool_share must sum to 1")

    @cached_property
    def _stacks(self) -> list[tuple[SoftmaxRegression, list[int], Floats, Floats]]:
        """Linear members with the same features, whose scores are one product: for a few rows, calls take the time."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for m, member in enumerate(self.members):
            if isinstance(member, SoftmaxRegression) and member.linear and len(member.prior) <= _STACKED:
                key = (member.temperature, member.smoothing, member.prior.tobytes())
                groups.setdefault(key, []).append(m)
        stacks = []
        for chosen in groups.values():
            alike: list[Any] = [self.members[m] for m in chosen]
            matrices = [x.weights if x.weights.ndim == 2 else np.diag(x.weights) for x in alike]
            stacks.append((alike[0], chosen, np.concatenate(matrices).T, np.stack([x.intercepts for x in alike])))
        return stacks

    @cached_property
    def _alone(self) -> list[int]:
        stacked = {m for _, chosen, _, _ in self._stacks for m in chosen}
        return [m for m in range(len(self.members)) if m not in stacked]
