"""The body of rows: limited, and passed to the reader of its content type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from fastapi import Request
from starlette.datastructures import Headers

from backend.monitors.rows import MonitorRows, What
from service.errors import InvalidField
from service.formats.body import bounded, content_type, read_encoding, unpack
from service.formats.media import ARROW, EVENT, EVENTS, JSON, JSONL, NDJSON, NPZ
from service.formats.options import pointer_of, query_fields
from service.formats.payload import Body, BodyLimits
from service.guard import RequestMemory, Slots
from service.headers import read_header
from service.monitor_bodies.arrays import read_arrow_rows, read_npz_rows
from service.monitor_bodies.documents import Columns, check_text, of_text, read_json_rows, read_lines
from service.monitor_bodies.events import CloudEvent, is_binary, read_binary, read_structured
from service.settings import Settings

#: The readers of rows.
READERS: Mapping[str, Callable[[Body, BodyLimits, What, Columns], MonitorRows]] = MappingProxyType(
    {JSON: read_json_rows, NDJSON: read_lines, JSONL: read_lines, NPZ: read_npz_rows, ARROW: read_arrow_rows}
)

#: Copies of text in memory, as which its rows count at most: one without NaN, and the values of the rows.
_TEXT_COPIES = 3
#: Formats with arrays instead of objects.
_OF_ARRAYS = (NPZ, ARROW)
#: The kind of an event in binary mode, whose attributes are in headers; replaces its content type.
BINARY = "binary"


@dataclass(frozen=True)
class Sent:
    """A body as sent: its content type, bytes and encoding, and the limits on its unpacked size."""

    kind: str
    body: Body
    encoding: str | None
    limits: BodyLimits

    def plain(self) -> Body:
        """Decompress the body; raises ``MalformedEncoding``, ``Busy`` and ``TooLarge``."""
        body = self.body if self.encoding is None else unpack(self.body, self.encoding, self.limits)
        if self.kind not in _OF_ARRAYS:
            check_text(body, self.limits)
            self.limits.reserve(_TEXT_COPIES * len(body))
        return body

    def events(self, headers: Headers) -> Iterable[CloudEvent | None]:
        """The events of the body, None for an invalid event of a batch; raises the error of a single event."""
        if self.kind == BINARY:
            return [read_binary(self.plain(), headers, self.limits)]
        return read_structured(self.plain(), self.kind, self.limits)

    def rows(self, what: What, columns: Columns) -> MonitorRows:
        """The rows of the body; raises an error about the body as a whole."""
        return READERS[self.kind](self.plain(), self.limits, what, columns)


async def receive_rows(request: Request, settings: Settings) -> Sent:
    """Read a body of rows within the size limit."""
    kind = content_type(read_header(request, b"content-type"), tuple(READERS))
    return await _receive(request, settings, kind, ())


async def receive_events(request: Request, settings: Settings) -> Sent:
    """Read a body of events within the size limit; in binary mode their data may have any content type.

    Plain JSON without the headers of an event is one event in structured mode.
    A page of another origin cannot send these headers or this content type without a preflight request.
    """
    binary = is_binary(request.headers)
    kind = BINARY if binary else content_type(read_header(request, b"content-type"), (EVENT, EVENTS, JSON))
    if request.query_params.get("by", "id") not in ("id", "source"):
        raise InvalidField.at("/by", "must be id or source")
    return await _receive(request, settings, kind, ("output", "by"))


async def _receive(request: Request, settings: Settings, kind: str, options: tuple[str, ...]) -> Sent:
    encoding = read_encoding(read_header(request, b"content-encoding"))
    for name in query_fields(request.query_params):
        if name not in options:
            raise InvalidField.at(pointer_of(name), "is not a parameter of this call")
    body = await bounded(request, settings.max_body_bytes)
    if encoding is not None:  # its unpacked size can be anything up to the limit
        Slots.take_for(request.scope)
    limits = BodyLimits.of(settings, partial(RequestMemory.reserve_for, request.scope))
    return Sent(kind, body, encoding, limits if kind in _OF_ARRAYS else of_text(limits))
