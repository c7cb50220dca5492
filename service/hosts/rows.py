"""Rows of KServe v1, Vertex AI and SageMaker: their bodies as arrays, and the responses."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from calibrant.core.batch import MAX_OFFENCES
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, Offence, WrongShape
from calibrant.io.limits import NUMBER_BYTES
from calibrant.io.strict import read_csv, read_npy
from service.errors import InvalidField
from service.formats.documents import write_json
from service.formats.json_body import LongArray, array_of, check_values, plain, read_document
from service.formats.numpy_arrays import write_npy
from service.formats.payload import Array, Body, BodyLimits

CSV, NPY = "text/csv", "application/x-npy"
#: The parameter of a CSV body, and of the response to it, whose first line has the names of the classes.
WITH_HEADER = "header=present"
#: Where a message names the array: at its beginning, and in pointers.
_PREDICTIONS = re.compile(r"(^|/)predictions\b")
#: Rows of a response that become Python objects at once.
_ROWS_AT_ONCE = 4096
_MARK = "\ufeff".encode()


class InstanceRows(NamedTuple):
    """Predictions, and the names of their columns if the body has them; ``field`` is what errors call the array."""

    array: Array
    names: tuple[str, ...] | None = None
    field: str = "predictions"


# --- JSON: {"instances": [...]}, each a probability, a vector, or an object with the probability of each class


class Instances(NamedTuple):
    """The instances of a body, and the name of the map in its parameters."""

    field: str
    values: Any
    map: str | None


def read_instances(body: Body, limits: BodyLimits) -> Instances:
    """Read the object, or the array of instances alone; raises ``MalformedJson``, ``InvalidField`` or ``TooLarge``."""
    check_values(body, limits)
    document = read_document(body, limits)
    if isinstance(document, list | LongArray):
        return Instances("instances", document, None)
    if not isinstance(document, dict):
        raise InvalidField.at("", "must be an object with instances")
    fields = [name for name in ("instances", "inputs") if name in document]
    if len(fields) != 1:
        raise InvalidField.at("/instances", "cannot be combined with inputs" if fields else "is missing")
    values = document.pop(fields[0])
    if not isinstance(values, list | LongArray):
        raise WrongShape.at(f"/{fields[0]}", "must be an array")
    parameters = plain(document.pop("parameters", None))
    for name in document:
        raise InvalidField.at(f"/{name[:64]}", "is not a field of this request")
    return Instances(fields[0], values, _read_parameters(parameters))


def _read_parameters(parameters: Any) -> str | None:
    """The name of a map; raises ``InvalidField`` for any other parameter."""
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise InvalidField.at("/parameters", "must be an object")
    name = parameters.pop("map", None)
    for other in parameters:
        raise InvalidField.at(f"/parameters/{other[:64]}", "is not a parameter of this request")
    if name is not None and not isinstance(name, str):
        raise InvalidField.at("/parameters/map", "must be the name of a map")
    return name


def rows_of(instances: Instances, limits: BodyLimits, names: tuple[str, ...] | None) -> InstanceRows:
    """The rows of instances for a map whose vectors have classes with ``names``; raises a ``CalibrationError``."""
    field, values, _ = instances
    pieces = values.pieces() if isinstance(values, LongArray) else iter([values])
    first = next(pieces)
    if not first or not isinstance(first[0], dict):
        return InstanceRows(array_of(field, values, limits), field=field)
    if names is None:
        raise WrongShape.at(f"/{field}/0", "must not be an object: the map has no names of the classes of a vector")
    arrays: list[Array] = []
    n, piece = 0, first
    while True:
        limits.check_rows(n + len(piece), f"/{field}")
        limits.reserve(2 * NUMBER_BYTES * len(piece) * len(names))  # the pieces, and the array that they become
        arrays.append(array_of(field, _in_order(piece, names, field, n), limits, first=n))
        n += len(piece)
        if (piece := next(pieces, None)) is None:
            return InstanceRows(np.concatenate(arrays), names, field)


def _in_order(objects: Sequence[Any], names: tuple[str, ...], field: str, first: int) -> list[list[Any]]:
    """The values of objects in the order of the classes."""
    known = set(names)
    for i, one in enumerate(objects, first):
        if not isinstance(one, dict) or one.keys() != known:
            raise WrongShape.at(f"/{field}/{i}", f"must have the {len(names)} classes of the map as keys")
    return [[one[name] for name in names] for one in objects]


# --- CSV without a header, or with the names of the classes as its header; NPY


def read_csv_rows(body: Body, limits: BodyLimits, names: tuple[str, ...] | None, *, header: bool) -> InstanceRows:
    """Read a body whose cells are predictions; raises ``MalformedCsv``, ``InvalidField`` and so on."""
    start = len(_MARK) if body.startswith(_MARK) else 0
    end = body.find(b"\n", start) + 1 or len(body)
    width = body.count(b",", start, end) + 1
    limits.check_classes(width, "/predictions")
    columns: Sequence[int] = range(width)
    if header:
        columns, start = _columns(bytes(body[start:end]), names), end
    line = ",".join(f"predictions.{i}" for i in columns) if len(columns) > 1 else "predictions"
    limits.reserve(len(body))
    arrays = read_csv(line.encode() + b"\n" + memoryview(body)[start:], limits)
    return InstanceRows(arrays["predictions"], names if header else None)


def _columns(line: bytes, names: tuple[str, ...] | None) -> list[int]:
    """The classes of the columns of a header; raises ``InvalidField``."""
    try:
        cells = next(csv.reader([line.decode().strip()], strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        cells = []
    if names is None or sorted(cells) != sorted(names):
        of = "the map has no names of the classes of a vector" if names is None else "the names of the map's classes"
        raise InvalidField.at("", f"the header must have {of}" if names else f"must have no header: {of}")
    return [names.index(cell) for cell in cells]


def read_npy_rows(body: Body, limits: BodyLimits) -> InstanceRows:
    """Read a body of one array; raises ``MalformedNpy`` and so on."""
    return InstanceRows(read_npy(body, limits)["predictions"])


# --- Responses, in pieces


def write_predictions(kind: str, names: tuple[str, ...] | None, predictions: Floats) -> Iterator[bytes]:
    """Write predictions as JSON, CSV or NPY; vectors with the names of their classes, if the rows had them."""
    if kind == NPY:
        return write_npy(predictions)
    if kind == CSV:
        return _csv(names, predictions)
    return write_json({}, {"predictions": predictions}) if names is None else _objects(names, predictions)


def _objects(names: tuple[str, ...], predictions: Floats) -> Iterator[bytes]:
    yield b'{"predictions":['
    for start in range(0, len(predictions), _ROWS_AT_ONCE):
        rows = predictions[start : start + _ROWS_AT_ONCE].tolist()
        yield b","[:start] + orjson.dumps([dict(zip(names, row, strict=True)) for row in rows])[1:-1]
    yield b"]}"


def _csv(names: tuple[str, ...] | None, predictions: Floats) -> Iterator[bytes]:
    if names is not None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(names)
        yield line.getvalue().encode()
    for start in range(0, len(predictions), _ROWS_AT_ONCE):
        rows = np.ascontiguousarray(predictions[start : start + _ROWS_AT_ONCE]).reshape(-1, predictions[0].size)
        yield orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)[2:-2].replace(b"],[", b"\n") + b"\n"


# --- Errors


def renamed(error: CalibrationError, field: str) -> CalibrationError:
    """An error of the predictions, with the field that they are in."""
    if field == "predictions" or not all(at.pointer.startswith("/predictions") for at in error.offences):
        return error
    offences = [Offence(at.pointer.replace("predictions", field, 1), at.detail) for at in error.offences]
    detail = _PREDICTIONS.sub(rf"\1{field}", error.detail)
    return type(error)(detail, offences[:MAX_OFFENCES])
