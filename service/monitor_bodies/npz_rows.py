"""Rows as the arrays of an NPZ archive."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import LengthMismatch, WrongShape
from monitoring.taking.reasons import Why
from monitoring.taking.rows import Rows, lengths_of
from monitoring.taking.screening import What
from service.errors import InvalidField
from service.formats.limits import Limits
from service.formats.npy import NUMBERS, STRINGS
from service.formats.npz_body import read_npz
from service.formats.payload import Body
from service.monitor_bodies.documents import refuse_long
from service.monitor_bodies.fields import FIELDS, NEEDED, plural
from storage.monitors.strings import Ids

Array = npt.NDArray[Any]

#: What an array of each field may hold: numpy's kinds of types.
_KINDS = {"id": "USiu", "prediction": NUMBERS, "label": NUMBERS, "timestamp": NUMBERS + "M", "group": STRINGS}
_CHARACTER_BYTES = 4


def read_npz_rows(body: Body, limits: Limits, what: What, n_classes: int | None) -> Rows:
    """Read the arrays ``ids``, ``predictions``, ``labels``, ``timestamps`` and ``groups``, as the call has them.

    Raises ``MalformedNpz``, ``TooLarge``, or what is wrong with the shape of an array.
    """
    fields = {plural(field): _KINDS[field] for field in FIELDS[what]}
    arrays = read_npz(body, limits, fields)
    for field in NEEDED[what]:
        if plural(field) not in arrays:
            raise InvalidField.at(f"/{plural(field)}", "is missing")
    n = len(arrays[plural(NEEDED[what][1])])
    for name, array in arrays.items():
        check_shape(name, array, n, n_classes)
    why = np.zeros(n, np.uint8)
    ids = ids_of(arrays["ids"]) if "ids" in arrays else None
    if ids is not None:
        why[lengths_of(ids) == 0] = Why.EMPTY_ID
    groups, names = _coded(arrays["groups"], why) if "groups" in arrays else (None, [])
    return Rows(
        why,
        np.arange(n),
        ids,
        arrays.get("predictions"),
        arrays["labels"].astype(np.float64) if "labels" in arrays else None,
        _times(arrays["timestamps"], why) if "timestamps" in arrays else None,
        groups,
        names,
    )


def check_shape(name: str, array: Array, n: int, n_classes: int | None) -> None:
    """Raise ``WrongShape`` or ``LengthMismatch`` for an array that is no column of ``n`` rows."""
    width = n_classes if name == "predictions" else None
    if array.shape[1:] != (() if width is None else (width,)) or not array.ndim:
        raise WrongShape.at(f"/{name}", "must be (n,)" if width is None else f"must be (n, {width}), as the monitor's")
    if len(array) != n:
        raise LengthMismatch.at(f"/{name}", f"has {len(array)} rows, where another array has {n}")


def ids_of(values: Array) -> Ids:
    """Ids of text or of integers, which are told by their digits. O(bytes)."""
    if not len(values):  # the width of no text is nothing that a shape could be found from
        return Ids(b"", np.zeros(0, np.uint32))
    if values.dtype.kind in "iu":
        values = values.astype(np.str_)
    if values.dtype.kind == "U":
        values = _encoded(np.ascontiguousarray(values))
    table = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    lengths = np.char.str_len(values)
    kept = np.arange(table.shape[1]) < lengths[:, None]
    return Ids(table[kept].tobytes(), np.cumsum(lengths, dtype=np.uint32))


def _encoded(values: Array) -> Array:
    """Text as UTF-8; of ASCII alone without looking at each string."""
    width = values.dtype.itemsize // _CHARACTER_BYTES
    units = values.view(np.uint32).reshape(len(values), width)
    if units.size and units.max() >= 128:
        return np.char.encode(values, "utf-8")
    return units.astype(np.uint8).view(f"S{max(1, width)}").reshape(len(values))


def _times(values: Array, why: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """Seconds since 1970; a row with NaN, or what is not a time, is refused: now is where no array is given."""
    if values.dtype.kind == "M":
        micro = values.astype("M8[us]")
        seconds = np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
    else:
        seconds = values.astype(np.float64)
    why[np.isnan(seconds) & (why == 0)] = Why.INVALID_TIME
    return seconds


def _coded(values: Array, why: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The place of each row's name among the names, -1 for an empty one."""
    names, codes = np.unique(values, return_inverse=True)
    nameless = int(len(names) > 0 and names[0] == "")
    codes, told = codes.astype(np.int64) - nameless, names[nameless:].tolist()
    refuse_long(codes, told, why)
    return codes, told
