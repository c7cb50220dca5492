"""The rows of a fit of intra order-preserving maps: scores linear in slopes, and what that is the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from calibrant.batch import Integers
from calibrant.cells import Floats
from calibrant.maps.order_preserving import RANKS, groups_of_ranks, ramp
from calibrant.progress import SILENT, Rising

Kind = Literal["diagonal", "oi", "op"]

#: Numbers of a block of features, and as many as are kept between passes.
_BLOCK, _KEPT = 1 << 16, 1 << 23
#: Slopes are at least this share of temperature scaling's.
_LEAST = 1e-3


@dataclass(frozen=True)
class Rows:
    """The rows' ``distances`` from the largest logit, ``(n, K)``, or gaps ``(n, K - 1)``, on tempered logits.

    ``classes (n, K - 1)`` rank before the gaps, and ``own (n,)`` is the label's column, or rank. Slopes ``x (P,)`` are
    those of g, or of ranks and then of classes, piece by piece.
    """

    kind: Kind
    distances: Floats
    classes: npt.NDArray[np.int64]
    own: Integers
    knots: Floats
    n_classes: int
    #: Every pass comes up for air at each block of rows.
    told: Rising = field(default=SILENT, compare=False, repr=False)

    @property
    def pieces(self) -> int:
        """J."""
        return len(self.knots) + 1

    @property
    def groups(self) -> int:
        """Functions of distances or of ranks."""
        return 1 if self.kind == "diagonal" else min(self.n_classes - 1, RANKS)

    @cached_property
    def target(self) -> Floats:
        """Temperature scaling: every slope 1, those that classes add 0."""
        added = self.n_classes if self.kind == "op" else 0
        return np.repeat([1.0, 0.0], [self.groups * self.pieces, added * self.pieces])

    @cached_property
    def least(self) -> Floats:
        """The least slopes: logits that differ still do so afterwards."""
        return _LEAST * self.target

    @cached_property
    def group(self) -> npt.NDArray[np.int64]:
        """The function of each distance."""
        width = self.distances.shape[1]
        return np.zeros(width, np.int64) if self.kind == "diagonal" else groups_of_ranks(width + 1, self.groups)

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Rows with their ramps ``(h, distances, J)``, which are kept where they are not too many."""
        for block in self._kept if self.distances.size * self.pieces <= _KEPT else self._made():
            self.told.again()
            yield block

    @cached_property
    def _kept(self) -> list[tuple[slice, Floats]]:
        return list(self._made())

    def _made(self) -> Iterator[tuple[slice, Floats]]:
        height = max(1, _BLOCK // (self.distances.shape[1] * self.pieces))
        for start in range(0, len(self.own), height):
            rows = slice(start, start + height)
            ramps = np.empty((*self.distances[rows].shape, self.pieces))
            for j in range(self.pieces):
                ramps[:, :, j] = ramp(self.distances[rows], self.knots, j)
            yield rows, ramps

    def scores(self, rows: slice, ramps: Floats, x: Floats) -> Floats:
        """Scores ``(h, K)``, by class or by rank: at most 0, and one is 0."""
        slopes = x.reshape(-1, self.pieces)
        if self.kind == "diagonal":
            found: Floats = -(ramps @ slopes[0])
            return found
        moved = np.einsum("hij,ij->hi", ramps, slopes[self.group])
        if self.kind == "op":
            moved += np.einsum("hij,hij->hi", ramps, slopes[self.groups :][self.classes[rows]])
        found = np.zeros((len(moved), self.n_classes))
        np.cumsum(moved, axis=1, out=found[:, 1:])
        return np.negative(found, out=found)

    def adjoint(self, rows: slice, ramps: Floats, residual: Floats) -> Floats:
        """What ``residual (h, K)`` in the scores is in the slopes."""
        if self.kind != "diagonal":  # a gap moves every class behind it
            residual = residual[:, ::-1].cumsum(axis=1)[:, -2::-1]
        found = np.zeros((self.target.size // self.pieces, self.pieces))
        np.subtract.at(found, self.group, np.einsum("hi,hij->ij", residual, ramps))
        if self.kind == "op":
            flat, pushed = self.classes[rows].ravel(), residual[:, :, None] * ramps
            for j in range(self.pieces):
                found[self.groups :, j] -= np.bincount(flat, pushed[:, :, j].ravel(), self.n_classes)
        return found.ravel()

    def features(self, ramps: Floats, classes: npt.NDArray[np.int64]) -> Floats:
        """What each slope adds to the scores but for the sign, ``(h, K, P)``."""
        if self.kind == "diagonal":
            return ramps
        h, width, J = ramps.shape
        found = np.zeros((h, width + 1, self.target.size // J, J))
        for i in range(width):
            found[:, i + 1, self.group[i]] = ramps[:, i]
            if self.kind == "op":
                found[np.arange(h), i + 1, self.groups + classes[:, i]] = ramps[:, i]
            found[:, i + 1] += found[:, i]
        return found.reshape(h, width + 1, -1)
