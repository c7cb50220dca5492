"""What a monitor's windows are compared with: the tally of a stored batch, or of the rows of a span of time."""

from __future__ import annotations

from calibrant.batch import Batch
from calibrant.errors import InvalidOption, ScaleMismatch, WrongShape
from calibrant.evaluation import calibrated
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.reductions import Event, reduce
from calibrant.tallies.tally import Tally, tally_of
from schemas.monitors import MonitorBody

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


def _event(batch: Batch, reduction: str, fitted: CalibrationMap | None) -> Event:
    event = reduce(batch, reduction)
    if fitted is None:
        return event
    after, _, _ = calibrated(event, batch, reduction, fitted)
    if not isinstance(after, Event):
        raise TypeError("one event stays one event under a map")
    return after
