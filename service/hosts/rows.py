"""Rows of KServe v1, Vertex AI and SageMaker: their bodies as arrays, and the responses."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from calibrant.core.cells import Floats
from calibrant.core.errors import MAX_OFFENCES, CalibrationError, Offence, WrongShape, token, untoken
from calibrant.io.limits import NUMBER_BYTES
from calibrant.io.strict import CLASSIFICATION, feature_array, read_csv, read_names, read_npy
from service.errors import InvalidField
from service.formats.arrays import write_npy
from service.formats.documents import write_json, write_sets
from service.formats.format import Array, Body, BodyLimits
from service.formats.json_body import LongArray, array_of, check_values, pieces_of, plain, read_document
from service.inference.models import NO_CONTEXT, RowContext

CSV, NPY = "text/csv", "application/x-npy"
#: The parameter of a CSV body, and of the response to it, whose first line has the names of the classes.
WITH_HEADER = "header=present"
#: Fields of an instance that is an object: those of a row of ``POST /calibrate``.
FIELDS = ("predictions", "features", "groups")
#: Places in arrays of ``POST /calibrate``: the array, the row, and the rest; and the name of the predictions.
_PLACES = re.compile(r"/(predictions|groups|features/[^/\s]+)/([0-9]+)")
_PREDICTIONS = re.compile(r"(^|/)predictions\b(?!/[0-9])")
#: Rows of a response that become Python objects at once.
_ROWS_AT_ONCE = 4096
_MARK = "\ufeff".encode()


class InstanceRows(NamedTuple):
    """Predictions, with what the map uses beside them, and the names of their columns if the body has them.

    ``field`` is what errors call the array, and ``by_field`` whether each row is an object with ``FIELDS``.
    """

    array: Array
    names: tuple[str, ...] | None = None
    field: str = "predictions"
    context: RowContext = NO_CONTEXT
    by_field: bool = False


# --- JSON: {"instances": [...]}, each a probability, a vector, an object with the probability of each class, or one
# with the prediction and the features or the group of a row


class Instances(NamedTuple):
    """The instances of a body, and in its parameters the name of the map, and what they tell the map."""

    field: str
    values: Any
    map: str | None = None
    context: RowContext = NO_CONTEXT


def read_instances(body: Body, limits: BodyLimits) -> Instances:
    """Read the object, or the array of instances alone; raises ``MalformedJson``, ``InvalidField`` or ``TooLarge``."""
    check_values(body, limits)
    document = read_document(body, limits)
    if isinstance(document, list | LongArray):
        return Instances("instances", document)
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
    return Instances(fields[0], values, *_read_parameters(parameters))


def _read_parameters(parameters: Any) -> tuple[str | None, RowContext]:
    """The name of a map, and seed, alpha and bounds; raises ``InvalidField`` for any other parameter."""
    if parameters is None:
        return None, NO_CONTEXT
    if not isinstance(parameters, dict):
        raise InvalidField.at("/parameters", "must be an object")
    name, seed, alpha, bounds = (parameters.pop(key, None) for key in ("map", "seed", "alpha", "bounds"))
    for other in parameters:
        raise InvalidField.at(f"/parameters/{other[:64]}", "is not a parameter of this request")
    if name is not None and not isinstance(name, str):
        raise InvalidField.at("/parameters/map", "must be the name of a map")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**32):
        raise InvalidField.at("/parameters/seed", "must be a whole number from 0 to 2^32 - 1")
    if alpha is not None and type(alpha) not in (int, float):
        raise InvalidField.at("/parameters/alpha", "must be a finite number")
    if bounds is not None and not isinstance(bounds, bool):
        raise InvalidField.at("/parameters/bounds", "must be true or false")
    return name, RowContext(seed=seed, alpha=alpha, bounds=bool(bounds))


def rows_of(instances: Instances, limits: BodyLimits, names: tuple[str, ...] | None) -> InstanceRows:
    """The rows of instances for a map whose vectors have classes with ``names``; raises a ``CalibrationError``."""
    field, values = instances.field, instances.values
    first = next(values.pieces()) if isinstance(values, LongArray) else values
    if not first or not isinstance(first[0], dict):
        return InstanceRows(array_of(field, values, limits), field=field, context=instances.context)
    if FIELDS[0] in first[0] and first[0].keys() != set(names or ()):
        return _rows_by_field(instances, first[0], limits, names)
    if names is None:
        text = "must have predictions: the map has no names of the classes of a vector"
        raise WrongShape.at(f"/{field}/0", text)
    arrays: list[Array] = []
    n = 0
    for piece in pieces_of(values, limits, f"/{field}"):
        limits.reserve(2 * NUMBER_BYTES * len(piece) * len(names))  # the pieces, and the array that they become
        arrays.append(array_of(field, _in_order(piece, names, field, n), limits, first=n))
        n += len(piece)
    return InstanceRows(np.concatenate(arrays), names, field, instances.context)


def _rows_by_field(
    instances: Instances, first: Mapping[str, Any], limits: BodyLimits, names: tuple[str, ...] | None
) -> InstanceRows:
    """The rows of objects like the ``first``, with the prediction of a row, and with its features or its group."""
    field, known = instances.field, first.keys()
    if not known <= set(FIELDS):
        raise InvalidField.at(f"/{field}/0", f"may have {', '.join(FIELDS)}, or the classes of the map as keys")
    features: Any = first.get("features", {})
    if "features" in known and not (isinstance(features, dict) and features):
        raise WrongShape.at(f"/{field}/0/features", "must be an object of names and values")
    objects: list[dict[str, Any]] = []
    for piece in pieces_of(instances.values, limits, f"/{field}"):
        limits.reserve(NUMBER_BYTES * len(piece) * (2 + len(features)))
        for i, row in enumerate(piece, len(objects)):
            if not isinstance(row, dict) or row.keys() != known:
                raise WrongShape.at(f"/{field}/{i}", "must have the fields of the first one")
            if features and (not isinstance(row["features"], dict) or row["features"].keys() != features.keys()):
                raise WrongShape.at(f"/{field}/{i}/features", "must have the features of the first one")
        objects += piece
    predictions = [row["predictions"] for row in objects]
    of_names = names is not None and isinstance(predictions[0], dict)
    try:
        columns = {
            name: feature_array(f"features/{token(name)}", [row["features"][name] for row in objects], limits)
            for name in features
        }
        groups = read_names([row["groups"] for row in objects], limits).tolist() if "groups" in known else None
        context = instances.context._replace(features=columns or None, groups=groups)
        values = _in_order(predictions, names, field, 0) if of_names and names is not None else predictions
        array = array_of("predictions", values, limits)
    except CalibrationError as error:
        raise renamed(error, field, by_field=True) from error
    return InstanceRows(array, names if of_names else None, field, context, by_field=True)


def _in_order(objects: Sequence[Any], names: tuple[str, ...], field: str, first: int) -> list[list[Any]]:
    """The values of objects in the order of the classes."""
    known = set(names)
    for i, row in enumerate(objects, first):
        if not isinstance(row, dict) or row.keys() != known:
            raise WrongShape.at(f"/{field}/{i}", f"must have the {len(names)} classes of the map as keys")
    return [[row[name] for name in names] for row in objects]


# --- CSV without a header, or with the names of the classes as its header; NPY


def read_csv_rows(
    body: Body, limits: BodyLimits, names: tuple[str, ...] | None, context: RowContext, *, header: bool
) -> InstanceRows:
    """Read a body whose cells are predictions, or that has the header of ``POST /calibrate``.

    Raises ``MalformedCsv``, ``InvalidField`` and so on.
    """
    start = len(_MARK) if body.startswith(_MARK) else 0
    end = body.find(b"\n", start) + 1 or len(body)
    if header and _OF_CALIBRATE.search(bytes(body[start:end])):
        return _read_csv_fields(body, limits, names, context)
    width = body.count(b",", start, end) + 1
    limits.check_classes(width, "/predictions")
    columns: Sequence[int] = range(width)
    if header:
        columns, start = _columns(bytes(body[start:end]), names), end
    line = ",".join(f"predictions.{i}" for i in columns) if len(columns) > 1 else "predictions"
    limits.reserve(len(body))
    arrays = read_csv(line.encode() + b"\n" + memoryview(body)[start:], limits)
    return InstanceRows(arrays["predictions"], names if header else None, context=context)


#: A column of ``POST /calibrate`` in a header.
_OF_CALIBRATE = re.compile(rb'(?:^|,)"?(?:predictions(?:\.[0-9]+)?|features/[^,]+)"?\s*(?:,|$)')


def _read_csv_fields(
    body: Body, limits: BodyLimits, names: tuple[str, ...] | None, context: RowContext
) -> InstanceRows:
    """Read a body with the columns of ``POST /calibrate``."""
    arrays = read_csv(body, limits)
    features = {name: array for name, array in arrays.items() if CLASSIFICATION.is_feature(name)}
    for name in arrays.keys() - features.keys() - {"predictions", "groups"}:
        raise InvalidField.at(f"/{name}", "is not a field of this request")
    if "predictions" not in arrays:
        raise InvalidField.at("/predictions", "is missing")
    groups = arrays["groups"].tolist() if "groups" in arrays else None
    prefix = CLASSIFICATION.features
    own = {untoken(name.removeprefix(prefix)): array for name, array in features.items()}
    return InstanceRows(arrays["predictions"], names, context=context._replace(features=own or None, groups=groups))


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


def read_npy_rows(body: Body, limits: BodyLimits, context: RowContext) -> InstanceRows:
    """Read a body of one array; raises ``MalformedNpy`` and so on."""
    return InstanceRows(read_npy(body, limits)["predictions"], context=context)


# --- Responses, in pieces


class HostOutput(NamedTuple):
    """The output of a map, with the names of its columns if the rows had them, or if they are a probability and bounds.

    ``values`` are predictions, or of a set map whether the set of each row has each of the ``classes``.
    """

    values: Array
    names: tuple[str, ...] | None
    classes: tuple[str | int, ...] = ()

    @property
    def are_sets(self) -> bool:
        """Whether the rows are sets."""
        return self.values.dtype == np.bool_


def write_scored(kind: str, scored: HostOutput) -> Iterator[bytes]:
    """Write predictions or sets as JSON, CSV or NPY; vectors with the names of their classes, if the rows had them.

    Sets are lists of classes in JSON, and otherwise 1 for each class of the set and 0 for each other one.
    """
    names, values = scored.names, scored.values
    if kind == NPY:
        return write_npy(values)
    if kind == CSV:
        return _csv(names, values.astype(np.uint8) if scored.are_sets else values)
    if scored.are_sets:
        return write_sets({"classes": scored.classes}, values, "predictions")
    return write_json({}, {"predictions": values}) if names is None else _objects(names, values)


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


def renamed(error: CalibrationError, field: str, *, by_field: bool = False) -> CalibrationError:
    """An error of rows, with the field that they are in; ``by_field`` are the rows objects with ``FIELDS``."""
    if field == "predictions":
        return error

    def place(text: str) -> str:
        moved = _PLACES.sub(rf"/{field}/\2/\1" if by_field else rf"/{field}/\2", text)
        return moved if by_field else _PREDICTIONS.sub(rf"\1{field}", moved)

    offences = [Offence(place(at.pointer), at.detail) for at in error.offences]
    return type(error)(place(error.detail), offences[:MAX_OFFENCES])
