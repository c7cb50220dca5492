"""The names of groups: strings of bounded length, as an array of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import CalibrationError, InvalidOption, NotANumber
from calibrant.evaluation import MAX_NAME
from service.formats.limits import Limits
from service.formats.payload import Array

#: numpy gives every character of text so many bytes, and every name the width of the longest.
_CHARACTER_BYTES = 4


def read_names(values: Sequence[object], limits: Limits, first: int = 0) -> Array:
    """Turn one name a row into an array of text; ``first`` is the place of the first row.

    Raises ``NotANumber`` for anything but a string, ``InvalidOption`` for a name that is too long or holds a NUL,
    which numpy drops at an end, and ``TooLarge`` where the longest name makes all of them too wide.
    """
    are_text = set(map(type, values)) <= {str}
    if are_text and max(map(len, values), default=0) <= MAX_NAME and "\0" not in "".join(values):  # type: ignore[arg-type]
        return _text(values, len(values), limits)
    for i, name in enumerate(values, first):
        if (refusal := _refusal(name, i)) is not None:
            raise refusal
    return _text(values, len(values), limits)


def read_coded_names(values: Sequence[object], codes: npt.NDArray[Any], limits: Limits) -> Array:
    """Turn a code a row, the place of its name among ``values``, into an array of text; raises as ``read_names``."""
    for code, name in enumerate(values):
        if _refusal(name, 0) is not None:
            rows = np.flatnonzero(codes == code)
            refusal = _refusal(name, int(rows[0]) if len(rows) else 0)
            if refusal is not None:
                raise refusal
    names: Array = _text(values, len(codes), limits)[codes]
    return names


def _refusal(name: object, row: int) -> CalibrationError | None:
    if not isinstance(name, str):
        return NotANumber.at(f"/groups/{row}", "must be a string")
    if len(name) > MAX_NAME or "\0" in name:
        return InvalidOption.at(f"/groups/{row}", f"must have at most {MAX_NAME} characters, none of them NUL")
    return None


def _text(values: Sequence[Any], n: int, limits: Limits) -> Array:
    """The names as numpy's text, where ``n`` of them are not too many."""
    limits.check_bytes(n * max(map(len, values), default=0) * _CHARACTER_BYTES)
    return np.array(values, dtype=np.str_)
