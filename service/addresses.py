"""How many connections each address holds with one process."""

from __future__ import annotations

import ipaddress
from typing import Any, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

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
