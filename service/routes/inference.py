"""The Open Inference Protocol, version 2: each map is a model, and its versions are the model versions."""

from __future__ import annotations

from dataclasses import replace

from fastapi import Request, Response

from schemas.inference import (
    InferenceRequest,
    InferenceResponse,
    ModelMetadata,
    ModelReady,
    ServerLive,
    ServerMetadata,
    ServerReady,
)
from service.calls import Body, Call, Calls, Sample
from service.context import Here, answer
from service.formats.media import TENSORS
from service.inference.errors import PREFIX
from service.inference.infer import LENGTH_HEADER, respond
from service.inference.models import SERVER, find_model, metadata, reference_of
from service.threads import run_in_thread

calls = Calls("inference")
hidden = Calls()

_LENGTH = {
    "description": "bytes of the JSON object, if binary tensors follow it",
    "schema": {"type": "integer", "minimum": 0},
}
_INFER = Call(
    "POST",
    PREFIX,
    access="maps:read",
    from_memory=True,
    body=Body((InferenceRequest,), (TENSORS,)),
    headers={LENGTH_HEADER: _LENGTH},
    sends={LENGTH_HEADER: _LENGTH},
    answer=InferenceResponse,
    media=(TENSORS,),
    meaning="The requested outputs",
)


@hidden.add(Call("GET", f"{PREFIX}/", access="any"))
@calls.add(
    Call(
        "GET", PREFIX, access="any", answer=ServerMetadata, samples=(Sample("server", "The server and its extensions"),)
    )
)
async def server() -> Response:
    """Get the server's name, version and supported protocol extensions."""
    return answer(SERVER.model_dump())


@calls.add(
    Call(
        "GET",
        f"{PREFIX}/health/live",
        access="open",
        needs_store=False,
        answer=ServerLive,
        samples=(Sample("up", "The process responds"),),
    )
)
async def server_live() -> Response:
    """Check that the process responds."""
    return answer({"live": True})


@calls.add(
    Call(
        "GET",
        f"{PREFIX}/health/ready",
        access="open",
        answer=ServerReady,
        samples=(Sample("ready", "The store responds too"),),
    )
)
async def server_ready(here: Here) -> Response:
    """Check that the process and the store respond, or that it has maps in memory to apply; 503 otherwise."""
    if not here.process.is_stale:
        await here.process.reach()
    return answer({"live": True, "ready": True})


@calls.add(Call("GET", f"{PREFIX}/models/{{name}}", answer=ModelMetadata))
async def model(name: str, here: Here) -> Response:
    """Get a map's inputs, outputs and versions; the newest version represents the name."""
    return answer(await run_in_thread(metadata, here, name))


@calls.add(Call("GET", f"{PREFIX}/models/{{name}}/versions/{{version}}", answer=ModelMetadata))
async def model_version(name: str, version: str, here: Here) -> Response:
    """Get the inputs and outputs of one version."""
    return answer(await run_in_thread(metadata, here, name, version))


@calls.add(Call("GET", f"{PREFIX}/models/{{name}}/ready", answer=ModelReady, from_memory=True))
async def model_ready(name: str, here: Here) -> Response:
    """Check that the map exists and is intact; 404 if not."""
    await here.reach_map(reference_of(name))
    await run_in_thread(find_model, here, name)
    return answer({"name": name, "ready": True})


@calls.add(Call("GET", f"{PREFIX}/models/{{name}}/versions/{{version}}/ready", answer=ModelReady, from_memory=True))
async def model_version_ready(name: str, version: str, here: Here) -> Response:
    """Check that the version exists and is intact; 404 if not."""
    await here.reach_map(reference_of(name, version))
    await run_in_thread(find_model, here, name, version)
    return answer({"name": name, "ready": True})


@calls.add(replace(_INFER, path=f"{PREFIX}/models/{{name}}/infer"))
async def infer_newest(name: str, request: Request, here: Here) -> Response:
    """Apply the newest version of a map: return calibrated probabilities as JSON or binary tensors."""
    return await respond(request, here, name, None)


@calls.add(replace(_INFER, path=f"{PREFIX}/models/{{name}}/versions/{{version}}/infer"))
async def infer_version(name: str, version: str, request: Request, here: Here) -> Response:
    """Apply one version of a map."""
    return await respond(request, here, name, version)
