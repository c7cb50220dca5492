"""The catalogue of measures: every one by name, and how a request for some of them is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from calibrant.errors import InvalidOption, UnknownMeasure
from calibrant.measures.entries import binned, canonical, confidence, cumulative, fitted, kernel, proper, smooth, tests
from calibrant.measures.measure import Measure, MeasureRequest

#: A report answers at most this many measures.
MAX_MEASURES = 64

#: The families in the order in which they are shown.
_FAMILIES = (binned, cumulative, smooth, kernel, tests, fitted, proper, canonical, confidence)

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
    """Read the measures asked for: names, or objects of a name, options and ``as``.

    Raises ``UnknownMeasure`` or ``InvalidOption``, each naming the place; equal keys are refused.
    """
    if measures is None:
        measures = PANEL
    if isinstance(measures, str | bytes) or not isinstance(measures, Sequence) or not measures:
        raise InvalidOption.at("/measures", "must be a non-empty array of names or objects")
    if len(measures) > MAX_MEASURES:
        raise InvalidOption.at("/measures", f"must name at most {MAX_MEASURES} measures")
    requests = tuple(_read_request(item, f"/measures/{i}") for i, item in enumerate(measures))
    seen: set[str] = set()
    for i, request in enumerate(requests):
        if request.key in seen:
            raise InvalidOption.at(f"/measures/{i}", "has the key of an earlier measure; give it another with 'as'")
        seen.add(request.key)
    return requests


def _read_request(item: object, where: str) -> MeasureRequest:
    asked = {"name": item} if isinstance(item, str) else item
    if not isinstance(asked, Mapping) or not isinstance(asked.get("name"), str):
        raise InvalidOption.at(where, "must be a measure's name, or an object with a name")
    measure = MEASURES.get(asked["name"])
    if measure is None:
        raise UnknownMeasure.at(where, f"must be one of: {', '.join(MEASURES)}")
    key = asked.get("as", measure.name)
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise InvalidOption.at(f"{where}/as", "must be a name of 1 to 64 characters")
    for name, value in asked.items():
        if name in ("name", "as"):
            continue
        option = measure.options.get(name)
        if option is None:
            known = ", ".join(measure.options) or "none"
            raise InvalidOption.at(where, f"has an option that {measure.name} does not know; its options: {known}")
        if not option.accepts(value):
            raise InvalidOption.at(f"{where}/{name}", f"must be {option.allowed}")
    return MeasureRequest(key, measure, {name: asked.get(name, o.default) for name, o in measure.options.items()})
