"""The outcome of each row of a request, decided from the stored entries of its id."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from backend.monitors.rows import Mask
from backend.store.monitors.ids import padded as padded_strings
from calibrant.core.batch import Integers, Predictions, Scale
from calibrant.core.cells import Floats
from calibrant.monitoring.tally import CELLS, Tally, place, tally_of_keys

# --- The stored entry of an id, as bytes of a fixed layout: a waiting prediction, a waiting label, or both counted
#
# The first byte of an entry is its kind. ``PREDICTION``: p and the key of its tally without the outcome, also before
# the map; ``event`` is the label that makes the event true. ``LABEL``: a label without a prediction, or the label that
# the row was counted with; its ``time`` is then the time when a prediction arrived for a known id, else 0.

#: The kinds, as the first byte of an entry; the entry of an unknown id is absent.
ABSENT, WAITING_PREDICTION, WAITING_LABEL, JOINED = 0, ord("P"), ord("L"), ord("J")

PREDICTION = np.dtype(
    [
        ("kind", "u1"),
        ("p", "<f8"),
        ("raw_p", "<f8"),
        ("event", "<u4"),
        ("raw_event", "<u4"),
        ("key", "<u4"),
        ("raw_key", "<u4"),
        ("bucket", "<u4"),
        ("time", "<f8"),
    ]
)
LABEL = np.dtype([("kind", "u1"), ("label", "<u4"), ("time", "<f8")])
#: The label of a forecast, which is a number.
OUTCOME = np.dtype([("kind", "u1"), ("label", "<f8"), ("time", "<f8")])


def waiting_type(name: str, values: str, width: int) -> np.dtype[Any]:
    """The layout of a waiting prediction that is not one number; ``base`` is group * ``FOLDS`` + fold."""
    return np.dtype([("kind", "u1"), ("bucket", "<u4"), ("time", "<f8"), ("base", "<u4"), (name, values, (width,))])


#: ``(n,)`` of a structured type.
Entries = npt.NDArray[Any]
#: Classes as integers, or outcomes of forecasts as doubles.
Labels = Integers | Floats


def known(read: Sequence[bytes | None], layout: np.dtype[Any] = PREDICTION) -> Entries:
    """Entries as read, ``(n,)`` of a waiting prediction: shorter ones are padded, absent ones are zeros."""
    return padded_strings(read, layout.itemsize).view(layout).copy()


def nothing(n: int, layout: np.dtype[Any] = PREDICTION) -> Entries:
    """Entries of unknown ids."""
    return np.zeros(n, layout)


def labels_of(entries: Entries) -> Entries:
    """The same bytes as labels: ``(n,)`` with ``label`` and ``time``, valid if the kind is that of a label."""
    layout = LABEL if entries.dtype == PREDICTION else OUTCOME
    return _table(entries)[:, : layout.itemsize].copy().view(layout)[:, 0]


def padded(entries: Entries, layout: np.dtype[Any] = PREDICTION) -> Entries:
    """Shorter entries in the layout of the longest."""
    table = np.zeros((len(entries), layout.itemsize), np.uint8)
    table[:, : entries.dtype.itemsize] = _table(entries)
    return table.view(layout)[:, 0]


def counted(labels: Labels, met: npt.NDArray[np.bool_] | bool, now: float) -> Entries:
    """The entries of rows that are counted with these labels; ``met`` marks ids that were known before."""
    entries = np.zeros(len(labels), _layout(labels))
    entries["kind"], entries["label"], entries["time"] = JOINED, labels, np.where(met, now, 0.0)
    return entries


def came_after(entries: Entries, moment: float) -> npt.NDArray[np.bool_]:
    """Whether rows are counted whose predictions arrived at ``moment`` or later for ids that were already known."""
    is_later: npt.NDArray[np.bool_] = (entries["kind"] == JOINED) & (labels_of(entries)["time"] >= moment)
    return is_later


def _layout(labels: Labels) -> np.dtype[Any]:
    """The layout of the entries of labels: classes are integers, outcomes of forecasts doubles."""
    return OUTCOME if labels.dtype.kind == "f" else LABEL


def _stored(entries: Entries) -> Labels:
    """The labels in entries, as integers or doubles."""
    stored_labels = labels_of(entries)["label"]
    return stored_labels.astype(np.float64) if stored_labels.dtype.kind == "f" else stored_labels.astype(np.int64)


def _table(entries: Entries) -> npt.NDArray[np.uint8]:
    """The bytes of entries, one row each."""
    return np.ascontiguousarray(entries).view(np.uint8).reshape(len(entries), entries.dtype.itemsize)


# --- From predictions to the probability of one event per row, and the label that makes the event true

#: Applies a map to validated predictions: returns ``(n,)`` for the map's event, or ``(n, K)``.
Apply = Callable[[Predictions], Floats]


@dataclass(frozen=True)
class Reduced:
    """``p (n,)`` is the probability that the label is ``event (n,)``; ``raw_p`` and ``raw_event`` are those before the
    map, None without one.
    """

    p: Floats
    event: Integers
    raw_p: Floats | None = None
    raw_event: Integers | None = None


def reduce_rows(values: Floats, scale: Scale, reduction: str, apply: Apply | None = None) -> Reduced:
    """Reduce validated predictions, ``(n,)`` or ``(n, K)``, after the map if there is one. O(n K).

    ``reduction`` is binary, confidence, class:k or top:r. For ``(n,)`` the event is label 1. For ``confidence`` and
    ``top:r`` it is the class with that rank, the first of equal ones; after a map of one event, it is the class that
    had the rank before the map.

    Examples
    --------
    >>> found = reduce_rows(np.array([[0.2, 0.7, 0.1], [0.4, 0.2, 0.4]]), "probability", "confidence")
    >>> found.p.tolist(), found.event.tolist()
    ([0.7, 0.4], [1, 0])
    """
    predictions = Predictions(values, scale)
    raw_p, raw_event = _event(predictions.values, reduction)
    if apply is None:
        return Reduced(raw_p, raw_event)
    mapped = apply(predictions)
    p, event = (mapped, raw_event) if mapped.ndim == 1 else _event(mapped, reduction)
    return Reduced(np.clip(p, 0.0, 1.0), event, raw_p, raw_event)


def _event(values: Floats, reduction: str) -> tuple[Floats, Integers]:
    n = len(values)
    if values.ndim == 1:
        return values, np.ones(n, np.int64)
    if reduction == "binary":
        event = np.ones(n, np.int64)
    elif reduction.startswith("class:"):
        event = np.full(n, int(reduction.removeprefix("class:")))
    elif reduction in ("confidence", "top:1"):
        event = values.argmax(axis=1)
    else:
        rank = int(reduction.removeprefix("top:"))
        event = np.argsort(-values, axis=1, kind="stable")[:, rank - 1]
    return values[np.arange(n), event].astype(np.float64), event


# --- Predictions ready to be counted, each with its cell, group and fold

#: The tallies that rows add to a time bucket: measured, and raw if there is a map.
Tallies = dict[int, tuple[Tally, Tally | None]]


def waiting_entries(layout: np.dtype[Any], times: Floats, bucket: int, **fields: Any) -> Entries:
    """Waiting predictions with their ``times (n,)`` and other ``fields``; ``bucket`` is in seconds."""
    entries = np.zeros(len(times), layout)
    fields |= {"kind": WAITING_PREDICTION, "time": times, "bucket": times // bucket}
    for name, values in fields.items():
        entries[name] = values
    return entries


@dataclass(frozen=True)
class Countable:
    """Predictions ready to be counted: ``entries (n,)`` are waiting predictions, whether they wait or not."""

    entries: Entries

    def of(self, entries: Entries) -> Self:
        """Predictions of the same monitor with these entries."""
        return replace(self, entries=entries)

    def tallies(self, chosen: Mask, labels: Any) -> Tallies:
        """The tallies of the chosen rows with their labels, by time bucket."""
        raise NotImplementedError

    def waiting(self, begin: Mask, end: Mask) -> dict[int, Tally]:  # noqa: ARG002 - for those that are estimated
        """The tallies of the rows that begin or end to wait for a label; empty if nothing is estimated without."""
        return {}


@dataclass(frozen=True)
class DecidedPredictions(Countable):
    """Predictions of one event each."""

    mapped: bool

    @classmethod
    def reduced(cls, reduced: Reduced, times: Floats, bucket: int, base: Integers) -> DecidedPredictions:
        """Create from reduced predictions with ``times`` and ``base (n,)``, group * ``FOLDS`` + fold.

        ``bucket`` is in seconds.
        """
        own = {"p": reduced.p, "event": reduced.event, "key": _keys(base, reduced.p)}
        entries = waiting_entries(PREDICTION, times, bucket, **own)
        if reduced.raw_p is None or reduced.raw_event is None:
            return cls(entries, mapped=False)
        entries["raw_p"], entries["raw_event"] = reduced.raw_p, reduced.raw_event
        entries["raw_key"] = _keys(base, reduced.raw_p)
        return cls(entries, mapped=True)

    def tallies(self, chosen: Mask, labels: Integers) -> Tallies:
        """The tallies of the chosen rows with their ``labels (n,)``, by time bucket. O(n log n)."""
        rows, labels = (self.entries, labels) if chosen.all() else (self.entries[chosen], labels[chosen])
        if not len(rows):
            return {}
        return {bucket: self._both(rows[at], labels[at]) for bucket, at in by_bucket(rows["bucket"])}

    def waiting(self, begin: Mask, end: Mask) -> dict[int, Tally]:
        """The tallies of the rows that ``begin`` to wait for a label (outcome 0) or ``end`` to wait (outcome 1).

        By time bucket, without groups and folds. O(n log n).
        """
        chosen = begin | end
        if not chosen.any():
            return {}
        rows = self.entries[chosen]
        keys = rows["key"] % np.uint32(2 * CELLS) + end[chosen].astype(np.uint32)
        return {bucket: tally_of_keys(keys[at], rows["p"][at]) for bucket, at in by_bucket(rows["bucket"])}

    def _both(self, rows: Entries, labels: Integers) -> tuple[Tally, Tally | None]:
        measured = tally_of_keys(rows["key"] + (rows["event"] == labels), rows["p"])
        raw = tally_of_keys(rows["raw_key"] + (rows["raw_event"] == labels), rows["raw_p"]) if self.mapped else None
        return measured, raw


def by_bucket(buckets: npt.NDArray[np.uint32]) -> Iterator[tuple[int, slice | Integers]]:
    """Yield each bucket with the positions of its rows."""
    if buckets.min() == buckets.max():
        yield int(buckets[0]), slice(None)
        return
    order = np.argsort(buckets, kind="stable")
    begins = np.flatnonzero(np.diff(buckets[order].astype(np.int64), prepend=-1))
    for at in np.split(order, begins[1:]):
        yield int(buckets[at[0]]), at


def _keys(base: Integers, p: Floats) -> npt.NDArray[np.uint32]:
    """The keys of a tally without the outcome."""
    return ((base * CELLS + place(p)) * 2).astype(np.uint32)


# --- The outcome of rows; pure functions of the stored entries
#
# For each id the first prediction and the first label count. A row with both counts as both at once.


class RowOutcome(IntEnum):
    """The outcome of a row."""

    REFUSED = 0
    STORED = 1
    JOINED = 2
    WAITING = 3
    DUPLICATE = 4
    CONTRADICTED = 5


@dataclass(frozen=True)
class Decided:
    """``outcome (n,)``; the rows in ``changes`` get the ``entries``, and the rows in ``counts`` are counted.

    A row counts as ``predicted`` with its ``labels``, ``delays`` seconds after the prediction. ``arrives`` marks new
    predictions, ``labelled`` new labels.
    """

    outcome: npt.NDArray[np.uint8]
    changes: Mask
    entries: Entries
    counts: Mask
    arrives: Mask
    labelled: Mask
    predicted: Countable
    labels: Labels
    delays: Floats


def decide_rows(known: Entries, first: Integers | None, own: Countable, labels: Labels, now: float) -> Decided:
    """Decide rows with prediction and label; ``first (n,)`` is the first row with the same id, None if all differ."""
    kind = known["kind"]
    waits, has_label = kind == WAITING_PREDICTION, _has_label(kind)
    first_labels = np.where(has_label, _stored(known), labels)
    fresh = _fresh(first, len(kind))
    counts = (kind != JOINED) & fresh
    outcome = np.where(counts, np.uint8(RowOutcome.JOINED), np.uint8(RowOutcome.DUPLICATE))
    outcome[labels != _of_first(first_labels, first)] = RowOutcome.CONTRADICTED
    predicted = _instead(own, known, waits)
    return Decided(
        outcome,
        counts,
        counted(first_labels, kind != ABSENT, now),
        counts,
        counts & ~waits,
        counts & (kind != WAITING_LABEL),
        predicted,
        first_labels,
        now - predicted.entries["time"],
    )


def decide_predictions(known: Entries, first: Integers | None, own: Countable, now: float) -> Decided:
    """Decide rows with only a prediction."""
    kind = known["kind"]
    meets = kind == WAITING_LABEL
    label = labels_of(known)
    changes = ((kind == ABSENT) | meets) & _fresh(first, len(kind))
    counts = meets & changes
    outcome = np.where(changes, np.uint8(RowOutcome.STORED), np.uint8(RowOutcome.DUPLICATE))
    outcome[counts] = RowOutcome.JOINED
    stored_labels = _stored(known)
    entries = own.entries.copy()
    entries[meets] = padded(counted(stored_labels[meets], True, now), entries.dtype)
    none = np.zeros(len(kind), np.bool_)
    delays = np.where(meets, label["time"], 0.0) - own.entries["time"]
    return Decided(outcome, changes, entries, counts, changes, none, own, stored_labels, delays)


def decide_labels(
    known: Entries, first: Integers | None, labels: Labels, times: Floats, of: Callable[[Entries], Countable]
) -> Decided:
    """Decide rows with only a label; ``times (n,)`` are those of the labels.

    ``of`` makes predictions of the entries of those that waited.
    """
    kind = known["kind"]
    meets = kind == WAITING_PREDICTION
    first_labels = np.where(_has_label(kind), _stored(known), labels)
    changes = ((kind == ABSENT) | meets) & _fresh(first, len(kind))
    counts = meets & changes
    outcome = np.where(changes, np.uint8(RowOutcome.WAITING), np.uint8(RowOutcome.DUPLICATE))
    outcome[counts] = RowOutcome.JOINED
    outcome[labels != _of_first(first_labels, first)] = RowOutcome.CONTRADICTED
    entries = np.zeros(len(kind), _layout(labels))
    entries["kind"], entries["label"], entries["time"] = WAITING_LABEL, first_labels, times
    entries["kind"][meets], entries["time"][meets] = JOINED, 0.0
    none = np.zeros(len(kind), np.bool_)
    predicted = of(known)
    return Decided(outcome, changes, entries, counts, none, changes, predicted, first_labels, times - known["time"])


def _has_label(kind: npt.NDArray[np.uint8]) -> Mask:
    has_label: Mask = (kind == WAITING_LABEL) | (kind == JOINED)
    return has_label


def _fresh(first: Integers | None, n: int) -> Mask:
    """Whether no earlier row has the id."""
    return np.ones(n, np.bool_) if first is None else first == np.arange(n)


def _of_first(values: Labels, first: Integers | None) -> Labels:
    return values if first is None else values[first]


def _instead(own: Countable, known: Entries, waits: Mask) -> Countable:
    """The rows' own predictions, replaced by waiting predictions if there are any."""
    if not waits.any():
        return own
    entries = own.entries.copy()
    entries[waits] = known[waits]
    return own.of(entries)


# --- Label delays, counted in a fixed number of bins

#: Number of bins of delays: the first is below a second, and each later one ends a third further than the one before.
#: The last begins after 650 days, which exceeds any horizon.
DELAY_BINS = 64
#: The names of the bins in the counts of a time bucket.
DELAY_FIELDS = tuple(f"d{k}" for k in range(DELAY_BINS))
_RATIO = 4.0 / 3.0


def delay_bins(seconds: Floats) -> Integers:
    """The bin of each delay: ``(n,)``, 0 to ``DELAY_BINS`` - 1; 0 s for a label that precedes its prediction. O(n).

    Examples
    --------
    >>> delay_bins(np.array([-3.0, 0.5, 1.0, 1.5, 60.0, 1e9])).tolist()
    [0, 0, 1, 2, 15, 63]
    """
    steps = np.log(np.maximum(seconds, 1.0)) / math.log(_RATIO)
    # A boundary belongs to the bin above it, regardless of rounding.
    bins = np.where(seconds < 1.0, 0.0, 1.0 + np.floor(steps + 1e-9))
    return np.minimum(bins, DELAY_BINS - 1).astype(np.int64)


def delay_quantiles(counts: Mapping[str, int], shares: Sequence[float]) -> list[float] | None:
    """Quantiles of the delays in seconds, for the given shares of the labels; None without labels.

    Within a bin delays are interpolated logarithmically, so that a quantile is accurate to a third; delays below a
    second count as 0.

    Examples
    --------
    >>> [round(seconds, 3) for seconds in delay_quantiles({"d1": 10}, [0.5]) or ()]
    [1.155]
    """
    rows = np.array([counts.get(field, 0) for field in DELAY_FIELDS], dtype=np.float64)
    total = np.cumsum(rows)
    if total[-1] <= 0.0:
        return None
    wanted = np.asarray(shares) * total[-1]
    k = np.minimum(np.searchsorted(total, wanted), DELAY_BINS - 1)
    within = np.clip((wanted - (total[k] - rows[k])) / np.maximum(rows[k], 1.0), 0.0, 1.0)
    return [float(seconds) for seconds in np.where(k == 0, 0.0, _RATIO ** (k - 1.0 + within))]
