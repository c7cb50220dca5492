"""Formatting of values and tags on the pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from calibrant.core.errors import in_rows
from calibrant.maps.calibration_map import binned, scored
from calibrant.monitoring.label_shift import most_changed
from calibrant.reports.numbers import class_list
from calibrant.reports.tables import describe_reduction
from calibrant.reports.text import in_a_line, is_empty
from schemas.base import Document
from schemas.meanings import MEANINGS
from schemas.monitor_rules import RuleState
from schemas.problems import Problem
from service.errors import InvalidField
from service.headers import entity_tag_of
from service.html import prose as marked

# --- Formatting of values

_MINUS = "\u2212"
_NOTHING = "\u2013"
#: The logarithm from which e-values are shown as powers of ten.
_LARGE = math.log(100_000.0)


def number(value: float | None, digits: int = 3) -> str:
    """A number with this many significant digits and a true minus sign; a dash for None."""
    if value is None:
        return _NOTHING
    return f"{value:.{digits}g}".replace("-", _MINUS)


def decimals(value: float | None, places: int = 4) -> str:
    """A number with this many decimals, so that columns line up; a dash for None."""
    if value is None:
        return _NOTHING
    return f"{value:.{places}f}".replace("-", _MINUS)


def count(value: int | None) -> str:
    """An integer with thousands separators."""
    return _NOTHING if value is None else f"{value:,}"


def moment(stamp: str | None) -> str:
    """A time in a readable form, in UTC."""
    if stamp is None:
        return _NOTHING
    return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def size(n_bytes: int) -> str:
    """A number of bytes, rounded down."""
    for unit, bytes_per_unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes >= bytes_per_unit:
            return f"{n_bytes // bytes_per_unit:,} {unit}"
    return f"{n_bytes} bytes"


def sentence(text: str) -> str:
    """A text with a capital letter and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def capitalized(text: str) -> str:
    """A text with a capital letter."""
    return text[:1].upper() + text[1:]


def shortened(text: str, most: int) -> str:
    """A text of at most this many characters, cut between two words."""
    if len(text) <= most:
        return text
    return f"{text[:most].rpartition(' ')[0].rstrip(',;:')}\u2026"


def explanation(problem: Problem) -> str:
    """The detail of a problem in sentences, with fields named in words instead of pointers."""
    if (detail := in_rows(problem.detail)) is not None:
        return sentence(detail)
    if not problem.errors:
        return sentence(problem.detail)
    return " ".join(sentence(f"{e.place.strip('/').replace('/', ' ')} {e.detail}".strip()) for e in problem.errors)


def prose(text: str) -> Markup:
    """A sentence as HTML; text between backticks becomes code, and everything is escaped."""
    return Markup(marked(text))  # noqa: S704


def e_value(log_e: float) -> str:
    """An e-value from its natural logarithm; a large or small one as a power of ten."""
    return f"{math.exp(log_e):,.2f}" if abs(log_e) < _LARGE else f"10^{log_e / math.log(10.0):.1f}".replace("-", _MINUS)


def times(values: Sequence[str]) -> str:
    """A time in UTC, with the ends of its 95 % interval if they are known."""
    first, *ends = (moment(value) for value in values)
    return f"{first} UTC (95 % interval: {ends[0]} to {ends[1]})" if ends else f"{first} UTC"


def seen(record: Document) -> str:
    """The entity tag of a record without quotes, for a form that changes only what was seen."""
    return (entity_tag_of(record) or "").strip('"')


def status(rules: Sequence[RuleState]) -> str:
    """The worst status of the rules of a monitor: ``alarm``, ``ok`` or ``unknown``."""
    return min((rule.status for rule in rules), key=("alarm", "ok", "unknown").index, default="unknown")


def stated_fields(document: Document) -> list[tuple[str, str, str]]:
    """The name, description and value of each field of a document that has a value."""
    values = document.model_dump(mode="json")
    return [
        (name, (field.description or MEANINGS.get(name, "")).replace("``", "`"), in_a_line(values[name]))
        for name, field in type(document).model_fields.items()
        if not is_empty(values[name])
    ]


def as_text(value: Any) -> str:
    """Return a value of a document as text; of many numbers, how many and their range."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{value:,}" if isinstance(value, int) else number(value, 4)
    if isinstance(value, str):
        return shortened(value, 100)
    if isinstance(value, dict):
        return shortened(", ".join(f"{name} {as_text(part)}" for name, part in value.items()), 200)
    return _numbers(value)


def _numbers(values: Sequence[Any]) -> str:
    flat = [item for row in values for item in row] if values and isinstance(values[0], list) else list(values)
    if not all(isinstance(item, float | int) for item in flat) or not flat:
        if flat and isinstance(flat[0], dict):
            return f"{len(flat):,}"
        return shortened(", ".join(map(as_text, flat)), 200) or "none"
    if all(isinstance(item, bool) for item in flat):
        return f"{sum(flat):,} of {len(flat):,}"
    if len(flat) <= _FEW:
        return ", ".join(map(as_text, flat))
    size = f"{len(values):,} by {len(values[0]):,}" if isinstance(values[0], list) else f"{len(flat):,}"
    return f"{size} numbers from {number(min(flat), 4)} to {number(max(flat), 4)}"


#: The most numbers that are shown one by one.
_FEW = 6


def candidates(diagnostics: Mapping[str, Any]) -> list[tuple[str, float | None, float]]:
    """The candidates of a fit with their weight in the map, if they have one, and held-out loss; the lowest first."""
    losses, weights = diagnostics.get("held_out_losses"), diagnostics.get("weights")
    weights = weights if isinstance(weights, dict) else {}
    if not isinstance(losses, dict) or not all(isinstance(loss, float | int) for loss in losses.values()):
        return []
    return [
        (name, weights.get(name, 0.0) if weights and name != "process" else None, losses[name])
        for name in sorted(losses, key=losses.__getitem__)
    ]


#: The terms of fields that are not their names.
_TERMS = {
    "keeps_top_label": "Keeps the top class",
    "kinds": "Forecasts",
    "of": "Defined for",
    "outside": "Outside the range of the fit",
}


def term(field: str) -> str:
    """The term of a field in a list of facts."""
    return _TERMS.get(field, capitalized(field))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": number,
    "decimals": decimals,
    "count": count,
    "moment": moment,
    "size": size,
    "sentence": sentence,
    "capitalized": capitalized,
    "scored": scored,
    "binned": binned,
    "class_list": class_list,
    "described": describe_reduction,
    "shortened": shortened,
    "e_value": e_value,
    "times": times,
    "explanation": explanation,
    "prose": prose,
    "seen": seen,
    "status": status,
    "most_changed": most_changed,
    "as_text": as_text,
    "stated_fields": stated_fields,
    "candidates": candidates,
    "term": term,
}


# --- Tags as text: one per line, name=value


def write_tags(tags: Mapping[str, str]) -> str:
    """Tags as lines, sorted by name."""
    return "\n".join(f"{name}={value}" for name, value in sorted(tags.items()))


def read_tags(text: str) -> dict[str, str]:
    """Parse tags from lines, ignoring empty ones; raises ``InvalidField`` for a duplicate name."""
    tags: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        if name in tags:
            raise InvalidField.at("/tags", f"line {number} repeats a tag of an earlier line")
        tags[name] = value
    return tags
