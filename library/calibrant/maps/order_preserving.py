"""Intra order-preserving maps: piecewise linear functions of the distances between logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.maps.parameters import Parameter, Parametric
from calibrant.maps.transforms import Takes, blocks_of_rows

#: The gaps from this rank on share one function.
RANKS = 10


@dataclass(frozen=True)
class _Distances(Parameter):
    """Ascending distances above 0."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the distances."""
        knots = super().read(parameters, name, sizes)
        if knots[0] <= 0.0:
            raise InvalidDocument.at(f"/parameters/{name}/0", "must be above 0")
        return knots


_Knots = Annotated[
    Floats, _Distances("distances of logits at which a slope changes", "logit", "J", low=0.0, order="increasing")
]


class _ByRank(Parametric):
    """A map with a function for each of the first ``RANKS`` ranks."""

    @classmethod
    def sizes(cls, n_classes: int) -> dict[str, int]:
        """Return the sizes that letters in shapes stand for; G is the number of functions."""
        return super().sizes(n_classes) | {"G": min(n_classes - 1, RANKS)}


_RankSlopes = Annotated[Floats, Parameter("slopes between two neighbouring ranks", shape="G rows of J + 1", low=0.0)]


@dataclass(frozen=True)
class OrderPreservingDiagonal(Parametric):
    """One function of the distance from the row's largest logit (Rahimi et al. 2020).

    g(0) = 0, and g is piecewise linear with ascending positive ``knots (J,)`` and non-negative ``slopes (J + 1,)``, the
    first up to the first knot and the last from the last knot on. The order of the classes is preserved.
    """

    family: ClassVar[str] = "iop-diagonal"
    formula: ClassVar[str] = "softmax(-g(max z - z)), class by class, g piecewise linear"
    takes: ClassVar[Takes] = "logits"
    knots: _Knots
    slopes: Annotated[Floats, Parameter("slopes of g", shape="J + 1", low=0.0)]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K J)."""
        calibrated = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            z = rows[part].astype(np.float64)
            calibrated[part] = -stretched(z.max(axis=1, keepdims=True) - z, self.knots, self.slopes)
            softmax_in_place(calibrated[part])
        return calibrated


@dataclass(frozen=True)
class OrderInvariant(_ByRank):
    """A function of each gap between consecutive logits in descending order, by rank (Rahimi et al. 2020).

    For logits y_1 >= ... >= y_K the gap d_i = y_i - y_(i+1) becomes g_i(d_i), with g as in ``OrderPreservingDiagonal``
    and slopes in row i of ``rank_slopes (G, J + 1)``; later ranks use the last row. It does not depend on the class.
    """

    family: ClassVar[str] = "iop-oi"
    formula: ClassVar[str] = "softmax of scores that keep the order of the classes"
    takes: ClassVar[Takes] = "logits"
    knots: _Knots
    rank_slopes: _RankSlopes

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K (J + log K))."""
        return _cumulated(rows, self.knots, self.rank_slopes, None)


@dataclass(frozen=True)
class OrderPreserving(_ByRank):
    """Like ``OrderInvariant``, but g_i has the slopes of its rank plus those of the class at rank i.

    ``class_slopes (K, J + 1)`` are non-negative. Of equal logits the first class ranks first.
    """

    family: ClassVar[str] = "iop-op"
    formula: ClassVar[str] = "softmax of scores that keep the order of the classes"
    takes: ClassVar[Takes] = "logits"
    knots: _Knots
    rank_slopes: _RankSlopes
    class_slopes: Annotated[Floats, Parameter("slopes added for each class", shape="K rows of J + 1", low=0.0)]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K (J + log K))."""
        return _cumulated(rows, self.knots, self.rank_slopes, self.class_slopes)


def stretched(distances: Floats, knots: Floats, slopes: Floats) -> Floats:
    """Return g(d) for non-negative distances, with broadcast ``slopes (..., J)``."""
    total = np.zeros(distances.shape)
    for j in range(len(knots) + 1):
        total += slopes[..., j] * ramp(distances, knots, j)
    return total


def ramp(distances: Floats, knots: Floats, piece: int) -> Floats:
    """Return the part of each distance on this piece, between the previous knot and its own."""
    low = knots[piece - 1] if piece else 0.0
    high = knots[piece] if piece < len(knots) else np.inf
    return np.clip(distances, low, high) - low


def ranked(z: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the classes of each row in descending order of logits ``(h, K)``, and the gaps ``(h, K - 1)``."""
    order = np.argsort(-z, axis=1, kind="stable")
    return order, -np.diff(np.take_along_axis(z, order, axis=1), axis=1)


def groups_of_ranks(n_classes: int, groups: int) -> npt.NDArray[np.int64]:
    """Return the row of ``rank_slopes`` for each gap: ``(K - 1,)``."""
    return np.minimum(np.arange(n_classes - 1), groups - 1)


def _cumulated(rows: Floats, knots: Floats, rank_slopes: Floats, class_slopes: Floats | None) -> Floats:
    calibrated = np.empty(rows.shape)
    of_gaps = rank_slopes[groups_of_ranks(rows.shape[1], len(rank_slopes))]
    for part in blocks_of_rows(rows):
        order, gaps = ranked(rows[part].astype(np.float64))
        slopes = of_gaps if class_slopes is None else of_gaps + class_slopes[order[:, :-1]]
        scores = np.zeros(order.shape)
        np.cumsum(stretched(gaps, knots, slopes), axis=1, out=scores[:, 1:])
        np.put_along_axis(calibrated[part], order, softmax_in_place(np.negative(scores, out=scores)), axis=1)
    return calibrated
