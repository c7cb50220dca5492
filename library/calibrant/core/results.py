"""Results as text, HTML and frames, for notebooks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    SupportsFloat,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from calibrant.core.choices import Engine, SourceForm
from calibrant.core.errors import MissingExtra, plain_name

Cell = str | float | None
Result = TypeVar("Result")

#: Columns of numbers, which may all be missing.
_NUMBERS = (
    "value",
    "debiased",
    "low",
    "high",
    "rank_low",
    "rank_high",
    "p_value",
    "mean",
    "standard_deviation",
    "cross_fitted",
    "cross_fitted_debiased",
    "realised",
    "estimated",
    "bbse",
)

#: The most characters of a warning; documents may hold any text.
_WARNED = 200
MEASURE_COLUMNS = ("measure", "value", "debiased", "interval", "p-value")
_STYLE = "text-align:right;padding:.2em .7em;font-variant-numeric:tabular-nums"


def above(name: str) -> Any:
    """Load a name of a package above this one, such as ``plots.axes.Plotter``.

    For the methods of results that draw or convert them. They are the only code that names a package above its own, by
    a string: drawing needs the results, and loads when it is used.
    """
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(f"calibrant.{module}"), attribute)


@dataclass(frozen=True)
class Table:
    """A titled table; columns without any value are left out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = field(default_factory=list)

    @classmethod
    def of_measures(cls, title: str, measures: Mapping[str, Any], notes: Sequence[str] = ()) -> Table:
        """Return the table of measures: values, debiased values, intervals and p-values."""
        rows = [(key, m.value, m.debiased, interval_of(m.interval), m.p_value) for key, m in measures.items()]
        return cls(title, MEASURE_COLUMNS, rows, notes)

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows as text, without empty columns."""
        filled = [j for j in range(len(self.columns)) if j == 0 or any(row[j] not in (None, "") for row in self.rows)]
        return [self.columns[j] for j in filled], [[text_of(row[j]) for j in filled] for row in self.rows]


class Suggesting:
    """Base class of objects whose unknown attributes raise ``AttributeError`` with what to use instead."""

    #: Attributes that other libraries have -> what to use here.
    _familiar: ClassVar[Mapping[str, str]] = MappingProxyType({})

    if not TYPE_CHECKING:  # to a type checker, every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            hint = "" if name.startswith("_") else self._instead(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def _instead(self, name: str) -> str:
        """Return what to use in place of an attribute that does not exist."""
        if isinstance(self, ByMeasure) and name in self:
            return f"; use report[{name!r}]"
        key, result = next(iter((vars(self).get("measures") or {}).items()), (None, None))
        if key is not None and hasattr(result, name):  # of a result in a report
            return f'; use report["{key}"].{name}'
        near = get_close_matches(
            name[:64], [attribute for attribute in dir(self) if not attribute.startswith("_")], n=1
        )
        suggestion = self._familiar.get(name, near[0] if near else None)
        return "" if suggestion is None else f"; use {suggestion}"


class Shown(Suggesting):
    """Base class of results that are shown as a table; a subclass defines ``_table``."""

    def _table(self) -> Table:
        raise NotImplementedError

    def __repr__(self) -> str:
        table = self._table()
        headings, rows = table.shown()
        lines = [headings, *rows]
        widths = [max(len(line[j]) for line in lines) for j in range(len(headings))]
        text = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]
        return "\n".join([table.title, *text, *table.notes])

    def _repr_html_(self) -> str:
        table = self._table()
        headings, rows = table.shown()
        first = 'style="text-align:left;padding:.2em .7em"'
        head = "".join(
            f'<th scope="col" {first if j == 0 else f"style={_quoted(_STYLE)}"}>{escape(name)}</th>'
            for j, name in enumerate(headings)
        )
        body = "".join(
            f'<tr><th scope="row" {first}>{escape(row[0])}</th>'
            + "".join(f'<td style="{_STYLE}">{escape(cell)}</td>' for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        caption = f'<caption style="color:inherit;text-align:left;white-space:nowrap">{escape(table.title)}</caption>'
        notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


class PlainResult:
    """Base class of results with ``to_dict``; a subclass may define ``_document``, by default its fields."""

    def _document(self) -> dict[str, Any]:
        fields: dict[str, Any] = plain_json(self)
        return fields

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON: numbers, strings, lists and dicts, named as in answers of the HTTP API.

        >>> import calibrant
        >>> calibrant.decision_curve([0.1, 0.9], [0, 1], thresholds=[0.5]).to_dict()["net_benefit"]["model"]["value"]
        [0.5]
        """
        return self._document()


class Framed(PlainResult, Shown):
    """Base class of results with ``to_dict`` and ``to_frame``; a subclass defines ``_records``, its rows."""

    def _records(self) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the result as a frame of pandas or polars; raise ``MissingExtra`` if neither is installed.

        >>> import calibrant
        >>> frame = calibrant.decision_curve([0.1, 0.9], [0, 1], thresholds=[0.5]).to_frame()
        >>> list(frame["model"][:3]), list(frame["value"][:3])
        (['model', 'treat all', 'treat none'], [0.5, 0.0, 0.0])
        """
        return frame_of(self._records())


class Plotted:
    """Base class of results that ``plot`` draws; ``_plot`` is the function, of a package above."""

    _plot: ClassVar[str]

    def plot(self, ax: Any = None) -> Any:
        """Draw the result on matplotlib axes, by default those of a new figure, and return the axes.

        >>> import calibrant
        >>> calibrant.decision_curve([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]).plot().get_ylabel()
        'net benefit'
        """
        return above(self._plot)(self, ax)


def plain_json(value: Any) -> Any:
    """Return a result as plain JSON: the fields of data classes, lists of arrays and tuples, and numbers of Python."""
    if is_dataclass(value):
        return {field.name: plain_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(member) for member in value]
    return value.tolist() if hasattr(value, "dtype") else value


def from_plain_json(hint: Any, value: Any) -> Any:
    """Return a result, or a value of another type, from its plain JSON.

    Fields that are missing or null have their defaults, and those that the result does not have are left out.
    """
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (member for member in get_args(hint) if member is not NoneType)
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(value, Mapping):
        hints = _hints(hint)
        needed = {field.name for field in fields(hint) if field.default is field.default_factory is MISSING}
        known = {field.name for field in fields(hint) if field.name in needed or value.get(field.name) is not None}
        return hint(**{name: from_plain_json(hints[name], part) for name, part in value.items() if name in known})
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(value, Mapping) and arguments:
        return {key: from_plain_json(arguments[1], part) for key, part in value.items()}
    return (
        origin(from_plain_json(arguments[0], part) for part in value) if isinstance(value, list) and origin else value
    )


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


#: Version of the documents of maps.
FORMAT = 1


class ShownMap(Shown):
    """Base class of fitted maps, with their documents; a subclass defines ``_head``, the fields of its own."""

    if TYPE_CHECKING:
        method: str
        function: Any
        diagnostics: Mapping[str, Any]
        training_digest: str | None

    def _head(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_document(self) -> dict[str, Any]:
        """Return the map as a document of plain JSON, which ``calibrant.load`` or its like reads.

        It has the parameters, the diagnostics, and if they are known class names and the digest of the training.

        >>> import calibrant
        >>> document = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).to_document()
        >>> document["family"], document["parameters"]["heights"]
        ('isotonic', [0.0, 0.5, 0.5, 1.0])
        """
        names = getattr(self, "class_names", None)
        known = {"class_names": None if names is None else list(names), "training_digest": self.training_digest}
        return {
            "format": FORMAT,
            **self._head(),
            "parameters": self.function.parameters(),
            "diagnostics": dict(self.diagnostics),
            **{name: value for name, value in known.items() if value is not None},
        }

    def save(self, path: str | Path) -> None:
        """Write the document of the map to a file, as JSON; an existing file is replaced.

        >>> import calibrant, tempfile
        >>> fitted = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fitted.save(folder + "/map.json")
        ...     calibrant.load(folder + "/map.json") == fitted
        True
        """
        write_text(path, json.dumps(self.to_document(), indent=1, allow_nan=False) + "\n")

    def _key(self) -> dict[str, Any]:
        return {**self.to_document(), "diagnostics": None, "training_digest": None}

    def __eq__(self, other: object) -> bool:
        """Whether both maps apply the same function; diagnostics and training do not matter."""
        return isinstance(other, ShownMap) and type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.method, self.function.family))

    @property
    def warning(self) -> str | None:
        """The warning of the fit, such as that the map does not improve; None without one.

        See Also
        --------
        calibrant.fit : Fits a map; ``diagnostics`` has the cross-fitted gain.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).warning
        'the cross-fitted log loss does not improve: the map may do harm on new rows'
        """
        text = self.diagnostics.get("warning")
        return text[:_WARNED] if isinstance(text, str) else None


def map_table(method: str, rows: Sequence[tuple[str, str]], diagnostics: Mapping[str, Any]) -> Table:
    """Return the table of a map: its properties, its cross-fitted gain, and its warning."""
    properties = [row for row in rows if row[1]]
    gain = diagnostics.get("held_out_gain")
    if isinstance(gain, Mapping) and {"score", "gain", "standard_error"} <= gain.keys():
        properties.append(_gain(str(gain["score"]), gain["gain"], gain["standard_error"]))
    elif isinstance(gain, Mapping) and {"log_loss", "standard_error"} <= gain.keys():
        properties.append(_gain("log loss", gain["log_loss"], gain["standard_error"]))
    warning = diagnostics.get("warning")
    return Table(f"Map: {method}", ("property", "value"), properties, [str(warning)] if warning else [])


def _gain(score: str, gain: float, error: float) -> tuple[str, str]:
    return f"cross-fitted gain of the {score}", f"{gain:.4g} (standard error {error:.2g})"


class Measured:
    """Base class of results of a measure, which are shown in one line and compared and formatted by their value."""

    __slots__ = ()

    if TYPE_CHECKING:
        value: float | None
        problem: str | None

    def __repr__(self) -> str:
        named = ("value", "debiased", "interval", "p_value", "problem")
        known = [f"{name}={getattr(self, name)!r}" for name in named if getattr(self, name) is not None]
        return f"{type(self).__name__}({', '.join(known)})"

    def __float__(self) -> float:
        if self.value is None:
            raise TypeError(f"there is no value: {self.problem}")
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.asarray(float(self), dtype)

    # Arithmetic is that of the value.

    def __add__(self, other: Any) -> Any:
        return float(self) + other

    def __radd__(self, other: Any) -> Any:
        return other + float(self)

    def __sub__(self, other: Any) -> Any:
        return float(self) - other

    def __rsub__(self, other: Any) -> Any:
        return other - float(self)

    def __mul__(self, other: Any) -> Any:
        return float(self) * other

    def __rmul__(self, other: Any) -> Any:
        return other * float(self)

    def __truediv__(self, other: Any) -> Any:
        return float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self)

    def __neg__(self) -> float:
        return -float(self)

    def __abs__(self) -> float:
        return abs(float(self))

    def __lt__(self, other: object) -> bool:
        """Compare the value with a number or another result, as in ``assert report["ece"] < 0.05``."""
        return float(self) < float(other) if isinstance(other, SupportsFloat) else NotImplemented

    def __le__(self, other: object) -> bool:
        return float(self) <= float(other) if isinstance(other, SupportsFloat) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return float(self) > float(other) if isinstance(other, SupportsFloat) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return float(self) >= float(other) if isinstance(other, SupportsFloat) else NotImplemented

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def __format__(self, spec: str) -> str:
        """Format the value, as ``f"{report['ece']:.3f}"``; without a format, everything."""
        return format(float(self), spec) if spec else str(self)


def write_text(path: str | Path, text: str) -> None:
    """Write a file; raises ``FileNotFoundError`` with the name of a folder that does not exist."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder {str(folder)!r} does not exist; create it first")
    Path(path).write_text(text, encoding="utf-8")


class WithRows:
    """Base class of reports whose ``source`` are their rows; copies share them, and pickles leave them out."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"source": None}

    def __copy__(self) -> Self:
        return self._with(vars(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        own = {name: value for name, value in vars(self).items() if name != "source"}
        return self._with(vars(self) | deepcopy(own, memo))

    def _with(self, state: Mapping[str, Any]) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(state)
        return copied


class ByMeasure(Generic[Result]):
    """Base class of results that are looked up by measure, as ``result["ece"]``."""

    #: What a key is, for the error.
    _what: ClassVar[str] = "measure in this result"
    #: Names that other libraries use -> names of measures.
    _aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    measures: Mapping[str, Result]

    def __getitem__(self, key: str) -> Result:
        name = _name_in(self.measures, key, self._aliases)
        if name is None:
            elsewhere = self._elsewhere(key) if isinstance(key, str) else ""
            hint = f"; {elsewhere}" if elsewhere else ""
            raise KeyError(f"{_no_such(self._what, self.measures, key)}{hint}")
        return self.measures[name]

    def _elsewhere(self, key: str) -> str:  # noqa: ARG002 - of subclasses
        """Return how to get a measure that the result does not have."""
        return ""

    def __contains__(self, key: object) -> bool:
        return _name_in(self.measures, key, self._aliases) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def keys(self) -> list[str]:
        """Return the keys of the measures."""
        return list(self.measures)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the result of a measure, or ``default`` if there is none."""
        name = _name_in(self.measures, key, self._aliases)
        return default if name is None else self.measures[name]

    def values(self) -> list[Result]:
        """Return the results of the measures."""
        return list(self.measures.values())

    def items(self) -> list[tuple[str, Result]]:
        """Return the key and the result of each measure."""
        return list(self.measures.items())

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


def _quoted(text: str) -> str:
    return f'"{text}"'


def text_of(cell: Cell) -> str:
    """Return a cell as text: three decimals, or two digits of a smaller number.

    >>> [text_of(cell) for cell in (0.1234, 0.00012, 0.0, None, "ece")]
    ['0.123', '0.00012', '0.000', '', 'ece']
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    return f"{cell:.3f}" if cell == 0.0 or abs(cell) >= 0.0005 else f"{cell:.2g}"


def n_rows(n: float) -> str:
    """Return a number of rows with its noun.

    >>> n_rows(1), n_rows(1797)
    ('1 row', '1,797 rows')
    """
    return counted(n, "row")


def counted(n: float, noun: str) -> str:
    """Return a number with its noun, given in the singular.

    >>> counted(1, "group"), counted(1797, "group")
    ('1 group', '1,797 groups')
    """
    return f"{n:,.0f} {noun if n == 1 else noun + 's'}"


def interval_of(ends: tuple[float, float] | None) -> str | None:
    """Return an interval as text."""
    return None if ends is None else f"[{text_of(ends[0])}, {text_of(ends[1])}]"


def frame_of(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return a DataFrame of pandas or polars: of the library that is imported, or else of one that is installed."""
    names = sorted(("pandas", "polars"), key=lambda name: name not in sys.modules)
    for name in names:
        if name in sys.modules or find_spec(name) is not None:
            frames = import_module(name)
            columns = {key: [record.get(key) for record in records] for key in (records[0] if records else ())}
            numbers = [key for key in columns if key.removesuffix("_after") in _NUMBERS]
            # A column without any number would be one of objects.
            if name == "polars":
                return frames.DataFrame(columns, schema_overrides=dict.fromkeys(numbers, frames.Float64))
            return frames.DataFrame(columns).astype(dict.fromkeys(numbers, float))
    raise MissingExtra("to_frame needs pandas or polars, and neither is installed: pip install pandas")


class ByName(dict[str, Result]):
    """Results by name; an unknown name raises ``KeyError`` with the nearest ones."""

    def __init__(self, what: str, results: Mapping[str, Result]) -> None:
        super().__init__(results)
        self._what = what

    def __missing__(self, key: object) -> Result:
        if not isinstance(key, str) and str(key) in self:  # a group by a number
            return self[str(key)]
        raise KeyError(_no_such(self._what, self, key))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._what, dict(self))


#: The most names that an error lists.
_MOST_NAMES = 20


def _no_such(what: str, results: Mapping[str, Any], key: object) -> str:
    """Return that a key does not exist, with the nearest keys, or else the first ones."""
    near = get_close_matches(key[:64], list(results), n=3) if isinstance(key, str) else []
    more = ", ..." if len(results) > _MOST_NAMES else ""
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join([*results][:_MOST_NAMES])}{more}"
    return f"there is no such {what}; {hint}"


def _name_in(results: Mapping[str, Any], key: object, aliases: Mapping[str, str]) -> str | None:
    """Return the key under which a result is found: the key itself, in small letters with hyphens, or an alias."""
    if not isinstance(key, str) or key in results:
        return key if isinstance(key, str) else None

    def known(name: str) -> str:
        return aliases.get(plain_name(name), plain_name(name))

    return next((name for name in results if known(name) == known(key)), None)


@dataclass(frozen=True)
class Basis:
    """What the results of a source were computed from.

    Attributes
    ----------
    form : {"rows", "distinct", "tally"}
        All rows; counts of distinct predictions, which are exact for one event; or a tally of 2,048 cells.
    rows : int
        Rows that meet the conditions.
    bytes : int
        Size of the files.
    files : int
        Number of files.
    tolerance : float or None
        Of a tally: the most by which a prediction differs from the one that stands for it; otherwise None.
    engine : {"local", "dask"}
        What read the files: this process or the worker of the job, or a cluster of Dask.
    """

    form: SourceForm
    rows: int
    bytes: int
    files: int
    tolerance: float | None = None
    engine: Engine = "local"
