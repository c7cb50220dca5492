"""Inference: apply a map to the tensors of a request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
from starlette.requests import Request
from starlette.responses import Response

from backend.kinds import work_bytes
from backend.telemetry.observed import note_rows
from calibrant.core.errors import MAX_OFFENCES, EmptyBatch, NotANumber, Offence, WrongShape, token
from calibrant.io.limits import NUMBER_BYTES
from calibrant.io.strict import feature_array, read_names
from schemas.inference import InferenceInput, InferenceRequest
from service.errors import InvalidField, UnsupportedMediaType, of_header
from service.formats.body import bounded, read_encoding, unpack
from service.formats.format import Body, BodyLimits, Payload
from service.formats.json_body import LongArray, check_values, plain, read_document
from service.formats.media import JSON, TENSORS
from service.formats.options import read_options
from service.guard import RequestMemory, Slots
from service.headers import read_header, read_headers
from service.inference.models import GROUPS, NO_CONTEXT, PREDICTIONS, Model, RowContext, find_model, reference_of
from service.scoring import ScoringContext
from service.short_bodies import read_short, score_short
from service.threads import run_in_thread

# --- The body of an inference request: a JSON object, followed by the bytes of its binary tensors

#: Maximum number of inputs of a request.
_MOST_INPUTS = 201
#: The header with the length of the JSON object.
LENGTH_HEADER = "Inference-Header-Content-Length"


def check_media_type(content_type: str) -> None:
    """Reject a content type that the protocol does not use.

    Only the length header indicates whether binary tensors follow the JSON object. Triton's clients send JSON tensors
    without a content type, or as ``application/octet-stream``.
    """
    if content_type.partition(";")[0].strip().lower() not in (JSON, TENSORS, ""):
        raise of_header(UnsupportedMediaType, "Content-Type", f"must be {JSON} or {TENSORS}, or absent")


def split(body: Body, lengths: Sequence[str]) -> tuple[memoryview, memoryview]:
    """Split a body into the JSON object and the rest, at the value of the length header."""
    view = memoryview(body)
    if not lengths:
        return view, view[len(view) :]
    stated = lengths[0].strip()
    if len(lengths) > 1 or not (stated.isascii() and stated.isdigit()) or len(stated) > 20:
        raise of_header(InvalidField, LENGTH_HEADER, "must be a single number of bytes")
    length = int(stated)
    if length > len(view):
        raise of_header(InvalidField, LENGTH_HEADER, "exceeds the size of the body")
    return view[:length], view[length:]


def read_request(text: memoryview, limits: BodyLimits) -> tuple[InferenceRequest, LongArray | None]:
    """Validate the JSON object except the elements of its tensors; also return the data of the first input if long.

    Raises ``MalformedJson``, ``InvalidField``, or ``TooLarge`` for too many values or too deep nesting.
    """
    check_values(text, limits)
    document = read_document(text, limits)
    elements = _take_elements(document)
    document = plain(document)
    if not isinstance(document, dict):
        raise InvalidField.at("", "must be an object")
    return read_options(Payload({}, document, from_query=False), InferenceRequest), elements


def _take_elements(document: Any) -> LongArray | None:
    """Remove the elements of the first input from a document, and leave an empty array in their place."""
    inputs = document.get("inputs") if isinstance(document, dict) else None
    if isinstance(inputs, LongArray):
        document["inputs"] = inputs = list(islice(inputs.elements(), _MOST_INPUTS + 1))
    first = inputs[0] if isinstance(inputs, list) and inputs else None
    for other in inputs[1:] if isinstance(inputs, list) else ():
        if isinstance(other, dict) and isinstance(other.get("data"), LongArray):
            other["data"] = list(other["data"].elements())  # of a feature, whose values become Python objects
    if not isinstance(first, dict) or not isinstance(first.get("data"), LongArray):
        return None
    elements: LongArray = first["data"]
    first["data"] = []
    return elements


# --- Tensors: as JSON numbers, or as bytes after the JSON object; little-endian, row-major, without padding

Numbers = npt.NDArray[Any]

#: The protocol's datatypes in numpy, in the byte order of the protocol.
DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "FP64": np.dtype("<f8"),
        "FP32": np.dtype("<f4"),
        "FP16": np.dtype("<f2"),
        "INT64": np.dtype("<i8"),
        "INT32": np.dtype("<i4"),
        "INT16": np.dtype("<i2"),
        "INT8": np.dtype("<i1"),
        "UINT64": np.dtype("<u8"),
        "UINT32": np.dtype("<u4"),
        "UINT16": np.dtype("<u2"),
        "UINT8": np.dtype("<u1"),
    }
)


def read_tensor(
    tensor: InferenceInput,
    raw: memoryview,
    pointer: str,
    elements: LongArray | None = None,
    reserve: Callable[[int], object] = lambda _: None,
) -> Numbers:
    """The array of an input, (n,) or (n, K).

    ``raw`` is everything after the JSON object, which must belong to this input. A tensor of shape [n, 1] becomes (n,),
    because MLServer's codecs send one-dimensional arrays in that shape.

    ``pointer`` locates the input, and ``elements`` are its data if they are long. Raises an error that names the first
    invalid place; memory for a shape is allocated only once its elements are present. ``reserve`` is called with a
    number of bytes before these are allocated.
    """
    if len(tensor.shape) not in (1, 2):
        raise WrongShape.at(f"{pointer}/shape", "must be [n] or [n, K]")
    if math.prod(tensor.shape) == 0:
        raise EmptyBatch.at(f"{pointer}/shape", "has no rows")
    size = None if tensor.parameters is None else tensor.parameters.binary_data_size
    if size is not None and tensor.data is not None:
        raise InvalidField.at(f"{pointer}/data", "must be absent if parameters/binary_data_size is given")
    if (size or 0) != len(raw):
        where = f"{pointer}/parameters/binary_data_size"
        raise InvalidField.at(where, "must be the number of bytes that follow the JSON object")
    if size is not None:
        reserve(len(raw))
        values = _from_bytes(raw, tensor, pointer)
    elif tensor.data is not None:
        values = _from_json(tensor.data if elements is None else elements, tensor, pointer, reserve)
    else:
        raise InvalidField.at(f"{pointer}/data", "is missing")
    return values[:, 0] if tensor.shape[1:] == [1] else values


def to_bytes(values: Numbers) -> memoryview:
    """The elements as FP64 or BOOL bytes, as they follow a JSON object."""
    dtype = np.bool_ if values.dtype == np.bool_ else DTYPES["FP64"]
    return np.ascontiguousarray(values, dtype=dtype).reshape(-1).view(np.uint8).data


def _from_bytes(raw: memoryview, tensor: InferenceInput, pointer: str) -> Numbers:
    dtype = DTYPES[tensor.datatype]
    if math.prod(tensor.shape) * dtype.itemsize != len(raw):
        raise WrongShape.at(f"{pointer}/shape", "does not match the number of bytes of the tensor")
    array = np.frombuffer(raw, dtype).reshape(tensor.shape).astype(dtype.newbyteorder("="), copy=False)
    # A JSON object can end at any byte, and numpy sums unaligned elements in another order.
    return np.require(array, requirements="A")


def _from_json(
    elements: list[Any] | LongArray, tensor: InferenceInput, pointer: str, reserve: Callable[[int], object]
) -> Numbers:
    where, size = f"{pointer}/data", math.prod(tensor.shape)
    arrays: list[Numbers] = []
    read, width = 0, None  # elements so far, and the elements per row if they are nested
    for piece in elements.pieces() if isinstance(elements, LongArray) else [elements]:
        values = piece
        if not arrays and len(tensor.shape) == 2 and values and isinstance(values[0], list):
            width = tensor.shape[1]
        if width is not None:
            _check_rows(values, read // width, width, where)
            values = list(chain.from_iterable(values))
        if read + len(values) > size:
            break
        reserve(2 * len(values) * NUMBER_BYTES)  # the pieces, and the array that they become
        arrays.append(_of_numbers(values, tensor, read, width, where))
        read += len(values)
    else:
        if read == size:
            return np.concatenate(arrays).reshape(tensor.shape)
    if width is not None:
        raise WrongShape.at(where, "does not have the number of rows in the shape")
    raise WrongShape.at(f"{pointer}/shape", "does not match the number of elements of the tensor")


def _of_numbers(values: list[Any], tensor: InferenceInput, first: int, width: int | None, where: str) -> Numbers:
    integer = DTYPES[tensor.datatype].kind in "iu"
    allowed: set[type] = {int} if integer else {int, float}
    if not set(map(type, values)) <= allowed:
        raise _not_numbers(values, first, width, where, "an integer" if integer else "a number", allowed)
    return _typed(values, tensor.datatype, where)


def _check_rows(rows: list[Any], first: int, width: int, where: str) -> None:
    """Check that nested data are rows of the width in the shape."""
    if {type(row) for row in rows} != {list} or set(map(len, rows)) != {width}:
        place = next(i for i, row in enumerate(rows, first) if not isinstance(row, list) or len(row) != width)
        raise WrongShape.at(f"{where}/{place}", "must be a row of the width in the shape")


def _typed(values: list[Any], datatype: str, where: str) -> Numbers:
    """Convert numbers to the tensor's datatype; a number that does not fit is rejected, not wrapped."""
    dtype = DTYPES[datatype].newbyteorder("=")
    try:
        if dtype.kind in "iu":
            return np.array(values, dtype)
        with np.errstate(over="ignore"):
            numbers = np.array(values, np.float64).astype(dtype, copy=False)
    except OverflowError as error:
        raise InvalidField.at(where, f"contains a number that does not fit {datatype}") from error
    if not np.isfinite(numbers).all():
        raise InvalidField.at(where, f"contains a number that does not fit {datatype}")
    return numbers


def _not_numbers(
    values: list[Any], first: int, width: int | None, where: str, what: str, allowed: set[type]
) -> NotANumber:
    bad = islice((i for i, value in enumerate(values, first) if type(value) not in allowed), MAX_OFFENCES)
    places = [f"{where}/{i}" if width is None else f"{where}/{i // width}/{i % width}" for i in bad]
    detail = f"{where[1:]}: every element must be {what}; the first other value is at {places[0]}"
    return NotANumber(detail, [Offence(place, f"must be {what}") for place in places])


# --- Inference


class Output(NamedTuple):
    """A requested output."""

    name: str
    binary: bool


class Inferred(NamedTuple):
    """The body of a response; ``length`` is that of the JSON object if binary tensors follow it, else None."""

    body: bytes
    length: int | None


def infer(
    here: ScoringContext, name: str, version: str | None, body: Body, lengths: Sequence[str], encoding: str | None
) -> Inferred:
    """Apply the map of a model's name and version; ``lengths`` are the values of the length header."""
    limits = BodyLimits.of(here.settings, partial(RequestMemory.reserve_for, here.scope))
    model = find_model(here, name, version)
    text, raw = split(body if encoding is None else unpack(body, encoding, limits), lengths)
    request, elements = read_request(text, limits)
    predictions = _predictions(request, model)
    tensor = read_tensor(predictions, raw, "/inputs/0", elements, limits.reserve)
    limits.check_shape(tensor.shape, "/inputs/0/shape")
    context = _context(request, model, limits)
    here.reserve(work_bytes(tensor.size))
    note_rows(tensor.shape)
    outputs = _outputs(request, model.outputs)
    values = model.apply(tensor, [output.name for output in outputs], context)
    return _written(_head(model, request.id), [(output, values[output.name]) for output in outputs])


def _predictions(request: InferenceRequest, model: Model) -> InferenceInput:
    """The input ``predictions``, which must be the first; the others must be features or groups of the map."""
    known = model.features if model.groups is None else (GROUPS,)
    names = [tensor.name for tensor in request.inputs]
    for i, name in enumerate(names):
        if i == 0 and name != PREDICTIONS:
            which = "first" if known else "only"
            raise InvalidField.at("/inputs/0/name", f"must be {PREDICTIONS}, the model's {which} input")
        if name in names[:i]:
            raise InvalidField.at(f"/inputs/{i}/name", "occurs twice")
        if i and name not in known:
            only = f"must be {PREDICTIONS}, the model's only input"
            raise InvalidField.at(f"/inputs/{i}/name", f"must be one of: {', '.join(known)}" if known else only)
    if request.inputs[0].datatype not in DTYPES:
        raise InvalidField.at("/inputs/0/datatype", "must be that of numbers")
    return request.inputs[0]


def _context(request: InferenceRequest, model: Model, limits: BodyLimits) -> RowContext:
    """The features or groups of the rows, the seed, and the error level."""
    stated = request.parameters
    context = NO_CONTEXT if stated is None else RowContext(seed=stated.seed, alpha=stated.alpha)
    values = {own.name: _values(own, f"/inputs/{i}", limits) for i, own in enumerate(request.inputs) if i}
    if model.groups is not None and values:
        return context._replace(groups=read_names(values[GROUPS], limits).tolist())
    features = {name: feature_array(token(name), own, limits) for name, own in values.items()}
    return context._replace(features=features or None)


def _values(tensor: InferenceInput, pointer: str, limits: BodyLimits) -> list[Any]:
    """The values of a feature or of groups, [n] or [n, 1]: numbers, or strings or booleans, and null if missing."""
    values = list(chain.from_iterable(v if isinstance(v, list) else [v] for v in tensor.data or ()))
    if tensor.data is None or (tensor.parameters is not None and tensor.parameters.binary_data_size is not None):
        raise InvalidField.at(f"{pointer}/data", "must have the values in JSON")
    if len(tensor.shape) not in (1, 2) or tensor.shape[1:] not in ([], [1]) or tensor.shape[0] != len(values):
        raise WrongShape.at(f"{pointer}/shape", "must be [n] or [n, 1], with the number of values")
    limits.check_rows(len(values), pointer)
    kinds = {"BYTES": (str,), "BOOL": (bool,)}.get(tensor.datatype, (int, float))
    for i, value in enumerate(values):
        if value is not None and type(value) not in kinds:
            raise NotANumber.at(f"{pointer}/data/{i}", f"must be of the datatype {tensor.datatype}")
    return values


def _outputs(request: InferenceRequest, known: Sequence[str]) -> list[Output]:
    """The requested outputs in their order; all outputs if the request names none."""
    every = request.parameters is not None and request.parameters.binary_data_output
    if not request.outputs:
        return [Output(name, every) for name in known]
    wanted: list[Output] = []
    for i, output in enumerate(request.outputs):
        if output.name not in known:
            raise InvalidField.at(f"/outputs/{i}/name", f"must be one of: {', '.join(known)}")
        if any(output.name == other.name for other in wanted):
            raise InvalidField.at(f"/outputs/{i}/name", "occurs twice")
        own = None if output.parameters is None else output.parameters.binary_data
        wanted.append(Output(output.name, every if own is None else own))
    return wanted


def _head(model: Model, request_id: str | None) -> dict[str, Any]:
    head = {
        "model_name": model.name,
        "model_version": model.version,
        "id": request_id,
        "parameters": {"map": model.held.id},
    }
    return {name: value for name, value in head.items() if value is not None}


def _written(head: dict[str, Any], outputs: list[tuple[Output, Numbers]]) -> Inferred:
    tensors, chunks = [], []
    for (name, binary), values in outputs:
        datatype = "BOOL" if values.dtype == np.bool_ else "FP64"
        tensor: dict[str, Any] = {"name": name, "shape": list(values.shape), "datatype": datatype}
        if binary:
            chunks.append(to_bytes(values))
            tensor["parameters"] = {"binary_data_size": len(chunks[-1])}
        else:
            tensor["data"] = values.reshape(-1)
        tensors.append(tensor)
    text = orjson.dumps(head | {"outputs": tensors}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Inferred(b"".join((text, *chunks)), len(text)) if chunks else Inferred(text, None)


async def _respond_short(request: Request, here: ScoringContext, name: str, version: str | None) -> Response | Request:
    """The response to a few probabilities in JSON; otherwise the request, with what was read put back."""
    document, n_strings, request = await read_short(request, here.settings)
    match document:
        case {
            "inputs": [{"name": "predictions", "datatype": "FP64", "shape": [int(n)], "data": list(values), **others}],
            **fields,
        } if not others and n is not True and n == len(values) and fields.keys() <= {"id"}:
            held = here.held_map(reference_of(name, version))
        case _:
            return request
    request_id = fields.get("id")
    if held is None or n_strings != 7 + 2 * len(fields) or type(request_id) is not (str if fields else type(None)):
        return request
    calibrated = score_short(held, values, here.settings)
    model = find_model(here, name, version, held)
    if calibrated is None or model.outputs != (PREDICTIONS,):
        return request
    output = (Output(PREDICTIONS, binary=False), np.array(calibrated))
    return Response(_written(_head(model, request_id), [output]).body, media_type=JSON)


async def respond(request: Request, here: ScoringContext, name: str, version: str | None) -> Response:
    """Respond to an inference request for a model, and for a version of it if given."""
    short = await _respond_short(request, here, name, version)
    if isinstance(short, Response):
        return short
    request = short
    lengths = read_headers(request, LENGTH_HEADER.lower().encode())
    check_media_type(read_header(request, b"content-type"))
    encoding = read_encoding(read_header(request, b"content-encoding"))
    body = await bounded(request, here.settings.max_body_bytes)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        await Slots.wait_for(request.scope)
    await here.reach_map(reference_of(name, version))
    inferred = await run_in_thread(infer, here, name, version, body, lengths, encoding)
    if inferred.length is None:
        return Response(inferred.body, media_type=JSON)
    return Response(inferred.body, headers={LENGTH_HEADER: str(inferred.length)}, media_type=TENSORS)
