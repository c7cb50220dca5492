"""What the requests of a process share: amounts of which no tenant and no API key can take all, and connections."""

from __future__ import annotations

import contextlib
import ipaddress
import shutil
import tempfile
from collections.abc import Iterator
from threading import Lock
from typing import Any, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.callers import LOCAL, Caller
from service.errors import SpoolFull, TooManyStreams

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


# --- The temporary files of requests, which all together take no more than their volume has free


class Spools:
    """The room for temporary files on the volume of ``tempfile.gettempdir()``, of which a tenant has at most half.

    ``most`` is less than what the volume has free, or 0.
    """

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._shares = Shares(0, least=0)
        self._written = 0
        self._lock = Lock()

    @contextlib.contextmanager
    def spool(self, caller: Caller) -> Iterator[Spool]:
        """Room for one file, given back on the way out."""
        spool = Spool(self, caller)
        try:
            yield spool
        finally:
            spool.give_back()

    def reserve(self, caller: Caller, more: int) -> None:
        """Reserve room; raises ``SpoolFull``."""
        try:
            # Other programs write there too: what is free is looked at each time.
            free = shutil.disk_usage(tempfile.gettempdir()).free
        except OSError as error:
            raise SpoolFull("no folder for temporary files can be written to") from error
        room = free + self._written
        try:
            self._shares.take(caller, more, total=min(room, self._most) if self._most else room)
        except Exhausted as full:
            raise SpoolFull(f"{full.holder} may have at most {full.most} bytes of temporary files now") from full

    def give_back(self, caller: Caller, reserved: int, written: int) -> None:
        """Give back the room of a file that is no longer there."""
        self.count(-written)
        self._shares.give_back(caller, reserved)

    def count(self, written: int) -> None:
        """Count bytes that have been written, and so are not free any more."""
        with self._lock:
            self._written += written


class Spool:
    """The room of one temporary file."""

    def __init__(self, spools: Spools, caller: Caller) -> None:
        self._spools = spools
        self._caller = caller
        self._reserved = 0
        self._written = 0

    def reserve(self, size: int) -> None:
        """Have room for a file of so many bytes in all; raises ``SpoolFull``."""
        if size > self._reserved:
            self._spools.reserve(self._caller, size - self._reserved)
            self._reserved = size

    def grow(self, size: int) -> None:
        """Have room for, and count as written, a file that grows to so many bytes; raises ``SpoolFull``."""
        self.reserve(size)
        self._spools.count(size - self._written)
        self._written = size

    def give_back(self) -> None:
        """Give it back."""
        self._spools.give_back(self._caller, self._reserved, self._written)
        self._reserved = self._written = 0


# --- How many connections each address holds with one process

#: Of an IPv6 address a provider gives each customer at least the last 64 bits.
_IPV6_PREFIX = 64


class Addresses:
    """The addresses of the clients that are connected; ``most`` is 0 for no bound, and ``proxies`` are exempt."""

    def __init__(self, most: int, proxies: str) -> None:
        self._most = most
        self._proxies = ProxyHeadersMiddleware(cast(Any, None), proxies).trusted_hosts
        self._open: dict[str, int] = {}

    def open(self, address: str | None) -> str | None:
        """Count a connection from an address.

        Returns the name under which it is counted, to be given to ``close``; None if the address is exempt. Raises
        ``ConnectionRefusedError`` if the address has as many connections as one may have.
        """
        if not self._most or address is None or address in self._proxies:
            return None
        name = _network(address)
        held = self._open.get(name, 0)
        if held >= self._most:
            raise ConnectionRefusedError
        self._open[name] = held + 1
        return name

    def close(self, name: str | None) -> None:
        """Stop counting a connection."""
        if name is None:
            return
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]


def _network(address: str) -> str:
    """An IPv4 address itself; of an IPv6 address the network that one customer has."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, _IPV6_PREFIX), strict=False))
