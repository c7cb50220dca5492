"""The body of a request: limited, decompressed, and passed to the reader of its content type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
import orjson
from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from backend.monitors.row_fields import PredictionColumns
from backend.monitors.rows import MonitorRows, What
from calibrant.core.errors import MAX_OFFENCES, Offence
from calibrant.io.errors import DamagedFile, FileTooLarge
from calibrant.io.limits import LIGHT_BYTES
from calibrant.io.source import HTTP, unpacked
from schemas.base import Document
from schemas.monitor_rows import EventsQuery
from service.errors import InvalidField, MalformedEncoding, TooLarge, UnsupportedMediaType, of_header
from service.formats.catalogue import BY_TYPE, READERS, ROWS_READERS
from service.formats.documents import CSV, of_text
from service.formats.events import CloudEvent, is_binary, read_binary, read_structured
from service.formats.format import Body, BodyLimits, Payload, with_numbers
from service.formats.media import EVENT, EVENTS, JSON, MERGE_PATCH
from service.formats.options import Options, pointer_of, query_fields, read_options
from service.guard import LightBodies, RequestMemory, Slots
from service.headers import read_header
from service.settings import ScoringSettings
from service.threads import run_in_thread

ENCODINGS = ("gzip", "zstd", "deflate")
_CHARSETS = ("utf-8", "utf8", "us-ascii")
#: Bodies up to this size are parsed on the event loop, which is cheaper than a thread.
INLINE_BYTES = 16 * 1024
#: Bodies up to this size are not counted: the server buffers as much per connection anyway.
_UNCOUNTED_BYTES = 64 * 1024
#: Larger bodies are received into a view, which grows by a factor.
_BUFFERED_BYTES, _GROWTH = 256 * 1024, 4


async def read_payload(request: Request, settings: ScoringSettings) -> Payload:
    """Read a body within the size limit, in the format of its content type."""
    return await _read_as(content_type(read_header(request, b"content-type"), tuple(READERS)), request, settings)


async def _read_as(kind: str, request: Request, settings: ScoringSettings) -> Payload:
    encoding = read_encoding(read_header(request, b"content-encoding"))
    query = _options(request.query_params, kind) if request.scope["query_string"] else {}
    # Only the reader of CSV needs the methods of bytes.
    received = await (bounded if kind == CSV.media_type else buffered)(request, settings.max_body_bytes)
    body = cast("Body", received)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        await Slots.wait_for(request.scope)
    if kind == JSON and encoding is None and len(body) <= INLINE_BYTES:
        return with_numbers(READERS[kind](body, BodyLimits.of(settings), query))
    limits = BodyLimits.of(settings, partial(RequestMemory.reserve_for, request.scope))

    def read() -> Payload:
        payload = read_body(body, kind, encoding, query, limits)
        if sum(array.nbytes for array in payload.arrays.values()) > LIGHT_BYTES:
            Slots.take_for(request.scope)
        return payload

    return await run_in_thread(read)


def read_body(body: Body, kind: str, encoding: str | None, query: Mapping[str, str], limits: BodyLimits) -> Payload:
    """Decompress and read a body; raises the error of its first fault."""
    return with_numbers(READERS[kind](body if encoding is None else unpack(body, encoding, limits), limits, query))


# --- Rows and events of monitors

#: The kind of an event in binary mode, whose attributes are in headers; replaces its content type.
BINARY_EVENT = "binary"


@dataclass(frozen=True)
class Sent:
    """A body as sent: its content type, bytes and encoding, and the limits on its unpacked size."""

    kind: str
    body: Body
    encoding: str | None
    limits: BodyLimits

    def plain(self) -> Body:
        """Decompress the body; raises ``MalformedEncoding``, ``Busy`` and ``TooLarge``."""
        return self.body if self.encoding is None else unpack(self.body, self.encoding, self.limits)

    def events(self, headers: Headers) -> Iterable[CloudEvent | None]:
        """The events of the body, None for an invalid event of a batch; raises the error of a single event."""
        if self.kind == BINARY_EVENT:
            return [read_binary(self.plain(), headers, self.limits)]
        return read_structured(self.plain(), self.kind, self.limits)

    def rows(self, what: What, columns: PredictionColumns) -> MonitorRows:
        """The rows of the body; raises an error about the body as a whole."""
        return ROWS_READERS[self.kind](self.plain(), self.limits, what, columns)


async def receive_rows(request: Request, settings: ScoringSettings) -> Sent:
    """Read a body of rows within the size limit."""
    kind = content_type(read_header(request, b"content-type"), tuple(ROWS_READERS))
    return await _receive(request, settings, kind, (), makes_objects=BY_TYPE[kind].makes_objects)


async def receive_events(request: Request, settings: ScoringSettings) -> Sent:
    """Read a body of events within the size limit; in binary mode their data may have any content type.

    Plain JSON without the headers of an event is one event in structured mode.
    A page of another origin cannot send these headers or this content type without a preflight request.
    """
    binary = is_binary(request.headers)
    kind = BINARY_EVENT if binary else content_type(read_header(request, b"content-type"), (EVENT, EVENTS, JSON))
    return await _receive(request, settings, kind, tuple(EventsQuery.model_fields), makes_objects=True)


async def _receive(
    request: Request, settings: ScoringSettings, kind: str, options: tuple[str, ...], *, makes_objects: bool
) -> Sent:
    encoding = read_encoding(read_header(request, b"content-encoding"))
    for name in query_fields(request.query_params):
        if name not in options:
            raise InvalidField.at(pointer_of(name), "is not a parameter of this call")
    body = await bounded(request, settings.max_body_bytes)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        await Slots.wait_for(request.scope)
    limits = BodyLimits.of(settings, partial(RequestMemory.reserve_for, request.scope))
    return Sent(kind, body, encoding, of_text(limits) if makes_objects else limits)


# --- Bodies without rows


async def read_fields(request: Request, settings: ScoringSettings, model: type[Options]) -> Options:
    """Read and validate a JSON body without rows; that of a PATCH is a merge patch.

    A plain JSON body of a PATCH is refused: it does not declare what null and omitted fields mean (RFC 5789).
    """
    allowed = MERGE_PATCH if request.method == "PATCH" else JSON
    try:
        content_type(read_header(request, b"content-type"), (allowed,))
    except UnsupportedMediaType as error:
        raise error.with_headers({"Accept-Patch": MERGE_PATCH} if allowed == MERGE_PATCH else {}) from None
    payload = await _read_as(JSON, request, settings)
    for name in payload.arrays:
        raise InvalidField.at(f"/{name}", "is not a field of this request")
    return read_options(payload, model, is_change=allowed == MERGE_PATCH)


async def read_no_fields(request: Request, settings: ScoringSettings, model: type[Document] | None = None) -> None:
    """Raise ``InvalidField`` unless the body is empty or ``{}``; ``model`` has the fields of the query.

    A body that is ignored would look like one that had an effect.
    """
    body = await bounded(request, settings.max_body_bytes)
    if not body or not body.strip():
        return
    try:
        document = orjson.loads(body) if len(body) <= INLINE_BYTES else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise InvalidField("this request has no fields in its body: send no body, or {}")
    names = model.model_fields if model is not None else {}
    unknown, in_query = "is not a field of this request", "must be in the query, not in the body"
    offences = [Offence(pointer_of(name), in_query if name in names else unknown) for name in document]
    if offences:
        raise InvalidField(f"{offences[0].pointer}: {offences[0].detail}", offences[:MAX_OFFENCES])


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
        error = of_header(UnsupportedMediaType, "Content-Encoding", f"must be exactly one of: {', '.join(ENCODINGS)}")
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
def content_type(header: str, allowed: tuple[str, ...]) -> str:
    """The content type without its parameters; raises ``UnsupportedMediaType``, also for a charset other than UTF-8."""
    kind, _, parameters = header.lower().partition(";")
    if kind.strip() not in allowed:
        names = allowed[0] if len(allowed) == 1 else f"one of: {', '.join(allowed)}"
        raise of_header(UnsupportedMediaType, "Content-Type", f"must be {names}")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in _CHARSETS:
            raise of_header(UnsupportedMediaType, "Content-Type", "must have the charset utf-8")
    return kind.strip()


def _options(query: QueryParams, kind: str) -> dict[str, str]:
    """The options in the query, each at most once; a body that contains every option, such as JSON, allows none."""
    options = query_fields(query)
    if BY_TYPE[kind].options_in_body:
        for name in options:
            raise InvalidField.at(pointer_of(name), "must be in the JSON body, not in the query")
    return options


async def bounded(request: Request, limit: int) -> bytearray:
    """Read the body as sent, like ``buffered``, with the methods of bytes."""
    body = await buffered(request, limit)
    if isinstance(body, bytearray):
        return body
    with RequestMemory.lent_for(request.scope, len(body)):
        return bytearray(body)


async def buffered(request: Request, limit: int) -> bytearray | memoryview:
    """Read the body as sent; once complete, a large one waits for a slot for heavy work, and others for their turn.

    Bodies of more than ``_BUFFERED_BYTES`` are a view. Raises ``TooLarge`` before more than ``limit`` bytes are held in
    memory, and ``Busy``.
    """
    stated = read_header(request, b"content-length")
    if stated.isascii() and stated.isdigit() and int(stated) > limit:
        raise TooLarge(f"the body may have at most {limit} bytes")
    body: bytearray | memoryview = bytearray()
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
        if isinstance(chunk, bytearray) and len(chunk) == size:
            body = chunk
        elif isinstance(body, bytearray) and size <= _BUFFERED_BYTES:
            body += chunk
        else:
            body = _grown(request.scope, body, size - len(chunk), size)
            body[size - len(chunk) : size] = chunk
    if size > LIGHT_BYTES:  # a request with a large body counts as heavy
        await Slots.wait_for(request.scope)
    elif size > INLINE_BYTES:
        await LightBodies.take_for(request.scope, size)
    return body if isinstance(body, bytearray) else body[:size]


def _grown(scope: Scope, body: bytearray | memoryview, filled: int, size: int) -> memoryview:
    """A view of at least ``size`` bytes that begins with those ``filled`` of a body.

    The system provides the memory of the rest only once it is written, so a view may be several times larger.
    """
    if isinstance(body, memoryview) and len(body) >= size:
        return body
    grown = np.empty(_GROWTH * size, np.uint8).data
    with RequestMemory.lent_for(scope, filled):
        grown[:filled] = body[:filled]
    return grown
