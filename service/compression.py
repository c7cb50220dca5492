"""Compressed responses, for callers whose ``Accept-Encoding`` allows them (RFC 9110, section 12.5.3)."""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from zstandard import ZstdCompressor

from service.formats.media import EVENT_STREAM
from service.headers import read_qualities
from service.threads import run_in_thread

#: The codings, the preferred one first.
CODINGS = ("zstd", "gzip")
#: Shorter bodies fit in one packet, and compressing them would only cost time.
LEAST_BYTES = 1400
#: Pieces up to this size are compressed on the event loop.
_INLINE_BYTES = 16 * 1024
_GZIP_LEVEL, _ZSTD_LEVEL = 4, 3
#: What compresses well: text. Arrays of binary formats hardly do, and archives and PNGs are compressed.
_TEXT = re.compile(r"text/.*|application/(.*\+)?json|application/(x-ndjson|jsonl|javascript)|image/svg\+xml")
#: The end of a strong entity tag of a compressed representation, which differs from that of the plain one.
_TAG_END = re.compile(r'-(zstd|gzip)"')
_CONDITIONS = (b"if-match", b"if-none-match")


class Compressor(Protocol):
    """A compressor of pieces."""

    def compress(self, data: bytes, /) -> bytes: ...  # noqa: D102
    def flush(self) -> bytes: ...  # noqa: D102


@lru_cache(maxsize=64)
def choose_coding(header: str) -> str | None:
    """The coding of responses to a request with this ``Accept-Encoding``; None for no coding.

    >>> choose_coding("gzip, zstd"), choose_coding("gzip;q=0.5, zstd;q=0"), choose_coding("gzip;q=0.5, identity")
    ('zstd', 'gzip', None)
    """
    qualities = read_qualities(header)
    others = qualities.get("*", 0.0)
    best = max(CODINGS, key=lambda coding: qualities.get(coding, others))
    quality = qualities.get(best, others)
    return best if quality > 0.0 and quality >= qualities.get("identity", 0.0) else None


class Compress:
    """ASGI middleware that compresses text of at least ``LEAST_BYTES``, piece by piece.

    Streams of events stay as they are: each event is sent at once. A strong entity tag of a compressed response ends
    with its coding; conditions are compared without this end.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        accepted, conditional, known = b"", False, None
        for name, value in scope["headers"]:
            if name == b"accept-encoding":
                accepted = b", ".join((accepted, value)) if accepted else value
            elif name in _CONDITIONS:
                conditional = True
        coding = choose_coding(accepted.decode("latin-1"))
        if conditional:
            plain = [(name, _plain_tags(name, value, coding)) for name, value in scope["headers"]]
            known = coding if plain != scope["headers"] else None
            scope["headers"] = plain
        await self._app(scope, receive, _Response(send, coding, known))


def _plain_tags(name: bytes, value: bytes, coding: str | None) -> bytes:
    """A condition with the tags of plain representations.

    The state to change is the same in every coding; to a caller who has another coding than the one to be sent, the
    response is sent again.
    """
    if name not in _CONDITIONS:
        return value
    allowed = CODINGS if name == b"if-match" else (coding,)
    text = value.decode("latin-1")
    return _TAG_END.sub(lambda end: '"' if end[1] in allowed else end[0], text).encode("latin-1")


class _Response:
    """Sends one response; holds its start until the size of the body is known."""

    def __init__(self, send: Send, coding: str | None, known: str | None) -> None:
        self._send = send
        #: The coding of the representation that the caller has.
        self._known = known
        self._coding = coding
        self._start: Message | None = None
        self._compressor: Compressor | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._start is not None:
            start, self._start = self._start, None
            await self._begin(start, message)
        else:
            await self._continue(message)

    async def _begin(self, start: Message, message: Message) -> None:
        """Send the start and the first piece of the body."""
        whole = not message.get("more_body", False)
        if whole and 0 < len(message.get("body", b"")) < LEAST_BYTES:  # most responses
            await self._send(start)
            await self._send(message)
            return
        headers = MutableHeaders(raw=start["headers"])
        if start["status"] == 304:
            headers.add_vary_header("Accept-Encoding")
            _tag(headers, self._known)
        if not _is_text(start["status"], headers) or _length(headers, message, whole=whole) < LEAST_BYTES:
            await self._send(start)
            await self._send(message)
            return
        headers.add_vary_header("Accept-Encoding")
        if self._coding is None:
            await self._send(start)
            await self._send(message)
            return
        headers["Content-Encoding"] = self._coding
        _tag(headers, self._coding)
        for name in ("content-length", "accept-ranges"):
            del headers[name]
        self._compressor = _compressor(self._coding)
        first = await self._packed(message)
        if whole:
            headers["Content-Length"] = str(len(first["body"]))
        await self._send(start)
        await self._send(first)

    async def _continue(self, message: Message) -> None:
        packed = message if self._compressor is None else await self._packed(message)
        await self._send(packed)

    async def _packed(self, message: Message) -> Message:
        body, more = message.get("body", b""), message.get("more_body", False)
        if len(body) <= _INLINE_BYTES:
            return {**message, "body": self._pack(body, more=more)}
        return {**message, "body": await run_in_thread(self._pack, body, more=more)}

    def _pack(self, body: bytes, *, more: bool) -> bytes:
        assert self._compressor is not None  # noqa: S101
        packed = self._compressor.compress(body)
        return packed if more else packed + self._compressor.flush()


def _tag(headers: MutableHeaders, coding: str | None) -> None:
    """Make a strong entity tag that of the representation with this coding."""
    if coding is not None and (tag := headers.get("etag", "W/")).startswith('"'):
        headers["ETag"] = f'{tag[:-1]}-{coding}"'


def _compressor(coding: str) -> Compressor:
    if coding == "gzip":
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return ZstdCompressor(level=_ZSTD_LEVEL).compressobj()


def _is_text(status: int, headers: Headers) -> bool:
    """Whether a response has a complete body of text without a coding."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    return (
        status not in (204, 206, 304)
        and "content-encoding" not in headers
        and "no-transform" not in headers.get("cache-control", "")
        and kind != EVENT_STREAM
        and _TEXT.fullmatch(kind) is not None
    )


def _length(headers: Headers, message: Message, *, whole: bool) -> int:
    """The length of the body; of an unknown one, ``LEAST_BYTES``."""
    stated = headers.get("content-length", "")
    if stated.isdigit():
        return int(stated)
    return len(message.get("body", b"")) if whole else LEAST_BYTES
