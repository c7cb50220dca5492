"""What a caller asks for by name: an entry of a catalogue, its options, and the key of its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from calibrant.errors import CalibrationError, InvalidOption

#: Integers above this are refused where an option names no end of its own, as numbers of bins.
MOST = 100_000


@dataclass(frozen=True)
class Option:
    """An option: its default, and the values it may take, or the range of an integer or, if so, a real."""

    default: float | str | None
    choices: tuple[int | str | None, ...] = ()
    low: float = 1
    high: float = MOST
    real: bool = False

    def accepts(self, value: object) -> bool:
        """Whether ``value`` may stand here; True is not 1."""
        if any(type(value) is type(choice) and value == choice for choice in self.choices):
            return True
        if self.choices and not self.real:
            return False
        if self.real and type(value) is float:
            return math.isfinite(value) and self.low <= value <= self.high
        return type(value) is int and self.low <= value <= self.high

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        named = ", ".join("null" if choice is None else str(choice) for choice in self.choices)
        if self.choices and not self.real:
            return named
        ranged = f"{'a number' if self.real else 'an integer'} from {self.low:g} to {self.high:g}"
        return f"{named} or {ranged}" if named else ranged


class Entry(Protocol):
    """An entry of a catalogue."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def options(self) -> Mapping[str, Option]: ...  # noqa: D102


E = TypeVar("E", bound=Entry)


def read_asked(
    asked: Sequence[str | Mapping[str, Any]],
    catalogue: Mapping[str, E],
    what: str,
    *,
    most: int,
    unknown: type[CalibrationError],
) -> list[tuple[str, E, dict[str, Any]]]:
    """Read names, or objects of a name, options and ``as``: the key, the entry and every option of each.

    ``what`` is what the catalogue holds, in the singular. Raises ``unknown`` or ``InvalidOption``, each naming the
    place; equal keys are refused.
    """
    where = f"/{what}s"
    if isinstance(asked, str | bytes) or not isinstance(asked, Sequence):
        raise InvalidOption.at(where, "must be an array of names or objects")
    if len(asked) > most:
        raise InvalidOption.at(where, f"must name at most {most} {what}s")
    found = [_read_one(item, catalogue, what, f"{where}/{i}", unknown) for i, item in enumerate(asked)]
    seen: set[str] = set()
    for i, (key, _, _) in enumerate(found):
        if key in seen:
            raise InvalidOption.at(f"{where}/{i}", f"has the key of an earlier {what}; give it another with 'as'")
        seen.add(key)
    return found


def _read_one(
    item: object, catalogue: Mapping[str, E], what: str, where: str, unknown: type[CalibrationError]
) -> tuple[str, E, dict[str, Any]]:
    asked = {"name": item} if isinstance(item, str) else item
    if not isinstance(asked, Mapping) or not isinstance(asked.get("name"), str):
        raise InvalidOption.at(where, f"must be a {what}'s name, or an object with a name")
    entry = catalogue.get(asked["name"])
    if entry is None:
        raise unknown.at(where, f"must be one of: {', '.join(catalogue)}")
    key = asked.get("as", entry.name)
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise InvalidOption.at(f"{where}/as", "must be a name of 1 to 64 characters")
    for name, value in asked.items():
        if name in ("name", "as"):
            continue
        option = entry.options.get(name)
        if option is None:
            known = ", ".join(entry.options) or "none"
            raise InvalidOption.at(where, f"has an option that {entry.name} does not know; its options: {known}")
        if not option.accepts(value):
            raise InvalidOption.at(f"{where}/{name}", f"must be {option.allowed}")
    return key, entry, {name: asked.get(name, o.default) for name, o in entry.options.items()}
