"""Conversion between arrays and the types of callers: numpy, lists, pandas, polars, Arrow.

pandas and polars are not imported: a caller that passes a frame has already imported its library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.client.errors import UnusableRows
from calibrant.client.packing import Array

#: Anything that numpy accepts, or a Series or DataFrame.
ArrayLike = npt.ArrayLike


class SeriesLike(Protocol):
    """A Series of pandas or polars."""

    def to_list(self) -> list[Any]: ...  # noqa: D102
    def to_numpy(self) -> Any: ...  # noqa: D102


class FrameLike(Protocol):
    """A DataFrame of pandas or polars."""

    @property
    def columns(self) -> Any: ...  # noqa: D102
    def to_numpy(self) -> Any: ...  # noqa: D102


Series = TypeVar("Series", bound=SeriesLike)


def numbers_of(value: Any, field: str) -> Array:
    """Convert to an array of numbers, keeping their type; a frame with K columns becomes (n, K).

    Raises ``UnusableRows`` for missing values and other types; ``field`` is for the message.
    """
    array = _array_of(value, field)
    if array.dtype.kind not in "biuf":
        raise UnusableRows(f"{field}: must hold numbers, not {_kind(array)}")
    return array.astype(np.float64) if array.dtype == np.longdouble else array


def labels_of(value: Any) -> Array:
    """Convert labels to an array: booleans to 0 and 1, integers to the smallest type that fits."""
    array = _array_of(value, "labels")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind not in "iuf":
        raise UnusableRows(f"labels: must be integers, 0/1 or 0..K-1, not {_kind(array)}; map them to integers first")
    if array.dtype.kind == "f" or not array.size:
        return array
    return array.astype(np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))


def names_of(value: Any, field: str = "groups") -> Array:
    """Convert names to an array of strings."""
    array = _array_of(value, field)
    if not array.size:  # the type of an empty array is arbitrary
        return array.astype(np.str_)
    if array.dtype.kind == "O" and all(isinstance(name, str) for name in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "UT":
        raise UnusableRows(f"{field}: must be strings, not {_kind(array)}")
    return array.astype(np.str_)


def groups_of(value: Any) -> Array:
    """Convert names of groups to an array of strings; a missing name becomes "", a row without a group."""
    frames = [each for name in ("pandas", "polars") if (each := sys.modules.get(name)) is not None]
    if any(isinstance(value, _kinds_of(library)) for library in frames):
        value = value.to_list()
    elif hasattr(value, "to_pylist"):
        value = value.to_pylist()
    # numpy would convert NaN, a missing name of pandas, to a string.
    array = np.asarray(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
    if array.dtype.kind == "O":
        missing = np.frompyfunc(lambda name: name is None or name != name, 1, 1)(array).astype(np.bool_)
        array = np.where(missing, "", array)
    return names_of(array)


def ids_of(value: Any) -> Array:
    """Convert ids to an array of strings or integers."""
    array = _array_of(value, "ids")
    return array if array.dtype.kind in "iu" else names_of(array, "ids")


def times_of(value: Any) -> Array:
    """Convert times to seconds since 1970; datetimes without a time zone are UTC."""
    dates = getattr(value, "dt", None)
    if dates is not None and getattr(dates, "tz", None) is not None:  # pandas would return an array of objects
        value = dates.tz_convert("UTC").dt.tz_localize(None)
    array = _array_of(value, "timestamps")
    if array.dtype.kind != "M":
        return numbers_of(array, "timestamps")
    _refuse_missing(np.isnat(array), "timestamps")
    seconds: Array = (array - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    return seconds


def check_aligned(given: Mapping[str, Any]) -> None:
    """Raise ``UnusableRows`` if pandas objects have different indexes, so that their rows do not match."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    indexed = [(field, each.index) for field, each in given.items() if isinstance(each, _kinds_of(pandas))]
    for field, index in indexed[1:]:
        first, other = indexed[0]
        if len(index) == len(other) and not index.equals(other):
            raise UnusableRows(f"{field}: has a different index than {first}; align them, or pass .to_numpy() of both")


def given_back(given: Any, values: npt.NDArray[np.float64]) -> Any:
    """Convert values to the type of the predictions, with the same index, name and columns."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(given, _kinds_of(pandas)):
        if values.ndim == 2:
            return pandas.DataFrame(values, index=given.index, columns=given.columns)
        return pandas.Series(values, index=given.index, name=getattr(given, "name", None) if given.ndim == 1 else None)
    if polars is not None and isinstance(given, _kinds_of(polars)):
        if values.ndim == 2:
            return polars.DataFrame(values, schema=given.columns, orient="row")
        return polars.Series(given.name if isinstance(given, polars.Series) else "", values)
    return values


def _array_of(value: Any, field: str) -> Array:
    """Convert to an array; raises ``UnusableRows`` for missing values."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(value, _kinds_of(pandas)):
        _refuse_missing(value.isna().to_numpy(), field)
        return _columns_of(value, (value.iloc[:, k] for k in range(value.shape[1])) if value.ndim == 2 else None)
    if polars is not None and isinstance(value, polars.LazyFrame):
        raise UnusableRows(f"{field}: is a lazy frame; call collect() first")
    if polars is not None and isinstance(value, _kinds_of(polars)):
        series = value.get_columns() if isinstance(value, polars.DataFrame) else [value]
        for each in series:
            if each.null_count():
                _refuse_missing(each.is_null().to_numpy(), field)
        return _columns_of(value, iter(series) if isinstance(value, polars.DataFrame) else None)
    if isinstance(value, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(value), field)
        return np.asarray(value.data)
    columns = getattr(value, "columns", None)
    for column in columns if isinstance(columns, list) else [value]:  # tables and arrays of Arrow
        if isinstance(count := getattr(column, "null_count", 0), int) and count:
            raise UnusableRows(f"{field}: {_values_are(count)} missing")
    array = np.asarray(value)
    if array.dtype.kind == "O":
        _refuse_missing(np.frompyfunc(lambda each: each is None, 1, 1)(array).astype(np.bool_), field)
    return array


def _columns_of(value: Any, columns: Iterable[Any] | None) -> Array:
    """Convert a frame to an array, column by column if its library would return an array of objects."""
    array: Array = np.asarray(value.to_numpy())
    if array.dtype.kind == "O" and columns is not None:
        return np.column_stack([np.asarray(column.to_numpy()) for column in columns])
    return array


def _refuse_missing(missing: Array, field: str) -> None:
    """Raise ``UnusableRows`` with the number of missing values and the first row, counted from 0."""
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1)) if missing.ndim else np.flatnonzero(missing)
    if len(rows):
        count = int(np.count_nonzero(missing))
        raise UnusableRows(f"{field}: {_values_are(count)} missing, first in row {rows[0]} (counted from 0)")


def _values_are(count: int) -> str:
    return "1 value is" if count == 1 else f"{count} values are"


def _kind(array: Array) -> str:
    kinds = {"O": "objects", "U": "text", "T": "text", "S": "bytes", "M": "dates", "m": "durations", "c": "complex"}
    return kinds.get(array.dtype.kind, str(array.dtype))


def _kinds_of(library: Any) -> Any:
    return library.Series, library.DataFrame


# --- The rows of a call


class Rows(TypedDict, total=False):
    """Rows as keyword arguments; arrays, lists, or Series and DataFrames of pandas or polars.

    Attributes
    ----------
    predictions : array_like
        (n,) for P(Y=1), or (n, K); the columns of a DataFrame are the classes in order.
    labels : array_like
        (n,), integers 0 to K - 1 or booleans.
    weights : array_like
        (n,), at least 0.
    groups : array_like of str
        One name per row.
    scale : {"probability", "logit"}
        Scale of the predictions.
    weights_kind : {"frequency", "importance"}
        Kind of weights.
    """

    predictions: ArrayLike
    labels: ArrayLike | None
    weights: ArrayLike | None
    groups: ArrayLike | None
    scale: str | None
    weights_kind: str | None


_ARRAYS = ("predictions", "labels", "weights", "groups")
_OPTIONS = ("scale", "weights_kind")


def split_rows(rows: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Split rows into arrays and options; raises ``UnusableRows`` for invalid rows."""
    unknown = sorted(set(rows) - {*_ARRAYS, *_OPTIONS})
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    given = {name: rows[name] for name in _ARRAYS if rows.get(name) is not None}
    check_aligned(given)
    return {name: _array(name, value) for name, value in given.items()}, {name: rows.get(name) for name in _OPTIONS}


def _array(name: str, value: Any) -> Array:
    if name == "labels":
        return labels_of(value)
    return names_of(value) if name == "groups" else numbers_of(value, name)
