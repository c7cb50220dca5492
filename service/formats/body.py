"""The body of a request: bounded, then given to the reader of its content type."""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from service.errors import TooLarge, UnsupportedMediaType
from service.formats.json_body import read_json
from service.formats.npz_body import read_npz
from service.formats.payload import Payload
from service.guard import Places
from service.settings import Settings

JSON = "application/json"
NPZ = "application/x-npz"
#: Bodies up to this size are parsed on the event loop: the way to a thread costs more.
_INLINE_BYTES = 16 * 1024
#: A request with a larger body is heavy, and takes one of few places.
_LIGHT_BYTES = 1024 * 1024


async def read_payload(request: Request, settings: Settings) -> Payload:
    """Read a body of at most the limit, in a format that its content type names exactly."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, NPZ):
        raise UnsupportedMediaType(f"the content type must be {JSON} or {NPZ}")
    body = await bounded(request, settings.max_body_bytes)
    if kind == JSON:
        return read_json(body) if len(body) <= _INLINE_BYTES else await run_in_threadpool(read_json, body)
    return await run_in_threadpool(read_npz, body, dict(request.query_params), settings.max_unpacked_bytes)


async def bounded(request: Request, limit: int) -> bytes:
    """The body as it was sent; raises ``TooLarge`` before more than ``limit`` bytes of it are held."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > limit:
        raise TooLarge(f"the body may have at most {limit} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body may have at most {limit} bytes")
        if len(body) > _LIGHT_BYTES:
            Places.take_for(request.scope)
    return bytes(body)
