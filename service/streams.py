"""How many event streams a process holds open, and who holds them."""

from __future__ import annotations

from service.callers import Caller
from service.errors import TooManyStreams
from service.shares import Exhausted, Shares


class Streams:
    """The event streams of a process: a tenant has at most half of them, an API key at most a quarter."""

    def __init__(self, most: int) -> None:
        self._shares = Shares(most, by_key=True)

    def take(self, caller: Caller) -> None:
        """Take one; raises ``TooManyStreams``."""
        try:
            self._shares.take(caller)
        except Exhausted as full:
            raise TooManyStreams(f"{full.holder} may have {full.most} event streams open, and has them") from full

    def give_back(self, caller: Caller) -> None:
        """Give one back."""
        self._shares.give_back(caller)
