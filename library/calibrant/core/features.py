"""Features of rows: named columns of numbers or of categories, by which a map or a measure tells segments apart."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibrant.core.arrays import frame_type, is_frame
from calibrant.core.cells import Floats
from calibrant.core.errors import (
    EmptyBatch,
    InvalidOption,
    LengthMismatch,
    NotANumber,
    WrongShape,
    token,
)
from calibrant.core.results import n_rows

#: The most features of a row, the most categories of a feature, and the most characters of a name or category.
MAX_FEATURES, MAX_CATEGORIES, MAX_LENGTH = 200, 20_000, 256
#: A number as JSON writes it, without leading zeros, so that codes such as 01234 are not numbers.
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,307})(?:\.[0-9]{1,308})?(?:[eE][+-]?[0-9]{1,3})?")
#: The columns of a table of Arrow and of a structured array have these attributes.
_TABLE = ("column_names", "to_pydict")
_OF_NUMBERS = "must be numbers, texts, booleans or categories"


@dataclass(frozen=True)
class Feature:
    """A column: its ``numbers (n,)``, NaN if missing; or ``codes (n,)`` of ``categories``, -1 if missing."""

    name: str
    numbers: Floats | None = None
    codes: npt.NDArray[np.int32] | None = None
    categories: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["numeric", "categorical"]:
        """Whether the values are numbers or categories."""
        return "numeric" if self.codes is None else "categorical"

    @property
    def _values(self) -> npt.NDArray[Any]:
        values = self.numbers if self.codes is None else self.codes
        if values is None:
            raise TypeError("a feature needs numbers or codes")
        return values

    def __len__(self) -> int:
        return len(self._values)

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which rows have no value."""
        values = self._values
        return np.isnan(values) if self.codes is None else values < 0

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value, or none has one."""
        values = self._values
        first = values[:1]
        return bool(((values == first) | (np.isnan(values) & np.isnan(first))).all())

    def rows(self, chosen: npt.NDArray[Any]) -> Feature:
        """Return the feature of the chosen rows: a boolean mask of shape (n,), or row numbers."""
        if self.codes is None:
            return replace(self, numbers=self._values[chosen])
        return replace(self, codes=self.codes[chosen])

    def texts(self) -> npt.NDArray[np.object_]:
        """Return the values as texts, "" if missing; numbers have the fewest digits that give them back."""
        if self.codes is not None:
            return np.array([*self.categories, ""], dtype=np.object_)[self.codes]
        distinct, places = np.unique(self._values, return_inverse=True)
        return np.array([text_of_number(value) for value in distinct.tolist()], dtype=np.object_)[places]

    def as_categories(self) -> Feature:
        """Return the feature with its numbers as categories."""
        return self if self.codes is not None else _of_texts(self.name, self.texts().tolist())


@dataclass(frozen=True)
class Features:
    """The features of n rows, in the order of the caller; their names differ."""

    columns: tuple[Feature, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(feature.name for feature in self.columns)

    @cached_property
    def by_name(self) -> Mapping[str, Feature]:
        """The features by name."""
        return {feature.name: feature for feature in self.columns}

    def rows(self, chosen: npt.NDArray[Any]) -> Features:
        """Return the features of the chosen rows."""
        return Features(tuple(feature.rows(chosen) for feature in self.columns))

    def stored(self) -> dict[str, npt.NDArray[Any]]:
        """Return a column for each feature, of numbers or of texts, from which ``read_features`` reads it again."""
        return {f.name: f._values if f.codes is None else f.texts() for f in self.columns}


def text_of_number(value: float) -> str:
    """Return a number as text, without the decimal point if it is whole; "" for NaN.

    >>> text_of_number(3.0), text_of_number(0.5), text_of_number(float("nan"))
    ('3', '0.5', '')
    """
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)


def is_longer_number(text: str) -> bool:
    """Return whether a text is a number as JSON writes it, but in another form than ``text_of_number``, such as 2.0.

    As a category such a text depends on whether it was read as a number.

    >>> is_longer_number("2.0"), is_longer_number("2"), is_longer_number("02")
    (True, False, False)
    """
    return JSON_NUMBER.fullmatch(text) is not None and text != text_of_number(float(text))


def read_features(features: Any, n: int | None = None) -> Features:
    """Read features of ``n`` rows: a frame, a mapping of names to columns, a structured array or a table of Arrow.

    Columns of integers and floats are numeric, those of texts, booleans and categories are categorical; None, NaN, NA
    and "" are missing. Raises ``WrongShape``, ``LengthMismatch``, ``EmptyBatch``, ``NotANumber`` with the first row of
    another type, or ``InvalidOption`` for names and too many categories. O(values).

    >>> frame = {"country": ["DE", "FR", None], "age": [31, None, 58]}
    >>> [(f.name, f.kind, f.categories, f.missing.tolist()) for f in read_features(frame)]
    [('country', 'categorical', ('DE', 'FR'), [False, False, True]), ('age', 'numeric', (), [False, True, False])]
    """
    columns = _columns(features)
    if not 0 < len(columns) <= MAX_FEATURES:
        raise InvalidOption.at("/features", f"must have from 1 to {MAX_FEATURES} columns")
    names = [str(name) for name, _ in columns]
    if len(set(names)) < len(names):
        raise InvalidOption.at("/features", "must have columns of different names")
    if not all(0 < len(name) <= MAX_LENGTH for name in names):
        raise InvalidOption.at("/features", f"must have names of 1 to {MAX_LENGTH} characters")
    if frame_type(features)[1] == "LazyFrame":
        raise WrongShape.at("/features", "is a lazy frame; call collect() first")
    read = Features(tuple(read_feature(name, column) for name, (_, column) in zip(names, columns, strict=True)))
    wanted = len(read) if n is None else n
    for feature in read:
        if len(feature) != wanted:
            pointer, other = f"/features/{token(feature.name)}", "predictions" if n is not None else "others"
            raise LengthMismatch.at(pointer, f"has {n_rows(len(feature))}, but {other} have {wanted:,}")
    if not wanted:
        raise EmptyBatch.at("/features", "has no rows")
    return read


def _columns(features: Any) -> list[tuple[Any, Any]]:
    """Return names and columns; raises ``WrongShape`` for anything else."""
    if isinstance(features, Mapping):
        return list(features.items())
    if is_frame(features):
        return [(name, features[name]) for name in features.columns]
    if all(hasattr(features, name) for name in _TABLE):
        return list(zip(features.column_names, features.columns, strict=True))
    if isinstance(features, np.ndarray) and features.dtype.names is not None:
        return [(name, features[name]) for name in features.dtype.names]
    if isinstance(features, Sequence) and features and all(isinstance(row, Mapping) for row in features):
        names = dict.fromkeys(name for row in features for name in row)
        return [(name, [row.get(name) for row in features]) for name in names]
    raise WrongShape.at("/features", "must be a frame, or a mapping of names to columns: {name: column}")


def read_feature(name: str, column: Any, *, escaped: bool = False) -> Feature:
    """Read a column, as ``read_features`` does; ``escaped`` names are parts of pointers already."""
    pointer = f"/features/{name if escaped else token(name)}"
    dtype = getattr(column, "dtype", None)
    categories = getattr(dtype, "categories", None)
    if categories is not None and hasattr(column, "cat") and hasattr(column.cat, "codes"):  # of pandas
        codes = np.asarray(column.cat.codes).astype(np.int32)
        texts = [_text(value) for value in categories.tolist()]
        return _of_texts(name, np.array([*texts, ""], dtype=np.object_)[codes].tolist())
    values = _array(column, pointer)
    if values.ndim != 1:
        raise WrongShape.at(pointer, "must be (n,)")
    if values.dtype.kind in "iuf":
        return Feature(name, _finite(values.astype(np.float64), pointer))
    if values.dtype.kind == "b":
        return Feature(name, codes=values.astype(np.int32), categories=("false", "true"))
    if values.dtype.kind in "UT":
        values = values.astype(np.object_)
    if values.dtype.kind != "O":
        raise NotANumber.at(pointer, _OF_NUMBERS)
    return _of_objects(name, values, pointer)


def _array(column: Any, pointer: str) -> npt.NDArray[Any]:
    """Return a column as an array, with missing values among objects or as NaN."""
    if frame_type(column)[0] == "pandas" and not isinstance(column.dtype, np.dtype):  # with its own missing values
        column = column.to_numpy(dtype=object) if column.isna().any() else column.to_numpy()
    elif isinstance(column, np.ma.MaskedArray):
        objects = column.data.astype(np.object_)
        objects[np.ma.getmaskarray(column)] = None
        column = objects
    elif hasattr(column, "to_pylist"):  # of Arrow
        column = column.to_pylist() if column.null_count else column.to_numpy()
    elif isinstance(column, list | tuple):
        values = np.empty(len(column), dtype=np.object_)
        values[:] = [None if isinstance(value, list | tuple | dict) else value for value in column]
        if any(isinstance(value, list | tuple | dict) for value in column):
            raise WrongShape.at(pointer, "must be (n,)")
        column = values
    elif isinstance(column, str | bytes) or not hasattr(column, "__len__"):
        raise WrongShape.at(pointer, "must be an array")
    return np.asarray(column)


def _of_objects(name: str, values: npt.NDArray[np.object_], pointer: str) -> Feature:
    """Read a column of objects: numbers or texts or booleans, beside missing values."""
    listed = values.tolist()
    types = set(map(type, listed))
    missing = {kind for kind in types if kind is type(None) or kind.__name__ in ("NAType", "NaTType")}
    kinds = types - missing
    if float in kinds and len(kinds) > 1 and all(v != v for v in listed if type(v) is float):
        missing |= {float}  # NaN beside texts
        kinds -= {float}
    numeric = all(issubclass(kind, int | float | np.integer | np.floating) and kind is not bool for kind in kinds)
    if numeric:
        try:
            numbers = [math.nan if type(value) in missing else float(value) for value in listed]
        except OverflowError:
            raise NotANumber.at(pointer, "has an integer that is too large for double precision") from None
        return Feature(name, _finite(np.array(numbers, dtype=np.float64), pointer))
    if kinds <= {str, np.str_} or kinds <= {bool, np.bool_}:
        if missing or kinds - {str}:
            listed = ["" if type(value) in missing else _text(value) for value in listed]
        return _of_texts(name, listed)
    first = next(i for i, value in enumerate(listed) if type(value) not in missing)
    like = type(listed[first])
    if like in (str, bool) or issubclass(like, int | float):
        first = next(i for i, value in enumerate(listed) if type(value) not in (*missing, like))
    raise NotANumber.at(f"{pointer}/{first}", f"{_OF_NUMBERS}, of one type in all rows")


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return text_of_number(value) if isinstance(value, float) else str(value)


def _of_texts(name: str, listed: list[str]) -> Feature:
    """Return the feature with these categories, "" if missing; raises ``InvalidOption``."""
    distinct = sorted(set(listed) - {""})
    pointer = f"/features/{token(name)}"
    if len(distinct) > MAX_CATEGORIES:
        text = (
            f"has {len(distinct):,} categories, more than {MAX_CATEGORIES:,}; leave out identifiers, or merge rare ones"
        )
        raise InvalidOption.at(pointer, text)
    if any(len(text) > MAX_LENGTH for text in distinct):
        row = next(i for i, text in enumerate(listed) if len(text) > MAX_LENGTH)
        raise InvalidOption.at(f"{pointer}/{row}", f"must have at most {MAX_LENGTH} characters")
    number = {text: code for code, text in enumerate(distinct)} | {"": -1}
    codes = np.fromiter(map(number.__getitem__, listed), dtype=np.int32, count=len(listed))
    return Feature(name, codes=codes, categories=tuple(distinct))


def _finite(numbers: Floats, pointer: str) -> Floats:
    """Check numbers, of which NaN is missing."""
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise NotANumber.at(f"{pointer}/{infinite[0]}", "must be finite")
    return numbers
