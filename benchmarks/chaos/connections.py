"""Connections to one API, cheap enough for a fixed rate of requests beside everything else on the machine."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import Any, NamedTuple
from urllib.parse import urlsplit

#: Less than the seconds after which an API closes an idle connection.
_IDLE_SECONDS = 3.0


class Answer(NamedTuple):
    """The status and the JSON object of a response, and how many seconds old its header says that it may be."""

    status: int
    body: dict[str, Any]
    stale: int | None


class Connections:
    """Connections to the API of a URL, with an API key."""

    def __init__(self, url: str, key: str) -> None:
        self._host, self._port = urlsplit(url).hostname or "", urlsplit(url).port
        self._key = key
        self._idle: deque[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = deque()

    async def post(self, path: str, body: bytes) -> Answer:
        """The response to a request; raises ``OSError`` or ``EOFError`` without one."""
        while self._idle and time.monotonic() - self._idle[0][0] > _IDLE_SECONDS:
            self._idle.popleft()[2].close()
        if self._idle:
            _, reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {self._key}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            content = await reader.readexactly(int(headers["content-length"]))
        except BaseException:
            writer.close()
            raise
        if headers.get("connection") == "close":
            writer.close()
        else:
            self._idle.append((time.monotonic(), reader, writer))
        stale = headers.get("calibrant-stale")
        return Answer(int(lines[0].split()[1]), json.loads(content), None if stale is None else int(stale))

    def forget(self) -> None:
        """Close the idle connections."""
        for _, _, writer in self._idle:
            writer.close()
        self._idle.clear()
