"""The body of a request: limited, decompressed, and passed to the reader of its content type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Protocol

import orjson
from fastapi import Request
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect

from calibrant.core.batch import MAX_OFFENCES
from calibrant.core.errors import Offence, WrongShape
from calibrant.io.compression import HTTP, unpacked
from calibrant.io.errors import DamagedFile, FileTooLarge
from calibrant.io.limits import LIGHT_BYTES
from calibrant.io.strict import CLASSIFICATION, Arrays, Fields, read_arrow, read_csv, read_npy, read_npz, read_parquet
from schemas.base import Document
from service.errors import InvalidField, MalformedEncoding, TooLarge, UnsupportedMediaType
from service.formats.extra import pyarrow
from service.formats.json_body import read_json
from service.formats.media import ARROW, CSV, JSON, NPY, NPZ, PARQUET
from service.formats.options import Options, pointer_of, query_fields, read_options
from service.formats.payload import Body, BodyLimits, Payload, fields_of_kind
from service.guard import LightBodies, RequestMemory, Slots
from service.headers import read_header
from service.settings import Settings
from service.threads import run_in_thread


class Reader(Protocol):
    """Reads the arrays of a body, by default those of a classifier."""

    def __call__(self, body: Body, limits: BodyLimits, fields: Fields = ...) -> Arrays: ...  # noqa: D102


def _with_pyarrow(read: Reader) -> Reader:
    def checked(body: Body, limits: BodyLimits, fields: Fields = CLASSIFICATION) -> Arrays:
        pyarrow()
        return read(body, limits, fields)

    return checked


def _archive(body: Body, limits: BodyLimits, fields: Fields = CLASSIFICATION) -> Arrays:
    return read_npz(body, limits, fields.kinds)


def _one_array(body: Body, limits: BodyLimits, fields: Fields = CLASSIFICATION) -> Arrays:
    if fields is not CLASSIFICATION:
        raise UnsupportedMediaType("an NPY body holds one array; send forecasts as NPZ")
    return read_npy(body, limits)


#: Readers of bodies whose options are in the query.
BINARY: Mapping[str, Reader] = MappingProxyType(
    {
        NPZ: _archive,
        NPY: _one_array,
        ARROW: _with_pyarrow(read_arrow),
        PARQUET: _with_pyarrow(read_parquet),
        CSV: read_csv,
    }
)
CONTENT_TYPES = (JSON, *BINARY)
ENCODINGS = ("gzip", "zstd", "deflate")
_CHARSETS = ("utf-8", "utf8", "us-ascii")
#: Bodies up to this size are parsed on the event loop, which is cheaper than a thread.
INLINE_BYTES = 16 * 1024
#: Bodies up to this size are not counted: the server buffers as much per connection anyway.
_UNCOUNTED_BYTES = 64 * 1024
#: Approximate size of the parts that a body is joined from.
_PART_BYTES = 256 * 1024


async def read_payload(request: Request, settings: Settings) -> Payload:
    """Read a body within the size limit, in the format of its content type."""
    kind = content_type(read_header(request, b"content-type"))
    encoding = read_encoding(read_header(request, b"content-encoding"))
    query = _options(request.query_params, kind) if request.scope["query_string"] else {}
    body = await bounded(request, settings.max_body_bytes)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        Slots.take_for(request.scope)
    if kind == JSON and encoding is None and len(body) <= INLINE_BYTES:
        return read_json(body, BodyLimits.of(settings))
    limits = BodyLimits.of(settings, partial(RequestMemory.reserve_for, request.scope))
    payload = await run_in_thread(read_body, body, kind, encoding, query, limits)
    if sum(array.nbytes for array in payload.arrays.values()) > LIGHT_BYTES:
        Slots.take_for(request.scope)
    return payload


def read_body(body: Body, kind: str, encoding: str | None, query: Mapping[str, str], limits: BodyLimits) -> Payload:
    """Decompress and read a body; raises the error of its first fault."""
    plain = body if encoding is None else unpack(body, encoding, limits)
    if kind == JSON:
        return read_json(plain, limits)
    arrays = BINARY[kind](plain, limits, fields_of_kind(query))
    options: dict[str, Any] = dict(query)
    if "level" in arrays:  # of intervals: an option, which an archive may hold as an array
        level = arrays.pop("level")
        if "level" in options:
            raise InvalidField.at("/level", "occurs in the body and in the query")
        if level.size != 1:
            raise WrongShape.at("/level", "must be one number")
        options["level"] = float(level.reshape(()))
    return Payload(arrays, options, from_query=True)


async def read_fields(request: Request, settings: Settings, model: type[Options]) -> Options:
    """Read and validate a JSON body without rows."""
    if read_header(request, b"content-type").partition(";")[0].strip().lower() != JSON:
        raise UnsupportedMediaType(f"the content type must be {JSON}")
    payload = await read_payload(request, settings)
    for name in payload.arrays:
        raise InvalidField.at(f"/{name}", "is not a field of this request")
    return read_options(payload, model)


async def read_no_fields(request: Request, settings: Settings, model: type[Document] | None = None) -> None:
    """Raise ``InvalidField`` unless the body is empty or ``{}``; ``model`` has the fields of the query.

    A body that is ignored would look like one that had an effect.
    """
    body = await bounded(request, settings.max_body_bytes)
    if not body or not body.strip():
        return
    try:
        found = orjson.loads(body) if len(body) <= INLINE_BYTES else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidField("this request has no fields in its body: send no body, or {}")
    names = model.model_fields if model is not None else {}
    unknown, in_query = "is not a field of this request", "must be in the query, not in the body"
    offences = [Offence(pointer_of(name), in_query if name in names else unknown) for name in found]
    if offences:
        raise InvalidField(f"{offences[0].pointer} {offences[0].detail}", offences[:MAX_OFFENCES])


@lru_cache(maxsize=64)
def read_encoding(header: str) -> str | None:
    """The encoding in a Content-Encoding header; None if there is none.

    Raises ``UnsupportedMediaType`` for any other encoding, and for several combined.
    """
    encoding = header.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding == "x-gzip":  # equivalent, by RFC 9110
        return "gzip"
    if encoding not in ENCODINGS:
        error = UnsupportedMediaType(f"the content encoding must be exactly one of: {', '.join(ENCODINGS)}")
        raise error.with_headers({"Accept-Encoding": ", ".join(ENCODINGS)})
    return encoding


def unpack(body: Body, encoding: str, limits: BodyLimits) -> Body:
    """Decompress a body, holding at most one piece more than ``max_unpacked_bytes`` in memory.

    Raises ``TooLarge``, or ``MalformedEncoding`` if the body is damaged, truncated or followed by other bytes, or
    has too large a window.
    """
    out = bytearray()
    try:
        for piece in unpacked(memoryview(body), encoding, HTTP):
            limits.check_bytes(len(out) + len(piece))
            limits.reserve(len(piece))
            out += piece
    except (DamagedFile, FileTooLarge) as error:
        raise MalformedEncoding(f"the body cannot be decompressed: {error.detail}") from error
    return out


@lru_cache(maxsize=64)
def content_type(header: str, allowed: tuple[str, ...] = CONTENT_TYPES) -> str:
    """The content type without its parameters; raises ``UnsupportedMediaType``, also for a charset other than UTF-8."""
    kind, _, parameters = header.lower().partition(";")
    if kind.strip() not in allowed:
        raise UnsupportedMediaType(f"the content type must be one of: {', '.join(allowed)}")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in _CHARSETS:
            raise UnsupportedMediaType("the charset must be utf-8")
    return kind.strip()


def _options(query: QueryParams, kind: str) -> dict[str, str]:
    """The options in the query, each at most once; a JSON body allows none, because it contains every option."""
    options = query_fields(query)
    if kind == JSON:
        for name in options:
            raise InvalidField.at(pointer_of(name), "must be in the JSON body, not in the query")
    return options


async def bounded(request: Request, limit: int) -> bytearray:
    """Read the body as sent; once complete, a large one takes a slot for heavy work, and others wait for their turn.

    Raises ``TooLarge`` before more than ``limit`` bytes are held in memory, and ``Busy``.
    """
    stated = read_header(request, b"content-length")
    if stated.isascii() and stated.isdigit() and int(stated) > limit:
        raise TooLarge(f"the body may have at most {limit} bytes")
    parts: list[bytearray] = []
    size, more = 0, True
    while more:  # like request.stream(), without the cost of a generator
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the body may have at most {limit} bytes")
        if size > _UNCOUNTED_BYTES:
            RequestMemory.hold_for(request.scope, size)
        # Growing many large bodies would copy them repeatedly, and small chunks occupy more memory than their bytes.
        if parts and len(parts[-1]) < _PART_BYTES:
            parts[-1] += chunk
        else:
            parts.append(chunk if isinstance(chunk, bytearray) else bytearray(chunk))
    if size > LIGHT_BYTES:  # a request with a large body counts as heavy
        Slots.take_for(request.scope)
    elif size > INLINE_BYTES:
        await LightBodies.take_for(request.scope, size)
    if len(parts) == 1:
        return parts[0]
    with RequestMemory.lent_for(request.scope, size):
        return bytearray().join(parts)
