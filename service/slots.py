"""How many long streams a process holds open."""

from __future__ import annotations

from service.errors import TooManyStreams


class Slots:
    """The places for streams of events."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self) -> None:
        """Take one; raises ``TooManyStreams``."""
        if self._left <= 0:
            raise TooManyStreams("as many streams of events are open as this process may have")
        self._left -= 1

    def give_back(self) -> None:
        """Give one back."""
        self._left += 1
