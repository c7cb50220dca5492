"""Arrays from the callers' types, and back: numpy and lists, Series and DataFrames of pandas and polars, Arrow.

Neither pandas nor polars is imported: who hands over a frame has imported its library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.client.errors import UnusableRows
from calibrant.client.packing import Array

#: Anything that holds numbers or names: what numpy takes, or a Series or DataFrame.
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
    """The numbers of what was given for ``field``, in the type that they have; (n, K) of a frame of K columns.

    Raises ``UnusableRows`` where one is missing, or no number.
    """
    array = _array_of(value, field)
    if array.dtype.kind not in "biuf":
        raise UnusableRows(f"{field}: must hold numbers, not {_kind(array)}")
    return array.astype(np.float64) if array.dtype == np.longdouble else array


def labels_of(value: Any) -> Array:
    """Labels as they travel: booleans as 0 and 1, integers in the fewest bytes that hold them."""
    array = _array_of(value, "labels")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind not in "iuf":
        raise UnusableRows(f"labels: must be integers, 0/1 or 0..K-1, not {_kind(array)}; map them first")
    if array.dtype.kind == "f" or not array.size:
        return array
    return array.astype(np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))


def names_of(value: Any, field: str = "groups") -> Array:
    """The name of each row's group, as text."""
    array = _array_of(value, field)
    if not array.size:  # of what is empty nobody can say the type
        return array.astype(np.str_)
    if array.dtype.kind == "O" and all(isinstance(name, str) for name in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "UT":
        raise UnusableRows(f"{field}: must hold names as text, not {_kind(array)}")
    return array.astype(np.str_)


def groups_of(value: Any) -> Array:
    """The name of each row's group, as text; "" where it is missing, of a row without group."""
    frames = [each for name in ("pandas", "polars") if (each := sys.modules.get(name)) is not None]
    if any(isinstance(value, _kinds_of(library)) for library in frames):
        value = value.to_list()
    elif hasattr(value, "to_pylist"):
        value = value.to_pylist()
    # numpy would make text of NaN, as pandas has a name that is missing.
    array = np.asarray(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
    if array.dtype.kind == "O":
        missing = np.frompyfunc(lambda name: name is None or name != name, 1, 1)(array).astype(np.bool_)
        array = np.where(missing, "", array)
    return names_of(array)


def ids_of(value: Any) -> Array:
    """The id of each row: text, or integers as they are."""
    array = _array_of(value, "ids")
    return array if array.dtype.kind in "iu" else names_of(array, "ids")


def times_of(value: Any) -> Array:
    """Times as seconds since 1970, of such numbers or of dates; dates without a zone are UTC."""
    dates = getattr(value, "dt", None)
    if dates is not None and getattr(dates, "tz", None) is not None:  # pandas would make objects of them
        value = dates.tz_convert("UTC").dt.tz_localize(None)
    array = _array_of(value, "timestamps")
    if array.dtype.kind != "M":
        return numbers_of(array, "timestamps")
    _refuse_missing(np.isnat(array), "timestamps")
    seconds: Array = (array - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    return seconds


def check_aligned(given: Mapping[str, Any]) -> None:
    """Raise ``UnusableRows`` where two of pandas' have different indexes: their rows are not the same rows."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    indexed = [(field, each.index) for field, each in given.items() if isinstance(each, _kinds_of(pandas))]
    for field, index in indexed[1:]:
        first, other = indexed[0]
        if len(index) == len(other) and not index.equals(other):
            raise UnusableRows(f"{field}: has another index than {first}; align them, or give .to_numpy() of both")


def given_back(given: Any, values: npt.NDArray[np.float64]) -> Any:
    """The values in the form in which the predictions came: with their index, name and columns, where they had such."""
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
    """The array of anything, whole: raises ``UnusableRows`` where a value is missing."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(value, _kinds_of(pandas)):
        _refuse_missing(value.isna().to_numpy(), field)
        return _columns_of(value, (value.iloc[:, k] for k in range(value.shape[1])) if value.ndim == 2 else None)
    if polars is not None and isinstance(value, polars.LazyFrame):
        raise UnusableRows(f"{field}: is a query that has not run; collect() it first")
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
    for column in columns if isinstance(columns, list) else [value]:  # Arrow's tables and arrays count their nulls
        if isinstance(count := getattr(column, "null_count", 0), int) and count:
            raise UnusableRows(f"{field}: {_values_are(count)} missing")
    array = np.asarray(value)
    if array.dtype.kind == "O":
        _refuse_missing(np.frompyfunc(lambda each: each is None, 1, 1)(array).astype(np.bool_), field)
    return array


def _columns_of(value: Any, columns: Iterable[Any] | None) -> Array:
    """The array of a frame; column by column where its library makes objects of columns of different types."""
    array: Array = np.asarray(value.to_numpy())
    if array.dtype.kind == "O" and columns is not None:
        return np.column_stack([np.asarray(column.to_numpy()) for column in columns])
    return array


def _refuse_missing(missing: Array, field: str) -> None:
    """Raise ``UnusableRows`` that counts what is missing and names the first row, from 0."""
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1)) if missing.ndim else np.flatnonzero(missing)
    if len(rows):
        count = int(np.count_nonzero(missing))
        raise UnusableRows(f"{field}: {_values_are(count)} missing, the first in row {rows[0]}, counted from 0")


def _values_are(count: int) -> str:
    return "1 value is" if count == 1 else f"{count} values are"


def _kind(array: Array) -> str:
    kinds = {"O": "objects", "U": "text", "T": "text", "S": "bytes", "M": "dates", "m": "durations", "c": "complex"}
    return kinds.get(array.dtype.kind, str(array.dtype))


def _kinds_of(library: Any) -> Any:
    return library.Series, library.DataFrame


# --- The rows of a call


class Rows(TypedDict, total=False):
    """Rows by keyword: ``predictions`` (n,) or (n, K), integer or boolean ``labels`` (n,), ``weights`` (n,).

    ``groups`` are a name per row; ``scale`` is ``probability`` or ``logit``; ``weights_kind`` is ``frequency`` or
    ``importance``. Each array may be numpy's, a list, or a Series or DataFrame of pandas or polars, whose columns are
    the classes in order.
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
    """The arrays and the options of rows; raises ``UnusableRows`` for those that cannot be sent."""
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
