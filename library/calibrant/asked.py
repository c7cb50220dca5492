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
    """An option: its default, and the values it may take, or the range of an integer or, if so, a real.

    Beside choices a range is open to a ``real``, or to a ``whole`` number.
    """

    default: float | str | bool | None
    choices: tuple[int | str | bool | None, ...] = ()
    low: float = 1
    high: float = MOST
    real: bool = False
    whole: bool = False

    def accepts(self, value: object) -> bool:
        """Whether ``value`` may stand here; True is not 1."""
        if any(type(value) is type(choice) and value == choice for choice in self.choices):
            return True
        if self.choices and not (self.real or self.whole):
            return False
        if self.real and type(value) is float:
            return math.isfinite(value) and self.low <= value <= self.high
        return type(value) is int and self.low <= value <= self.high

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        words = {None: "null", True: "true", False: "false"}
        named = ", ".join(words[c] if c is None or isinstance(c, bool) else str(c) for c in self.choices)
        if self.choices and not (self.real or self.whole):
            return named
        ranged = f"{'a number' if self.real else 'an integer'} from {self.low:g} to {self.high:g}"
        return f"{named} or {ranged}" if named else ranged


#: An option that is or is not.
ON, OFF = Option(True, choices=(True, False)), Option(False, choices=(False, True))


def read_values(
    given: Mapping[str, Any], options: Mapping[str, Option], whose: str, *, where: str = ""
) -> dict[str, Any]:
    """Every option by name, checked; raises ``InvalidOption`` naming the first that is wrong, below ``where``."""
    for name, value in given.items():
        option = options.get(name)
        if option is None:
            known = ", ".join(options) or "none"
            raise InvalidOption.at(where, f"has an option that {whose} does not know; its options: {known}")
        if not option.accepts(value):
            raise InvalidOption.at(f"{where}/{name}", f"must be {option.allowed}")
    return {name: given.get(name, option.default) for name, option in options.items()}


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
    given = {name: value for name, value in asked.items() if name not in ("name", "as")}
    return key, entry, read_values(given, entry.options, entry.name, where=where)
