"""A file to write to whose content is taken out as it grows."""

from __future__ import annotations

import io
from typing import Any


class Pieces(io.RawIOBase):
    """What is written since the last ``take``; it cannot be sought in."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Keep the bytes until they are taken."""
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def take(self) -> bytes:
        """What has been written since."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken
