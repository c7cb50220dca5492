"""Options of the entries of a catalogue, and how a request for entries by name is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from calibrant.errors import CalibrationError, InvalidOption

#: The largest integer of an option that names no end of its own.
MOST = 100_000


@dataclass(frozen=True)
class Option:
    """An option: its default, and the choices or the range of integers, or of reals, that it may take.

    With choices, a range is allowed as well if the option is ``real`` or ``whole``.
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
        """A description of the allowed values."""
        json = {None: "null", True: "true", False: "false"}
        named = ", ".join(json[c] if c is None or isinstance(c, bool) else str(c) for c in self.choices)
        if self.choices and not (self.real or self.whole):
            return named
        ranged = f"{'a number' if self.real else 'an integer'} from {self.low:g} to {self.high:g}"
        return f"{named} or {ranged}" if named else ranged


#: Options that are on, and off, by default.
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


def read_seed(seed: object) -> int:
    """Check a seed: an integer in [0, 2^32 - 1), one below the generator's range so that seed + 1 fits."""
    if type(seed) is not int or not 0 <= seed < 2**32 - 1:
        raise InvalidOption.at("/seed", "must be an integer from 0 to 4294967294")
    return seed


class Entry(Protocol):
    """An entry of a catalogue."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def options(self) -> Mapping[str, Option]: ...  # noqa: D102


E = TypeVar("E", bound=Entry)


def read_entries(
    requests: Sequence[str | Mapping[str, Any]],
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
    if isinstance(requests, str | bytes) or not isinstance(requests, Sequence):
        raise InvalidOption.at(where, "must be an array of names or objects")
    if len(requests) > most:
        raise InvalidOption.at(where, f"must name at most {most} {what}s")
    found = [_read_one(item, catalogue, what, f"{where}/{i}", unknown) for i, item in enumerate(requests)]
    seen: set[str] = set()
    for i, (key, _, _) in enumerate(found):
        if key in seen:
            raise InvalidOption.at(f"{where}/{i}", f"has the key of an earlier {what}; give it another with 'as'")
        seen.add(key)
    return found


def _read_one(
    item: object, catalogue: Mapping[str, E], what: str, where: str, unknown: type[CalibrationError]
) -> tuple[str, E, dict[str, Any]]:
    request = {"name": item} if isinstance(item, str) else item
    if not isinstance(request, Mapping) or not isinstance(request.get("name"), str):
        raise InvalidOption.at(where, f"must be a {what}'s name, or an object with a name")
    entry = catalogue.get(request["name"])
    if entry is None:
        raise unknown.at(where, f"must be one of: {', '.join(catalogue)}")
    key = request.get("as", entry.name)
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise InvalidOption.at(f"{where}/as", "must be a name of 1 to 64 characters")
    given = {name: value for name, value in request.items() if name not in ("name", "as")}
    return key, entry, read_values(given, entry.options, entry.name, where=where)
