"""Resources shared by the requests of a process, limited per tenant, API key and address."""

from __future__ import annotations

import contextlib
import ipaddress
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.callers import LOCAL, Caller
from service.errors import SpoolFull, TooManyStreams

# --- Amounts of which a single tenant or API key can take only a part


_PROCESS = "this process"


class Exhausted(Exception):
    """The limit is reached: ``holder`` may have at most ``most``; it is the process, or of the caller's tenant."""

    def __init__(self, holder: str, most: int) -> None:
        super().__init__(f"{holder} may have at most {most}")
        self.holder = holder
        self.most = most
        self.of_tenant = holder != _PROCESS


class Shares:
    """``total`` units of a resource; a tenant may hold half of them and, with ``by_key``, an API key a quarter.

    A tenant and a key may always hold ``least`` units, if there are that many: half of one is one.
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
        """Take units, all or none; raises ``Exhausted``. ``total`` overrides a total that changes."""
        with self._lock:
            whole = self._total if total is None else total
            for holder, key, part in self._bounds(caller):
                most = max(whole // part, min(self._least, whole))
                if self._held.get(key, 0) + amount > most:
                    raise Exhausted(holder, most)
            if self._taken + amount > whole:
                raise Exhausted(_PROCESS, whole)
            self._add(caller, amount)

    def give_back(self, caller: Caller, amount: int = 1) -> None:
        """Return units."""
        with self._lock:
            self._add(caller, -amount)

    def _add(self, caller: Caller, amount: int) -> None:
        self._taken += amount
        for _, key, _ in self._bounds(caller):
            held = self._held.get(key, 0) + amount
            if held:
                self._held[key] = held
            else:  # callers must not occupy memory forever
                self._held.pop(key, None)

    def _bounds(self, caller: Caller) -> list[tuple[str, tuple[str, str], int]]:
        """The limits that apply to a caller: its name, its key in the counts, and the divisor of the total."""
        if caller == LOCAL:
            return []
        bounds = [("the tenant", ("tenant", caller.tenant), 2)]
        if self._by_key and caller.key_id is not None:
            holder = "the API key" if caller.expires_at is None else "the subject of the token"
            bounds.append((holder, ("key", caller.key_id), 4))
        return bounds


# --- Event streams


class Streams:
    """The event streams of a process: a tenant may have half of them, an API key a quarter."""

    def __init__(self, most: int) -> None:
        self._shares = Shares(most, by_key=True)

    def take(self, caller: Caller) -> None:
        """Take one stream; raises ``TooManyStreams``."""
        try:
            self._shares.take(caller)
        except Exhausted as full:
            raise TooManyStreams(f"{full.holder} has reached the limit of {full.most} open event streams") from full

    def give_back(self, caller: Caller) -> None:
        """Return one stream."""
        self._shares.give_back(caller)


# --- Temporary files, which together must fit into the free space of their volume


class Spools:
    """The space for temporary files on the volume of ``tempfile.gettempdir()``; a tenant may use half of it.

    ``most`` limits the space further; 0 means the free space of the volume.
    """

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._shares = Shares(0, least=0)
        self._written = 0
        self._lock = Lock()

    @contextlib.contextmanager
    def spool(self, caller: Caller) -> Iterator[Spool]:
        """Space for one file, released at the end of the context."""
        spool = Spool(self, caller)
        try:
            yield spool
        finally:
            spool.give_back()

    def reserve(self, caller: Caller, more: int) -> None:
        """Reserve space; raises ``SpoolFull``."""
        try:
            # Other programs write to the volume too, so check the free space each time.
            free = shutil.disk_usage(tempfile.gettempdir()).free
        except OSError as error:
            raise SpoolFull("no folder for temporary files is writable") from error
        room = free + self._written
        try:
            self._shares.take(caller, more, total=min(room, self._most) if self._most else room)
        except Exhausted as full:
            raise SpoolFull(f"{full.holder} may currently have at most {full.most} bytes of temporary files") from full

    def give_back(self, caller: Caller, reserved: int, written: int) -> None:
        """Release the space of a deleted file."""
        self.count(-written)
        self._shares.give_back(caller, reserved)

    def count(self, written: int) -> None:
        """Count written bytes, which are no longer free."""
        with self._lock:
            self._written += written


class Spool:
    """The space of one temporary file."""

    def __init__(self, spools: Spools, caller: Caller) -> None:
        self._spools = spools
        self._caller = caller
        self._reserved = 0
        self._written = 0

    def reserve(self, size: int) -> None:
        """Reserve space for a file of this size; raises ``SpoolFull``."""
        if size > self._reserved:
            self._spools.reserve(self._caller, size - self._reserved)
            self._reserved = size

    def grow(self, size: int) -> None:
        """Reserve space for, and count as written, a file that grows to this size; raises ``SpoolFull``."""
        self.reserve(size)
        self._spools.count(size - self._written)
        self._written = size

    def give_back(self) -> None:
        """Release the space."""
        self._spools.give_back(self._caller, self._reserved, self._written)
        self._reserved = self._written = 0


# --- Connections per address

#: Providers assign each customer at least the last 64 bits of an IPv6 address.
_IPV6_PREFIX = 64


class Addresses:
    """The addresses of connected clients; ``most`` 0 means no limit, and ``proxies`` are exempt."""

    def __init__(self, most: int, proxies: str) -> None:
        self._most = most
        self._proxies = ProxyHeadersMiddleware(cast(Any, None), proxies).trusted_hosts
        self._open: dict[str, int] = {}

    def open(self, address: str | None) -> str | None:
        """Count a connection from an address.

        Returns the name under which it is counted, to be passed to ``close``; None if the address is exempt. Raises
        ``ConnectionRefusedError`` if the address has reached its limit.
        """
        if not self._most or address is None or address in self._proxies:
            return None
        name = _network(address)
        held = self._open.get(name, 0)
        if held >= self._most:
            raise ConnectionRefusedError
        self._open[name] = held + 1
        return name

    def client_of(self, address: str | None, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The address of a client, behind trusted proxies that of their header ``X-Forwarded-For``."""
        values = [value for name, value in headers if name == b"x-forwarded-for"]
        if not values or address not in self._proxies:
            return address
        return self._proxies.get_trusted_client_address(b", ".join(values).decode("latin-1"))[0] or address

    def close(self, name: str | None) -> None:
        """Stop counting a connection."""
        if name is None:
            return
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]


def _network(address: str) -> str:
    """An IPv4 address itself; for an IPv6 address the network of one customer."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, _IPV6_PREFIX), strict=False))
