"""The Open Inference Protocol, version 2: each map is a model, and its versions are the model versions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

import calibrant
from schemas.inference import (
    InferenceRequest,
    InferenceResponse,
    ModelMetadata,
    ModelReady,
    ServerLive,
    ServerMetadata,
    ServerReady,
)
from service.context import Context, Here, answer
from service.descriptions import described_later
from service.formats.body import bounded, read_encoding
from service.guard import Slots
from service.headers import read_header, read_headers
from service.inference.errors import PREFIX
from service.inference.infer import BINARY, JSON, LENGTH_HEADER, check_media_type, infer
from service.inference.models import find_model, metadata
from service.routing import Idempotent
from service.threads import run_in_thread

_BINARY = {"schema": {"type": "string", "format": "binary", "description": "a JSON object, followed by binary tensors"}}
_LENGTH = {
    "description": "bytes of the JSON object, if binary tensors follow it",
    "schema": {"type": "integer", "minimum": 0},
}


@described_later
def inference_body(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a body that is ``model`` as JSON, with or without binary tensors."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    body = {
        "required": True,
        "content": {JSON: {"schema": schema}, BINARY: _BINARY},
    }
    length = {"name": LENGTH_HEADER, "in": "header", "required": False, **_LENGTH}
    return {"requestBody": body, "parameters": [length]}


router = APIRouter(prefix=PREFIX, tags=["inference"], route_class=Idempotent)

_ANSWERED = {
    "description": "The requested outputs",
    "content": {BINARY: _BINARY},
    "headers": {LENGTH_HEADER: _LENGTH},
}
_INFER: dict[str, Any] = {
    "response_model": InferenceResponse,
    "responses": {200: _ANSWERED},
    "openapi_extra": inference_body(InferenceRequest),
}


@router.get("/", include_in_schema=False)
@router.get("", response_model=ServerMetadata)
async def server() -> Response:
    """Get the server's name, version and supported protocol extensions."""
    return answer({"name": "calibrant", "version": calibrant.__version__, "extensions": ["binary_tensor_data"]})


@router.get("/health/live", response_model=ServerLive)
async def server_live() -> Response:
    """Check that the process responds."""
    return answer({"live": True})


@router.get("/health/ready", response_model=ServerReady)
async def server_ready(here: Here) -> Response:
    """Check that the process and the store respond; 503 if the store is unavailable."""
    await here.process.reach()
    return answer({"live": True, "ready": True})


@router.get("/models/{name}", response_model=ModelMetadata)
async def model(name: str, here: Here) -> Response:
    """Get a map's inputs, outputs and versions; the newest version represents the name."""
    return answer(await run_in_thread(metadata, here, name))


@router.get("/models/{name}/versions/{version}", response_model=ModelMetadata)
async def model_version(name: str, version: str, here: Here) -> Response:
    """Get the inputs and outputs of one version."""
    return answer(await run_in_thread(metadata, here, name, version))


@router.get("/models/{name}/ready", response_model=ModelReady)
async def model_ready(name: str, here: Here) -> Response:
    """Check that the map exists and is intact; 404 if not."""
    await run_in_thread(find_model, here, name)
    return answer({"name": name, "ready": True})


@router.get("/models/{name}/versions/{version}/ready", response_model=ModelReady)
async def model_version_ready(name: str, version: str, here: Here) -> Response:
    """Check that the version exists and is intact; 404 if not."""
    await run_in_thread(find_model, here, name, version)
    return answer({"name": name, "ready": True})


@router.post("/models/{name}/infer", **_INFER)
async def infer_newest(name: str, request: Request, here: Here) -> Response:
    """Apply the newest version of a map: return calibrated probabilities as JSON or binary tensors."""
    return await _inferred(request, here, name, None)


@router.post("/models/{name}/versions/{version}/infer", **_INFER)
async def infer_version(name: str, version: str, request: Request, here: Here) -> Response:
    """Apply one version of a map."""
    return await _inferred(request, here, name, version)


async def _inferred(request: Request, here: Context, name: str, version: str | None) -> Response:
    lengths = read_headers(request, LENGTH_HEADER.lower().encode())
    check_media_type(read_header(request, b"content-type"))
    encoding = read_encoding(read_header(request, b"content-encoding"))
    body = await bounded(request, here.settings.max_body_bytes)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        Slots.take_for(request.scope)
    found = await run_in_thread(infer, here, name, version, body, lengths, encoding)
    if found.length is None:
        return Response(found.body, media_type=JSON)
    return Response(found.body, headers={LENGTH_HEADER: str(found.length)}, media_type=BINARY)
