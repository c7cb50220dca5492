"""Equal-width, equal-mass and adaptive bins, and the choice of their number by a sweep or by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Cells, Floats, cells_of, take
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Event
from calibrant.core.validation import fold_of_rows, simplest

Closed = Literal["left", "right"]
Binning = Literal["equal-mass", "equal-width"]

#: Rows that are processed at once, so that temporary arrays fit in the processor cache.
_BLOCK = 1 << 15
#: Up to this many rows are binned from their cells.
_FEW = 1 << 16
#: Sums of weights that differ by less than this fraction of the mass are equal: rescaled weights round differently.
#: A squared error that bins reduce to less than this fraction is set to 0.
_ROUNDING = 1e-12
#: Tolerance of comparisons of observed frequencies if weights are not integers.
_MEAN_ROUNDING = 1e-9
#: The most bins of a sweep of equal-width bins.
_MOST_SWEPT = 4096
#: Numbers of compressed cells of equal mass and, for sparse ends, of equal width in asin sqrt p.
_BY_MASS, _BY_WIDTH = 750, 250
MAX_COMPRESSED = _BY_MASS + _BY_WIDTH
#: Bin borders that the sweep computes at once.
_SWEEP_AREA = 1 << 18


@dataclass(frozen=True)
class BinnedCells:
    """Non-empty bins in ascending order, all arrays ``(b,)``.

    ``mass`` is the sum of the weights, ``rows`` the effective number of rows (Kish's for
    importance weights), ``mean_p`` the mean prediction, ``mean_y`` the observed frequency. A bin includes
    its ``start`` unless bins are closed on the right. ``start_logit`` is the logit of starts that are given logits.
    """

    mass: Floats
    rows: Floats
    mean_p: Floats
    mean_y: Floats
    start: Floats
    closed: Closed = "left"
    start_logit: Floats | None = None

    def __len__(self) -> int:
        return len(self.mass)

    def index(self, p: Floats) -> npt.NDArray[np.int64]:
        """Return the bin of each prediction ``p (n,)``; predictions below the first bin belong to it. O(n log b)."""
        return self._index(self.start, p)

    def index_of(self, rows: Event | Cells) -> npt.NDArray[np.int64]:
        """Return the bin of each row or cell, by its logit if the bins start at logits: ``(n,)``. O(n log b)."""
        if self.start_logit is None or rows.logit is None:
            return self.index(rows.p)
        return self._index(self.start_logit, rows.logit)

    def _index(self, starts: Floats, x: Floats) -> npt.NDArray[np.int64]:
        return np.maximum(np.searchsorted(starts, x, side="right" if self.closed == "left" else "left") - 1, 0)


def _bins(
    mass: Floats,
    w2: Floats,
    sum_p: Floats,
    sum_y: Floats,
    start: Floats,
    kind: str,
    closed: Closed = "left",
    start_logit: Floats | None = None,
) -> BinnedCells:
    filled = mass > 0
    mass, w2, sum_p, sum_y = mass[filled], w2[filled], sum_p[filled], sum_y[filled]
    rows = mass if kind == "frequency" else np.maximum(mass * mass / w2, 1.0)
    return BinnedCells(mass, rows, sum_p / mass, sum_y / mass, start[filled], closed, take(start_logit, filled))


def equal_width(event: Event, n_bins: int, closed: Closed = "left") -> BinnedCells:
    """Return the non-empty bins [i/b, (i+1)/b), the last one closed at 1. O(n + b).

    The borders are the doubles i / b. Closed on the right they are (i/b, (i+1)/b], the first one closed at 0. Few rows
    are binned from their cells, which other measures also need; many rows are binned without a sort.
    """
    if len(event) <= _FEW:
        return equal_width_of_cells(event.cells, n_bins, closed)
    return equal_width_of_rows(event, n_bins, closed)


def equal_width_of_cells(cells: Cells, n_bins: int, closed: Closed = "left") -> BinnedCells:
    """Return equal-width bins from cells. O(b log m)."""
    edges = np.arange(n_bins) / n_bins
    at = np.append(np.searchsorted(cells.p, edges, side=closed), len(cells))
    at[0] = 0  # closed on the right, the first bin also includes 0
    full = np.flatnonzero(np.diff(at))
    bins = bins_between(cells, np.append(at[full], len(cells)))
    return replace(bins, start=edges[full], closed=closed, start_logit=None)


def equal_width_of_rows(event: Event, n_bins: int, closed: Closed = "left") -> BinnedCells:
    """Return equal-width bins in one pass over the rows, without a sort. O(n + b).

    In floating point neither floor(p b) nor p // (1/b) is exact: .29 x 100 is 28.999..., and .3 // .1 is 2.
    """
    edges = np.arange(n_bins + 1) / n_bins
    exact_product = closed == "left" and _product_respects(edges)
    sums = np.zeros((4, n_bins))
    for start in range(0, len(event), _BLOCK):
        rows = slice(start, start + _BLOCK)
        p, y = event.p[rows], event.y[rows]
        index = (p * n_bins).astype(np.int64)
        np.minimum(index, n_bins - 1, out=index)
        # Rounding moves the product by at most one bin.
        if closed == "right":
            index += p > edges[index + 1]
            index -= (p <= edges[index]) & (index > 0)
        elif not exact_product:
            index -= p < edges[index]
            index += (p >= edges[index + 1]) & (index < n_bins - 1)
        sums[2] += np.bincount(index, p if event.w is None else p * event.w[rows], n_bins)
        index *= 2
        index += y  # one table counts negatives and positives
        if event.w is None:
            table = np.bincount(index, minlength=2 * n_bins).reshape(n_bins, 2)
            sums[:2] += table.sum(axis=1)
        else:
            table = np.bincount(index, event.w[rows], 2 * n_bins).reshape(n_bins, 2)
            sums[0] += table.sum(axis=1)
            sums[1] += np.bincount(index // 2, event.w[rows] ** 2, n_bins)
        sums[3] += table[:, 1]
    mass, w2, sum_p, sum_y = sums
    return _bins(mass, w2, sum_p, sum_y, edges[:-1], event.kind, closed)


def _product_respects(edges: Floats) -> bool:
    """Return whether floor(p b) is the bin [i/b, (i+1)/b) of every double p. O(b).

    The rounded product is non-decreasing in p, so it is enough to check each border and the double below it.
    """
    n_bins = len(edges) - 1
    i, inner = np.arange(1, n_bins), edges[1:-1]
    return bool(np.all(inner * n_bins >= i) and np.all(np.nextafter(inner, 0.0) * n_bins < i))


def equal_mass_borders(
    cells: Cells, n_bins: npt.NDArray[np.int64], first: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the cell indices at which equal-mass bins start. O(size log m).

    For each pair (b, j) of the broadcast arguments, with 0 <= j <= b: the start of bin j of b. For n
    rows the first n mod b bins have one row more than the others; weights that are not integers are cut
    at their quantiles j / b. A border inside a cell moves to the nearer end of the cell, the lower one
    of two equally near.
    """
    ends = cells.cumulative_w
    if cells.counts_rows:
        rows = round(cells.mass)
        share, rest = np.divmod(rows, n_bins)
        target = (first * share + np.minimum(first, rest)).astype(np.float64)
    else:
        target = cells.mass * (first / n_bins)
    if cells.are_rows and cells.counts_rows:
        return target.astype(np.int64)
    rounding = _ROUNDING * ends[-1]
    above = np.minimum(np.searchsorted(ends, target - rounding, side="left"), len(cells))
    below = np.maximum(above - 1, 0)
    nearest: npt.NDArray[np.int64] = np.where(ends[above] - target < target - ends[below] - rounding, above, below)
    return nearest


def equal_mass(cells: Cells, n_bins: int) -> BinnedCells:
    """Return bins of equal mass with borders between cells; bins that become empty by ties are dropped. O(b log m)."""
    return bins_between(cells, np.unique(equal_mass_borders(cells, np.array(n_bins), np.arange(n_bins + 1))))


def adaptive(cells: Cells, n_bins: int) -> BinnedCells:
    """Return bins that start at the predictions of ranks round(i n / b), i = 0, ..., b - 1. O(b log m).

    These are the edges of Nixon et al. (2019). Ties at an edge belong to the upper bin. Halves round to even ranks.
    Weights that do not count rows have no ranks, and are cut at their quantiles i / b.
    """
    ranks = np.linspace(0.0, cells.mass, n_bins, endpoint=False)
    if cells.counts_rows:
        ranks = np.minimum(np.round(ranks), cells.mass - 1.0)
    else:
        ranks += _ROUNDING * cells.mass
    at = np.searchsorted(cells.cumulative_w, ranks, side="right") - 1
    return bins_between(cells, np.unique(np.append(np.append(0, np.clip(at, 0, len(cells) - 1)), len(cells))))


def exact(cells: Cells) -> BinnedCells:
    """Return one bin for each distinct prediction. O(m)."""
    return bins_between(cells, np.arange(len(cells) + 1))


def bins_between(cells: Cells, at: npt.NDArray[np.int64]) -> BinnedCells:
    """Return bins of the cells from ``at[i]`` up to ``at[i + 1]``, ``at`` ascending. O(b), with weights O(m)."""
    starts, logits = cells.p[at[:-1]], take(cells.logit, at[:-1])
    if cells.w is cells.rows:
        both = (cells.cumulative_w, cells.cumulative_wp, cells.cumulative_wy)
        mass, sum_p, sum_y = (np.diff(cumulative[at]) for cumulative in both)
        return _bins(mass, mass, sum_p, sum_y, starts, cells.kind, start_logit=logits)
    # Differences of cumulative sums would lose small weights.
    parts = (cells.w, cells.w2, cells.w * cells.p, cells.wy)
    mass, w2, sum_p, sum_y = (np.add.reduceat(values, at[:-1]) for values in parts)
    return _bins(mass, w2, sum_p, np.minimum(sum_y, mass), starts, cells.kind, start_logit=logits)


def compressed(cells: Cells) -> Cells:
    """Merge cells to at most about 1,000, at their mean predictions. O(m)."""
    if len(cells) <= MAX_COMPRESSED:
        return cells
    by_mass = equal_mass_borders(cells, np.array(_BY_MASS), np.arange(_BY_MASS))
    by_width = np.searchsorted(cells.p, np.sin(np.pi / 2 * np.arange(1, _BY_WIDTH) / _BY_WIDTH) ** 2)
    at = np.union1d(by_mass, by_width)
    at = at[at < len(cells)]

    def merged(values: Floats) -> Floats:
        return np.add.reduceat(values, at)

    w = merged(cells.w)
    first, last = cells.p[at], cells.p[np.append(at[1:], len(cells)) - 1]
    p = np.clip(merged(cells.w * cells.p) / w, first, last)
    rest = merged(cells.w2), merged(cells.wy), merged(cells.w2y)
    return Cells(p, merged(cells.rows), w, *rest, cells.kind)


def cross_validated_count(event: Event, binning: Binning, *, folds: int, most: int, seed: int) -> int:
    """Return the number of bins, 1 to ``most``, with the best held-out error (ES_CV, EW_CV), by the 0.1 % rule."""
    scores = cross_validated_scores(event, binning, folds=folds, most=most, seed=seed)
    counts = tuple(range(1, most + 1))
    return counts[simplest(counts, scores)]


def cross_validated_scores(event: Event, binning: Binning, *, folds: int, most: int, seed: int) -> Floats:
    """Return the held-out mean squared error of 1, ..., ``most`` bins: ``(most,)``. O(folds (n + most^2 log n)).

    The rows of a fold are predicted by p plus the gap of their bin in the other folds (slope 1; Kangsepp et al. 2022,
    sections 2.2 and C.2). In a bin without rows p is unchanged; the published code predicts 0. Folds are drawn over the
    sorted rows with the given seed, 1 in the paper. Raises ``TooFewRows`` if there are fewer rows than folds.
    """
    rows = event.counted_rows
    if len(rows) < folds:
        raise TooFewRows(f"{folds} folds need at least {folds} rows")
    fold = fold_of_rows(len(rows), folds, seed, rows.clusters)
    scores, uncalibrated = np.zeros(most), 0.0
    for number in range(folds):
        held, others = rows.rows(fold == number), cells_of(rows.rows(fold != number))
        w = np.ones(len(held)) if held.w is None else held.w
        off = held.y - held.p
        sums = np.concatenate([np.zeros((2, 1)), np.cumsum([w, w * off], axis=1)], axis=1)
        error = float(w @ off**2)
        uncalibrated += error / float(w.sum()) / folds
        for count in range(1, most + 1):
            bins = equal_mass(others, count) if binning == "equal-mass" else equal_width_of_cells(others, count)
            at = bins.start if bins.start_logit is None else bins.start_logit
            x = held.p if bins.start_logit is None else held.key
            start, stop = at, np.append(at[1:], np.inf)
            if binning == "equal-width":
                number_of = np.round(start * count)  # starts are the doubles i / b
                stop = np.where(number_of == count - 1, np.inf, (number_of + 1.0) / count)
            else:
                start = np.append(-np.inf, start[1:])
            mass, gap = sums[:, np.searchsorted(x, stop)] - sums[:, np.searchsorted(x, start)]
            roof = bins.mean_y - bins.mean_p
            scores[count - 1] += (error + float(mass @ roof**2 - 2.0 * (gap @ roof))) / float(w.sum()) / folds
    # After cancellation, only rounding errors may remain; they may be negative.
    scores[scores <= _ROUNDING * uncalibrated] = 0.0
    return scores


def width_sweep_count(event: Event) -> int:
    """Return ``sweep_count`` for equal-width bins, at most 4,096, ignoring empty ones. O(b^2 log m).

    Only the bins between the first positive and the last negative can decrease.
    """
    cells = event.cells
    most = min(len(cells), _MOST_SWEPT)
    first, last = _mixed(cells)
    if first >= last:
        return most
    slack = 0.0 if cells.counts_rows else _MEAN_ROUNDING
    reach = cells.p[first], cells.p[last - 1]
    for count in range(2, most + 1):
        low, high = int(reach[0] * count) - 1, int(reach[1] * count) + 3
        edges = np.arange(max(low, 0), min(high, count)) / count
        at = np.searchsorted(cells.p, edges if high < count else np.append(edges, np.inf))
        at = at[np.diff(at, prepend=-1) > 0]
        if np.any(np.diff(np.diff(cells.cumulative_wy[at]) / np.diff(cells.cumulative_w[at])) < -slack):
            return count - 1
    return most


def sweep_count(cells: Cells) -> int:
    """Return the largest b such that 1, 2, ..., b equal-mass bins all have non-decreasing observed frequencies.

    Roelofs et al. (2022), ES_sweep: the sweep stops at the first decrease. There is at most one bin
    per cell. O(b^2) in the worst case, and much less in practice, since only the range between the first
    positive and the last negative can decrease.
    """
    mass, (first_positive, last_negative) = cells.cumulative_w, _mixed(cells)
    if first_positive >= last_negative:
        return len(cells)
    reach = (float(mass[first_positive]), float(mass[last_negative]))
    low = 2
    while low <= len(cells):
        widest = (reach[1] - reach[0]) / mass[-1] * 2 * low + 8
        high = min(len(cells), 2 * low, low + max(1, int(_SWEEP_AREA / widest)))
        falls = _first_decrease(cells, np.arange(low, high + 1), reach)
        if falls is not None:
            return falls - 1
        low = high + 1
    return len(cells)


def _mixed(cells: Cells) -> tuple[int, int]:
    """Return the first cell with a positive, and the cell after the last one with a negative."""
    positives, mass = cells.cumulative_wy, cells.cumulative_w
    first_positive = int(np.searchsorted(positives, 0.0, side="right")) - 1
    return first_positive, int(np.searchsorted(mass - positives, mass[-1] - positives[-1], side="left"))


def _bin_of(cells: Cells, counts: npt.NDArray[np.int64], position: float) -> npt.NDArray[np.int64]:
    """Return the bin of the mass at ``position`` for each number of bins, before borders move to cells."""
    if not cells.counts_rows:
        quantile: npt.NDArray[np.int64] = np.floor(position / cells.mass * counts).astype(np.int64)
        return quantile
    row = round(position)
    share, rest = np.divmod(round(cells.mass), counts)
    long = rest * (share + 1)  # rows in the bins with one more row
    return np.where(row < long, row // (share + 1), rest + (row - long) // share)


def _first_decrease(cells: Cells, counts: npt.NDArray[np.int64], reach: tuple[float, float]) -> int | None:
    """Return the first number of bins with a decrease inside ``reach`` (mass from, to), or None."""
    start = np.maximum(_bin_of(cells, counts, reach[0]) - 1, 0)
    stop = np.minimum(_bin_of(cells, counts, reach[1]) + 2, counts)
    bins = start[:, None] + np.arange(int((stop - start).max()) + 1)
    at = equal_mass_borders(cells, counts[:, None], np.minimum(bins, counts[:, None]))
    mass = np.diff(cells.cumulative_w[at], axis=1)
    positives = np.diff(cells.cumulative_wy[at], axis=1)
    # Empty bins repeat the mean of the previous bin, so they do not start a decrease.
    mean = np.where(mass > 0, positives / np.where(mass > 0, mass, 1.0), -np.inf)
    highest = np.maximum.accumulate(mean, axis=1)
    # Quotients of integers compare exactly; other means only up to rounding.
    slack = 0.0 if cells.counts_rows else _MEAN_ROUNDING
    decreases = ((mass[:, 1:] > 0) & (mean[:, 1:] < highest[:, :-1] - slack)).any(axis=1)
    return int(counts[decreases.argmax()]) if decreases.any() else None
