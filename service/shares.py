"""Amounts that the requests of a process share: no tenant and no API key can take all of them."""

from __future__ import annotations

from threading import Lock

from service.callers import LOCAL, Caller
from service.errors import TooManyStreams

# --- Amounts that the requests of a process share, such that no tenant and no API key can take all of them


class Exhausted(Exception):
    """What was to be taken is not free: ``holder`` has at most ``most`` of it."""

    def __init__(self, holder: str, most: int) -> None:
        super().__init__(f"{holder} may have at most {most}")
        self.holder = holder
        self.most = most


class Shares:
    """``total`` of something. A tenant holds at most half of it and, with ``by_key``, an API key at most a quarter.

    A tenant and a key may always hold ``least``, as far as there is that much: the half of one place is one place.
    Without API keys there is one tenant, which may hold everything.
    """

    def __init__(self, total: int, *, least: int = 1, by_key: bool = False) -> None:
        self._total = total
        self._least = least
        self._by_key = by_key
        self._taken = 0
        self._held: dict[tuple[str, str], int] = {}
        self._lock = Lock()

    def take(self, caller: Caller, amount: int = 1, *, total: int | None = None) -> None:
        """Take so much, all or nothing; raises ``Exhausted``. ``total`` stands for one that changes."""
        with self._lock:
            whole = self._total if total is None else total
            for holder, key, part in self._bounds(caller):
                most = max(whole // part, min(self._least, whole))
                if self._held.get(key, 0) + amount > most:
                    raise Exhausted(holder, most)
            if self._taken + amount > whole:
                raise Exhausted("this process", whole)
            self._add(caller, amount)

    def give_back(self, caller: Caller, amount: int = 1) -> None:
        """Give back what was taken."""
        with self._lock:
            self._add(caller, -amount)

    def _add(self, caller: Caller, amount: int) -> None:
        self._taken += amount
        for _, key, _ in self._bounds(caller):
            held = self._held.get(key, 0) + amount
            if held:
                self._held[key] = held
            else:  # whoever comes once must not be remembered for good
                self._held.pop(key, None)

    def _bounds(self, caller: Caller) -> list[tuple[str, tuple[str, str], int]]:
        """Who holds what a caller takes, and which part of the whole it may hold."""
        if caller == LOCAL:
            return []
        bounds = [("the tenant", ("tenant", caller.tenant), 2)]
        if self._by_key and caller.key_id is not None:
            bounds.append(("the API key", ("key", caller.key_id), 4))
        return bounds


# --- How many event streams a process holds open, and who holds them


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
