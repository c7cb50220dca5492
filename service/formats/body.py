"""The body of a request: bounded, unpacked, then given to the reader of its content type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect

from calibrant.io.bounds import LIGHT_BYTES
from service.errors import InvalidField, TooLarge, UnsupportedMediaType
from service.formats.csv_body import read_csv
from service.formats.encodings import read_encoding, unpack
from service.formats.json_body import read_json
from service.formats.limits import Limits
from service.formats.media import ARROW, CSV, JSON, NPY, NPZ, PARQUET
from service.formats.npz_body import read_npy, read_npz
from service.formats.options import pointer_of, query_fields
from service.formats.payload import Arrays, Body, Payload
from service.formats.tables import read_arrow, read_parquet
from service.guard import Bodies, Places
from service.headers import read_header
from service.settings import Settings

#: The readers of bodies that carry their options in the query.
BINARY: Mapping[str, Callable[[Body, Limits], Arrays]] = MappingProxyType(
    {NPZ: read_npz, NPY: read_npy, ARROW: read_arrow, PARQUET: read_parquet, CSV: read_csv}
)
CONTENT_TYPES = (JSON, *BINARY)
_CHARSETS = ("utf-8", "utf8", "us-ascii")
#: Bodies up to this size are parsed on the event loop: the way to a thread costs more.
_INLINE_BYTES = 16 * 1024
#: Bodies up to this size are not counted: the server buffers as much of each connection in any case.
_UNCOUNTED_BYTES = 64 * 1024
#: A body is put together from parts of about this size.
_PART_BYTES = 256 * 1024


async def read_payload(request: Request, settings: Settings) -> Payload:
    """Read a body of at most the limit, in a format that its content type names exactly."""
    kind = content_type(read_header(request, b"content-type"))
    encoding = read_encoding(read_header(request, b"content-encoding"))
    query = _options(request.query_params, kind) if request.scope["query_string"] else {}
    body = await bounded(request, settings.max_body_bytes)
    if encoding is not None:  # what it unpacks to is anything up to its limit
        Places.take_for(request.scope)
    if kind == JSON and encoding is None and len(body) <= _INLINE_BYTES:
        return read_json(body, Limits.of(settings))
    limits = Limits.of(settings, partial(Places.take_for, request.scope))
    payload = await run_in_threadpool(read_body, body, kind, encoding, query, limits)
    if sum(array.nbytes for array in payload.arrays.values()) > LIGHT_BYTES:
        Places.take_for(request.scope)
    return payload


def read_body(body: Body, kind: str, encoding: str | None, query: Mapping[str, str], limits: Limits) -> Payload:
    """Unpack and read a body. Raises the error of whatever is wrong with it."""
    plain = body if encoding is None else unpack(body, encoding, limits)
    if kind == JSON:
        return read_json(plain, limits)
    return Payload(BINARY[kind](plain, limits), query, from_query=True)


@lru_cache(maxsize=64)
def content_type(header: str, allowed: tuple[str, ...] = CONTENT_TYPES) -> str:
    """The content type without its parameters, of which only a charset of another text matters."""
    kind, _, parameters = header.lower().partition(";")
    if kind.strip() not in allowed:
        raise UnsupportedMediaType(f"the content type must be one of: {', '.join(allowed)}")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in _CHARSETS:
            raise UnsupportedMediaType("the charset must be utf-8")
    return kind.strip()


def _options(query: QueryParams, kind: str) -> dict[str, str]:
    """The options in the query, each once; beside JSON there may be none, since nobody would read them."""
    options = query_fields(query)
    if kind == JSON:
        for name in options:
            raise InvalidField.at(pointer_of(name), "stands in the query, where a JSON body carries every option")
    return options


async def bounded(request: Request, limit: int) -> bytearray:
    """The body as it was sent; it takes its place if it is large, once all of it is there.

    Raises ``TooLarge`` before more than ``limit`` bytes of it are held, and ``Busy``.
    """
    stated = read_header(request, b"content-length")
    if stated.isascii() and stated.isdigit() and int(stated) > limit:
        raise TooLarge(f"the body may have at most {limit} bytes")
    parts: list[bytearray] = []
    size, more = 0, True
    while more:  # request.stream() does the same, by way of a generator
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the body may have at most {limit} bytes")
        # Many large bodies that grow at once would be copied all the time, and small chunks take more than their bytes.
        if parts and len(parts[-1]) < _PART_BYTES:
            parts[-1] += chunk
        else:
            parts.append(chunk if isinstance(chunk, bytearray) else bytearray(chunk))
        if size > _UNCOUNTED_BYTES:
            Bodies.hold_for(request.scope, size)
    if size > LIGHT_BYTES:  # a request with a larger body is heavy, and takes one of few places
        Places.take_for(request.scope)
    return parts[0] if len(parts) == 1 else bytearray().join(parts)
