"""Intra order-preserving maps: the classes keep their order, their distances are stretched piece by piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.batch import softmax_in_place
from calibrant.cells import Floats
from calibrant.errors import InvalidDocument
from calibrant.maps.curves import Numbers, read_array
from calibrant.maps.transforms import Takes, blocks_of_rows, read_matrix

#: Gaps behind the first ranks share one function.
RANKS = 10


@dataclass(frozen=True)
class OrderPreservingDiagonal(Numbers):
    """softmax(-g(max z - z)): one function of the distance from the row's largest logit (Rahimi et al. 2020).

    g is 0 at 0 and linear between ``knots (J - 1,)``, increasing and above 0, with ``slopes (J,)`` of at least 0, the
    first up to the first knot and the last from the last knot on. Keeps the order of the classes.
    """

    family: ClassVar[str] = "iop-diagonal"
    takes: ClassVar[Takes] = "logits"
    knots: Floats
    slopes: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K J)."""
        found = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            z = rows[part].astype(np.float64)
            found[part] = -stretched(z.max(axis=1, keepdims=True) - z, self.knots, self.slopes)
            softmax_in_place(found[part])
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:  # noqa: ARG003 - they fit any number
        """Read a document's numbers, each checked."""
        knots = _read_knots(parameters)
        return cls(knots, read_array(parameters, "slopes", numeric=True, low=0.0, length=len(knots) + 1))


@dataclass(frozen=True)
class OrderInvariant(Numbers):
    """Gaps between logits in descending order, each stretched by its rank's function, cumulated (Rahimi et al. 2020).

    Of logits y_1 >= ... >= y_K the gap d_i = y_i - y_(i+1) becomes g_i(d_i), as ``OrderPreservingDiagonal`` has g, with
    the i-th row of ``rank_slopes (G, J)``, the last one for all ranks behind it. Whatever class ranks i.
    """

    family: ClassVar[str] = "iop-oi"
    takes: ClassVar[Takes] = "logits"
    knots: Floats
    rank_slopes: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K (J + log K))."""
        return _cumulated(rows, self.knots, self.rank_slopes, None)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        knots = _read_knots(parameters)
        return cls(knots, _read_rank_slopes(parameters, n_classes, len(knots) + 1))


@dataclass(frozen=True)
class OrderPreserving(Numbers):
    """As ``OrderInvariant``, and g_i has the slopes of its rank plus those of the class that ranks i.

    ``class_slopes (K, J)`` of at least 0. Of equal logits the first class ranks first.
    """

    family: ClassVar[str] = "iop-op"
    takes: ClassVar[Takes] = "logits"
    knots: Floats
    rank_slopes: Floats
    class_slopes: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K (J + log K))."""
        return _cumulated(rows, self.knots, self.rank_slopes, self.class_slopes)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        knots = _read_knots(parameters)
        pieces = len(knots) + 1
        of_classes = read_matrix(parameters, "class_slopes", (n_classes, pieces), low=0.0)
        return cls(knots, _read_rank_slopes(parameters, n_classes, pieces), of_classes)


def stretched(distances: Floats, knots: Floats, slopes: Floats) -> Floats:
    """The stretched distances g(d) of distances of at least 0, to which ``slopes (..., J)`` broadcast."""
    found = np.zeros(distances.shape)
    for j in range(len(knots) + 1):
        found += slopes[..., j] * ramp(distances, knots, j)
    return found


def ramp(distances: Floats, knots: Floats, piece: int) -> Floats:
    """How much of each distance lies on this piece, between the knot before it and its own."""
    low = knots[piece - 1] if piece else 0.0
    high = knots[piece] if piece < len(knots) else np.inf
    found: Floats = np.clip(distances, low, high) - low
    return found


def ranked(z: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """The classes of each row in descending order of its logits, and the gaps, ``(h, K)`` and ``(h, K - 1)``."""
    order = np.argsort(-z, axis=1, kind="stable")
    return order, -np.diff(np.take_along_axis(z, order, axis=1), axis=1)


def groups_of_ranks(n_classes: int, groups: int) -> npt.NDArray[np.int64]:
    """The row of the slopes for each gap, ``(K - 1,)``."""
    return np.minimum(np.arange(n_classes - 1), groups - 1)


def _cumulated(rows: Floats, knots: Floats, rank_slopes: Floats, class_slopes: Floats | None) -> Floats:
    found = np.empty(rows.shape)
    of_gaps = rank_slopes[groups_of_ranks(rows.shape[1], len(rank_slopes))]
    for part in blocks_of_rows(rows):
        order, gaps = ranked(rows[part].astype(np.float64))
        slopes = of_gaps if class_slopes is None else of_gaps + class_slopes[order[:, :-1]]
        scores = np.zeros(order.shape)
        np.cumsum(stretched(gaps, knots, slopes), axis=1, out=scores[:, 1:])
        np.put_along_axis(found[part], order, softmax_in_place(np.negative(scores, out=scores)), axis=1)
    return found


def _read_knots(parameters: dict[str, Any]) -> Floats:
    knots = read_array(parameters, "knots", numeric=True, low=0.0, increasing=True)
    if knots[0] <= 0.0:
        raise InvalidDocument.at("/parameters/knots/0", "must be above 0")
    return knots


def _read_rank_slopes(parameters: dict[str, Any], n_classes: int, pieces: int) -> Floats:
    return read_matrix(parameters, "rank_slopes", (min(n_classes - 1, RANKS), pieces), low=0.0)
