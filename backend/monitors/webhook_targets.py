"""Webhook targets: the hosts and addresses that webhooks may be sent to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

# --- Allowed addresses: public ones, and private ones that the operator lists
#
# The IANA registries of special-purpose addresses are listed here, because Python's notion of a global address differs
# between versions. An IPv6 address that embeds an IPv4 address is treated as that address.

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: IANA IPv4 Special-Purpose Address Registry, multicast, and the former anycast of 6to4 relays.
_SPECIAL_V4 = [
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
#: The public IPv6 space, and its special-purpose parts such as Teredo and documentation.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6 = [ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20")]
#: NAT64 (RFC 6052): the last 32 bits are an IPv4 address. The ranges for local use (RFC 8215) are not public.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def effective_address(address: Address) -> Address:
    """The address that is checked: the embedded IPv4 address of an IPv4-mapped, NAT64 or 6to4 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def may_reach(address: Address, private: Sequence[Network]) -> bool:
    """Whether connections to an address are allowed; a private address must be in one of the networks.

    Multicast and unspecified addresses are never allowed.
    """
    decides = effective_address(address)
    if decides.is_multicast or decides.is_unspecified:
        return False
    return is_public(decides) or any(decides in network or address in network for network in private)


def is_public(address: Address) -> bool:
    """Whether an address without an embedded one is public."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _SPECIAL_V6)


# --- Allowed URLs by host, and allowed addresses of a host
#
# Each URL is parsed once, strictly, because differences between parsers are a way around such lists.

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_URL = re.compile(r"(?i:(https?)://)(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?((?:[/?][!-~]*)?)")
#: Hosts that browsers and resolvers treat as IPv4: the last label is a number, possibly octal or hexadecimal.
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
#: Characters that must be escaped in a URL (RFC 3986); some parsers treat a backslash as a slash.
_UNSAFE = re.compile(r'["<>\\^`{|}#]')
_ENTRY = re.compile(r"(http://)?(\*\.)?(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}

#: Resolves a host and port to addresses.
Resolver = Callable[[str, int], Sequence[str]]


class InvalidTargets(ValueError):
    """Invalid settings of webhook hosts or networks."""


class TargetRefused(ValueError):
    """A URL that is not allowed; the error does not contain it."""


@dataclass(frozen=True)
class Target:
    """A parsed URL: ``host`` is a lower-case name or an address without brackets, ``path`` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The address if the host is one; None for a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True)
class Admitted:
    """One allowed host, or with ``below`` all its subdomains; ``plain`` also allows http."""

    host: str
    below: bool
    plain: bool
    port: int | None

    def holds(self, target: Target) -> bool:
        """Whether it matches a target."""
        fits = target.host.endswith("." + self.host) if self.below else target.host == self.host
        return fits and (self.plain or target.scheme == "https") and self.port in (None, target.port)


@dataclass(frozen=True)
class Targets:
    """The allowed hosts (default: none), and allowed networks besides public addresses."""

    hosts: tuple[Admitted, ...] = ()
    private: tuple[Network, ...] = ()

    @classmethod
    def read(cls, hosts: str, private: str) -> Targets:
        """Parse the settings ``webhook_hosts`` and ``webhook_private_addresses``; raises ``InvalidTargets``."""
        return cls(tuple(map(_entry, _listed(hosts))), tuple(map(_network, _listed(private))))

    def admit(self, url: str) -> Target:
        """Parse an allowed URL; raises ``TargetRefused``."""
        target = read_url(url)
        if not self.hosts:
            raise TargetRefused(
                "is not allowed: the service sends no webhooks because its setting webhook_hosts is empty"
            )
        if not any(pattern.holds(target) for pattern in self.hosts):
            by_https = replace(target, scheme="https")
            plain = target.scheme == "http" and any(pattern.holds(by_https) for pattern in self.hosts)
            raise TargetRefused(
                "must use https" if plain else "has a host or port that is not in the service's setting webhook_hosts"
            )
        if target.address is not None and not may_reach(target.address, self.private):
            raise TargetRefused("has a private address that is not in the service's setting webhook_private_addresses")
        return target

    def fit(self, addresses: Sequence[str]) -> list[str]:
        """The addresses among ``addresses`` that connections are allowed to, in order."""
        read = [(text, ipaddress.ip_address(text.partition("%")[0])) for text in addresses]
        return [text for text, address in read if "%" not in text and may_reach(address, self.private)]


def read_url(url: str) -> Target:
    """Parse a URL; raises ``TargetRefused`` if it is not http or https, or not in its standard form."""
    match = _URL.fullmatch(url)
    if match is None or _UNSAFE.search(url):
        raise TargetRefused(
            "must be an http or https URL with an ASCII host name and no user name, password or fragment"
        )
    scheme, host, port, path = match[1].lower(), match[2].lower(), match[3], match[4]
    number = _PORTS[scheme] if port is None else int(port)
    if not 0 < number < 65536:
        raise TargetRefused("has an invalid port")
    return Target(scheme, _host(host), number, path if path.startswith("/") else f"/{path}")


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host from the system resolver; raises ``OSError``."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def _host(host: str) -> str:
    """A host in normalized form; raises ``TargetRefused``."""
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        if _NUMERIC.fullmatch(host):
            return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise TargetRefused("has an address that is neither four decimal numbers nor IPv6 in brackets") from None
    if not _NAME.fullmatch(host):
        raise TargetRefused("has an invalid host")
    return host


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _entry(text: str) -> Admitted:
    match = _ENTRY.fullmatch(text.lower())
    try:
        if match is None:
            raise TargetRefused
        plain, below, host, port = match[1] is not None, match[2] is not None, _host(match[3]), match[4]
        if below and ("." not in host or Target("https", host, 443, "/").address is not None):
            raise TargetRefused
    except TargetRefused:
        raise InvalidTargets(
            f"{text!r} is not a valid entry of webhook_hosts, such as alerts.example.com, *.example.com, "
            "alerts.example.com:8443, or http://alerts.example.com to also allow http"
        ) from None
    return Admitted(host, below, plain, None if port is None else int(port))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InvalidTargets(
            f"{text!r} is not a valid entry of webhook_private_addresses, such as 10.0.0.0/8"
        ) from None
