"""Conversion of what callers have, such as Series, frames and tensors, to numpy arrays and names of groups.

pandas and polars are not imported: a caller that passes a frame has already imported its library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from operator import ne
from typing import Any, Literal, Self, cast, overload

import numpy as np
import numpy.typing as npt

from calibrant.core.errors import InvalidOption, LengthMismatch, NotANumber, UnusableRows, WrongShape

Array = npt.NDArray[Any]

#: Name of the group of rows whose group is missing.
NO_GROUP = "(missing)"
#: What to do about missing values.
FILL_IN = "fill them in or remove the rows"
#: Separates the values of several columns of groups.
_JOINT = ", "
#: What may precede a level in the name of a column.
_QUANTILE = re.compile(r"(?:quantile|q)[ _-]?", re.IGNORECASE)
#: How far a level in a name may be from the level: half of the second decimal, and rounding.
_ROUNDED = 0.005 + 1e-9


def array_of(value: Any, field: str) -> Array:
    """Convert to an array, and bytes to text; raises ``UnusableRows`` for missing values and what has no array."""
    array = _array_of(value, field)
    if array.dtype.kind not in "SO":
        return array
    try:
        if array.dtype.kind == "S":  # as HDF5 has them
            return np.char.decode(array, "utf-8")
        return array if bytes not in set(map(type, array.flat)) else _decoded(array)
    except UnicodeDecodeError:
        hint = f'decode them, as with np.char.decode({field}, "latin-1")'
        raise UnusableRows(f"{field}: are bytes that are not UTF-8; {hint}") from None


def _decoded(array: Array) -> Array:
    texts = np.empty(array.size, dtype=object)
    texts[:] = [text_of(element) for element in array.flat]
    return texts.reshape(array.shape)


def text_of(name: Any) -> Any:
    """Return bytes as text, and other values as they are."""
    return name.decode() if isinstance(name, bytes) else name


def _array_of(value: Any, field: str) -> Array:
    library, kind = frame_type(value)
    if library == "pandas":
        refuse_missing(value.isna().to_numpy(), field)
        parts = (value.iloc[:, k] for k in range(value.shape[1])) if value.ndim == 2 else None
        return _columns_of(value, field, parts)
    if kind == "LazyFrame":
        raise UnusableRows(f"{field}: is a lazy frame; call collect() first")
    if library == "polars":
        series = value.get_columns() if kind == "DataFrame" else [value]
        for own_column in series:
            if own_column.null_count():
                refuse_missing(own_column.is_null().to_numpy(), field)
        return _columns_of(value, field, iter(series) if kind == "DataFrame" else None)
    if isinstance(value, np.ma.MaskedArray):
        refuse_missing(np.ma.getmaskarray(value), field)
        return np.asarray(value.data)
    columns = getattr(value, "columns", None)
    for column in columns if isinstance(columns, list) else [value]:  # tables and arrays of Arrow
        if isinstance(count := getattr(column, "null_count", 0), int) and count:
            refuse_missing(np.asarray(column.is_null()), field)
    if hasattr(value, "toarray"):
        raise UnusableRows(f"{field}: is a sparse matrix; pass {field}.toarray()")
    array = _converted(value, field)
    if not array.ndim:
        hint = '; of a frame, pass frame["name"]' if isinstance(value, str) else ""
        kind = "None" if value is None else type(value).__name__
        raise WrongShape.at(f"/{field}", f"must be an array, a list or a column, not {kind}{hint}")
    if array.dtype.names is not None:  # a structured array, or records
        return np.column_stack([array[name] for name in array.dtype.names])
    _refuse_missing_of(array, value, field)
    return _stacked(array, field) if array.dtype.kind == "O" and array.ndim == 1 else array


def _refuse_missing_of(array: Array, value: Any, field: str) -> None:
    """Raise ``UnusableRows`` if objects, dates or texts are missing; ``value`` is what the array was made of."""
    if array.dtype.kind == "O":
        refuse_missing(_missing(array), field)
    elif array.dtype.kind == "M":
        refuse_missing(np.isnat(array), field)
    elif array.dtype.kind == "U" and array.ndim == 1 and isinstance(value, list | tuple):  # NaN is the text "nan" here
        refuse_missing(np.array([_is_missing(element) for element in value]), field)


def _converted(value: Any, field: str) -> Array:
    if hasattr(value, "detach"):  # a tensor of torch, which may be part of a computation
        value = value.detach()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value  # which numpy does not have
    if isinstance(value, list | tuple) and value and all(hasattr(element, "detach") for element in value):
        value = [_converted(element, field) for element in value]
        if (
            len({element.shape for element in value}) > 1 or value[0].ndim > 1
        ):  # batches, of which the last may be shorter
            raise WrongShape.at(f"/{field}", f"must be one tensor; pass torch.cat({field}), if these are batches")
    if (
        isinstance(value, list | tuple)
        and len({np.shape(element) for element in value if hasattr(element, "shape")}) > 1
    ):
        raise WrongShape.at(f"/{field}", "must be one array, and this has arrays of several shapes; pass one of them")
    try:
        array = np.asarray(value)
        return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    except (TypeError, RuntimeError) as error:  # a tensor on a GPU
        raise UnusableRows(f"{field}: numpy cannot convert it; pass float64 or float32 values on the CPU") from error
    except ValueError as error:  # rows of different lengths
        raise WrongShape.at(f"/{field}", "must have rows of the same length") from error


def _columns_of(value: Any, field: str, columns: Iterable[Any] | None) -> Array:
    """Convert a frame to an array, column by column if its library would return an array of objects."""
    array: Array = np.asarray(value.to_numpy())
    if array.dtype.kind == "O" and columns is not None:
        return np.column_stack([np.asarray(column.to_numpy()) for column in columns])
    return _stacked(array, field) if array.dtype.kind == "O" and array.ndim == 1 else array


def _stacked(array: Array, field: str) -> Array:
    """Return a column of vectors as a matrix (n, K); other columns as they are."""
    if not len(array) or not all(isinstance(vector, list | tuple | np.ndarray) for vector in array):
        return array
    if len({len(vector) for vector in array}) > 1:
        raise WrongShape.at(f"/{field}", "must have rows of the same length")
    return np.stack([np.asarray(vector) for vector in array])


def _missing(array: Array) -> Array:
    """Return which objects are missing."""
    missing = [_is_missing(element) for element in array.ravel()]
    return np.reshape(np.array(missing, dtype=np.bool_), array.shape)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | Decimal) and value != value


def with_gaps(value: Any) -> Array:
    """Convert a column in which values may be missing; they become NaN, NaT, or "" among objects."""
    array = np.asarray(value.to_numpy() if is_frame_or_series(value) else value)
    if array.dtype.kind != "O":
        return array
    return np.where(_missing(array), "", array)


#: What times are; dates without a time zone are in UTC.
Times = Literal["numbers", "dates without a time zone", "dates with a time zone", "dates with and without a time zone"]

#: What dates as text are if some have a time zone.
_OF_ZONES: Mapping[frozenset[bool], Times] = {
    frozenset({True}): "dates with a time zone",
    frozenset({True, False}): "dates with and without a time zone",
}


def times_of(value: Any, field: str, *, gaps: bool = False) -> tuple[npt.NDArray[np.float64], Times]:
    """Convert times to numbers, dates to seconds since 1970, and say what they are.

    Times are numbers, dates, or either as text (ISO 8601). With ``gaps``, missing times become NaN. Raises
    ``NotANumber`` for anything else.
    """
    dates: Any = getattr(value, "dt", None)
    zone = getattr(dates, "tz", None) or getattr(getattr(value, "dtype", None), "time_zone", None)
    of_dates: Times = "dates without a time zone" if zone is None else "dates with a time zone"
    if getattr(dates, "tz", None) is not None:  # pandas would return an array of objects
        value = dates.tz_convert("UTC").dt.tz_localize(None)
    array = with_gaps(value) if gaps else array_of(value, field)
    if array.dtype.kind == "M":
        seconds = (array.astype("datetime64[us]") - np.datetime64(0, "us")) / np.timedelta64(1, "s")
        return np.asarray(seconds, np.float64), of_dates
    if array.dtype.kind in "fiu":
        return array.astype(np.float64), "numbers"
    texts = [str(element).strip() for element in array.ravel()]
    known = [text for text in texts if text or not gaps]
    kind: Times
    try:
        try:
            numbers, kind = [float(text) for text in known], "numbers"
        except ValueError:
            read = [datetime.fromisoformat(text.removesuffix(" UTC")) for text in known]
            numbers = [(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in read]
            zoned = {time.tzinfo is not None or text.endswith("UTC") for time, text in zip(read, known, strict=True)}
            kind = _OF_ZONES.get(frozenset(zoned), of_dates)
    except ValueError:
        raise NotANumber.at(f"/{field}", "must be numbers or dates in ISO 8601") from None
    parsed = np.full(len(texts), np.nan)
    parsed[[bool(text) or not gaps for text in texts]] = numbers
    return parsed.reshape(array.shape), kind


def made_and_known(moments: Any, known: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], bool]:
    """Return when forecasts were made and outcomes known, NaN if not yet, and whether both are dates, in seconds.

    Raises ``NotANumber`` if one is numbers and the other dates, or if only some have a time zone.
    """
    times, kind = times_of(moments, "made")
    until, other = times_of(known, "known", gaps=True)
    for field, of_field in (("made", kind), ("known", other)):
        if of_field == "dates with and without a time zone":
            raise NotANumber.at(f"/{field}", "must all have a time zone, or none")
    if kind != other and not np.isnan(until).all():
        raise NotANumber.at("/known", f"must be {kind}, like made")
    return times, until, kind != "numbers"


def texts_of_times(times: Any) -> list[str]:
    """Return the times of a fan chart as text; those of numpy in nanoseconds would become integers."""
    array = np.atleast_1d(np.asarray(times))
    return [str(time) for time in (array.astype("datetime64[us]") if array.dtype.kind == "M" else array).tolist()]


def days_of(value: Any) -> Any:
    """Convert a length of time of the standard library, pandas or numpy to days; other values are unchanged."""
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    return float(value / np.timedelta64(1, "D")) if isinstance(value, np.timedelta64) else value


def kind_of(array: Array) -> str:
    """Name the type of an array that does not hold numbers."""
    kinds = {"O": "objects", "U": "text", "T": "text", "S": "bytes", "M": "dates", "m": "durations", "c": "complex"}
    return kinds.get(array.dtype.kind, str(array.dtype))


def check_aligned(arguments: Mapping[str, Any]) -> None:
    """Raise ``UnusableRows`` if pandas objects have different indexes, so that their rows do not match."""
    indexed = [(field, value.index) for field, value in arguments.items() if frame_type(value)[0] == "pandas"]
    for field, index in indexed[1:]:
        first, other = indexed[0]
        if len(index) == len(other) and not index.equals(other):
            raise UnusableRows(f"{first} and {field} have different indexes; align them, or pass .to_numpy() of both")


def is_frame(value: Any) -> bool:
    """Return whether this is a DataFrame of pandas or polars."""
    return frame_type(value)[1] == "DataFrame"


def is_frame_or_series(value: Any) -> bool:
    """Return whether this is a DataFrame or a Series of pandas or polars."""
    return frame_type(value)[1] in ("Series", "DataFrame")


def like(original: Any, values: Array, columns: Sequence[str] | None, *, name: str | None = "calibrated") -> Any:
    """Return values as a Series or frame of the library of ``original``, with its index and columns; else as they are.

    ``columns`` are the names of the columns in the order of the values, and ``name`` is that of a Series of a frame.
    """
    name_of_library, kind = frame_type(original)
    if kind not in ("Series", "DataFrame"):
        return values
    library = import_module(name_of_library)
    indexed = {"index": original.index} if name_of_library == "pandas" else {}
    if values.ndim == 1:
        name = original.name if kind == "Series" else name
        return library.Series(name=name, **({"data": values} | indexed if indexed else {"values": values}))
    if kind == "Series":  # a column of vectors
        return values
    named = dict(zip(text_names(original.columns), original.columns, strict=True))
    names = list(original.columns) if columns is None else [named[name] for name in columns]
    if indexed:
        return library.DataFrame(values, columns=names, **indexed)
    return library.DataFrame(values, schema=names)


#: The end of the name of a class that is a whole number and a float.
_WHOLE_FLOAT = re.compile(r"(?<![0-9.])([0-9]+)\.0$")


def with_integer(name: str) -> str:
    """Return ``prob_1`` for ``prob_1.0``, as a column is called if the classes are floats; others as they are."""
    return _WHOLE_FLOAT.sub(r"\1", name)


def text_names(columns: Iterable[Any]) -> list[str]:
    """Return the names of columns or classes as strings, without the decimal places of classes that are whole floats.

    >>> text_names([1.0, 0.0]), text_names(["p_1.0", "p_0.0", "row"]), text_names(["model 2.0", "label"])
    (['1', '0'], ['p_1', 'p_0', 'row'], ['model 2.0', 'label'])
    """
    names = [str(name) for name in columns]
    whole = [with_integer(name) for name in names]
    return whole if sum(map(ne, names, whole)) > 1 and len(set(whole)) == len(set(names)) else names


def frame_type(value: Any) -> tuple[str, str]:
    """Return the library and the kind of a Series or frame, such as ``("polars", "LazyFrame")``; empty for others.

    The names of its classes decide: while another thread imports a library, its module lacks the classes themselves.
    """
    for ancestor in type(value).__mro__:
        library = str(ancestor.__module__).partition(".")[0]
        if library in ("pandas", "polars") and ancestor.__name__ in ("Series", "DataFrame", "LazyFrame"):
            return library, ancestor.__name__
    return "", ""


def refuse_missing(missing: Array, field: str) -> None:
    """Raise ``UnusableRows`` with the number of missing values and the first row, counted from 0."""
    rows = np.flatnonzero(missing.any(axis=tuple(range(1, missing.ndim))))
    if len(rows):
        count = int(np.count_nonzero(missing))
        are = "1 value is" if count == 1 else f"{count} values are"
        raise UnusableRows(f"{field}: {are} missing, first in row {rows[0]} (counted from 0); {FILL_IN}")


# --- Equality


class Compared:
    """Base class of data classes with arrays: objects are equal if all of their fields are.

    The data class itself has ``eq=False``, since the tuples of fields that Python compares raise an error for arrays.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(cast(Any, self)))

    __hash__ = None  # type: ignore[assignment]


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(value, other, equal_nan=value.dtype.kind == "f")
    return bool(value == other)


# --- Groups

#: In the name of a cluster, of which a part is missing.
_NO_CLUSTER = "\0"


class GroupNames(list[str]):
    """The name of each row's group.

    ``order`` has the distinct names in the order of categories, if there are any, and ``numbered`` is the result of
    ``numbered_names`` if the names are those of integers.
    """

    order: Sequence[str] | None = None
    numbered: tuple[list[str], npt.NDArray[np.int64]] | None = None

    def ordered(self, order: Sequence[str] | None) -> Self:
        """Set the order, and return the names."""
        self.order = order
        return self


@dataclass(frozen=True, eq=False)
class NumberedNames(Sequence[str]):
    """The name of each row's cluster as ``numbered``, the result of ``numbered_names``: there is no text for each."""

    numbered: tuple[list[str], npt.NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.numbered[1])

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        distinct, numbers = self.numbered
        return [distinct[k] for k in numbers[row].tolist()] if isinstance(row, slice) else distinct[numbers[row]]

    def __iter__(self) -> Iterator[str]:
        return map(self.numbered[0].__getitem__, self.numbered[1].tolist())


def group_names(groups: Any, missing: str = NO_GROUP) -> GroupNames:
    """Return the name of each row's group: strings, numbers, categories, or several columns, joined by commas.

    Several columns are a frame, a mapping, a sequence of arrays or Series, or rows that are tuples or lists.
    """
    if isinstance(groups, str | bytes):
        raise WrongShape.at("/groups", 'must be an array of group names; of a frame, pass frame["name"]')
    columns = _columns_of_groups(groups)
    if columns is None:
        return _named(groups, missing)
    if not columns:
        raise WrongShape.at("/groups", "must have at least one column")
    named = [_named(column, missing) for column in columns]
    if len({len(column) for column in named}) > 1:
        raise LengthMismatch.at("/groups", "must have columns of the same length")
    ranks = [{name: k for k, name in enumerate(distinct_names(column))} for column in named]
    rows = list(zip(*named, strict=True))
    order = sorted(set(rows), key=lambda row: [rank[part] for rank, part in zip(ranks, row, strict=True)])
    return GroupNames(map(joined, rows)).ordered(list(dict.fromkeys(map(joined, order))))


def cluster_names(clusters: Any) -> GroupNames | NumberedNames:
    """Return the name of each row's cluster, as ``group_names`` does; that of rows without one is empty."""
    if _are_integers(clusters) and getattr(clusters, "ndim", 0) == 1:
        return NumberedNames(_numbered(np.asarray(clusters)))
    try:
        names = group_names(clusters, _NO_CLUSTER)
    except (LengthMismatch, WrongShape) as error:
        detail = error.offences[0].detail.replace("group names", "clusters")
        raise type(error).at("/clusters", detail) from None
    if not any(_NO_CLUSTER in name for name in set(names)):
        return names
    return GroupNames("" if _NO_CLUSTER in name else name for name in names)


def _columns_of_groups(groups: Any) -> list[Any] | None:
    """Return the columns of groups; None if they are a single one."""
    if is_frame(groups):
        if hasattr(groups, "iloc"):  # columns of pandas may have the same name
            return [groups.iloc[:, k] for k in range(groups.shape[1])]
        return [groups[name] for name in groups.columns]
    if isinstance(groups, Mapping):
        return list(groups.values())
    if isinstance(groups, list | tuple) and groups and all(map(_is_column, groups)):
        if len(groups) > 1 and {len(column) for column in groups} == {len(groups)}:
            raise WrongShape.at("/groups", "may be columns or rows; pass a mapping of columns, or rows as tuples")
        return list(groups)
    kind = getattr(groups, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind not in "OV" and getattr(groups, "ndim", 0) == 1:
        return None
    values = groups if isinstance(groups, list | tuple) else _listed(groups)
    if not values or not (isinstance(values[0], list | tuple) or _is_column(values[0])):
        return None
    return [list(column) for column in zip(*values, strict=True)]


def _is_column(value: Any) -> bool:
    """Return whether this is an array or a Series, not a list, a string or a number."""
    is_array = hasattr(value, "dtype") or hasattr(value, "to_pylist")
    return is_array and hasattr(value, "__len__") and getattr(value, "ndim", 1) == 1


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return distinct names in the order of their categories, or else numbers by value and others as text.

    >>> distinct_names(["10", "9", "9", "11"])
    ['9', '10', '11']
    """
    distinct, order = set(names), getattr(names, "order", None)
    return _in_order(distinct) if order is None else [name for name in order if name in distinct]


def _in_order(names: set[str]) -> list[str]:
    """Sort names as text, but those whose first, second, ... parts are all numbers by these; missing ones are first."""
    split = {name: name.split(_JOINT) for name in sorted(names)}
    if len(set(map(len, split.values()))) > 1:
        return list(split)
    numbers = {name: list(map(_number, parts)) for name, parts in split.items()}
    numeric = [None not in column for column in zip(*numbers.values(), strict=True)]
    if not any(numeric):
        return list(split)

    def key(name: str) -> list[Any]:
        return [numbers[name][k] if numeric[k] else part for k, part in enumerate(split[name])]

    return sorted(split, key=key)


def _number(part: str) -> float | None:
    """Return the number of a name, or of an end of an interval such as ``(0.5, 1.0]``; None if it is none."""
    try:
        number = -math.inf if part in (NO_GROUP, "") else float(part.strip("([])"))
    except ValueError:
        return None
    return None if math.isnan(number) else number


def numbered_names(names: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the distinct names in order, and the number of each row's, as ``numpy.unique`` would. O(n).

    An array of strings has the width of the longest: with one of 256 characters, a million rows take a gigabyte.
    """
    known = getattr(names, "numbered", None)
    if known is not None:
        return known[0], known[1]
    distinct = sorted(set(names))
    number = {name: i for i, name in enumerate(distinct)}
    return distinct, np.fromiter(map(number.__getitem__, names), np.int64, len(names))


def joined(parts: Iterable[str]) -> str:
    """Return the name of a group that is a combination of values."""
    return _JOINT.join(parts)


def _listed(values: Any) -> list[Any]:
    for convert in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, convert):
            listed: Any = getattr(values, convert)()
            if isinstance(listed, list):
                return listed
    try:
        return list(values)
    except TypeError as error:
        raise WrongShape.at("/groups", "must be an array of group names") from error


def _named(column: Any, missing: str) -> GroupNames:
    """Return the names of one column, in the order of its categories."""
    if _are_integers(column):
        return _of_integers(np.asarray(column))
    values = column if isinstance(column, list | tuple) else _listed(column)
    types = set(map(type, values))
    if types == {str}:
        group_names = GroupNames(values)
    elif types == {int}:
        texts = {value: str(value) for value in set(values)}
        group_names = GroupNames(map(texts.__getitem__, values))
    else:
        group_names = GroupNames(_name(value, missing) for value in values)
    categories: Any = getattr(getattr(column, "dtype", None), "categories", None)
    if not hasattr(categories, "to_list"):  # of no categories, or of an unordered column of polars
        return group_names
    return group_names.ordered([missing, *(_name(category, missing) for category in categories)])


def _are_integers(column: Any) -> bool:
    """Return whether a column has rows, and all of them are integers of numpy."""
    kind = getattr(column, "dtype", None)
    return isinstance(kind, np.dtype) and kind.kind in "iu" and len(column) > 0


def _of_integers(values: npt.NDArray[Any]) -> GroupNames:
    """Return the names of integers ``(n,)``, of which equal ones share a text."""
    numbered = _numbered(values)
    names = GroupNames(np.array(numbered[0], dtype=object)[numbered[1]].tolist())
    names.numbered = numbered
    return names


def _numbered(values: npt.NDArray[Any]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return ``numbered_names`` of integers ``(n,)``. O(n), or O(n log n) if they are far apart."""
    low, high = int(values.min()), int(values.max())
    if high - low <= 2 * len(values) and high < 2**63:
        places = values.astype(np.int64)
        places -= low
        distinct = np.flatnonzero(np.bincount(places))
        numbers = (distinct + low).tolist()
    else:
        unique, places = np.unique(values, return_inverse=True)
        distinct, numbers = np.arange(len(unique)), unique.tolist()
    texts = np.array(list(map(str, numbers)), dtype=object)
    order = np.argsort(texts)
    number = np.empty(int(distinct[-1]) + 1, np.int64)
    number[distinct[order]] = np.arange(len(order))
    return texts[order].tolist(), number[places]


def _name(value: Any, missing: str) -> str:
    if _is_missing(value):
        return missing
    if isinstance(value, float) and value.is_integer():  # integers beside a missing value
        return str(int(value))
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def levels_of(quantiles: Any, levels: Any = None) -> Any:
    """Return the levels of quantiles: as passed, or those in the names of a frame's columns.

    Such names are 0.05, "0.05", "q0.05" or "quantile_0.05". Raises ``InvalidOption`` if levels are missing, or are not
    those in the names, which may be rounded to two decimals.
    """
    named = _levels_in_names(quantiles)
    if levels is None:
        if named is None:
            raise InvalidOption.at("/levels", "is missing; pass the level of each column of quantiles, in (0, 1)")
        return named
    passed = array_of(levels, "levels")
    if named is not None and passed.dtype.kind in "fiu" and passed.shape == (len(named),):
        differ = np.flatnonzero(np.abs(passed - named) > _ROUNDED)
        if len(differ):
            hint = "leave out levels, or rename the columns"
            raise InvalidOption.at(f"/levels/{differ[0]}", f"is not the level in the name of its column; {hint}")
    return levels


def _levels_in_names(quantiles: Any) -> list[float] | None:
    names = [str(name) for name in getattr(quantiles, "columns", ())]
    try:
        levels = [float(name[prefix.end() :] if (prefix := _QUANTILE.match(name)) else name) for name in names]
    except ValueError:
        return None
    return levels if levels and all(0.0 < level < 1.0 for level in levels) else None
