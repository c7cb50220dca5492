"""Measures of many resamples of the rows at once; the values are those of one resample at a time, up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.binning import sweep_count
from calibrant.cells import Floats, SortedRows, cells_of
from calibrant.measures.binned import expected_calibration_errors
from calibrant.measures.intervals import Integers
from calibrant.measures.measure import MeasureRequest, mean_of_classes
from calibrant.reductions import Classes, Event, Subject

#: Measures rows ``(resamples, m)`` of a subject: ``(resamples,)``.
Repeated = Callable[[Integers], Floats]
#: Sweeps beyond this number of bins continue one resample at a time.
_SWEPT = 64


def repeats(request: MeasureRequest) -> bool:
    """Return whether the measure with these options can measure many resamples at once."""
    name, binning = request.measure.name, request.options.get("binning", "equal-mass")
    allowed = ("equal-mass",) if name == "ece-sweep" else ("equal-mass", "equal-width")
    return name in _OF_ROWS and binning in allowed


def repeated(request: MeasureRequest, subject: Subject, *, debiased: bool) -> Repeated | None:
    """Return a function that measures many resamples; None if the measure, its options or weights need one at a time.

    O(rows log rows) for ``rows (resamples, m)``, a few nanoseconds for each row.
    """
    if not repeats(request):
        return None
    options = request.options
    of_rows = _OF_ROWS[request.measure.name]
    if isinstance(subject, Event):
        return None if subject.w is not None or subject.per_row > 1 else _of_event(subject, of_rows, options, debiased)
    if not isinstance(subject, Classes) or subject.vector.w is not None:
        return None
    if debiased and request.measure.over_classes is not mean_of_classes:
        return None

    def over_classes(rows: Integers) -> Floats:
        found = [_of_event(event, of_rows, options, debiased)(rows) for event in subject.events()]
        return request.measure.over_classes(np.stack(found, axis=-1), request.options)

    return over_classes


def _of_event(event: Event, of_rows: Callable[..., Floats], options: Mapping[str, Any], debiased: bool) -> Repeated:
    order = np.lexsort((event.y, event.p))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    p, y = event.p[order].astype(np.float64), event.y[order].astype(np.int32)

    def found(rows: Integers) -> Floats:
        chosen = np.sort(rank[rows], axis=1)
        return of_rows(p.take(chosen), y.take(chosen), debiased=debiased, **options)

    return found


def _running(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    sums = np.zeros((len(values), values.shape[1] + 1), dtype=values.dtype)
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _ends(p: Floats) -> npt.NDArray[np.bool_]:
    """Return whether each position ``(resamples, m + 1)`` is between distinct predictions."""
    ends = np.ones((len(p), p.shape[1] + 1), dtype=np.bool_)
    np.not_equal(p[:, 1:], p[:, :-1], out=ends[:, 1:-1])
    return ends


def _ks(p: Floats, y: Integers, **_: Any) -> Floats:
    path = np.abs(_running(y - p))
    largest: Floats = np.where(_ends(p), path, 0.0).max(axis=1) / p.shape[1]
    return largest


def _ks_end(p: Floats, y: Integers, **_: Any) -> Floats:
    end: Floats = (y.sum(axis=1) - p.sum(axis=1)) / p.shape[1]
    return end


def _error(mass: Floats, sum_p: Floats, sum_y: Floats, norm: int | str, debiased: bool) -> Floats:
    """Return the error of bins ``(resamples, b)``; empty bins count nothing."""
    rows = np.maximum(mass, 1.0)
    mean_p, mean_y = sum_p / rows, sum_y / rows
    if norm == "max":
        largest: Floats = np.abs(mean_p - mean_y).max(axis=1)
        return largest
    share = mass / mass.sum(axis=1, keepdims=True)
    return expected_calibration_errors(share, rows, mean_p, mean_y, 1 if norm == 1 else 2)[int(debiased)]


def _equal_width(p: Floats, y: Integers, n_bins: int, closed: str) -> tuple[Floats, Floats, Floats]:
    edges = np.arange(n_bins) / n_bins
    place = np.maximum(np.searchsorted(edges, p, side="right" if closed == "left" else "left") - 1, 0)
    key = (place + n_bins * np.arange(len(p))[:, None]).ravel()
    mass, sum_p, sum_y = (
        np.bincount(key, w, n_bins * len(p)).reshape(len(p), n_bins).astype(np.float64)
        for w in (None, p.ravel(), y.ravel())
    )
    return mass, sum_p, sum_y


class _EqualMass:
    """Bins of equal mass of sorted resamples, with borders between distinct predictions."""

    def __init__(self, p: Floats, y: Integers) -> None:
        self.p, self.y, self.sum_p, self.sum_y = p, y, _running(p), _running(y)
        ends = _ends(p)
        self.distinct = ends.sum(axis=1) - 1
        # Resamples without ties need no search for the nearest border.
        tied = np.flatnonzero(self.distinct < p.shape[1])
        self.place = np.full(len(p), -1)
        self.place[tied] = np.arange(len(tied))
        ends, position = ends[tied], np.arange(ends.shape[1])
        above = np.minimum.accumulate(np.where(ends, position, ends.shape[1])[:, ::-1], axis=1)[:, ::-1]
        until = np.maximum.accumulate(np.where(ends, position, 0), axis=1)
        below = np.concatenate([until[:, :1], until[:, :-1]], axis=1)
        self.nearest: Integers = np.where(above - position < position - below, above, below)

    def borders(self, n_bins: int, which: Integers) -> Integers:
        share, rest = divmod(self.p.shape[1], n_bins)
        first = np.arange(n_bins + 1)
        target = first * share + np.minimum(first, rest)
        borders: Integers = np.tile(target, (len(which), 1))
        place = self.place[which]
        borders[place >= 0] = self.nearest[place[place >= 0][:, None], target]
        return borders

    def bins(self, n_bins: int, which: Integers) -> tuple[Floats, Floats, Floats]:
        at = self.borders(n_bins, which)
        sum_p, sum_y = (np.diff(sums[which[:, None], at], axis=1) for sums in (self.sum_p, self.sum_y))
        return np.diff(at, axis=1).astype(np.float64), sum_p, sum_y.astype(np.float64)

    def swept(self) -> Integers:
        """Return the ``sweep_count`` of each resample."""
        counts: Integers = self.distinct.astype(np.int64)
        active = np.flatnonzero(counts > 1)
        n_bins = 2
        while len(active) and n_bins <= _SWEPT:
            at = self.borders(n_bins, active)
            mass, positives = np.diff(at, axis=1), np.diff(self.sum_y[active[:, None], at], axis=1)
            mean = np.where(mass > 0, positives / np.maximum(mass, 1), -np.inf)
            highest = np.maximum.accumulate(mean, axis=1)
            falls = ((mass[:, 1:] > 0) & (mean[:, 1:] < highest[:, :-1])).any(axis=1)
            counts[active[falls]] = n_bins - 1
            n_bins += 1
            active = active[~falls & (self.distinct[active] >= n_bins)]
        for i in active.tolist():
            counts[i] = sweep_count(cells_of(SortedRows(self.p[i], self.y[i].astype(np.int8), None)))
        return counts


def _ece(p: Floats, y: Integers, *, debiased: bool, norm: int | str, binning: str, n_bins: int, **rest: Any) -> Floats:
    if binning == "equal-width":
        return _error(*_equal_width(p, y, n_bins, rest["closed"]), norm, debiased)
    return _error(*_EqualMass(p, y).bins(n_bins, np.arange(len(p))), norm, debiased)


def _ece_sweep(p: Floats, y: Integers, *, debiased: bool, norm: int | str, **_: Any) -> Floats:
    cut = _EqualMass(p, y)
    counts, found = cut.swept(), np.empty(len(p))
    for n_bins in np.unique(counts).tolist():
        which = np.flatnonzero(counts == n_bins)
        found[which] = _error(*cut.bins(n_bins, which), norm, debiased)
    return found


_OF_ROWS: Mapping[str, Callable[..., Floats]] = {
    "ece": _ece,
    "ece-sweep": _ece_sweep,
    "ks": _ks,
    "ks-end": _ks_end,
}
