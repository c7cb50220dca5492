"""Measures of many resamples of the rows at once; the values are those of one resample at a time, up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.binning import sweep_count
from calibrant.core.cells import Floats, SortedRows, cells_of
from calibrant.core.reductions import Classes, Event, Subject
from calibrant.measures.binned import expected_calibration_errors
from calibrant.measures.intervals import Integers
from calibrant.measures.measure import MeasureRequest, mean_of_classes

#: Measures rows ``(resamples, m)`` of a subject: by key, ``(resamples,)``.
Repeated = Callable[[Integers], dict[str, Floats]]
#: Sweeps beyond this number of bins continue one resample at a time.
_SWEPT = 64


def repeats(request: MeasureRequest) -> bool:
    """Return whether the measure can measure many resamples at once: its options and their values are all known."""
    at_once = AT_ONCE.get(request.measure.name)
    return at_once is not None and at_once.knows(request.options)


def repeated(
    requests: Sequence[MeasureRequest], subject: Subject, debiased: Mapping[str, bool]
) -> tuple[Repeated, list[MeasureRequest]]:
    """Return a function that measures many resamples, and the requests that need one resample at a time.

    ``debiased`` states for each request whether its debiased value is wanted. Weights, most measures and some options
    need one resample at a time. O(rows log rows) for ``rows (resamples, m)``, a few nanoseconds for each row.
    """
    events = _unweighted(subject)
    together = [r for r in requests if events and repeats(r) and _has(r, subject, debiased=debiased[r.key])]
    ordered = [_Ordered(event) for event in events] if together else []

    def found(rows: Integers) -> dict[str, Floats]:
        parts = [event.resamples(rows) for event in ordered]
        values = {}
        for r in together:
            at_once = AT_ONCE[r.measure.name]
            of_events = [at_once.values(part, debiased[r.key], r.options) for part in parts]
            one_event = isinstance(subject, Event)
            values[r.key] = (
                of_events[0] if one_event else r.measure.over_classes(np.stack(of_events, axis=-1), r.options)
            )
        return values

    return found, [r for r in requests if r not in together]


def _unweighted(subject: Subject) -> list[Event]:
    """Return the events of rows without weights; none if resamples cannot be measured at once."""
    if isinstance(subject, Event):
        return [subject] if subject.w is None and subject.independent else []
    unweighted = isinstance(subject, Classes) and subject.vector.w is None and subject.clusters is None
    return list(subject.events()) if isinstance(subject, Classes) and unweighted else []


def _has(request: MeasureRequest, subject: Subject, *, debiased: bool) -> bool:
    """Return whether the measure of several events follows from those of each."""
    return isinstance(subject, Event) or not debiased or request.measure.over_classes is mean_of_classes


class _Ordered:
    """Rows of an event in the order of their predictions."""

    def __init__(self, event: Event) -> None:
        order = np.lexsort((event.y, event.key))
        self.rank = np.empty(len(order), dtype=np.int32)
        self.rank[order] = np.arange(len(order), dtype=np.int32)
        self.p, self.y = event.p[order].astype(np.float64), event.y[order].astype(np.int64)
        self.key = self.p if event.logit is None else event.logit[order]

    def resamples(self, rows: Integers) -> _Resamples:
        chosen = np.sort(self.rank[rows], axis=1)
        p = self.p.take(chosen)
        return _Resamples(p, self.y.take(chosen), p if self.key is self.p else self.key.take(chosen))


class _Resamples:
    """Sorted resamples ``(resamples, m)`` of an event."""

    def __init__(self, p: Floats, y: Integers, key: Floats) -> None:
        self.p, self.y, self.key = p, y, key

    @cached_property
    def ends(self) -> npt.NDArray[np.bool_]:
        """Whether each position ``(resamples, m + 1)`` is between distinct predictions."""
        ends = np.ones((len(self.p), self.p.shape[1] + 1), dtype=np.bool_)
        np.not_equal(self.key[:, 1:], self.key[:, :-1], out=ends[:, 1:-1])
        return ends

    @cached_property
    def of_equal_mass(self) -> _EqualMass:
        return _EqualMass(self)


def _running(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    sums = np.zeros((len(values), values.shape[1] + 1), dtype=values.dtype)
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _ks(of: _Resamples, _debiased: bool) -> Floats:
    path = np.abs(_running(of.y - of.p))
    path *= of.ends
    largest: Floats = path.max(axis=1) / of.p.shape[1]
    return largest


def _ks_end(of: _Resamples, _debiased: bool) -> Floats:
    end: Floats = (of.y.sum(axis=1) - of.p.sum(axis=1)) / of.p.shape[1]
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

    def __init__(self, of: _Resamples) -> None:
        p, y, ends = of.p, of.y, of.ends
        self.key = of.key
        self.p, self.y, self.sum_p, self.sum_y = p, y, _running(p), _running(y)
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
            rows = SortedRows(self.p[i], self.y[i].astype(np.int8), None, logit=self.key[i])
            counts[i] = sweep_count(cells_of(rows))
        return counts


def _ece(of: _Resamples, debiased: bool, *, norm: int | str, binning: str, n_bins: int, closed: str) -> Floats:
    if binning == "equal-width":
        return _error(*_equal_width(of.p, of.y, n_bins, closed), norm, debiased)
    return _error(*of.of_equal_mass.bins(n_bins, np.arange(len(of.p))), norm, debiased)


def _ece_sweep(of: _Resamples, debiased: bool, *, norm: int | str) -> Floats:
    cut = of.of_equal_mass
    counts, errors = cut.swept(), np.empty(len(of.p))
    for n_bins in np.unique(counts).tolist():
        which = np.flatnonzero(counts == n_bins)
        errors[which] = _error(*cut.bins(n_bins, which), norm, debiased)
    return errors


class _AtOnce:
    """A measure of many resamples, which knows the options that are arguments of its function, and those of ``only``.

    ``only`` has the values of options that it computes, None for any. Other options, and other values, are computed one
    resample at a time.
    """

    def __init__(self, measure: Callable[..., Floats], only: Mapping[str, tuple[object, ...] | None]) -> None:
        self._measure, self._only = measure, only
        self._arguments = [name for name, p in signature(measure).parameters.items() if p.kind is p.KEYWORD_ONLY]

    def knows(self, options: Mapping[str, Any]) -> bool:
        """Return whether all options and their values are known."""
        return options.keys() == {*self._arguments, *self._only} and all(
            known is None or options[name] in known for name, known in self._only.items()
        )

    def values(self, of: _Resamples, debiased: bool, options: Mapping[str, Any]) -> Floats:
        """Return the measure of each resample: ``(resamples,)``."""
        return self._measure(of, debiased, **{name: options[name] for name in self._arguments})


_NORMS = (1, 2, "max")
AT_ONCE: Mapping[str, _AtOnce] = {
    "ece": _AtOnce(_ece, {"binning": ("equal-mass", "equal-width"), "closed": ("left", "right"), "norm": _NORMS}),
    "ece-sweep": _AtOnce(_ece_sweep, {"binning": ("equal-mass",), "norm": _NORMS}),
    "ks": _AtOnce(_ks, {"law": None}),  # of the p-value
    "ks-end": _AtOnce(_ks_end, {"law": None}),
}
