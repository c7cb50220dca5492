"""Answers that carry arrays: in the type that the caller accepts, large ones in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from calibrant.cells import Floats
from service.formats.arrow_answer import write_arrow
from service.formats.extra import has_pyarrow
from service.formats.json_answer import write_json
from service.formats.media import ARROW, JSON, NPZ
from service.formats.negotiation import choose
from service.formats.npz_answer import write_npz

#: The writers: fields of text and arrays of one length in, pieces of the answer out.
WRITERS: Mapping[str, Callable[[Mapping[str, str], Mapping[str, Floats]], Iterator[bytes]]] = MappingProxyType(
    {JSON: write_json, NPZ: write_npz, ARROW: write_arrow}
)
#: Answers of at most so many bytes of numbers are written at once, with their length.
_SMALL_BYTES = 64 * 1024


def choose_type(request: Request) -> str:
    """The type to answer in; raises ``NotAcceptable``. Called before the work is done."""
    accepted = request.headers.getlist("accept")
    if not accepted:
        return JSON
    offered = [kind for kind in WRITERS if kind != ARROW or has_pyarrow()]
    # Several headers are one, as RFC 9110 has it.
    return choose(",".join(accepted), offered)


async def respond(request: Request, kind: str, fields: Mapping[str, str], arrays: Mapping[str, Floats]) -> Response:
    """Answer with arrays in the type chosen. The pieces of a large answer are made in a thread as they are sent.

    HTTP/1.0 has no chunked encoding, so a client of that version gets the answer whole, with its length.
    """
    pieces = WRITERS[kind](fields, arrays)
    headers = {"Vary": "Accept"}
    if sum(array.nbytes for array in arrays.values()) <= _SMALL_BYTES:
        if kind == JSON:
            rows = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            return Response(orjson.dumps({**fields, **rows}, option=orjson.OPT_SERIALIZE_NUMPY), 200, headers, kind)
    elif request.scope.get("http_version") != "1.0":
        return StreamingResponse(pieces, headers=headers, media_type=kind)
    content = await run_in_threadpool(b"".join, pieces)
    return Response(content, headers=headers, media_type=kind)
