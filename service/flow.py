"""When a connection is read from, and how long its client may take to read an answer."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.flow_control import FlowControl

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
