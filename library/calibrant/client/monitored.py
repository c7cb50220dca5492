"""Rows for monitors: validation, splitting into requests, and encoding."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
import orjson

from calibrant.client.frames import ArrayLike, groups_of, ids_of, labels_of, numbers_of, refuse_unknown, times_of_rows
from calibrant.client.packing import NPZ, Array, Arrays, pack
from calibrant.client.steps import JSON
from calibrant.core.arrays import check_aligned
from calibrant.core.errors import UnusableRows, requires

Encoding: TypeAlias = Literal["npz", "arrow", "json"]

ARROW = "application/vnd.apache.arrow.stream"
#: Name of each array as a field of a row.
_OF_A_ROW = {"ids": "id", "predictions": "prediction", "labels": "label", "timestamps": "timestamp", "groups": "group"}
#: The names of the forecasts that a mapping may have, sorted.
_FORECASTS = {("mean", "variance"), ("mean", "std"), ("lower", "upper"), ("quantiles",), ("samples",)}


class RowFields(TypedDict, total=False):
    """Optional fields of rows of a monitor, each of shape (n,).

    Attributes
    ----------
    ids : array_like
        Integers, or strings of at most 200 bytes. They join labels with predictions and make sending idempotent.
    timestamps : array_like
        Times of prediction: seconds since 1970, or datetimes (UTC without a time zone). Default: now.
    groups : array_like of str
        Name of a group per row; None for no group.
    """

    ids: ArrayLike | None
    timestamps: ArrayLike | None
    groups: ArrayLike | None


def arrays_of(columns: Mapping[str, Any]) -> dict[str, Array]:
    """Convert the fields to arrays of the same length; raises ``UnusableRows``."""
    there = {name: value for name, value in columns.items() if value is not None}
    refuse_unknown(there, list(_OF_A_ROW))
    forecasts = there.get("predictions")
    check_aligned(there if not isinstance(forecasts, Mapping) else {**there, **forecasts})
    arrays = {name: _array(name, value) for name, value in there.items()}
    first, *others = arrays
    for name in others:
        if len(arrays[name]) != len(arrays[first]):
            raise UnusableRows(f"{name}: has {len(arrays[name])} rows, but {first} has {len(arrays[first])}")
    return arrays


def pieces(arrays: Arrays, rows: int) -> Iterator[tuple[int, Arrays]]:
    """Split arrays into pieces of at most ``rows`` rows, with the index of the first row; at least one piece."""
    if rows < 1:
        raise ValueError("piece must be at least 1")
    n = len(next(iter(arrays.values())))
    for start in range(0, max(n, 1), rows):
        yield start, {name: array[start : start + rows] for name, array in arrays.items()}


def packed(arrays: Arrays, form: Encoding) -> tuple[str, bytes]:
    """Encode rows; returns the media type and the body. ``arrow`` needs pyarrow."""
    kinds: Mapping[str, tuple[str, Callable[[Arrays], bytes]]]
    kinds = {"npz": (NPZ, pack), "arrow": (ARROW, _arrow), "json": (JSON, _json)}
    if form not in kinds:
        raise ValueError(f"form must be one of {', '.join(kinds)}")
    media, pack_as = kinds[form]
    return media, pack_as(arrays)


def _array(name: str, value: Any) -> Array:
    if name == "labels":
        return labels_of(value)
    if name == "predictions":
        return _forecasts(value) if isinstance(value, Mapping) else numbers_of(value, name)
    return {"ids": ids_of, "timestamps": times_of_rows, "groups": groups_of}[name](value)


def _forecasts(forecasts: Mapping[str, Any]) -> Array:
    """Return the columns of forecasts of a number, given by name; raises ``UnusableRows``."""
    if tuple(sorted(forecasts)) not in _FORECASTS:
        raise UnusableRows(
            "predictions: must be an array, or for a monitor of regression a mapping with mean and variance or std, "
            "lower and upper, quantiles, or samples"
        )
    columns = {name: numbers_of(value, f"predictions[{name!r}]") for name, value in forecasts.items()}
    if "std" in columns:
        columns["variance"] = columns["std"] * np.abs(columns.pop("std"))  # a negative one is refused by the service
    try:
        return np.column_stack([columns[name] for name in sorted(columns)])
    except ValueError as error:
        raise UnusableRows(
            f"predictions: {' and '.join(sorted(forecasts))} must have the same number of rows"
        ) from error


def _json(arrays: Arrays) -> bytes:
    columns = [_json_values(array) for array in arrays.values()]
    if "groups" in arrays:  # an empty name means no group
        columns[list(arrays).index("groups")] = [name or None for name in arrays["groups"].tolist()]
    names = [_OF_A_ROW[name] for name in arrays]
    return orjson.dumps({"rows": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]})


def _json_values(array: Array) -> list[Any]:
    values: list[Any] = (np.datetime_as_string(array, timezone="UTC") if array.dtype.kind == "M" else array).tolist()
    return values


def _arrow(arrays: Arrays) -> bytes:
    """Encode rows as an Arrow stream with one batch; vectors are fixed-size lists."""
    with requires("files", 'form="arrow"'):
        import pyarrow as arrow
        import pyarrow.ipc

    def column(array: Array, name: str) -> Any:
        if array.ndim == 1:
            return arrow.array(array, mask=array == "" if name == "groups" else None)
        flat = arrow.array(np.ascontiguousarray(array).ravel())
        return arrow.FixedSizeListArray.from_arrays(flat, array.shape[1])

    batch = arrow.record_batch({name: column(array, name) for name, array in arrays.items()})
    out = io.BytesIO()
    with pyarrow.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue()
