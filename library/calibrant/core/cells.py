"""Cells: distinct predictions with sums over their rows, the input of most measures and binary maps.

Results that are computed from cells do not depend on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.core.choices import WeightsKind as WeightsKind

Floats = npt.NDArray[np.float64]
Outcomes = npt.NDArray[np.int8]


_Values = TypeVar("_Values", bound=npt.NDArray[Any])


def take(values: _Values | None, chosen: Any) -> _Values | None:
    """Return the chosen rows, or None if there are no values."""
    return None if values is None else values[chosen]


def effective(w: Floats) -> Floats:
    """Return weights ``(n,)``, not all 0, scaled to their effective number of rows, (sum w)^2 / sum w^2 (Kish 1965)."""
    scaled: Floats = w * (w.sum() / (w @ w))
    return scaled


def chance_variances(p: Floats, w: Floats, w2: Floats, w2y: Floats, kind: WeightsKind) -> Floats:
    """Return the variance of the sum of w (y - p) under calibration, from sums of w, w^2 and w^2 y: ``(m,)``.

    For frequencies it is w p (1 - p), and for importance weights w^2 p (1 - p) if they do not depend on the outcome. In
    a sample with too many rows of the rarer outcome they do: with weight a for outcome 1 and b for outcome 0 it is
    a b p (1 - p). Then a share q of w^2 belongs to outcome 1, and the variance is w^2 (q (1 - p)^2 + (1 - q) p^2). The
    odds of q are those of p times one factor, so that the variances do not follow the noise of single outcomes.
    """
    likely = 1.0 - p
    likely *= p
    if kind == "frequency":
        likely *= w
        return likely
    q = _shares_of_events(p, w2, float(w2y.sum()))
    return sandwich(w2 * likely, w2 * (q * (1.0 - p) ** 2 + (1.0 - q) * p**2), w2**2 * likely * (1.0 - 2.0 * p) ** 2)


#: Most Newton steps for the factor of the odds, the longest of them, and the largest logarithm of the factor.
_STEPS, _LONGEST, _FARTHEST = 60, 2.0, 60.0


def _shares_of_events(p: Floats, w2: Floats, total: float) -> Floats:
    """Return shares ``(m,)`` whose odds are those of ``p`` times one factor, so that ``w2`` times them is ``total``.

    Newton's method for one number. ``fit_logistic``, for several, finds the same in 4 to 20 times the time.
    """
    log_factor, q = 0.0, p
    for _ in range(_STEPS):
        slope = float(w2 @ (q * (1.0 - q)))
        missing = total - float(w2 @ q)
        step = float(np.clip(missing / max(slope, 1e-300), -_LONGEST, _LONGEST))
        log_factor = min(max(log_factor + step, -_FARTHEST), _FARTHEST)
        q = p * np.exp(log_factor) / (1.0 - p + p * np.exp(log_factor))
        if abs(step) < 1e-9:
            break
    return q


def sandwich(model: Floats, seen: Floats, noise: Floats) -> Floats:
    """Return variances between those of a ``model`` and those ``seen``, such as squares of residuals: all ``(m,)``.

    Those seen are right if the weights depend on outcomes, but vary much if few rows have the rarer outcome. Their
    weight is 1 / (1 + v), with v the squared relative error of their sum if the model holds; ``noise`` are their
    variances then.
    """
    total = float(model.sum())
    share = 1.0 / (1.0 + float(noise.sum()) / total / total) if total > 0.0 else 0.0
    return share * seen + (1.0 - share) * model


class Panels(NamedTuple):
    """Few logits ``(k,)`` with weights, whose sums of smooth functions are those of many cells; width of a panel."""

    logit: Floats
    w: Floats
    wy: Floats
    width: float


#: Nodes of a panel of logits; its width in standard deviations of the logits, and at most.
_NODES, _PANEL = 8, 0.125
#: Rows whose polynomials are summed at once, so that they stay in the processor cache.
_CACHED = 1 << 13


def log_odds(p: Floats) -> Floats:
    """Return the logits of probabilities above 0 and below 1: ``(n,)``."""
    logits: Floats = np.log(p)
    for start in range(0, len(logits), _CACHED):
        logits[start : start + _CACHED] -= np.log1p(-p[start : start + _CACHED])
    return logits


def _panels_of(logit: Floats, w: Floats, wy: Floats) -> Panels | None:
    """Return nodes whose sums are those of ascending logits ``(m,)``; None if they were not many fewer. O(m).

    On a panel, a logistic function is its polynomial at 8 Chebyshev nodes, up to 1e-10 of its size for slopes up to 4.
    Each cell is spread over the nodes of its panel by Lagrange's polynomials. Weights of nodes may be negative.
    """
    n, mass = len(logit), float(w.sum())
    blocks = [slice(start, start + _CACHED) for start in range(0, n, _CACHED)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(w @ logit) / mass
        spread = float(np.sqrt(sum(float(w[rows] @ (logit[rows] - mean) ** 2) for rows in blocks) / mass))
        width = _PANEL * min(spread, 1.0)
        few = float(logit[-1] - logit[0]) < n // (4 * _NODES) * width
    if not few:
        return None
    borders = logit[0] + width * np.arange(int((logit[-1] - logit[0]) / width) + 1)
    starts = np.searchsorted(logit, borders)
    counted = np.diff(starts, append=n) > 0
    starts, middles = starts[counted], borders[counted] + width / 2.0
    cuts = np.union1d(starts, np.arange(0, n, _CACHED))
    edges, panel = [*cuts.tolist(), n], np.searchsorted(starts, cuts, side="right") - 1
    moments = np.empty((2, len(cuts), _NODES))  # sums of Chebyshev's polynomials, with both weights
    polynomials = np.ones((_NODES, min(n, _CACHED)))
    for rows in blocks:
        first, last = np.searchsorted(cuts, (rows.start, rows.stop)).tolist()
        x = logit[rows] - np.repeat(middles[panel[first:last]], np.diff(edges[first : last + 1]))
        terms = polynomials[:, : len(x)]
        np.multiply(x, 2.0 / width, out=terms[1])
        x *= 4.0 / width
        for j in range(2, _NODES):
            np.multiply(x, terms[j - 1], out=terms[j])
            terms[j] -= terms[j - 2]
        for k in range(first, last):
            own = terms[:, edges[k] - rows.start : edges[k + 1] - rows.start]
            for of, weights in zip(moments, (w, wy), strict=True):
                np.matmul(own, weights[edges[k] : edges[k + 1]], out=of[k])
    # Lagrange's polynomial of node k is (1 + 2 sum_j T_j(node k) T_j) / _NODES.
    angles, degrees = np.pi * (np.arange(_NODES) + 0.5) / _NODES, np.arange(_NODES)
    at_nodes = np.cos(degrees[:, None] * angles) * np.where(degrees > 0, 2.0, 1.0)[:, None] / _NODES
    sums = np.add.reduceat(moments, np.searchsorted(cuts, starts), axis=1) @ at_nodes
    nodes = middles[:, None] + width / 2.0 * np.cos(angles)
    return Panels(nodes.ravel(), sums[0].ravel(), sums[1].ravel(), width)


#: Numbers that are summed at once, so that they stay in the processor cache.
_BLOCK = 1 << 16
#: Doubles represent all integers below this.
_LARGEST_COUNT = 2.0**53


class Scaled:
    """Has predictions in [0, 1], and their logits if these were given."""

    p: Floats
    logit: Floats | None

    @property
    def key(self) -> Floats:
        """The prediction on its own scale, by which rows are sorted and tied: the logit, or p."""
        return self.p if self.logit is None else self.logit


@dataclass(frozen=True)
class SortedRows(Scaled):
    """Rows in ascending order of (prediction, outcome).

    ``p (n,)`` is P(Y = 1) in [0, 1], ``y (n,)`` is 0 or 1, and ``w (n,)`` holds non-negative weights or
    is None if every row counts once. Rows with the same number in ``clusters (n,)`` are in the same fold.
    ``logit (n,)`` is the logit of p if logits were given: it orders rows whose p rounds to the same number.
    """

    p: Floats
    y: Outcomes
    w: Floats | None
    clusters: npt.NDArray[np.int64] | None = None
    logit: Floats | None = None

    def __len__(self) -> int:
        return len(self.p)

    @property
    def count(self) -> int:
        """Number of rows that the weights count, rounded down."""
        return len(self) if self.w is None else int(self.w.sum())

    def rows(self, chosen: npt.NDArray[Any]) -> SortedRows:
        """Return the chosen rows."""
        w, clusters, logit = take(self.w, chosen), take(self.clusters, chosen), take(self.logit, chosen)
        return SortedRows(self.p[chosen], self.y[chosen], w, clusters, logit)


def sort_rows(
    p: Floats,
    y: Outcomes,
    w: Floats | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    logit: Floats | None = None,
) -> SortedRows:
    """Sort rows by (prediction, outcome, weight, cluster). O(n log n).

    Probabilities without weights and clusters are sorted as integer keys, which is faster than an indirect sort. Rows
    of weight 0 are dropped, so that they do not affect cells, borders of bins and folds.
    """
    if w is None and clusters is None and logit is None:
        keys = row_keys(p, y)
        keys.sort()
        number = np.float64 if keys.itemsize == 8 else np.float32
        outcomes = keys.astype(np.int8) & 1
        np.right_shift(keys, 1, out=keys)
        return SortedRows(keys.view(number).astype(np.float64, copy=False), outcomes, None)
    order = row_order([], y, p if logit is None else logit, w, clusters)
    if w is not None and not w.all():
        order = order[w[order] > 0.0]
    rows = SortedRows(p, y, w, clusters, logit).rows(order)
    for values in (rows.p, *([] if rows.logit is None else [rows.logit])):
        values += 0.0  # no -0.0, as in the keys
    return rows


def row_keys(p: Floats, y: Outcomes) -> npt.NDArray[np.uint64] | npt.NDArray[np.uint32]:
    """Return integers in the order of (prediction, outcome). O(n).

    The bits of floating-point numbers in [0, 1], read as integers, have the same order, and their two top bits are 0,
    so that the key has room for the outcome. If all predictions are representable in float32, keys have 32 bits.
    """
    p = p + 0.0  # -0.0 has its sign bit set and would sort last
    keys: npt.NDArray[np.uint64] | npt.NDArray[np.uint32] = p.view(np.uint64)
    if _is_single(p[:_FIRST]) and _is_single(p):
        keys = p.astype(np.float32).view(np.uint32)
    np.left_shift(keys, 1, out=keys)
    np.bitwise_or(keys, y.view(np.uint8), out=keys)
    return keys


#: Rows that are looked at before all others, which mostly are as these.
_FIRST = 1024


def _is_single(p: Floats) -> bool:
    return np.array_equal(p.astype(np.float32), p)


def row_order(
    parting: list[Floats],
    outcomes: npt.NDArray[Any],
    predictions: Floats,
    w: Floats | None,
    clusters: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.int64]:
    """Return row numbers sorted by prediction, outcome, tie breakers ``parting``, weight and cluster. O(n log n)."""
    order: npt.NDArray[np.int64] = np.argsort(predictions)  # much faster than with the keys that only ties need
    ranked = predictions[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.lexsort([*(key for key in (clusters, w) if key is not None), *parting, outcomes, predictions])
    return order


def vector_order(
    p: Floats, labels: npt.NDArray[Any], w: Floats | None, clusters: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Return ``row_order`` of vectors ``p (n, K)``: by largest probability, label and a projection of the vector."""
    apart = p @ np.cos(np.arange(p.shape[1])).astype(p.dtype)
    return row_order([apart], labels, p.max(axis=1), w, clusters)


@dataclass(frozen=True)
class Cells(Scaled):
    """Distinct predictions in ascending order, and the sums over the rows of each.

    All arrays are ``(m,)``: ``p`` is the prediction, ``rows`` the number of rows, ``w`` and ``w2`` are the
    sums of w and w^2, and ``wy`` and ``w2y`` those of w y and w^2 y. Without weights w = w2 = rows.

    ``logit`` is the logit of ``p`` if logits were given: cells differ in it, while ``p`` may round to the same number.

    With ``kind`` ``frequency`` a weight of 2 counts as two rows, and the effective number of rows is the sum
    of w. With ``importance`` only ratios of weights matter, and it is (sum w)^2 / sum w^2 (Kish 1965).
    """

    p: Floats
    rows: Floats
    w: Floats
    w2: Floats
    wy: Floats
    w2y: Floats
    kind: WeightsKind = "frequency"
    logit: Floats | None = None

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def cumulative_w(self) -> Floats:
        """Mass up to and including each cell, with a leading 0: ``(m + 1,)``."""
        if self.are_rows:
            return np.arange(len(self) + 1, dtype=np.float64)
        return _running(self.w) if self.w is self.rows else _cumulative(self.w)

    @cached_property
    def cumulative_wy(self) -> Floats:
        """Mass of positives up to each cell, with a leading 0: ``(m + 1,)``."""
        return _running(self.wy) if self.w is self.rows else _cumulative(self.wy)

    @cached_property
    def cumulative_wp(self) -> Floats:
        """Sum of w p up to each cell, with a leading 0: ``(m + 1,)``."""
        return _cumulative(self.p if self.are_rows else self.w * self.p)

    @property
    def are_rows(self) -> bool:
        """Whether every cell is one row that counts once."""
        return self.w is self.rows and len(self) == self.mass

    @cached_property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(self.w.sum()) if self.w is self.rows else float(self.cumulative_w[-1])

    @property
    def rows_per_weight(self) -> float:
        """The factor that makes weights numbers of rows: effective ones of importance weights, otherwise 1."""
        return self.mass / float(self.w2.sum()) if self.kind == "importance" else 1.0

    @cached_property
    def outcomes(self) -> tuple[float, float]:
        """Number of events and of other rows; of importance weights their effective numbers."""
        events = float(self.wy.sum())
        others = max(float(self.w.sum()) - events, 0.0)
        if self.kind == "frequency":
            return events, others
        squares, rest = float(self.w2y.sum()), float((self.w2 - self.w2y).sum())
        return events**2 / max(squares, 1e-300), others**2 / max(rest, 1e-300)

    @cached_property
    def log_odds(self) -> Floats:
        """The logits of predictions above 0 and below 1: ``(m,)``."""
        return log_odds(self.p) if self.logit is None else self.logit

    @cached_property
    def panels(self) -> Panels | None:
        """Nodes whose sums of logistic functions are those of the cells; None if the cells are few. O(m)."""
        return _panels_of(self.log_odds, self.w, self.wy)

    @cached_property
    def chance(self) -> Floats:
        """Variance of the sum of w (y - p) over the rows of each cell under calibration: ``(m,)``."""
        return chance_variances(self.p, self.w, self.w2, self.w2y, self.kind)

    @cached_property
    def counts_rows(self) -> bool:
        """Whether the weights are integers that count rows, so that bins can be cut by rows."""
        whole = self.w is self.rows or bool(np.all(self.w == np.floor(self.w)))
        return self.kind == "frequency" and whole and self.mass < _LARGEST_COUNT


def cells_of(rows: SortedRows, kind: WeightsKind = "frequency") -> Cells:
    """Merge the ties of sorted rows into cells. O(n)."""
    p, y, w, logit = rows.p, rows.y, rows.w, rows.logit
    begins = rows.key[1:] != rows.key[:-1]
    tied = not begins.all()
    if w is None and not tied:
        counts, of_each = np.ones(len(p)), y.astype(np.float64)
        return Cells(p, counts, counts, counts, of_each, of_each, kind, logit)
    borders = np.concatenate(([0], np.flatnonzero(begins) + 1, [len(p)])) if tied else np.arange(len(p) + 1)
    starts = borders[:-1]
    if w is None:
        mass, positives = borders.astype(np.float64), _running(y)[borders]
        counts, of_each = np.diff(mass), np.diff(positives)  # exact for integers
        p, logit = p[starts], take(logit, starts)
        cells = Cells(p, counts, counts, counts, of_each, of_each, kind, logit)
        vars(cells).update(cumulative_w=mass, cumulative_wy=positives)  # keep the cumulative sums
        return cells
    counts = np.diff(borders).astype(np.float64)

    def merged(values: Floats) -> Floats:
        return np.add.reduceat(values, starts) if tied else values

    wy, w2 = w * y, w * w
    sums = merged(w), merged(w2), merged(wy), merged(w2 * y)
    return Cells(p[starts], counts, *sums, kind, take(logit, starts))


def _running(counts: npt.NDArray[Any]) -> Floats:
    """Return cumulative sums of integers with a leading 0, in blocks; integer sums are several times faster."""
    out = np.empty(len(counts) + 1)
    out[0] = 0.0
    for start in range(0, len(counts), _BLOCK):
        block = out[start + 1 : start + 1 + _BLOCK]
        block[:] = np.cumsum(counts[start : start + _BLOCK], dtype=np.int64)
        block += out[start]
    return out


def _cumulative(values: Floats) -> Floats:
    """Return cumulative sums with a leading 0."""
    out = np.empty(len(values) + 1)
    out[0] = 0.0
    np.cumsum(values, out=out[1:])
    return out
