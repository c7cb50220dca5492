"""HTTP connections: what a client may send before its request is read, and how long it may take."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from schemas.problem_table import problem
from service.inference.errors import error_of, spoken_at
from service.observe import UNMATCHED
from service.problems import respond
from service.process import Process

# --- When a connection is read from, and how long its client may take to read an answer

#: Seconds between two looks at an answer that is being sent, and the bytes that a client must take in between.
_READING_SECONDS, _READING_BYTES = 30.0, 256 * 1024


class Flow(FlowControl):
    """uvicorn's flow control, which also waits for the parser, and does not wait for ever for the client."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(transport)
        self._loop = loop
        self._is_paused = False  # by uvicorn
        self._is_behind = False
        self._watching: asyncio.TimerHandle | None = None

    # --- reading

    def pause_reading(self) -> None:
        """Read no more: a body is not taken, or requests wait."""
        self._is_paused = True
        self._apply()

    def resume_reading(self) -> None:
        """Read again, once the parser is not behind."""
        self._is_paused = False
        if self.read_paused:
            self._apply()

    def set_behind(self, is_behind: bool) -> None:
        """Read nothing while bytes wait for the parser."""
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
        """Wait for the client to read, but not for ever."""
        super().pause_writing()
        self.watch_reader()

    def resume_writing(self) -> None:
        """Go on writing."""
        self.stop_watching()
        super().resume_writing()

    def watch_reader(self) -> None:
        """Abort the connection if its client takes what is written too slowly."""
        self.stop_watching()
        unsent = self._unsent()
        self._watching = self._loop.call_later(_READING_SECONDS, self._look_at_reader, unsent)

    def stop_watching(self) -> None:
        """Let the client take its time."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _unsent(self) -> int:
        return cast(asyncio.WriteTransport, self._transport).get_write_buffer_size()

    def _look_at_reader(self, unsent: int) -> None:
        """Abort a connection whose client takes its answer so slowly that it only holds memory."""
        left = self._unsent()
        if left and unsent - left < min(unsent, _READING_BYTES):
            self._transport.abort()
        else:
            self.watch_reader()


# --- HTTP connections: what a client may send before its request is read, and how long it may take
#
# uvicorn's protocol over httptools bounds neither the bytes nor the number of headers, trailers and chunk extensions,
# and waits for the end of a head for as long as the client likes. ADR 30 compares the servers that do.

log = logging.getLogger(__name__)

#: The longest URL, the longest head and the most headers of a request; trailers have the same bounds as a head.
URL_BYTES, HEAD_BYTES, HEADERS = 16 * 1024, 64 * 1024, 100
#: The parser gets at most so many bytes at a time, so that an unfinished line is noticed before it has grown.
_PIECE = 16 * 1024
#: A body in chunks of one byte costs the parser a hundred times as much as one in a single chunk. So chunks are parsed
#: in smaller pieces, and after so many of them it is the turn of other connections.
_CHUNKED_PIECE, _CHUNKS = 4 * 1024, 256
#: Bytes around the data of one chunk that are free: its size, two line ends and a short extension.
_CHUNK_BYTES = 32
#: Requests that may wait on a connection for the answer to the one before.
_PIPELINED = 32
#: Seconds that a client has to read a refusal before its connection is reset.
_LINGER_SECONDS = 1.0
#: Seconds that a client may go on sending a body that has been answered already.
_ANSWERED_SECONDS = 30.0


class Connection(HttpToolsProtocol):
    """One connection, bounded; the application is a FastAPI whose ``state.process`` is a ``Process``."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._process: Process = cast(Any, config.app).state.process
        self._counted_as: str | None = None
        self._flow: Flow
        self._running: RequestResponseCycle | None = None  # the request that is worked on
        self._unparsed: bytes | memoryview = b""
        self._deaf = False  # nothing more is read
        self._refusal: tuple[str, str] | None = None
        # Of the request that is being received:
        self.url, self.headers = b"", []
        self._in_body = False
        self._received = 0  # bytes of the connection before the piece that is parsed
        self._head_from = 0  # what had been received when the head began, or the request before it ended
        self._framing = 0  # bytes of a chunked body around its data
        self._parts = 0  # of a body, that the parser has reported in this turn
        self._deadline: asyncio.TimerHandle | None = None

    # --- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and refuse it if its address has too many."""
        super().connection_made(transport)
        self.flow = self._flow = Flow(transport, self.loop)
        try:
            self._counted_as = self._process.addresses.open(self.client[0] if self.client else None)
        except ConnectionRefusedError:
            self._answer("too-many-connections", "this address has as many connections as one address may have")
            self.transport.close()
        else:
            self._set_deadline(self._process.settings.header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection, and tell the request that is worked on.

        uvicorn tells the last request, which on a connection with pipelined requests is another one.
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
        """Parse what has come, and expect the rest of it in time."""
        if self._unparsed:  # the transport had read more before it paused
            self._unparsed = bytes(self._unparsed) + data
        else:
            self._parse(data)

    def _parse(self, data: bytes | memoryview) -> None:
        """Parse what takes some milliseconds at most, and the rest when others have had their turn."""
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._parts = 0
        if len(data) <= _CHUNKED_PIECE:
            self._feed(data)
        else:
            left = memoryview(data)
            while left and self._parts < _CHUNKS:
                size = _CHUNKED_PIECE if self._in_body and self._is_chunked() else _PIECE
                piece, left = left[:size], left[size:]
                self._feed(piece)
            if left and not self._deaf:
                self._unparsed = left
                self._flow.set_behind(True)
                self.loop.call_soon(self._go_on)
        if self._deadline is None and not self._deaf and (self.cycle is None or self.cycle.response_complete):
            # A head has begun, or the rest of a body that has been answered goes on.
            self._set_deadline(_ANSWERED_SECONDS if self._in_body else self._process.settings.header_timeout)

    def _go_on(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if data:
            self._parse(data)
        if not self._unparsed:
            self._flow.set_behind(False)

    def _feed(self, piece: bytes | memoryview) -> None:
        """Give a piece to the parser, and refuse what is out of bounds."""
        if self._deaf or self.parser is None:
            return
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
        elif self._received - self._head_from > URL_BYTES:
            self._check_head()

    def _check_framing(self) -> None:
        """Refuse what stands around a body, where it is too much."""
        if len(self.headers) > HEADERS:
            self._refuse(*_HEAD_TOO_LARGE)
        elif self._framing > HEAD_BYTES and self._is_chunked():
            self._refuse(*_TOO_MUCH_FRAMING)

    def _check_head(self) -> None:
        """Refuse a head that is too much before its end."""
        if len(self.url) > URL_BYTES:
            self._refuse(*_URL_TOO_LONG)
        elif self._received - self._head_from > URL_BYTES + HEAD_BYTES or len(self.headers) > HEADERS:
            self._refuse(*_HEAD_TOO_LARGE)

    def _check_fields(self) -> None:
        """Make the parser stop if the headers, or trailers, that are complete are too many or too large."""
        size = sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > HEAD_BYTES or len(self.headers) > HEADERS:
            self._stop_parsing(*_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._in_body:  # after an upgrade
            return
        self._head_from = self._received
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the application."""
        if self._in_body:  # after an upgrade
            return
        if len(self.url) > URL_BYTES:
            self._stop_parsing(*_URL_TOO_LONG)
        if len(self.headers) > HEADERS or self._received - self._head_from > HEAD_BYTES - _PIECE:
            self._check_fields()
        if len(self.pipeline) >= _PIPELINED:
            self._stop_parsing("bad-request", f"at most {_PIPELINED} requests may wait on a connection")
        self._clear_deadline()
        super().on_headers_complete()
        self._in_body = True
        self.headers = []  # trailers, which must not change the headers of a request that is worked on
        self._framing = -_PIECE  # the head may have begun in this piece
        if self.scope["method"] == "CONNECT":
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._parts += 1
        self._framing -= len(body)
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Count a chunk whose size line is complete."""
        self._framing -= _CHUNK_BYTES

    def on_message_complete(self) -> None:
        """End the request."""
        if self.parser.should_upgrade() and self._has_body():
            return  # the body is still to come
        if self.headers:
            self._check_fields()
        self._in_body = False
        self._head_from = self._received
        self._clear_deadline()
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # --- upgrades, such as those to h2c that Java's client offers with its first request: they are not taken up

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 \t"))
            for name, value in self.scope["headers"]
        )

    def _is_chunked(self) -> bool:
        return any(name == b"transfer-encoding" for name, _ in self.scope["headers"])

    def _receive_body_after_upgrade(self) -> None:
        """Go on with a parser that knows nothing of the upgrade: httptools believes that there is no body."""
        framing = (b"transfer-encoding", b"content-length")
        head = b"".join(name + b": " + value + b"\r\n" for name, value in self.scope["headers"] if name in framing)
        self.parser = httptools.HttpRequestParser(self)
        url = self.url
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + head + b"\r\n")
        self.url, self.headers = url, []

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is answered as if it offered no upgrade."""

    # --- refusals

    def _stop_parsing(self, code: str, detail: str) -> None:
        """Make the parser stop, from within one of its callbacks."""
        self._refusal = (code, detail)
        raise ValueError(code)

    def _refuse(self, code: str, detail: str) -> None:
        """Answer with a problem and close; earlier requests of the connection are answered first."""
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
        # What is still on its way is not read. Closing at once would reset the connection before the answer is read.
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _answer(self, code: str, detail: str) -> None:
        self._deaf = True
        document = problem(code, detail)
        url = self.url.decode("latin-1")
        response = error_of(document) if spoken_at(url) else respond(document)
        log.info("refused before it was read: %s", code)
        status = HTTPStatus(response.status_code)
        self._process.metrics.requests.count(
            UNMATCHED, "other", status.value, seconds=0.0, received=0, answered=0, rows=0
        )
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in (*self.server_state.default_headers, *response.raw_headers)]
        self.transport.write(b"\r\n".join((*lines, b"", bytes(response.body))))

    # --- time

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
                f"the head of the request was not there after {self._process.settings.header_timeout:g} s",
            )

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the client never reads the end of its last answer."""
        super().timeout_keep_alive_handler()
        self._flow.watch_reader()


_URL_TOO_LONG = ("url-too-long", f"the URL may have at most {URL_BYTES} bytes")
_NOT_HTTP = ("bad-request", "this is not HTTP/1.1")
_HEAD_TOO_LARGE = (
    "headers-too-large",
    f"the headers, or trailers, of a request may have at most {HEAD_BYTES} bytes and be at most {HEADERS}",
)
_TOO_MUCH_FRAMING = ("headers-too-large", f"the chunk extensions of a body may have at most {HEAD_BYTES} bytes")
