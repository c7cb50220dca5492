"""The names of groups: strings of bounded length, as an array of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.errors import InvalidOption, NotANumber
from calibrant.evaluation import MAX_NAME
from service.formats.limits import Limits
from service.formats.payload import Array

#: numpy gives every character of text so many bytes, and every name the width of the longest.
_CHARACTER_BYTES = 4


def read_names(values: Sequence[object], limits: Limits) -> Array:
    """Turn one name a row into an array of text.

    Raises ``NotANumber`` for anything but a string, ``InvalidOption`` for a name that is too long or holds a NUL,
    which numpy drops at an end, and ``TooLarge`` where the longest name makes all of them too wide.
    """
    for i, name in enumerate(values):
        if not isinstance(name, str):
            raise NotANumber.at(f"/groups/{i}", "must be a string")
        if len(name) > MAX_NAME or "\0" in name:
            raise InvalidOption.at(f"/groups/{i}", f"must have at most {MAX_NAME} characters, none of them NUL")
    widest = max((len(name) for name in values if isinstance(name, str)), default=0)
    limits.check_bytes(len(values) * widest * _CHARACTER_BYTES)
    return np.array(values, dtype=np.str_)
