"""Requests that tests send themselves, byte by byte, and all that is answered."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

JSON = {"Content-Type": "application/json"}


def connection_to(url: str, timeout: float = 600) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), parts.port or 80), timeout=timeout)


def begun(url: str, size: int, content: bytes, headers: Mapping[str, str] = JSON) -> socket.socket:
    """A POST request whose body has this many bytes, has begun and does not go on."""
    parts = urlsplit(url)
    fields = {"Host": parts.netloc, "Content-Length": size, **headers}
    head = [f"POST {parts.path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items()), "", ""]
    connection = connection_to(url)
    connection.sendall("\r\n".join(head).encode() + content)
    return connection


def answer_of(connection: socket.socket) -> bytes:
    """All that comes until the server closes; a reset counts as the end, since what was answered has been read."""
    received = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while part := connection.recv(65536):
            received += part
    return received


def received_until(connection: socket.socket, end: bytes = b"}") -> bytes:
    """What comes up to this end, such as that of a JSON object, or until the server closes; its parts come in turn."""
    received = b""
    while not received.endswith(end) and (part := connection.recv(65536)):
        received += part
    return received
