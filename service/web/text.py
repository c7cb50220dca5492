"""Formatting of values and tags on the pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from calibrant.core.errors import in_rows
from calibrant.maps.calibration_map import binned, scored
from calibrant.reports.numbers import class_list
from schemas.problems import Problem
from service.errors import InvalidField
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
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes >= one:
            return f"{n_bytes // one:,} {unit}"
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
    return " ".join(sentence(f"{e.pointer.strip('/').replace('/', ' ')} {e.detail}".strip()) for e in problem.errors)


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
    "shortened": shortened,
    "e_value": e_value,
    "times": times,
    "explanation": explanation,
    "prose": prose,
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
