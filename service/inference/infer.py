"""Inference: a map applied to the tensor of a request, and the outputs written as they were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from calibrant.cells import Floats
from schemas.inference import InferenceInput, InferenceRequest
from service.context import Context
from service.errors import InvalidField
from service.formats.encodings import unpack
from service.formats.limits import Limits
from service.formats.payload import Body
from service.inference.models import PREDICTIONS, Model, find_model
from service.inference.request import read_request, split
from service.inference.tensors import read_tensor, to_bytes
from telemetry.observed import note_rows


class Asked(NamedTuple):
    """An output that is wanted."""

    name: str
    binary: bool


class Inferred(NamedTuple):
    """The body of an answer; ``length`` is that of its JSON object where binary tensors follow it, else None."""

    body: bytes
    length: int | None


def infer(
    here: Context, name: str, version: str | None, body: Body, lengths: Sequence[str], encoding: str | None
) -> Inferred:
    """Apply the map of a model's name and version; ``lengths`` are the values of the length header."""
    limits = Limits.of(here.settings)
    model = find_model(here, name, version)
    text, raw = split(body if encoding is None else unpack(body, encoding, limits), lengths)
    request, elements = read_request(text, limits)
    tensor = read_tensor(_only_input(request), raw, "/inputs/0", elements)
    limits.check_shape(tensor.shape, "/inputs/0/shape")
    note_rows(tensor.shape)
    asked = _asked(request, model.outputs)
    found = model.apply(tensor, [output.name for output in asked])
    return _written(_head(model, request), [(output, found[output.name]) for output in asked])


def _only_input(request: InferenceRequest) -> InferenceInput:
    """The input ``predictions``, which must stand there once, and alone."""
    for i, given in enumerate(request.inputs):
        if given.name != PREDICTIONS:
            raise InvalidField.at(f"/inputs/{i}/name", f"must be {PREDICTIONS}, the model's only input")
        if i:
            raise InvalidField.at(f"/inputs/{i}/name", "stands twice")
    return request.inputs[0]


def _asked(request: InferenceRequest, known: Sequence[str]) -> list[Asked]:
    """The outputs that are asked for, in that order; all where none is."""
    every = request.parameters is not None and request.parameters.binary_data_output
    if not request.outputs:
        return [Asked(name, every) for name in known]
    asked: list[Asked] = []
    for i, output in enumerate(request.outputs):
        if output.name not in known:
            raise InvalidField.at(f"/outputs/{i}/name", f"must be one of: {', '.join(known)}")
        if any(output.name == other.name for other in asked):
            raise InvalidField.at(f"/outputs/{i}/name", "stands twice")
        own = None if output.parameters is None else output.parameters.binary_data
        asked.append(Asked(output.name, every if own is None else own))
    return asked


def _head(model: Model, request: InferenceRequest) -> dict[str, Any]:
    head = {
        "model_name": model.name,
        "model_version": model.version,
        "id": request.id,
        "parameters": {"map": model.held.id},
    }
    return {name: value for name, value in head.items() if value is not None}


def _written(head: dict[str, Any], outputs: list[tuple[Asked, Floats]]) -> Inferred:
    tensors, chunks = [], []
    for (name, binary), values in outputs:
        tensor: dict[str, Any] = {"name": name, "shape": list(values.shape), "datatype": "FP64"}
        if binary:
            chunks.append(to_bytes(values))
            tensor["parameters"] = {"binary_data_size": len(chunks[-1])}
        else:
            tensor["data"] = values.reshape(-1)
        tensors.append(tensor)
    text = orjson.dumps(head | {"outputs": tensors}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Inferred(b"".join((text, *chunks)), len(text)) if chunks else Inferred(text, None)
