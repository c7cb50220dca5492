"""Responses with arrays, in the type that the caller accepts; large ones are streamed in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from calibrant.core.cells import Floats
from service.formats.catalogue import BY_TYPE, WRITERS
from service.formats.documents import write_sets
from service.formats.media import JSON
from service.headers import choose, read_header
from service.threads import iterate_in_thread, run_in_thread

#: Responses with at most this many bytes of numbers are sent in one piece, with their length.
_SMALL_BYTES = 64 * 1024


def choose_type(request: Request) -> str:
    """Choose the response type; raises ``NotAcceptable``. Call it before the work is done."""
    accepted = read_header(request, b"accept")
    if not accepted:
        return JSON
    offered = [kind for kind in WRITERS if BY_TYPE[kind].is_available()]
    return choose(accepted, offered)


#: Headers of a response with arrays that a map was applied to, by the field with their value.
OF_MAPS = {"map": "Calibrant-Map", "version": "Calibrant-Map-Version"}


async def respond(request: Request, kind: str, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Response:
    """Respond with arrays in the chosen type; the pieces of a large response are created in a thread while it is sent.

    The map that was applied is in headers too, because some types have only arrays. HTTP/1.0 has no chunked encoding,
    so its clients receive the whole response with its length.
    """
    size = sum(array.nbytes for array in arrays.values())
    if "members" in arrays and kind == JSON:
        return await respond_in_pieces(request, kind, write_sets(fields, arrays["members"]), size, _headers_of(fields))
    if size <= _SMALL_BYTES and kind == JSON:
        return respond_small({**fields, **{name: np.ascontiguousarray(array) for name, array in arrays.items()}})
    return await respond_in_pieces(request, kind, WRITERS[kind](fields, arrays), size, _headers_of(fields))


async def respond_in_pieces(
    request: Request, kind: str, pieces: Iterator[bytes], size: int, headers: Mapping[str, str]
) -> Response:
    """Respond with pieces that hold ``size`` bytes of numbers."""
    if size > _SMALL_BYTES and request.scope.get("http_version") != "1.0":
        request.state.slots.give_back(request.scope)  # a client that reads slowly must not hold up others
        return StreamingResponse(iterate_in_thread(pieces), headers=headers, media_type=kind)
    content = await run_in_thread(b"".join, pieces)
    return Response(content, headers=headers, media_type=kind)


def respond_small(fields: Mapping[str, Any]) -> Response:
    """Respond with a few numbers as JSON, in lists or arrays."""
    return Response(orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY), 200, _headers_of(fields), JSON)


def _headers_of(fields: Mapping[str, Any]) -> dict[str, str]:
    named = {header: str(fields[field]) for field, header in OF_MAPS.items() if fields.get(field) is not None}
    return {"Vary": "Accept"} | named
