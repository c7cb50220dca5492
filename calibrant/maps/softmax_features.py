"""The features of a softmax regression: logits, as they are and in coordinates in which they are solved for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from calibrant.batch import Integers
from calibrant.cells import Floats
from calibrant.errors import OutOfRange
from calibrant.maps.transforms import logits_block
from calibrant.progress import SILENT, Rising

#: Numbers of a matrix that are worked on at once, and as many as are kept in float64 between passes.
_BLOCK, _KEPT = 1 << 16, 1 << 22
#: Directions of the features of less than this share of the widest one's spread are scaled as if they had it.
_FLOOR = 1e-7
#: Features of a spread below this share of their mean are constant but for rounding.
_CONSTANT = 1e-10


@dataclass(frozen=True)
class Features:
    """Logits ``given (n, K)``, or probabilities to take logarithms of, and ``labels (n,)``.

    ``full`` scores are W z + b, others diag(w) z + b. The solver works on coordinates in which features are centred,
    uncorrelated and of unit variance under the weights ``w (n,)``: ``centre (K,)``, and ``basis``, (K, K) or (K,).
    """

    given: Floats
    labels: Integers
    w: Floats
    full: bool
    probabilities: bool
    centre: Floats
    basis: Floats
    #: Every pass comes up for air at each block of rows.
    told: Rising = field(default=SILENT, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        given: Floats,
        labels: Integers,
        w: Floats | None,
        *,
        full: bool,
        probabilities: bool,
        told: Rising = SILENT,
    ) -> Features:
        """Find the coordinates. O(n K^2), or O(n K) without ``full``. Rows of weight 0 are left out."""
        if w is not None and not w.all():
            given, labels, w = given[w > 0.0], labels[w > 0.0], w[w > 0.0]
        weights = np.full(len(labels), 1.0 / len(labels)) if w is None else w / w.sum()
        K = given.shape[1]
        plain = cls(given, labels, weights, full, probabilities, np.zeros(K), np.ones(K), told)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = sum((weights[rows] @ x for rows, x in plain.blocks()), np.zeros(K))
            centred = replace(plain, centre=centre)
            if full:
                parts = (x.T @ (weights[rows, None] * x) for rows, x in centred.blocks())
            else:
                parts = (weights[rows] @ (x * x) for rows, x in centred.blocks())
            spread = sum(parts, np.zeros((K, K) if full else K))
        if not np.isfinite(spread).all():
            raise OutOfRange("logits are too far apart to be squared")
        rounding = (_CONSTANT * np.abs(centre)) ** 2
        if not full:
            return replace(centred, basis=1.0 / np.sqrt(np.where(spread > rounding, spread, 1.0)))
        variances, axes = np.linalg.eigh(spread)
        least = max(_FLOOR**2 * float(variances[-1]), float(rounding.max())) or 1.0
        return replace(centred, basis=axes / np.sqrt(np.maximum(variances, least)))

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.given.shape[1])

    @property
    def constant(self) -> bool:
        """Whether every row has the same logits, but for rounding. O(n K)."""
        wide = (np.abs(x).max(axis=0) > _CONSTANT * np.abs(self.centre) for _, x in self.blocks())
        return not any(x.any() for x in wide)

    @property
    def shape(self) -> tuple[int, int]:
        """Parameters: of each class the weights of its features, and an intercept."""
        return self.n_classes, (self.n_classes if self.full else 1) + 1

    @cached_property
    def _kept(self) -> Floats | None:
        if self.given.size > _KEPT:
            return None
        return logits_block(self.given, self.probabilities) - self.centre

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Blocks of rows with their centred features, float64."""
        height = max(1, _BLOCK // self.n_classes)
        for start in range(0, len(self.labels), height):
            self.told.again()
            rows = slice(start, start + height)
            if self._kept is not None:
                yield rows, self._kept[rows]
            else:
                yield rows, logits_block(self.given[rows], self.probabilities) - self.centre

    def scores(self, x: Floats, theta: Floats) -> Floats:
        """Scores ``(h, K)`` of centred features ``x (h, K)``, of parameters in the solver's coordinates."""
        if self.full:
            found: Floats = x @ (theta[:, :-1] @ self.basis.T).T + theta[:, -1]
            return found
        return x * (theta[:, 0] * self.basis) + theta[:, 1]

    def adjoint(self, x: Floats, residual: Floats) -> Floats:
        """What ``residual (h, K)`` in the scores is in the parameters."""
        found = np.empty(self.shape)
        found[:, -1] = residual.sum(axis=0)
        if self.full:
            found[:, :-1] = (residual.T @ x) @ self.basis
        else:
            found[:, 0] = np.einsum("ij,ij->j", residual, x) * self.basis
        return found

    def expanded(self, x: Floats) -> Floats:
        """Features in the solver's coordinates with a 1 behind: ``(h, 1, K + 1)``, or ``(h, K, 2)`` of each class."""
        if self.full:
            return np.column_stack([x @ self.basis, np.ones(len(x))])[:, None, :]
        return np.stack([x * self.basis, np.ones_like(x)], axis=2)

    def original(self, theta: Floats) -> Floats:
        """The parameters on the logits as they are: ``(K, K + 1)`` or ``(K, 2)``, the intercepts last."""
        found = np.empty(self.shape)
        found[:, :-1] = theta[:, :-1] @ self.basis.T if self.full else theta[:, :1] * self.basis[:, None]
        of_centre = found[:, :-1] @ self.centre if self.full else found[:, 0] * self.centre
        found[:, -1] = theta[:, -1] - of_centre
        return found

    def coordinates(self, original: Floats) -> Floats:
        """The reverse of ``original``."""
        found = np.empty(self.shape)
        if self.full:
            found[:, :-1] = np.linalg.solve(self.basis, original[:, :-1].T).T
            found[:, -1] = original[:, -1] + original[:, :-1] @ self.centre
        else:
            found[:, 0] = original[:, 0] / self.basis
            found[:, 1] = original[:, 1] + original[:, 0] * self.centre
        return found
