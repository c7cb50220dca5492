"""The catalogue of measures: every one by name, and how a request for some of them is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from calibrant.errors import InvalidOption, UnknownMeasure
from calibrant.measures.entries import (
    binned,
    canonical,
    confidence,
    cumulative,
    fitted,
    hypothesis_tests,
    kernel,
    proper,
    smooth,
)
from calibrant.measures.measure import Measure, MeasureRequest
from calibrant.options import read_entries

#: A report answers at most this many measures.
MAX_MEASURES = 64

#: The families in the order in which they are shown.
_FAMILIES = (binned, cumulative, smooth, kernel, hypothesis_tests, fitted, proper, canonical, confidence)

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {entry.name: entry for family in _FAMILIES for entry in family.MEASURES}
)

#: What ``evaluate`` answers when no measures are named.
PANEL: tuple[str | Mapping[str, Any], ...] = (
    "ece",
    {"name": "ece", "binning": "equal-width", "as": "ece-equal-width"},
    "ece-sweep",
    "ks",
)


def read_requests(measures: Sequence[str | Mapping[str, Any]] | None) -> tuple[MeasureRequest, ...]:
    """Read a request for measures: names, or objects of a name, options and ``as``.

    Raises ``UnknownMeasure`` or ``InvalidOption``, each naming the place; equal keys are refused.
    """
    if measures is None:
        measures = PANEL
    entries = read_entries(measures, MEASURES, "measure", most=MAX_MEASURES, unknown=UnknownMeasure)
    if not entries:
        raise InvalidOption.at("/measures", "must name at least one measure")
    return tuple(MeasureRequest(*parts) for parts in entries)
