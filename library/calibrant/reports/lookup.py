"""Measures and diagrams of a report, found by name, whatever their key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Answer = Mapping[str, Any]

#: An interval of so little width, relative to its ends, has none but for rounding.
_WIDTH = 1e-9

#: A claim that a decision is right, where too high means too sure.
CLAIMS = ("confidence", "top:", "within-top:")


def measure(side: Mapping[str, Any], name: str, **options: Any) -> Answer | None:
    """The first answer of this measure, and of these options, that has a value or a p-value; else None.

    ``side`` is a report, its ``after`` or a group: what holds ``measures``.
    """
    for answer in side["measures"].values():
        definition = answer["definition"]
        fits = definition.get("name") == name and all(definition.get(k) == v for k, v in options.items())
        if fits and (answer["value"] is not None or answer.get("p_value") is not None):
            return answer  # type: ignore[no-any-return]
    return None


def value(side: Mapping[str, Any], name: str, **options: Any) -> float | None:
    """Its value, debiased where that is defined."""
    answer = measure(side, name, **options)
    if answer is None:
        return None
    debiased = answer.get("debiased")
    found: float | None = answer["value"] if debiased is None else debiased
    return found


def error(side: Mapping[str, Any]) -> float | None:
    """The mean calibration error, debiased where that is defined; 0 where chance alone makes as much."""
    found = value(side, "ece", norm=1)
    return None if found is None else max(found, 0.0)


def interval(answer: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """The ends of an interval; None where there is none, and where it is no interval (``too_alike``)."""
    if answer is None or answer.get("interval") is None or too_alike(answer):
        return None
    low, high = answer["interval"]
    return float(low), float(high)


def too_alike(answer: Mapping[str, Any]) -> bool:
    """Whether the rows were too alike for the interval: resampled they make one of no width, or beside its value."""
    ends, seen = answer.get("interval"), answer.get("value")
    if ends is None:
        return False
    low, high = ends
    width = _WIDTH * max(abs(low), abs(high), _WIDTH)
    return bool(high - low <= width or (seen is not None and not low - width <= seen <= high + width))


def level(side: Mapping[str, Any]) -> float:
    """The level of the intervals, by default 0.95."""
    levels = (answer["definition"].get("interval") for answer in side["measures"].values())
    return next((float(found) for found in levels if found is not None), 0.95)


def diagram(side: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The data of the first diagram of this name that could be drawn, else None."""
    shown = drawn(side, name)
    return None if shown is None else shown["data"]


def data_of(shown: Mapping[str, Any]) -> Any:
    """The data of a diagram; reports that earlier versions stored have ``label_share`` for ``observed_frequency``."""
    data = shown["data"]
    if data is None or "label_share" not in data:
        return data
    return {"observed_frequency" if name == "label_share" else name: part for name, part in data.items()}


def drawn(side: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The first diagram of this name that could be drawn, with its definition; else None."""
    for shown in (side.get("diagrams") or {}).values():
        if shown["definition"].get("name") == name and shown["data"] is not None:
            return {**shown, "data": data_of(shown)}
    return None


def of_claims(reduction: str) -> bool:
    """Whether the event is that a decision, already taken, is right."""
    return reduction.startswith(CLAIMS)
