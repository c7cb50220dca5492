"""Multicalibration error: the largest Kuiper error over segments of features, in units of its null deviation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from calibrant.core.arguments import explained
from calibrant.core.arrays import check_aligned
from calibrant.core.batch import Batch, Scale, refuse_clusters
from calibrant.core.cells import Floats, WeightsKind, chance_variances
from calibrant.core.errors import InvalidOption
from calibrant.core.features import Feature, Features, read_features
from calibrant.core.inputs import event_by_name, read_rows
from calibrant.core.options import MOST, Option, read_values
from calibrant.core.progress import report
from calibrant.core.reductions import Event
from calibrant.core.results import Framed, Table, counted, n_rows
from calibrant.measures.clinical import quantiles
from calibrant.measures.cumulative import range_tail
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.simulated import whole_rows

Ties = Literal["merged", "rows"]
#: Segments are made in parts of this many, as in MCGrad; the part in which the limit falls counts whole.
_PART = 50
#: MCGrad calls this many null deviations of all rows the smallest detectable error.
_DETECTABLE = 5.0
#: Ranges of cumulative sums below this are rounding errors, relative to the weight.
_ROUNDING = 1e-12
OTHER, MISSING = "(other)", "(missing)"
_OPTIONS = {
    "max_depth": Option(3, low=0, high=10),
    "max_values": Option(3, low=1, high=1000),
    "min_rows": Option(10, low=1, high=10**9),
    "n_segments": Option(1000, low=1, high=MOST),
}


@dataclass(frozen=True, repr=False)
class Multicalibration(Framed):
    """Result of ``multicalibration_error``; every value is at least 0, and smaller is better.

    Attributes
    ----------
    value : float or None
        Largest Kuiper error of a segment, divided by its standard deviation under calibration; None if that is 0 in a
        segment whose predictions are exactly 0 or 1 and not all right.
    segment : mapping of str to str
        Values of the features in that segment; empty for all rows.
    p_value : float or None
        P-value of ``value`` from labels drawn from the predictions, over all segments together; None without resamples.
    uncorrected_p_value : float
        Asymptotic p-value as if that segment were the only one. It is too small: the largest of many values is large.
    absolute : float or None
        ``value`` times the standard deviation of all rows, on the scale of probabilities.
    relative : float or None
        ``absolute`` in percent of the rate of the rarer outcome; None for a single outcome.
    all_rows : float or None
        The Kuiper error of all rows, divided by its standard deviation under calibration.
    detectable : float
        5 standard deviations of all rows, the smallest detectable error by the convention of MCGrad.
    n_segments : int
        Number of segments.

    See Also
    --------
    multicalibration_error : Computes this result.

    Examples
    --------
    >>> import calibrant
    >>> p, y, frame = [0.5] * 40, [0, 1] * 10 + [1] * 20, {"site": ["a"] * 20 + ["b"] * 20}
    >>> result = calibrant.multicalibration_error(p, y, frame, resamples=None)
    >>> result.segment, round(result.value, 3), result.n_segments
    ({'site': 'b'}, 4.472, 3)
    """

    value: float | None
    segment: dict[str, str]
    p_value: float | None
    uncorrected_p_value: float
    absolute: float | None
    relative: float | None
    all_rows: float | None
    detectable: float
    n_segments: int

    def _records(self) -> list[dict[str, Any]]:
        return [self.to_dict() | {"segment": segment_text(self.segment)}]

    def _table(self) -> Table:
        columns = ("segment", "error / deviation", "p-value", "uncorrected p-value", "error of all rows / deviation")
        row = (segment_text(self.segment), self.value, self.p_value, self.uncorrected_p_value, self.all_rows)
        return Table(f"Multicalibration error over {counted(self.n_segments, 'segment')}", columns, [row])


def segment_text(segment: dict[str, str]) -> str:
    """Return the values of features as text.

    >>> segment_text({"country": "DE", "age": "31 to 40"}), segment_text({})
    ('country: DE, age: 31 to 40', 'all rows')
    """
    return ", ".join(f"{name}: {value}" for name, value in segment.items()) or "all rows"


# --- Segments


@dataclass(frozen=True)
class _Partition:
    """Rows in the order of their segment and, within it, of their prediction; ``first`` is each segment's first one.

    ``ends`` are the rows at which the cumulative difference is read, None for all, and ``first_end (g,)`` the first of
    each segment.
    """

    order: Integers
    first: Integers
    ends: Integers | None
    first_end: Integers
    segments: Sequence[dict[str, str]]

    def ranges(self, differences: Floats) -> Floats:
        """Return the range of the cumulative differences of each segment, from those of the rows ``(n,)``."""
        path = np.cumsum(differences[self.order])
        before = np.append(0.0, path)[self.first]
        path = path if self.ends is None else path[self.ends]
        high = np.maximum.reduceat(path, self.first_end) - before
        low = np.minimum.reduceat(path, self.first_end) - before
        ranges: Floats = np.maximum(high, 0.0) - np.minimum(low, 0.0)
        return ranges

    def sums(self, values: Floats) -> Floats:
        """Return the sum of ``values (n,)`` in each segment."""
        return np.add.reduceat(values[self.order], self.first)


def _numbered(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Integers]:
    """Return distinct values by their first row, and the number of that of each row."""
    distinct, first, places = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    return distinct[order], np.argsort(order)[places]


def _levels(feature: Feature, counts: Floats | None, most: int) -> tuple[list[str], Integers]:
    """Return the names of at most ``most`` values of a feature, and the value of each row, as MCGrad merges them.

    ``counts (n,)`` are the numbers of equal rows, if there are several. Numbers are put into bins between quantiles,
    and missing ones are a value more. Of categories, among which is that of missing values, the most frequent ones
    stay and all others are one.
    """
    if feature.codes is not None:
        distinct, places = _numbered(feature.codes)
        names = [MISSING if code < 0 else feature.categories[code] for code in distinct.tolist()]
        if len(names) > most:
            frequent = np.argsort(-np.bincount(places, counts), kind="stable")[: most - 1]
            distinct, places = _numbered(np.where(np.isin(places, frequent), places, -1))
            names = [OTHER if place < 0 else names[place] for place in distinct.tolist()]
        return names, places
    missing = feature.missing
    numbers = np.zeros(0) if feature.numbers is None else feature.numbers
    known = numbers[~missing]
    edges = np.unique(known)
    if len(edges) <= most:
        bins = np.searchsorted(edges, numbers)
        texts = [f"{edge:.6g}" for edge in edges.tolist()]
    else:
        shares = np.linspace(0.0, 1.0, most + 1)
        own = None if counts is None else counts[~missing]
        edges = np.unique(np.quantile(known, shares) if own is None else quantiles(known, own, shares, counted=True))
        bins = np.maximum(np.searchsorted(edges, numbers, side="left") - 1, 0)
        texts = [f"{low:.6g} to {high:.6g}" for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    distinct, places = _numbered(np.where(missing, -1, bins))
    return [MISSING if place < 0 else texts[place] for place in distinct.tolist()], places


def _partitions(
    features: Features,
    counts: Floats | None,
    ends: npt.NDArray[np.bool_],
    max_depth: int,
    max_values: int,
    min_rows: int,
    n_segments: int,
) -> Iterator[_Partition]:
    """Yield the segments of sorted rows: all rows, then those of a value, of two values, and so on, in this order."""
    columns = sorted(features, key=lambda feature: feature.kind)  # categorical ones are first
    levels = [(feature.name, *_levels(feature, counts, max_values)) for feature in columns]
    left = -(-n_segments // _PART) * _PART if n_segments > _PART else n_segments
    for depth in range(min(max_depth, len(levels)) + 1):
        for chosen in combinations(levels, depth):
            code = _cells([(len(names), places) for _, names, places in chosen], len(ends))
            sizes = np.bincount(code)
            large = np.flatnonzero(np.bincount(code, counts) >= min_rows)[:left]
            left -= len(large)
            if len(large):
                yield _partition(code, sizes, large, ends, chosen)
            if left == 0:
                return


def _cells(levels: Sequence[tuple[int, Integers]], n: int) -> Integers:
    """Return the number of the cell of each of ``n`` rows, in the order of their values.

    ``levels`` are the number of values of each feature, and the value of each row. The cells are the products of the
    values, at most 2 n; if there are more, the cells that have rows get new numbers.
    """
    code, size = np.zeros(n, dtype=np.int64), 1
    for values, places in levels:
        code, size = code * values + places, size * values
        if size > 2 * n:
            distinct, code = np.unique(code, return_inverse=True)
            size = len(distinct)
    return code


def _partition(
    code: Integers,
    sizes: Integers,
    large: Integers,
    ends: npt.NDArray[np.bool_],
    chosen: Sequence[tuple[str, Sequence[str], Integers]],
) -> _Partition:
    number = np.full(len(sizes), len(large), dtype=np.int32)
    number[large] = np.arange(len(large))
    member = number[code]
    order = np.argsort(member, kind="stable")[: int(sizes[large].sum())]
    first = np.cumsum(sizes[large]) - sizes[large]
    read, first_end = None, first
    if not ends.all():  # the last row of a tie within the segment
        tie = np.cumsum(np.append(False, ends[:-1]))[order]
        last = np.append(tie[1:] != tie[:-1], True)
        last[first[1:] - 1] = True
        read = np.flatnonzero(last)
        first_end = np.searchsorted(read, first)
    segments = [{name: names[places[row]] for name, names, places in chosen} for row in order[first].tolist()]
    return _Partition(order, first, read, first_end, segments)


# --- The measure


def error_of(
    event: Event,
    features: Features,
    *,
    max_depth: int = 3,
    max_values: int = 3,
    min_rows: int = 10,
    n_segments: int = 1000,
    ties: Ties = "merged",
    resampling: Resampling | None = None,
) -> Multicalibration:
    """Return the multicalibration error of an event; raises ``InvalidOption`` if no segment has ``min_rows``."""
    integers = {"max_depth": max_depth, "max_values": max_values, "min_rows": min_rows, "n_segments": n_segments}
    read_values(integers, _OPTIONS, "multicalibration_error")
    if ties not in get_args(Ties):
        raise InvalidOption.at("/ties", f"must be one of: {', '.join(get_args(Ties))}")
    order = np.argsort(event.key, kind="stable")
    if event.w is not None:
        order = order[event.w[order] > 0.0]
    p, y, key = event.p[order], event.y[order].astype(np.float64), event.key[order]
    w = np.ones(len(p)) if event.w is None else event.w[order]
    ends = np.ones(len(p), dtype=np.bool_) if ties == "rows" else np.append(key[1:] != key[:-1], True)
    variances = (w if event.kind == "frequency" else w * w) * p * (1.0 - p)
    counts = w if event.w is not None and event.kind == "frequency" else None
    partitions = list(_partitions(features.rows(order), counts, ends, max_depth, max_values, min_rows, n_segments))
    if not partitions:
        raise InvalidOption.at("/min_rows", f"is more than the {n_rows(len(p) if counts is None else counts.sum())}")

    scales = [(part.sums(variances), part.sums(w)) for part in partitions]

    def errors(differences: Floats) -> list[Floats]:
        pairs = zip(partitions, scales, strict=True)
        return [_in_deviations(part.ranges(differences), *scale) for part, scale in pairs]

    observed = errors(w * (y - p))
    best = int(np.argmax([sizes.max() for sizes in observed]))
    value, segment = float(observed[best].max()), partitions[best].segments[int(observed[best].argmax())]
    rate = float(w @ y / w.sum())
    deviation = float(np.sqrt(variances.sum()) / w.sum())
    finite, rare = bool(np.isfinite(value)), min(rate, 1.0 - rate)
    absolute = value * deviation if finite else None
    all_rows = float(observed[0][0])
    return Multicalibration(
        value if finite else None,
        segment,
        None if resampling is None else _p_value(value, errors, _drawn(p, y, w, event.kind, resampling)),
        float(range_tail(value)) if finite else 0.0,
        absolute,
        None if absolute is None or rare == 0.0 else 100.0 * absolute / rare,
        all_rows if np.isfinite(all_rows) else None,
        _DETECTABLE * deviation,
        sum(len(part.segments) for part in partitions),
    )


def _in_deviations(ranges: Floats, variances: Floats, mass: Floats) -> Floats:
    """Return ranges of sums divided by their deviations; infinite ones of certain predictions that are wrong."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes: Floats = np.where(ranges > _ROUNDING * mass, ranges / np.sqrt(variances), 0.0)
    return sizes


def _p_value(value: float, errors: Callable[[Floats], list[Floats]], draws: Iterator[Floats]) -> float:
    """Return (1 + the number of draws whose largest error is at least this one) / (number of draws + 1)."""
    largest = np.array([max(float(sizes.max()) for sizes in errors(drawn)) for drawn in draws])
    return float((1 + np.count_nonzero(largest >= value * (1.0 - 1e-12))) / (len(largest) + 1))


def _drawn(p: Floats, y: Floats, w: Floats, kind: WeightsKind, resampling: Resampling) -> Iterator[Floats]:
    """Yield differences ``(n,)`` between labels drawn from ``p`` and ``p``, weighted.

    With importance weights they are scaled to the variance of ``chance_variances``, as weights may depend on labels.
    """
    random, scale = resampling.generator(), 1.0
    if kind == "importance":
        drawn = float((w * w) @ (p * (1.0 - p)))
        known = float(chance_variances(p, w, w * w, w * w * y, kind).sum())
        scale = float(np.sqrt(known / drawn)) if drawn > 0.0 else 1.0
    for start in range(resampling.resamples):
        report(start, resampling.resamples, "labels drawn")
        if kind == "frequency" and (w != 1.0).any():
            trials = whole_rows(w, 1, random)[0]
            yield (random.binomial(trials, p) / trials - p) * w
        else:
            yield ((random.random(len(p)) < p) - p) * (scale * w)


@explained
def multicalibration_error(
    predictions: Any,
    labels: Any,
    features: Any,
    *,
    max_depth: int = 3,
    max_values: int = 3,
    min_rows: int = 10,
    n_segments: int = 1000,
    ties: Ties = "merged",
    resamples: int | None = 1000,
    seed: int = 0,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: Scale = "probability",
) -> Multicalibration:
    """Measure the largest miscalibration over segments of features, in units of its deviation under calibration.

    Parameters
    ----------
    predictions, labels : array_like
        As for ``evaluate``.
    features : frame, or mapping of str to array_like, shape (n,)
        Columns of numbers or of categories; None, NaN and "" are missing, which is a value of its own.
    max_depth : int, default 3
        The most features of a segment; 0 is all rows alone.
    max_values : int, default 3
        The most values of a feature: of categories the most frequent ones stay and the others are merged, and numbers
        are put into this many bins between quantiles.
    min_rows : int, default 10
        Rows that a segment needs.
    n_segments : int, default 1000
        The most segments, in parts of 50: all rows, then those of one feature, of two, and so on.
    ties : {"merged", "rows"}, default "merged"
        Whether the cumulative difference is read after the rows of equal predictions, so that their order does not
        matter, or after each row, as MCGrad does.
    resamples, seed : optional
        Number of drawn sets of labels for ``p_value``, None for none, and the seed.
    reduction, class_names, pos_label, weights, sample_weight, weights_kind, scale : optional
        As for ``evaluate``; the reduction gives one event for each row.

    Returns
    -------
    Multicalibration
        The error, its segment and its p-values.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    find_segments : Finds the segments whose mean label differs from the mean prediction.

    Notes
    -----
    Value, segments and ``uncorrected_p_value`` are those of ``MulticalibrationError`` of MCGrad 0.1.5 in double
    precision (Guy et al. 2025, arXiv:2506.11251): the range of sum w (y - p) over the rows of a segment sorted by
    prediction, divided by (sum w^2 p (1 - p))^1/2. ``p_value`` is the share of sets of labels drawn from p with at
    least this value. O(n m (1 + resamples)) for m sets of features.

    Examples
    --------
    >>> import calibrant
    >>> p, y, frame = [0.5] * 40, [0, 1] * 10 + [1] * 20, {"site": ["a"] * 20 + ["b"] * 20}
    >>> result = calibrant.multicalibration_error(p, y, frame)
    >>> result.segment, round(result.value, 3), result.p_value < 0.01
    ({'site': 'b'}, 4.472, True)
    """
    resampling = None if resamples is None else Resampling.read(None, resamples, seed)
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
    return error_of(
        event,
        columns,
        max_depth=max_depth,
        max_values=max_values,
        min_rows=min_rows,
        n_segments=n_segments,
        ties=ties,
        resampling=resampling,
    )


def event_and_features(
    predictions: Any, labels: Any, features: Any, reduction: str | None, **options: Any
) -> tuple[Event, Features]:
    """Return the event and the features of rows; ``options`` are those of ``read_rows``, and so are the errors."""
    check_aligned({"predictions": predictions, "labels": labels, "features": features})
    rows = read_rows(predictions, labels, **options)
    rows.warn_of_kind()
    return independent_event(rows.batch, reduction, rows.class_names), read_features(features, len(rows.batch))


def independent_event(batch: Batch, reduction: str | None, class_names: tuple[str, ...] | None) -> Event:
    """Return the event of a batch, of which every row has one and no row depends on another; its class may be named."""
    refuse_clusters(batch, "tests of segments")
    return event_by_name(batch, reduction, class_names)
