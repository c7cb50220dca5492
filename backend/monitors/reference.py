"""What a monitor's windows are compared with: the tally of a stored batch, or of the rows of a span of time."""

from __future__ import annotations

from backend.monitors.windows import Span, pooled, tally_of_cells, time_span
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.reference import Reference, add_to_reference, read_reference
from backend.store.store import Store
from calibrant.batch import Batch
from calibrant.errors import InvalidOption, ScaleMismatch, WrongShape
from calibrant.evaluation import calibrated
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.tally import Tally, tally_of
from calibrant.reductions import Event, reduce
from schemas.monitors import MonitorBody, MonitorRecord

_WHERE = "/reference/batch"


def tally_of_batch(batch: Batch, body: MonitorBody, fitted: CalibrationMap | None) -> Tally:
    """The rows of a batch as the monitor would count them; ``body`` is settled. O(n log n).

    Raises ``WrongShape``, ``ScaleMismatch`` or ``InvalidOption`` for a batch that the monitor would not take.
    """
    given = batch.predictions
    if given.n_classes != body.n_classes:
        wanted = "(n,)" if body.n_classes is None else f"(n, {body.n_classes})"
        raise WrongShape.at(_WHERE, f"must have predictions {wanted}, as the monitor")
    if given.scale != body.scale:
        raise ScaleMismatch.at(_WHERE, f"is on the scale {given.scale}, where the monitor is on {body.scale}")
    if batch.weights is not None:
        raise InvalidOption.at(_WHERE, "has weights, and a monitor counts rows")
    event = _event(batch, body.reduction or "binary", fitted)
    return tally_of(event.p, event.y)


def reference_span(record: MonitorRecord) -> Span | None:
    """The buckets that a monitor's windows are compared with; None where it is a batch, or nothing."""
    asked = record.reference
    if asked is None or asked.start is None or asked.end is None:
        return None
    return time_span(record, asked.start, asked.end)


def buckets_left(span: Span, kept: Reference) -> tuple[int, int]:
    """The first and the last of a reference's buckets that are not in what is kept; the first is past it for none."""
    return max(span.first, span.first if kept.following is None else kept.following), span.last


def keep_reference(store: Store, record: MonitorRecord, buckets: Buckets, before: int) -> None:
    """Keep with a monitor what its windows are compared with of the buckets before one, which are to be dropped.

    Not sooner: as long as a bucket is there, labels and rows of it may come. Raises ``UnknownMonitor``.
    """
    span = reference_span(record)
    if span is None or span.first >= before:
        return
    kept = read_reference(store.redis, store.keys, record.uid)
    first, last = buckets_left(span, kept)
    last = min(last, before - 1)
    if first <= last:
        rows = tally_of_cells(pooled([buckets.tally(first, last)]))
        add_to_reference(store.redis, store.keys, record, kept, rows, last + 1)


def _event(batch: Batch, reduction: str, fitted: CalibrationMap | None) -> Event:
    event = reduce(batch, reduction)
    if fitted is None:
        return event
    after, _, _ = calibrated(event, batch, reduction, fitted)
    if not isinstance(after, Event):
        raise TypeError("one event stays one event under a map")
    return after
