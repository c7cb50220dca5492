"""The measures that are read off a tally: of one event, quick, and the same of cells as of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.errors import InvalidOption
from calibrant.measures.catalogue import read_requests
from calibrant.measures.extent import Extent
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import Measure, MeasureRequest
from calibrant.tallies.grid import CELLS

#: What a tally of all cells comes to: a row for each cell and outcome.
_EXTENT = Extent(2 * CELLS)
#: Measures estimated to take more seconds of it are not watched.
_MOST_SECONDS = 0.5
#: Measures that look behind the event: at the whole vectors of which it was made, which no tally keeps.
_OF_VECTORS = ("optimal-temperature", "ece-after-temperature", "ece-temperature")


def read_measures(measures: Sequence[str | Mapping[str, Any]], reduction: str) -> tuple[MeasureRequest, ...]:
    """Read a monitor's measures; raises ``UnknownMeasure`` or ``InvalidOption`` at ``/measures/i``."""
    asked = read_requests(list(measures))
    for i, request in enumerate(asked):
        reason = _hindered(request, reduction)
        if reason is not None:
            raise InvalidOption.at(f"/measures/{i}", f"cannot be watched: {reason}")
    return asked


def has_interval(measure: Measure) -> bool:
    """Whether a measure's interval is had without computing it again on resampled rows, which cells are not."""
    return measure.own_interval or measure.distance is not None or measure.influence is not None


def _hindered(request: MeasureRequest, reduction: str) -> str | None:
    """Why a measure is not read off a tally, if it is not."""
    measure = request.measure
    if measure.event is None:
        return "it is of the whole predicted vector, and a monitor keeps one event of a row"
    if measure.runs == "job":
        return "it is a long fit"
    if request.options.get("binning") == "exact":
        return "bins of one prediction each are not those of cells"
    if reduction != "binary" and measure.name in _OF_VECTORS:
        return "under this reduction it is of the whole predicted vector"
    if request.seconds(_EXTENT, PLAIN) > _MOST_SECONDS:
        return "it takes too long"
    return None
