"""HTTP connections: limits on what a client may send before its request is read, and on time."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from backend.telemetry.logs import log_event
from schemas.problem_table import problem
from service.errors import RequestError, UnsupportedTransferCoding
from service.inference.errors import error_of, uses_protocol
from service.observe import UNMATCHED, match_route
from service.problems import PROBLEM_HEADERS, respond
from service.root_path import without_root
from service.scoring import ScoringProcess

# --- Checks of the head of a request that the parser accepts: its version, the fields that may occur once, its framing

Headers = list[tuple[bytes, bytes]]

#: Fields with one value: of two, programs may read different ones.
SINGLE: Final = frozenset(
    (
        *(b"host", b"origin", b"authorization", b"cookie", b"content-type", b"content-length"),
        *(b"idempotency-key", b"last-event-id", b"x-csrf-token", b"calibrant-note"),
    )
)
_VERSIONS = ("1.0", "1.1")
_HOST = rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
_IS_HOST: Final = re.compile(_HOST)
#: A target in absolute form, as clients send it to a proxy; its host without user information.
_ABSOLUTE: Final = re.compile(rb"https?://(" + _HOST + rb")(?:[/?].*)?", re.IGNORECASE | re.DOTALL)


def check_head(version: str, url: bytes, headers: Headers) -> None:
    """Check a complete head; the names of its fields must be in lower case.

    The host of a target in absolute form replaces that of the field ``Host``. Raises ``RequestError``, or
    ``UnsupportedTransferCoding`` for a coding besides chunked.
    """
    if version not in _VERSIONS:
        raise RequestError("the version of HTTP must be 1.1 or 1.0")
    if b"#" in url:
        raise RequestError("the target must not have a fragment")
    names = [name for name, _ in headers]
    if len(set(names)) < len(names):
        for name in SINGLE:
            if names.count(name) > 1:
                raise RequestError(f"the header {name.decode()} may occur only once")
    if b"host" in names:
        at = names.index(b"host")
        if not _IS_HOST.fullmatch(headers[at][1].strip(b" \t")):
            raise RequestError("the header host must be a host, with or without a port")
        if not url.startswith(b"/"):
            headers[at] = (b"host", _host_of(url, headers[at][1]))
    elif version != "1.0":
        raise RequestError("the header host is missing")
    if b"transfer-encoding" in names:
        _check_codings(version, [value for name, value in headers if name == b"transfer-encoding"])


def _host_of(url: bytes, host: bytes) -> bytes:
    """The host of a target in absolute form; ``host`` for targets of other forms."""
    if b"://" not in url.partition(b"?")[0]:
        return host
    absolute = _ABSOLUTE.fullmatch(url)
    if absolute is None or not absolute[1]:
        raise RequestError("the target must be a path, or a URL of http or https without user information")
    return absolute[1]


def _check_codings(version: str, values: Sequence[bytes]) -> None:
    if version == "1.0":
        raise RequestError("the header transfer-encoding needs HTTP/1.1")
    codings = [coding.strip(b" \t").lower() for coding in b",".join(values).split(b",")]
    if codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise RequestError("the last transfer coding, and no other, must be chunked")
    if len(codings) > 1:
        raise UnsupportedTransferCoding("the transfer coding must be chunked; compress a body with Content-Encoding")


# --- Flow control: when a connection is read, and how long its client may take to read a response

#: Seconds between two checks of a response in transmission, and the bytes that a client must read in between.
_READING_SECONDS, _READING_BYTES = 30.0, 256 * 1024


class Flow(FlowControl):
    """uvicorn's flow control, which also waits for the parser and limits how long it waits for the client."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(transport)
        self._loop = loop
        self._is_paused = False  # by uvicorn
        self._is_behind = False
        self._watching: asyncio.TimerHandle | None = None

    # --- reading

    def pause_reading(self) -> None:
        """Stop reading: the body is not consumed, or requests are queued."""
        self._is_paused = True
        self._apply()

    def resume_reading(self) -> None:
        """Resume reading, unless the parser is behind."""
        self._is_paused = False
        if self.read_paused:
            self._apply()

    def set_behind(self, is_behind: bool) -> None:
        """Pause reading while data waits for the parser."""
        self._is_behind = is_behind
        self._apply()

    def _apply(self) -> None:
        if self._transport.is_closing():
            return
        if self._is_paused or self._is_behind:
            super().pause_reading()
        else:
            super().resume_reading()

    # --- writing

    def pause_writing(self) -> None:
        """Wait for the client to read, up to a limit."""
        super().pause_writing()
        self.watch_reader()

    def resume_writing(self) -> None:
        """Resume writing."""
        self.stop_watching()
        super().resume_writing()

    def watch_reader(self) -> None:
        """Abort the connection if its client reads too slowly."""
        self.stop_watching()
        unsent = self._unsent()
        self._watching = self._loop.call_later(_READING_SECONDS, self._look_at_reader, unsent)

    def stop_watching(self) -> None:
        """Stop the check of a slow client."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _unsent(self) -> int:
        return cast(asyncio.WriteTransport, self._transport).get_write_buffer_size()

    def _look_at_reader(self, unsent: int) -> None:
        """Abort the connection if its client reads so slowly that the response only occupies memory."""
        left = self._unsent()
        if left and unsent - left < min(unsent, _READING_BYTES):
            self._transport.abort()
        else:
            self.watch_reader()


# --- HTTP connections
#
# uvicorn's httptools protocol does not limit the size or number of headers, trailers and chunk extensions, and waits
# indefinitely for the end of the headers. ADR 30 compares servers that do.

log = logging.getLogger(__name__)

#: Maximum bytes of a URL and of the headers of a request, and maximum number of headers; also for trailers.
URL_BYTES, HEAD_BYTES, HEADERS = 16 * 1024, 64 * 1024, 100
#: The parser receives at most this many bytes at a time, so that an endless line is detected early.
_PIECE = 16 * 1024
#: A body in one-byte chunks costs the parser a hundred times as much as a body in one chunk. So chunked bodies are
#: parsed in smaller pieces, and other connections run after this many chunks.
_CHUNKED_PIECE, _CHUNKS = 4 * 1024, 256
#: Bytes around the data of a chunk that do not count: its size, two line ends and a short extension.
_CHUNK_BYTES = 32
#: Maximum number of pipelined requests on a connection.
_PIPELINED = 32
#: Seconds that a client has to read an error response before its connection is reset.
_LINGER_SECONDS = 1.0
#: Seconds that a client may continue to send a body whose response is complete.
_ANSWERED_SECONDS = 30.0


class ServedConnection(HttpToolsProtocol):
    """One connection with limits; the application has a ``state.process``, a ``ScoringProcess``."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._process: ScoringProcess = cast(Any, config.app).state.process
        self._counted_as: str | None = None
        self._flow: Flow
        self._running: RequestResponseCycle | None = None  # the request in progress
        self._unparsed: bytes | memoryview = b""
        self._deaf = False  # nothing more is read
        self._refusal: tuple[str, str] | None = None
        # State of the request that is being received:
        self.url, self.headers = b"", []
        self._in_head = False
        self._in_body = False
        self._left = 0  # bytes that its content-length states and that were not received yet
        self._body_bytes = 0  # bytes of bodies in the current piece
        self._received = 0  # bytes of the connection before the current piece
        self._head_from = 0  # bytes received when the headers began or the previous request ended
        self._framing = 0  # bytes of a chunked body besides its data
        self._parts = 0  # parts of a body that the parser has reported in this turn
        self._deadline: asyncio.TimerHandle | None = None

    # --- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and reject it if its address has too many."""
        super().connection_made(transport)
        self.flow = self._flow = Flow(transport, self.loop)
        try:
            self._counted_as = self._process.addresses.open(self.client[0] if self.client else None)
        except ConnectionRefusedError:
            self._answer("too-many-connections", "this address has reached the limit of connections from one address")
            self.transport.close()
        else:
            self._set_deadline(self._process.settings.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection, and notify the request in progress.

        uvicorn notifies the last request, which may be another one on a connection with pipelined requests.
        """
        self._process.addresses.close(self._counted_as)
        self._counted_as = None
        self._clear_deadline()
        self._flow.stop_watching()
        self._unparsed = b""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    # --- what is received

    def data_received(self, data: bytes) -> None:
        """Parse received data, and set a deadline for the rest."""
        if self._unparsed:  # the transport had already read more before it paused
            self._unparsed = bytes(self._unparsed) + data
        else:
            self._parse(data)

    def _parse(self, data: bytes | memoryview) -> None:
        """Parse a limited amount of data, and schedule the rest after other connections."""
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._parts = 0
        if len(data) <= _CHUNKED_PIECE:
            self._feed(data)
        else:
            left = memoryview(data)
            while left and self._parts < _CHUNKS:
                size = _CHUNKED_PIECE if self._in_body and self._is_chunked() else max(_PIECE, self._left)
                piece, left = left[:size], left[size:]
                self._feed(piece)
            if left and not self._deaf:
                self._unparsed = left
                self._flow.set_behind(True)
                self.loop.call_soon(self._go_on)
        if self._deadline is None and not self._deaf and (self.cycle is None or self.cycle.response_complete):
            # The headers have begun, or the body continues after its response.
            self._set_deadline(_ANSWERED_SECONDS if self._in_body else self._process.settings.header_timeout)

    def _go_on(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if data:
            self._parse(data)
        if not self._unparsed:
            self._flow.set_behind(False)

    def _feed(self, piece: bytes | memoryview) -> None:
        """Pass a piece to the parser, and reject what exceeds a limit."""
        if self._deaf or self.parser is None:
            return
        self._body_bytes = 0
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as paused:
            try:
                if self._has_body():
                    self._receive_body_after_upgrade()
            except httptools.HttpParserError:
                self._refuse(*_NOT_HTTP)
                return
            if rest := piece[paused.args[0] :]:
                self._feed(rest)
            return
        except httptools.HttpParserError:
            self._refuse(*(self._refusal or _NOT_HTTP))
            return
        self._received += len(piece)
        self._framing += len(piece)
        if self._in_body:
            self._check_framing()
        elif self._received - self._head_from > URL_BYTES or len(self.headers) > HEADERS:
            self._check_head()

    def _check_framing(self) -> None:
        """Reject a body with too many bytes besides its data."""
        if len(self.headers) > HEADERS:
            self._refuse(*_HEAD_TOO_LARGE)
        elif self._framing > HEAD_BYTES and self._is_chunked():
            self._refuse(*_TOO_MUCH_FRAMING)

    def _check_head(self) -> None:
        """Reject headers that are too large before they are complete."""
        if len(self.url) > URL_BYTES:
            self._refuse(*_URL_TOO_LONG)
        elif self._received - self._head_from > URL_BYTES + HEAD_BYTES or len(self.headers) > HEADERS:
            self._refuse(*_HEAD_TOO_LARGE)

    def _check_fields(self) -> None:
        """Stop the parser if the complete headers or trailers are too many or too large."""
        size = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEAD_BYTES or len(self.headers) > HEADERS:
            self._stop_parsing(*_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._in_body:  # after an upgrade
            return
        self._head_from = self._received
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the application."""
        if self._in_body:  # after an upgrade
            return
        if len(self.url) > URL_BYTES:
            self._stop_parsing(*_URL_TOO_LONG)
        if len(self.headers) > HEADERS or self._received - self._head_from > HEAD_BYTES - _PIECE:
            self._check_fields()
        try:
            check_head(self.parser.get_http_version(), self.url, self.headers)
        except RequestError as error:
            self._stop_parsing(error.code, error.detail)
        if len(self.pipeline) >= _PIPELINED:
            self._stop_parsing("bad-request", f"a connection may have at most {_PIPELINED} pipelined requests")
        self._clear_deadline()
        super().on_headers_complete()
        self._in_head = False
        self._in_body = True
        self.headers = []  # trailers, which must not change the headers of the request in progress
        self._framing = -_PIECE  # the headers may have begun in this piece
        self._left = max((int(value) for name, value in self.scope["headers"] if name == b"content-length"), default=0)
        if self.scope["method"] == "CONNECT":
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._parts += 1
        self._framing -= len(body)
        self._left -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Count a chunk whose size line is complete."""
        self._framing -= _CHUNK_BYTES

    def on_message_complete(self) -> None:
        """End the request."""
        if self.parser.should_upgrade() and self._has_body():
            return  # the body follows
        if self.headers:
            self._check_fields()
        self._in_body = False
        self._head_from = self._received + self._body_bytes
        self._clear_deadline()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request; headers that began before the end of this response have a deadline now."""
        super().on_response_complete()
        if self._in_head and self._deadline is None and not self._deaf and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._set_deadline(self._process.settings.header_timeout)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # --- Upgrades, such as those to h2c that Java's client offers with its first request, are ignored

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 \t"))
            for name, value in self.scope["headers"]
        )

    def _is_chunked(self) -> bool:
        return any(name == b"transfer-encoding" for name, _ in self.scope["headers"])

    def _receive_body_after_upgrade(self) -> None:
        """Continue with a new parser: after an upgrade header, httptools assumes that there is no body."""
        framing = (b"transfer-encoding", b"content-length")
        head = b"".join(name + b": " + value + b"\r\n" for name, value in self.scope["headers"] if name in framing)
        self.parser = httptools.HttpRequestParser(self)
        url = self.url
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + head + b"\r\n")
        self.url, self.headers = url, []

    def _unsupported_upgrade_warning(self) -> None:
        """Do nothing: the request is processed as if it had offered no upgrade."""

    # --- Rejected requests

    def _stop_parsing(self, code: str, detail: str) -> None:
        """Make the parser stop, from within one of its callbacks."""
        self._refusal = (code, detail)
        raise ValueError(code)

    def _refuse(self, code: str, detail: str) -> None:
        """Respond with a problem and close; earlier requests of the connection are completed first."""
        cycle, self._deaf = self.cycle, True
        self._clear_deadline()
        if self._in_body and cycle.response_complete:
            self.transport.abort()
            return
        if cycle is not None and not cycle.response_complete:
            if not self._in_body:
                cycle.keep_alive = False
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or any(waiting is cycle for waiting, _ in self.pipeline):
                self.transport.abort()
                return
        self._answer(code, detail)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.pause_reading()
        # Further data is not read. Closing immediately would reset the connection before the client reads the response.
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _answer(self, code: str, detail: str) -> None:
        self._deaf = True
        document = problem(code, detail)
        headers = PROBLEM_HEADERS.get(code)
        response = error_of(document, headers) if uses_protocol(self._path()) else respond(document, headers)
        status = HTTPStatus(response.status_code)
        self._report_refusal(code, status)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in (*self.server_state.default_headers, *response.raw_headers)]
        self.transport.write(b"\r\n".join((*lines, b"", bytes(response.body))))

    def _report_refusal(self, code: str, status: HTTPStatus) -> None:
        """Count a rejected request and write its log line, like those of requests that reach the application."""
        method, route = "other", UNMATCHED
        headers = [*self.scope["headers"]] if self._in_body else self.headers
        if headers:  # so the line of the request is complete
            method = self.parser.get_method().decode("latin-1")
            scope = {"type": "http", "method": method, "path": self._path().partition("?")[0]}
            route = match_route(cast(Any, self.config.app).router.routes, scope)
        self._process.metrics.requests.count(route, method, status, seconds=0.0, received=0, answered=0, rows=0)
        fields: dict[str, str | int | float | None] = {
            "client": self._process.addresses.client_of(self.client[0] if self.client else None, headers),
            "method": method,
            "route": route,
            "status": status.value,
            "problem": code,
        }
        log_event(log, logging.INFO, "request", fields)

    def _path(self) -> str:
        return without_root(self.url.decode("latin-1"), self._process.settings.root_path)

    # --- Deadlines

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        self._deadline = None
        if self._in_body or not self._received:
            self.transport.abort()
        else:
            self._refuse(
                "request-timeout",
                f"the headers of the request were not complete after {self._process.settings.header_timeout:g} s",
            )

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client never reads the end of its last response."""
        super().timeout_keep_alive_handler()
        self._flow.watch_reader()


_URL_TOO_LONG = ("url-too-long", f"the URL may have at most {URL_BYTES} bytes")
_NOT_HTTP = ("bad-request", "the request is not valid HTTP/1.1")
_HEAD_TOO_LARGE = (
    "headers-too-large",
    f"the headers or trailers of a request may have at most {HEAD_BYTES} bytes, and their number may be at most "
    f"{HEADERS}",
)
_TOO_MUCH_FRAMING = ("headers-too-large", f"the chunk extensions of a body may have at most {HEAD_BYTES} bytes")
