"""Arrays of numpy as columns: finite numbers, or texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tabular.errors import Field, MissingValue, NotANumber, NotFinite, NotLabels, WrongShape
from tabular.sheet import Floats
from tabular.table import Coded
from tabular.texts import Coding
from tabular.told import quoted, row_of

Array = npt.NDArray[Any]
#: Rows of text that are worked on at once.
_BLOCK = 1 << 16


def numbers_of(array: Array, name: str, field: Field) -> Floats:
    """An array as float64; raises the error of what it holds else, or of its first number that is not finite."""
    if array.dtype.kind not in "fiu":
        raise NotANumber(f"{quoted(name)} holds {_kind(array)}, not numbers", field=field)
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim not in ((1, 2) if field == "predictions" else (1,)) or not flat.size:
        raise WrongShape(f"{quoted(name)} has the shape {array.shape}: a number a row is needed", field=field)
    found = np.ascontiguousarray(flat, dtype=np.float64)
    finite = np.isfinite(found)
    if not finite.all():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), found.shape))
        where = f"{row_of(place[0])} of {quoted(name)}"
        if np.isnan(found[place]):
            raise MissingValue(f"{where} is NaN, which is no value: fill it in or leave the row out", field=field)
        raise NotFinite(f"{where} is infinite: every number must be finite", field=field)
    return found


def texts_of(array: Array, name: str, field: Field) -> Coded:
    """An array of labels or names as texts: integers as they are written, booleans as False and True."""
    if array.dtype.kind not in "fiubU":
        raise NotLabels(f"{quoted(name)} holds {_kind(array)}: numbers or texts are needed", field=field)
    flat = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.ndim != 1:
        hint = ": of one-hot rows take the argmax" if flat.ndim == 2 else ""
        raise NotLabels(
            f"{quoted(name)} has {flat.ndim} dimensions where one {field[:-1]} a row is needed{hint}", field=field
        )
    coding = Coding(name, field)
    if flat.dtype.kind == "U":
        for start in range(0, len(flat), _BLOCK):
            coding.add(flat[start : start + _BLOCK].tolist())
    else:
        values, codes = np.unique(flat, return_inverse=True)
        coding.add_coded([str(value) for value in values.tolist()], codes)
    return coding.done()


def plain_texts(array: Array, name: str) -> list[str]:
    """The values of an array as texts; raises ``WrongShape`` where there is not one a row."""
    if array.ndim != 1 or array.dtype.kind not in "fiuU":
        raise WrongShape(f"{quoted(name)} holds {_kind(array)} of the shape {array.shape}: one text or number a row")
    return [str(value) for value in array.tolist()]


def stacked(columns: Sequence[Floats]) -> Floats:
    """One column as it is, several as a column a class; raises ``WrongShape`` for those that do not fit."""
    if len(columns) == 1:
        return columns[0]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim > 1:
        raise WrongShape("the predictions of several classes need a number a row each", field="predictions")
    return np.column_stack(columns)


def _kind(array: Array) -> str:
    kinds = {
        "O": "Python objects, which are never opened",
        "b": "booleans",
        "U": "texts",
        "S": "bytes",
        "c": "complex numbers",
    }
    return kinds.get(array.dtype.kind, "values of another kind")
