"""Segments of features in which the mean label differs from the mean prediction, with family-wise error controlled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, rel_entr

from calibrant.core.arguments import explained
from calibrant.core.batch import Scale
from calibrant.core.cells import Floats, WeightsKind, chance_variances
from calibrant.core.errors import InvalidOption, TooFewRows
from calibrant.core.features import Feature, Features
from calibrant.core.options import Option, read_fraction, read_seed, read_values
from calibrant.core.progress import report
from calibrant.core.reductions import Event
from calibrant.core.results import Framed, Plotted, Table, counted, interval_of, n_rows, text_of
from calibrant.measures.intervals import Integers
from calibrant.measures.multicalibration import event_and_features

#: Groups of rows and multipliers of the largest statistic under calibration.
_GROUPS, _DRAWS = 1024, 1000
#: The most segments that are tested, and the most values of a feature.
_MOST_TESTED, _MOST_VALUES = 500_000, 256
#: By default a segment needs this many rows, and this share of all.
_FEW, _SHARE = 50, 0.001
#: Segments of one table and cells whose sums are in memory at once, and the most significant segments to compare.
_PART, _CELLS, _MOST_EXAMINED = 4096, 4096, 1000
#: Steps of bisection for the end of an interval.
_STEPS = 60
_OPTIONS = {
    "max_order": Option(2, low=0, high=3),
    "n_bins": Option(10, low=2, high=100),
    "n_segments": Option(20, low=1, high=1000),
    "min_rows": Option(_FEW, low=10, high=10**9),
}


@dataclass(frozen=True)
class Condition:
    """A value or a range of a feature; without category and ends the value is missing.

    Attributes
    ----------
    feature : str or None
        Name of the feature; None for the prediction.
    category : str or None
        The category; None for numbers.
    above : float or None
        Numbers are above this; None without a lower end.
    up_to : float or None
        Numbers are at most this; None without an upper end.
    """

    feature: str | None
    category: str | None = None
    above: float | None = None
    up_to: float | None = None

    def __str__(self) -> str:
        name = "prediction" if self.feature is None else self.feature
        if self.category is not None:
            return f"{name} = {self.category}"
        low, high = (None if end is None else f"{end:.4g}" for end in (self.above, self.up_to))
        if low is None and high is None:
            return f"{name} missing"
        return (
            f"{name} <= {high}" if low is None else f"{name} > {low}" if high is None else f"{low} < {name} <= {high}"
        )


@dataclass(frozen=True)
class Segment:
    """A segment with a gap.

    Attributes
    ----------
    conditions : tuple of Condition
        All of them hold; none for all rows.
    n : int
        Number of rows.
    share : float
        Share of all rows; with ``held_out``, like ``n``, of the rows held out.
    mean_prediction : float
        Mean prediction of its rows.
    mean_label : float
        Mean label of its rows.
    gap : float
        Mean label minus mean prediction.
    interval : tuple of float
        Interval of the gap; with the confidence, those of all segments contain their gaps.
    p_value : float
        P-value, adjusted for all segments that were tested.
    """

    conditions: tuple[Condition, ...]
    n: int
    share: float
    mean_prediction: float
    mean_label: float
    gap: float
    interval: tuple[float, float]
    p_value: float

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions)) or "all rows"


@dataclass(frozen=True, repr=False)
class SegmentSearch(Framed, Plotted):
    """Result of ``find_segments``.

    Attributes
    ----------
    segments : tuple of Segment
        Segments with a gap, the clearest first. Each has its ``conditions``, ``n`` rows, their ``share`` of all,
        ``mean_prediction``, ``mean_label``, ``gap``, ``interval`` and ``p_value``.
    n : int
        Number of rows.
    tested : int
        Number of segments that were tested.
    significant : int
        Number of segments with a significant gap, also of those that the listed ones explain.
    confidence : float
        Confidence that no segment is listed in which the predictions are calibrated.
    critical : float
        Critical value of the statistic, which is normal under calibration.
    p_value : float
        Smallest adjusted p-value: of the hypothesis that the predictions are calibrated in every segment.
    held_out : float or None
        Share of the rows that tested the segments, which the others found; None if all rows did both.
    notes : tuple of str
        What was left out.

    See Also
    --------
    find_segments : Computes this result.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.5] * 400, [0, 1] * 100 + [1, 1, 1, 0] * 50
    >>> result = calibrant.find_segments(p, y, {"site": ["a"] * 200 + ["b"] * 200})
    >>> [(str(segment), segment.n, segment.gap) for segment in result.segments]
    [('site = b', 200, 0.25)]
    """

    segments: tuple[Segment, ...]
    n: int
    tested: int
    significant: int
    confidence: float
    critical: float
    p_value: float
    held_out: float | None
    notes: tuple[str, ...] = ()

    _plot = "plots.results.plot_segments"

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"segment": str(segment), "n": segment.n, "share": segment.share}
            | {"mean_prediction": segment.mean_prediction, "mean_label": segment.mean_label, "gap": segment.gap}
            | {"low": segment.interval[0], "high": segment.interval[1], "p_value": segment.p_value}
            for segment in self.segments
        ]

    def _table(self) -> Table:
        columns = ("segment", "rows", "mean prediction", "mean label", "gap", "interval", "p-value")
        rows = [
            (
                str(row),
                f"{row.n:,}",
                row.mean_prediction,
                row.mean_label,
                row.gap,
                interval_of(row.interval),
                row.p_value,
            )
            for row in self.segments
        ]
        tested = f"{counted(self.tested, 'segment')} tested on {counted(self.n, 'row')}"
        title = f"Segments with a gap: {self.significant:,} of {tested}, confidence {self.confidence:g}"
        notes = [] if rows else [f"No gap is significant; the smallest adjusted p-value is {text_of(self.p_value)}"]
        if self.significant > len(rows):
            notes.append(
                f"{counted(self.significant - len(rows), 'other segment')} with a gap overlap or are not listed"
            )
        return Table(title, columns, rows, [*notes, *self.notes])


# --- The segments that are tested


@dataclass(frozen=True)
class _Axis:
    """Levels of a feature: bins that adjoin, or categories, then missing values, then rows of no segment.

    ``codes (n,)`` is the level of each row; there are no ``n_bins`` of categories.
    """

    codes: Integers
    conditions: tuple[Condition, ...]
    n_bins: int

    def __len__(self) -> int:
        return len(self.conditions) + 1

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The first level of each segment of this feature alone, and the one after its last: levels, then ranges."""
        ranges = [(a, b) for a, b in combinations(range(self.n_bins + 1), 2) if 1 < b - a < self.n_bins]
        return [(k, k + 1) for k in range(len(self.conditions))] + ranges

    def condition(self, first: int, end: int) -> Condition:
        """Return the condition of adjacent levels."""
        return replace(self.conditions[first], up_to=self.conditions[end - 1].up_to)


def _cuts(known: Floats, counts: Floats, n_bins: int) -> Floats:
    """Return the inner ends of at most ``n_bins`` bins: of few distinct values all but the largest, else quantiles.

    Two quantiles are equal at a frequent value. Then the values below it have a bin of their own. ``counts`` are the
    numbers of rows.
    """
    distinct, place = np.unique(known, return_inverse=True)
    if len(distinct) <= n_bins:
        return np.asarray(distinct[:-1], np.float64)
    up_to = np.cumsum(np.bincount(place, counts))
    quantiles = distinct[np.searchsorted(up_to * n_bins, np.arange(1, n_bins) * up_to[-1])]
    ends, times = np.unique(quantiles, return_counts=True)
    below = distinct[np.maximum(np.searchsorted(distinct, ends[times > 1]) - 1, 0)]
    cuts = np.union1d(ends, below)
    inner: Floats = cuts[cuts < distinct[-1]]
    return inner


def _axis(feature: Feature, counts: Floats, name: str | None, n_bins: int, least: int) -> tuple[_Axis, int]:
    """Return the levels of a feature, and how many categories have fewer than ``least`` rows or are too many."""
    missing, rare = feature.missing, 0
    if feature.codes is None:
        numbers = np.zeros(0) if feature.numbers is None else feature.numbers
        known = numbers[~missing]
        inner = _cuts(known, counts[~missing], n_bins)
        # A single bin ends at its largest value, as a condition without ends is that the value is missing.
        ends = [None, *inner.tolist(), None if len(inner) else float(known.max())]
        conditions = [Condition(name, above=a, up_to=b) for a, b in pairwise(ends)]
        codes, bins = np.searchsorted(inner, numbers), len(conditions)
    else:
        sizes = np.bincount(feature.codes[~missing], counts[~missing], len(feature.categories))
        frequent = np.argsort(-sizes, kind="stable")[:_MOST_VALUES]
        frequent = np.sort(frequent[sizes[frequent] >= least])
        conditions = [Condition(name, feature.categories[k]) for k in frequent.tolist()]
        level = np.full(len(sizes) + 1, len(frequent) + 1)
        level[frequent] = np.arange(len(frequent))
        codes, bins, rare = level[feature.codes], 0, int(np.count_nonzero(sizes)) - len(frequent)
    codes[missing] = len(conditions)
    return _Axis(codes.astype(np.int64), (*conditions, Condition(name)), bins), rare


@dataclass(frozen=True)
class _Family:
    """Segments of the same features: each one is a span of ``cells``, of which each is one level of every feature.

    ``firsts (m,)`` are the first cells of the segments, and ``ends (m,)`` those after the last. The levels of the last
    feature differ within a span.
    """

    axes: tuple[_Axis, ...]
    cells: Integers
    firsts: Integers
    ends: Integers

    def __len__(self) -> int:
        return len(self.firsts)

    def totals(self, values: Sequence[Floats]) -> Iterator[Floats]:
        """Yield sums over the rows of each segment: ``(m, 1)`` for each of ``values``."""
        place, n_cells = self._places(len(values[0])), len(self.cells)
        for column in values:
            yield _sums(np.bincount(place, column, minlength=n_cells + 1)[:, None], self.firsts, self.ends)

    def totals_by_group(self, values: Floats, groups: Integers, n_groups: int) -> Iterator[Floats]:
        """Yield sums over the rows of segments and groups, ``(h, n_groups)``, for parts that begin in few cells."""
        place, order = self._places(len(values)), np.argsort(self.firsts, kind="stable")
        firsts, ends = self.firsts[order], self.ends[order]
        by_place = np.argsort(place, kind="stable") if len(self.cells) > _CELLS else np.arange(len(place))
        sorted_place, start = place[by_place], 0
        while start < len(order):
            low = int(firsts[start])
            part = slice(start, int(np.searchsorted(firsts, low + _CELLS)))
            high, start = int(ends[part].max()), part.stop
            rows = by_place
            if len(self.cells) > _CELLS:
                rows = by_place[slice(*np.searchsorted(sorted_place, [low, high]).tolist())]
            cell = np.where(place[rows] < high, place[rows] - low, high - low)
            sums = np.bincount(cell * n_groups + groups[rows], values[rows], minlength=(high - low + 1) * n_groups)
            yield _sums(sums.reshape(-1, n_groups), firsts[part] - low, ends[part] - low)

    def _places(self, n: int) -> Integers:
        """Return the cell of each of ``n`` rows; that of rows in no segment is after the last one."""
        number = np.full(math.prod(map(len, self.axes)), len(self.cells))
        number[self.cells] = np.arange(len(self.cells))
        return number[_codes(self.axes, n)]


def _sums(sums: npt.NDArray[Any], firsts: Integers, ends: Integers) -> Floats:
    """Return sums over spans of cells, ``(m, g)``, of the ``sums (c, g)`` of the cells."""
    sums = sums.astype(np.float64, copy=False)
    if (ends - firsts == 1).all():
        return sums[firsts]
    before = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)])
    spans: Floats = before[ends] - before[firsts]
    return spans


@dataclass(frozen=True)
class _Place:
    """A segment of a table."""

    table: _Family
    number: int

    def levels(self) -> list[tuple[_Axis, int, int]]:
        """Return the features, with their first level and the one after the last."""
        table, i = self.table, self.number
        first, last = int(table.cells[table.firsts[i]]), int(table.cells[table.ends[i] - 1])
        levels = []
        for axis in reversed(table.axes):
            (first, low), (last, high) = divmod(first, len(axis)), divmod(last, len(axis))
            levels.append((axis, low, high + 1))
        return levels[::-1]

    def rows(self, n: int) -> npt.NDArray[np.bool_]:
        """Return which of ``n`` rows are in the segment."""
        inside = np.ones(n, dtype=np.bool_)
        for axis, first, end in self.levels():
            inside &= (axis.codes >= first) & (axis.codes < end)
        return inside


def _codes(axes: Sequence[_Axis], n: int) -> Integers:
    code = np.zeros(n, dtype=np.int64)
    for axis in axes:
        code = code * len(axis) + axis.codes
    return code


def _tables(axes: Sequence[_Axis], counts: Floats, max_order: int, least: int) -> list[_Family]:
    """Return the segments with at least ``least`` rows; raises ``InvalidOption`` for too many.

    One number among the features is in ranges of bins, and several are in single bins.
    """
    tables, tested = list[_Family](), 0
    for order in range(max_order + 1):
        for chosen in combinations(axes, order):
            ordered = tuple(sorted(chosen, key=lambda axis: axis.n_bins > 0))
            codes, most = _codes(ordered, len(counts)), math.prod(map(len, ordered))
            sizes = np.bincount(codes, counts, minlength=most).astype(np.float64, copy=False)
            large = list[Integers]()
            for spans in _spans(ordered, sizes, least):
                large.append(spans)
                tested += len(spans)
                if tested > _MOST_TESTED:
                    text = f"gives more than {_MOST_TESTED:,} segments; raise it, or lower max_order"
                    raise InvalidOption.at("/min_rows", text)
            spans = np.concatenate(large)
            for part in np.split(spans, range(_PART, len(spans), _PART)) if len(spans) else ():
                inside = np.zeros(len(sizes) + 1, dtype=np.int64)
                np.add.at(inside, part[:, 0], 1)
                np.add.at(inside, part[:, 1], -1)
                cells = np.flatnonzero(np.cumsum(inside)[:-1])
                firsts = np.searchsorted(cells, part[:, 0])
                tables.append(_Family(ordered, cells, firsts, firsts + part[:, 1] - part[:, 0]))
    return tables


def _spans(axes: Sequence[_Axis], sizes: Floats, least: int) -> Iterator[Integers]:
    """Yield the first cell of segments with enough rows, and the one after their last: ``(m, 2)``, of few at a time."""
    width, own, starts = 1, np.array([[0, 1]]), np.zeros(1, dtype=np.int64)
    for axis in axes[:-1]:
        starts = (starts[:, None] * len(axis) + np.arange(len(axis.conditions))).ravel()
    if axes:
        ranged = sum(axis.n_bins > 0 for axis in axes) == 1
        levels = [(k, k + 1) for k in range(len(axes[-1].conditions))]
        width, own = len(axes[-1]), np.array(axes[-1].spans if ranged else levels)
    starts = starts[sizes.reshape(-1, width).sum(axis=1)[starts] >= least]
    rows = np.append(0.0, np.cumsum(sizes))
    step = max(_MOST_TESTED // len(own), 1)
    for part in np.split(starts, range(step, len(starts), step)):
        spans = (part[:, None] * width + own.ravel()).reshape(-1, 2)
        yield spans[rows[spans[:, 1]] - rows[spans[:, 0]] >= least]


# --- Statistics


@dataclass(frozen=True)
class _Residuals:
    """Rows of an event, and the variance of w (y - p) of each row under calibration."""

    p: Floats
    off: Floats
    w: Floats
    squares: Floats
    variances: Floats
    counted: bool

    @classmethod
    def of(cls, event: Event) -> _Residuals:
        """Return those of the rows of an event, whose weights are above 0."""
        w, y = np.ones(len(event)) if event.w is None else event.w, event.y.astype(np.float64)
        squares = w if event.kind == "frequency" else w * w
        variances = chance_variances(event.p, w, squares, squares * y, event.kind)
        return cls(event.p, y - event.p, w, squares, variances, event.kind == "frequency")

    @property
    def counts(self) -> Floats:
        """How many rows each row is: its frequency weight, or 1."""
        return self.w if self.counted else np.ones(len(self.w))

    @property
    def columns(self) -> list[Floats]:
        """What the statistics are computed from, of each row."""
        off, squares = self.off, self.squares
        return [self.counts, self.w, self.w * self.p, self.w * off, self.variances, squares, squares * off * off]


@dataclass(frozen=True)
class _Statistics:
    """Statistics of segments: all ``(m,)``.

    ``root`` is the signed square root of the deviance of the mean label, with the continuity correction: normal under
    calibration, also for few expected events, where sum (y - p) is not.
    """

    n: Floats
    mean: Floats
    gap: Floats
    trials: Floats
    half: Floats
    root: Floats

    @classmethod
    def of(cls, sums: Floats, counted: bool) -> _Statistics:
        """Return them from the sums ``(7, m)`` of ``_Residuals.columns``; the root is 0 without rows.

        ``trials`` is the number of labels with the mean of the segment that vary as much. It follows from the
        predictions (of different ones, labels vary less), but not if the residuals vary more than the predictions say.
        """
        n, w, wp, off, variance, squares, spread = sums
        w = np.where(w > 0.0, w, np.inf)
        mean, gap = np.clip(wp / w, 0.0, 1.0), off / w
        label = np.clip(mean + gap, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_model = np.where(variance > 0.0, mean * (1.0 - mean) * w * w / variance, np.inf)
            residual = np.maximum(spread - gap * gap * squares, 0.0)
            by_residuals = np.where(residual > 0.0, label * (1.0 - label) * w * w / residual, 0.0)
        trials = np.minimum(by_model, np.maximum(by_residuals, w * w / squares))
        half = 0.5 / w if counted else 0.5 * squares / (w * w)
        return cls(n, mean, gap, trials, half, _root(mean, gap, trials, half))

    def interval(self, i: int, critical: float) -> tuple[float, float]:
        """Return the interval of a gap: mean labels whose deviance is at most that of the critical value."""
        mean, label = float(self.mean[i]), float(np.clip(self.mean[i] + self.gap[i], 0.0, 1.0))
        largest, half = critical**2 / (2.0 * float(self.trials[i])), float(self.half[i])
        ends = []
        for start, far in ((max(label - half, 0.0), 0.0), (min(label + half, 1.0), 1.0)):
            near = start
            for _ in range(_STEPS):
                middle = (near + far) / 2.0
                near, far = (middle, far) if _divergence(start, middle) <= largest else (near, middle)
            ends.append(far - mean)
        return ends[0], ends[1]


def _root(mean: Any, gap: Any, trials: Any, half: Any) -> Floats:
    """Return the signed square root of the deviance of a mean label that is ``half`` a row nearer to the mean."""
    off = np.clip(mean + gap, 0.0, 1.0) - mean
    nearer = mean + np.sign(off) * np.maximum(np.abs(off) - half, 0.0)
    with np.errstate(invalid="ignore"):
        root = np.sign(off) * np.sqrt(2.0 * trials * _divergence(nearer, mean))
    return np.where(nearer == mean, 0.0, root)


def _divergence(a: Any, b: Any) -> Any:
    """Return the Kullback-Leibler divergence of Bernoulli distributions."""
    return rel_entr(a, b) + rel_entr(1.0 - a, 1.0 - b)


def _largest_under_calibration(
    tables: Sequence[_Family], variances: Floats, random: np.random.Generator
) -> Iterator[Floats]:
    """Yield the largest absolute normal statistic of each table under calibration, of every draw: ``(draws,)``.

    The normal variables have the covariances of sum w (y - p) over segments: each row has a random sign, and random
    groups of rows have a normal multiplier. Up to 1,024 rows, each row is a group.
    """
    n = len(variances)
    groups = np.arange(n) if n <= _GROUPS else random.integers(_GROUPS, size=n)
    width = min(n, _GROUPS)
    signed = np.sqrt(variances) * random.choice([-1.0, 1.0], n)
    multipliers = random.standard_normal((width, _DRAWS), dtype=np.float32)
    for number, table in enumerate(tables):
        report(number, len(tables), "segments")
        largest = np.zeros(_DRAWS, np.float32)
        for sums in table.totals_by_group(signed, groups, width):
            size = np.sqrt(np.einsum("mg,mg->m", sums, sums))
            unit = (sums[size > 0.0] / size[size > 0.0, None]).astype(np.float32)
            largest = np.maximum(largest, np.abs(unit @ multipliers).max(axis=0, initial=0.0))
        yield largest.astype(np.float64)


# --- The search


@dataclass(frozen=True)
class SegmentOptions:
    """Checked options of ``find_segments``."""

    max_order: int = 2
    n_bins: int = 10
    min_rows: int | None = None
    n_segments: int = 20
    confidence: float = 0.95
    held_out: float | None = None
    seed: int = 0

    @classmethod
    def read(
        cls,
        max_order: object = 2,
        n_bins: object = 10,
        min_rows: object = None,
        n_segments: object = 20,
        confidence: object = 0.95,
        held_out: object = None,
        seed: object = 0,
    ) -> SegmentOptions:
        """Check the options; raises ``InvalidOption``."""
        integers = {"max_order": max_order, "n_bins": n_bins, "n_segments": n_segments}
        values = read_values(integers | ({} if min_rows is None else {"min_rows": min_rows}), _OPTIONS, "find_segments")
        least = None if min_rows is None else values["min_rows"]
        share = None if held_out is None else read_fraction(held_out, "/held_out")
        level = read_fraction(confidence, "/confidence")
        return cls(values["max_order"], values["n_bins"], least, values["n_segments"], level, share, read_seed(seed))


def search(event: Event, features: Features, options: SegmentOptions) -> SegmentSearch:
    """Find segments of the rows of an event; raises ``TooFewRows``, ``InvalidOption``."""
    order = event.order()
    if event.w is not None:
        order = order[event.w[order] > 0.0]
    event, features = event.rows(order), features.rows(order)
    random = np.random.default_rng(options.seed)
    rows = _Residuals.of(event)
    total = float(rows.counts.sum())
    least = max(_FEW, math.ceil(_SHARE * total)) if options.min_rows is None else options.min_rows
    if total < least:
        raise TooFewRows.at("/predictions", f"has {n_rows(total)}, and a segment needs {least:,}: see min_rows")
    axes, notes = _axes(event.p, features, rows.counts, options.n_bins, least)
    tables, alpha = _tables(axes, rows.counts, options.max_order, least), 1.0 - options.confidence
    places = [_Place(table, i) for table in tables for i in range(len(table))]
    finding = np.ones(len(order)) if options.held_out is None else random.random(len(order)) >= options.held_out
    columns = [column * finding for column in rows.columns]
    parts = [np.concatenate([*table.totals(columns)], axis=1) for table in tables]
    statistics = _Statistics.of(np.concatenate(parts).T, rows.counted)
    if options.held_out is None:
        p_values, critical = _adjusted(tables, statistics.root, rows.variances, alpha, random)
    else:
        critical = float(-ndtri(alpha / 2.0))
    listed = _unexplained(
        rows.w * rows.off * finding, rows.w * finding, places, statistics, critical, options.n_segments
    )
    significant = int(np.count_nonzero(np.abs(statistics.root) > critical))
    if options.held_out is not None:
        counts = rows.counts * (finding == 0.0)
        candidates = [places[i] for i in listed]
        places = [place for place in candidates if counts[place.rows(len(order))].sum() >= least]
        if len(places) < len(candidates):
            few = counted(len(candidates) - len(places), "segment")
            notes.append(f"not tested: {few} with fewer than {least:,} rows held out")
        statistics, p_values, critical = _on_held_out_rows(rows, places, finding == 0.0, alpha)
        listed = np.flatnonzero(p_values <= alpha).tolist()
        significant = len(listed)
    tested_rows = total if options.held_out is None else float(rows.counts[finding == 0.0].sum())
    segments = [
        Segment(
            tuple(axis.condition(first, end) for axis, first, end in places[i].levels()),
            round(statistics.n[i]),
            float(statistics.n[i] / tested_rows),
            float(statistics.mean[i]),
            float(np.clip(statistics.mean[i] + statistics.gap[i], 0.0, 1.0)),
            float(statistics.gap[i]),
            statistics.interval(i, critical),
            float(p_values[i]),
        )
        for i in listed
    ]
    return SegmentSearch(
        tuple(segments),
        round(total),
        sum(map(len, tables)),
        significant,
        options.confidence,
        critical,
        float(min(p_values, default=1.0)),
        options.held_out,
        tuple(notes),
    )


def _adjusted(
    tables: Sequence[_Family], roots: Floats, variances: Floats, alpha: float, random: np.random.Generator
) -> tuple[Floats, float]:
    """Return p-values ``(m,)`` adjusted for the largest of all statistics, and the critical value."""
    maxima = np.zeros(_DRAWS)
    for largest in _largest_under_calibration(tables, variances, random):
        np.maximum(maxima, largest, out=maxima)
    maxima.sort()
    beyond = _DRAWS - np.searchsorted(maxima, np.abs(roots), side="left")
    p_values = np.minimum((1 + beyond) / (_DRAWS + 1), 2.0 * len(roots) * ndtr(-np.abs(roots)))
    beyond_most = int(alpha * (_DRAWS + 1))  # 0 if the draws are too few for the confidence
    highest = maxima[_DRAWS - beyond_most] if beyond_most else np.inf
    return np.minimum(p_values, 1.0), float(min(highest, -ndtri(alpha / (2 * len(roots)))))


def _axes(p: Floats, features: Features, counts: Floats, n_bins: int, least: int) -> tuple[list[_Axis], list[str]]:
    """Return the axes of the prediction and of the features that vary, and what is left out."""
    axes, notes = list[_Axis](), list[str]()
    for name, feature in (*((feature.name, feature) for feature in features), (None, Feature("prediction", numbers=p))):
        if feature.is_constant:
            notes += [] if name is None else [f"{name} is left out: it is constant"]
            continue
        axis, rare = _axis(feature, counts, name, n_bins, least)
        axes.append(axis)
        if rare:
            categories = "1 category has" if rare == 1 else f"{rare:,} categories have"
            notes.append(f"{name}: {categories} too few rows, or more frequent ones are enough")
    return axes, notes


def _unexplained(
    off: Floats, w: Floats, places: Sequence[_Place], statistics: _Statistics, critical: float, most: int
) -> list[int]:
    """Return segments beyond the critical value, the clearest first, whose gaps those before them do not explain.

    The gap of each is subtracted from ``off (n,)``, w (y - p), in its rows. A later segment must still be significant.
    """
    off, listed, sizes = off.copy(), list[int](), np.abs(statistics.root)
    for i in np.argsort(-sizes, kind="stable")[: min(_MOST_EXAMINED, int(np.count_nonzero(sizes > critical)))].tolist():
        inside = places[i].rows(len(off))
        gap = float(off[inside].sum() / w[inside].sum())
        if abs(float(_root(statistics.mean[i], gap, statistics.trials[i], statistics.half[i]))) > critical:
            listed.append(i)
            off[inside] -= w[inside] * gap
            if len(listed) == most:
                break
    return listed


def _on_held_out_rows(
    rows: _Residuals, places: Sequence[_Place], held_out: npt.NDArray[np.bool_], alpha: float
) -> tuple[_Statistics, Floats, float]:
    """Return statistics of segments on the rows held out, p-values with Holm's correction, and the critical value."""
    from calibrant.comparison.pairs import holm  # loads all of comparison, which no report needs

    insides = [np.flatnonzero(place.rows(len(held_out)) & held_out) for place in places]
    sums = np.array([[column[inside].sum() for inside in insides] for column in rows.columns])
    statistics = _Statistics.of(sums, rows.counted)
    critical = float(-ndtri(alpha / (2 * max(len(places), 1))))
    return statistics, holm(2.0 * ndtr(-np.abs(statistics.root))), critical


@explained
def find_segments(
    predictions: Any,
    labels: Any,
    features: Any,
    *,
    max_order: int = 2,
    n_bins: int = 10,
    min_rows: int | None = None,
    n_segments: int = 20,
    confidence: float = 0.95,
    held_out: float | None = None,
    seed: int = 0,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: Scale = "probability",
) -> SegmentSearch:
    """Find segments of features in which the mean label differs from the mean prediction.

    Parameters
    ----------
    predictions, labels : array_like
        As for ``evaluate``. The rows must not be those to which the model was fitted.
    features : frame, or mapping of str to array_like, shape (n,)
        Columns of numbers or of categories; None, NaN and "" are missing, which is a value of its own.
    max_order : int, default 2
        The most features of a segment, from 0 to 3; the prediction counts as a feature.
    n_bins : int, default 10
        Bins of numbers and of the prediction: a value each if there are no more values, else between quantiles.
        Segments of one feature are also ranges of bins.
    min_rows : int, optional
        Rows that a segment needs, at least 10; by default 50, and of many rows a thousandth.
    n_segments : int, default 20
        The most segments that are listed.
    confidence : float, default 0.95
        Confidence that no segment is listed in which the predictions are calibrated.
    held_out : float, optional
        Share of the rows, drawn at random, that test segments found in the others. By default all rows find and test
        segments, which finds more.
    seed : int, default 0
        Seed of the random numbers.
    reduction, class_names, pos_label, weights, sample_weight, weights_kind, scale : optional
        As for ``evaluate``; the reduction gives one event for each row.

    Returns
    -------
    SegmentSearch
        Segments with a significant gap that is not explained by the segments before them.

    Raises
    ------
    CalibrationError
        If an argument is invalid, there are too few rows, or too many segments.

    See Also
    --------
    multicalibration_error : Measures calibration over all segments by one number.

    Notes
    -----
    The statistic is the signed square root of the deviance of the mean label, with a continuity correction. Its
    critical value is the quantile of the largest of normal variables with the covariances of the gaps under
    calibration, so that the family-wise error is controlled and all intervals hold together (Chernozhukov, Chetverikov
    & Kato 2013). With ``held_out``, Holm's correction. O(n m) for m pairs of features.

    Examples
    --------
    >>> import calibrant
    >>> p, y = [0.5] * 400, [0, 1] * 100 + [1, 1, 1, 0] * 50
    >>> result = calibrant.find_segments(p, y, {"site": ["a"] * 200 + ["b"] * 200})
    >>> [(str(segment), segment.gap, segment.p_value < 0.001) for segment in result.segments]
    [('site = b', 0.25, True)]
    """
    options = SegmentOptions.read(max_order, n_bins, min_rows, n_segments, confidence, held_out, seed)
    event, columns = event_and_features(
        predictions,
        labels,
        features,
        reduction,
        class_names=class_names,
        pos_label=pos_label,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        scale=scale,
    )
    return search(event, columns, options)
