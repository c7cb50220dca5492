"""Options of catalogue entries, and requests for entries by name."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import getitem
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from calibrant.core.errors import CalibrationError, InvalidOption, one_of, plain_name
from calibrant.core.results import Shown, Table

#: The default upper limit of an integer option.
MOST = 100_000


@dataclass(frozen=True)
class Option:
    """An option: its default, and the allowed choices or range of integers (or of numbers, if ``real``).

    With choices, the range is also allowed if the option is ``real`` or ``whole``. With ``most`` above 0, a value is a
    list of 1 to ``most`` distinct allowed values, or null if that is the default. With ``members``, which describes
    them, a value is null or an object, whose members are checked by the reader of the request. With ``per_class``, a
    value is null, an allowed number, or a list of such numbers.
    """

    default: float | str | bool | None
    choices: tuple[int | str | bool | None, ...] = ()
    low: float = 1
    high: float = MOST
    real: bool = False
    whole: bool = False
    most: int = 0
    members: str = ""
    per_class: bool = False

    def accepts(self, value: object) -> bool:
        """Return whether ``value`` is allowed; True is not 1."""
        if self.members:
            return value is None or isinstance(value, Mapping)
        if self.per_class:
            values = value if isinstance(value, list | tuple) else [value]
            return value is None or (len(values) > 0 and all(map(self._accepts_one, values)))
        if self.most == 0:
            return self._accepts_one(value)
        if not isinstance(value, list | tuple):
            return value is None and self.default is None
        listed = 1 <= len(value) <= self.most and all(self._accepts_one(element) for element in value)
        return listed and len(set(value)) == len(value)

    def _accepts_one(self, value: object) -> bool:
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
        if self.members:
            return f"null or an object with {self.members}"
        json = {None: "null", True: "true", False: "false"}
        named = ", ".join(json[c] if c is None or isinstance(c, bool) else str(c) for c in self.choices)
        only_named = bool(self.choices) and not (self.real or self.whole)
        ranged = f"{'a number' if self.real else 'an integer'} from {self.low:g} to {self.high:g}"
        single = named if only_named else f"{named} or {ranged}" if named else ranged
        if self.per_class:
            return f"null, {single}, or a list of such numbers, one for each class"
        if self.most == 0:
            return single
        null = "null or " if self.default is None else ""
        of_element = f"one of {single}" if only_named else single
        return f"{null}a list of 1 to {self.most} distinct values, each {of_element}"


#: Boolean options with the default true, and false.
ON, OFF = Option(True, choices=(True, False)), Option(False, choices=(False, True))


def read_values(
    stated: Mapping[str, Any], options: Mapping[str, Option], whose: str, *, where: str = ""
) -> dict[str, Any]:
    """Return every option by name; raise ``InvalidOption`` for the first invalid one, below ``where``."""
    stated = {name: _plain(value) for name, value in stated.items()}
    for name, value in stated.items():
        option = options.get(name)
        if option is None:
            has = "has" if where else f"{whose} has"
            raise InvalidOption.at(where, f"{has} an unknown option; {_options_of(whose, name, options)}")
        if not option.accepts(value):
            raise InvalidOption.at(f"{where}/{name}", f"must be {option.allowed}")
    return {name: stated.get(name, option.default) for name, option in options.items()}


def _plain(value: Any) -> Any:
    """Return ``plain`` of a value, or of each value of a list or tuple, as a new list."""
    return [plain(element) for element in value] if isinstance(value, list | tuple) else plain(value)


def _options_of(whose: str, name: str, options: Mapping[str, Option]) -> str:
    near = get_close_matches(str(name)[:64], list(options), n=1)  # a key of a mapping of the caller
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}the options of {whose} are: {', '.join(options) or 'none'}"


def read_seed(seed: object) -> int:
    """Check a seed: an integer in [0, 2^32 - 1), so that seed + 1 is also valid."""
    value = plain(seed)
    if type(value) is not int or not 0 <= value < 2**32 - 1:
        raise InvalidOption.at("/seed", "must be an integer from 0 to 4294967294")
    return value


def read_fraction(value: object, pointer: str) -> float:
    """Check a number between 0 and 1, both excluded, such as the level of an interval."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not is_between(number):
        raise InvalidOption.at(pointer, "must be a number between 0 and 1")
    return float(number)


def is_between(number: float) -> bool:
    """Return whether a number is between 0 and 1, and so are the tails of an interval of this level."""
    return 0.0 < number < 1.0 and number / 2.0 > 0.0 and (1.0 + number) / 2.0 < 1.0


def read_real(value: object, pointer: str) -> float:
    """Check a finite number; integers beyond floats are not."""
    number = plain(value)
    if not isinstance(number, bool) and isinstance(number, int | float) and abs(number) <= sys.float_info.max:
        return float(number)
    raise InvalidOption.at(pointer, "must be a finite number")


def plain(value: Any) -> Any:
    """Return the Python number or list of a number or array of numpy; other values as they are."""
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


class Described:
    """Base class of entries of catalogues, which are shown with their definition and the defaults of their options."""

    if TYPE_CHECKING:
        name: str
        options: Mapping[str, Option]

    def __repr__(self) -> str:
        title, definition = getattr(self, "title", ""), getattr(self, "definition", "") or getattr(self, "text", "")
        defaults = ", ".join(f"{name}={option.default!r}" for name, option in self.options.items())
        first = f"{type(self).__name__} {self.name}" + (f": {title}" if title else "")
        return "\n".join([first, definition, *([f"options: {defaults}"] if defaults else [])])

    def known_options(self) -> dict[str, dict[str, Any]]:
        """Describe the options: the ``default`` of each, and a description of the ``allowed`` values.

        >>> import calibrant
        >>> calibrant.METHODS["platt"].known_options()
        {'target_smoothing': {'default': True, 'allowed': 'true, false'}}
        """
        return {name: {"default": o.default, "allowed": o.allowed} for name, o in self.options.items()}

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle an entry of a public catalogue by its name, because its functions cannot be pickled."""
        for catalogue in _PUBLIC:
            if self.name in catalogue and catalogue[self.name] is self:
                return getitem, (catalogue, self.name)
        return super().__reduce_ex__(protocol)


class Entry(Protocol):
    """An entry of a catalogue."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def options(self) -> Mapping[str, Option]: ...  # noqa: D102


E = TypeVar("E", bound=Entry)


class Catalogue(Shown, Mapping[str, E]):
    """A read-only mapping of names to entries, which is shown as a list of names and titles.

    With ``public``, its name in ``calibrant``, the catalogue and its entries are pickled and copied as references.
    ``familiar`` maps other names to those of the catalogue. An unknown name raises ``KeyError`` with the nearest names,
    or with what ``elsewhere`` says of it.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.METHODS["beta"].title, calibrant.MEASURES["ece"].title
    ('Beta calibration', 'Expected calibration error')
    >>> calibrant.METHODS["betta"]
    Traceback (most recent call last):
    KeyError: 'the method is unknown; did you mean beta?'
    """

    def __init__(
        self,
        what: str,
        entries: Mapping[str, E],
        familiar: Mapping[str, str] = MappingProxyType({}),
        elsewhere: Mapping[str, str] = MappingProxyType({}),
        *,
        public: str = "",
    ) -> None:
        self._what = what
        self._entries = dict(entries)
        self._names = familiar
        self._elsewhere = elsewhere
        self._public = public
        if public:
            self.__module__ = "calibrant"  # where pickle finds the name
            _PUBLIC.append(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._public or super().__reduce_ex__(protocol)

    def __getitem__(self, name: str) -> E:
        entry = self._entries.get(known_name(name, self, self._names) if isinstance(name, str) else name)
        if entry is None:
            raise KeyError(f"the {self._what} {self.explanation(name)}")
        return entry

    def explanation(self, name: object) -> str:
        """Return what an unknown name is or must be, after the kind of the entry."""
        meaning = self._elsewhere.get(plain_name(name)) if isinstance(name, str) else None
        return one_of(name, self, self._names) if meaning is None else meaning

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        table = self._table()
        width = max(map(len, self))
        return "\n".join([table.title, *(f"{name:{width}}  {title}".rstrip() for name, title in table.rows)])

    def _table(self) -> Table:
        rows = [(name, str(getattr(entry, "title", ""))) for name, entry in self._entries.items()]
        return Table(f"{len(rows)} {self._what}s", (self._what, "title"), rows)


#: The catalogues with a name in ``calibrant``.
_PUBLIC: list[Catalogue[Any]] = []


def read_entries(
    requests: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    catalogue: Mapping[str, E],
    what: str,
    *,
    most: int,
    unknown: type[CalibrationError],
    familiar: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, E, dict[str, Any]]]:
    """Read names, or objects with a name, options and ``as``; return the key, entry and options of each.

    ``what`` is the kind of the entries, in the singular, and ``familiar`` maps other names to those of the catalogue;
    the key of an entry is the name in the request. Raises ``unknown`` or ``InvalidOption``, also for duplicate
    keys.
    """
    where = f"/{what}s"
    if isinstance(requests, str | Mapping):
        requests = [requests]
    if hasattr(requests, "__array__") or isinstance(requests, KeysView):  # an array, a column, or keys of a report
        requests = list(requests)
    if isinstance(requests, bytes) or not isinstance(requests, Sequence):
        raise InvalidOption.at(where, "must be an array of names or objects")
    if len(requests) > most:
        raise InvalidOption.at(where, f"must name at most {most} {what}s")
    entries = [_read_one(item, catalogue, what, f"{where}/{i}", unknown, familiar) for i, item in enumerate(requests)]
    seen: set[str] = set()
    for i, (key, _, _) in enumerate(entries):
        if key in seen:
            raise InvalidOption.at(f"{where}/{i}", f"has the same key as an earlier {what}; set another key with 'as'")
        seen.add(key)
    return entries


def known_name(name: str, catalogue: Mapping[str, Any], familiar: Mapping[str, str]) -> str:
    """Return the name in the catalogue of a familiar name, such as ``BetaCalibration`` or ``log_loss``.

    >>> known_name("TemperatureScaling", {"temperature": None}, {"temperature-scaling": "temperature"})
    'temperature'
    """
    if name in catalogue:
        return name
    meant = familiar.get(plain_name(name), plain_name(name))
    return meant if meant in catalogue else name


def _read_one(
    item: object,
    catalogue: Mapping[str, E],
    what: str,
    where: str,
    unknown: type[CalibrationError],
    familiar: Mapping[str, str],
) -> tuple[str, E, dict[str, Any]]:
    request = {"name": item} if isinstance(item, str) else item
    if not isinstance(request, Mapping) or not isinstance(request.get("name"), str):
        raise InvalidOption.at(where, f"must be the name of a {what}, or an object with a name")
    entry = catalogue.get(known_name(request["name"], catalogue, familiar))
    if entry is None:
        raise unknown.at(where, one_of(request["name"], catalogue, familiar))
    key = request.get("as", request["name"])
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise InvalidOption.at(f"{where}/as", "must be a string of 1 to 64 characters")
    stated = {name: value for name, value in request.items() if name not in ("name", "as")}
    return key, entry, read_values(stated, entry.options, entry.name, where=where)
