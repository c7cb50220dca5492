"""How long answers take, estimated before anything is computed."""

from __future__ import annotations

from calibrant.measures.extent import Extent
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import MeasureRequest
from calibrant.tallies.grid import CELLS
from monitoring.readable import has_interval, read_measures
from monitoring.readings import RESAMPLES
from schemas.monitors import MonitorRecord

#: What is estimated to take longer is not answered.
MOST_SECONDS = 45.0
#: What is estimated to take longer is heavy: less is not worth a place, since most of it is remembered.
LIGHT_SECONDS = 1.0
#: What a tally of all cells comes to: a row for each cell and outcome.
_EXTENT = Extent(2 * CELLS)
#: Estimates of fits are for requests of their own: among others, warm, they take a quarter or less.
_WARM = 0.25
#: Seconds that the simplest measure takes.
_LEAST = 0.001


def seconds_of(record: MonitorRecord, *, intervals: bool) -> float:
    """Estimated seconds of the measures of a monitor, read once off a tally of all cells."""
    level = record.interval if intervals else None
    return sum(_seconds(request, level) for request in read_measures(record.measures, record.reduction or "binary"))


def _seconds(request: MeasureRequest, level: float | None) -> float:
    once = request.seconds(_EXTENT, PLAIN)
    value = max(_LEAST, _WARM * once)
    if level is None or not has_interval(request.measure):
        return value
    return value + max(0.0, request.seconds(_EXTENT, Resampling(level, RESAMPLES)) - once)
