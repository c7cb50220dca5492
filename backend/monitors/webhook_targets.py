"""Webhook targets: the hosts and addresses that webhooks may be sent to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# --- Which addresses a webhook may be sent to: public ones, and of the others those that the operator names
#
# After IANA's registries of special-purpose addresses, written out: what Python calls global differs between its
# versions. An IPv6 address that stands for an IPv4 address is judged as that one.

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: IANA IPv4 Special-Purpose Address Registry; multicast; what was the anycast of 6to4 relays.
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
#: All that is assigned for the public Internet, and what of it is special: Teredo among the first, documentation.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6 = [ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20")]
#: NAT64 (RFC 6052): the last 32 bits are an IPv4 address. The ranges for local use (RFC 8215) are not public.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def judged(address: Address) -> Address:
    """The address that decides: of an IPv4-mapped, a NAT64 or a 6to4 address the IPv4 address in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def may_reach(address: Address, private: Sequence[Network]) -> bool:
    """Whether an address may be connected to; one that is not public only if one of the networks holds it.

    Multicast and unspecified addresses are no receiver's, whatever the networks hold.
    """
    decides = judged(address)
    if decides.is_multicast or decides.is_unspecified:
        return False
    return is_public(decides) or any(decides in network or address in network for network in private)


def is_public(address: Address) -> bool:
    """Whether an address, which stands for no other, is one of the public Internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _SPECIAL_V6)


# --- Where webhooks may go: the URLs that the operator's list of hosts admits, and of these the addresses that are
#     fit
#
# A URL is read once, here, and strictly: two readers that differ about one are how such lists are got round.

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_URL = re.compile(r"(?i:(https?)://)(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?((?:[/?][!-~]*)?)")
#: What browsers and resolvers take for an IPv4 address: its last label is a number, also octal, hexadecimal or alone.
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
#: Never written as they are in a URL (RFC 3986); a backslash is a slash to some.
_UNSAFE = re.compile(r'["<>\\^`{|}#]')
_ENTRY = re.compile(r"(http://)?(\*\.)?(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}

#: The addresses of a host, for a port.
Resolver = Callable[[str, int], Sequence[str]]


class InvalidTargets(ValueError):
    """Settings of which hosts or networks are meant that cannot be read."""


class TargetRefused(ValueError):
    """A URL to which nothing is sent; the error does not repeat it."""


@dataclass(frozen=True)
class Target:
    """A URL, read: ``host`` is a name in lower case or an address without brackets, ``path`` holds the query too."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The address that the host is written as; None for a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """What the header ``Host`` says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True)
class Admitted:
    """One entry of the list: a host, or with ``below`` all names below it; ``plain`` admits http beside https."""

    host: str
    below: bool
    plain: bool
    port: int | None

    def holds(self, target: Target) -> bool:
        """Whether it admits a target."""
        fits = target.host.endswith("." + self.host) if self.below else target.host == self.host
        return fits and (self.plain or target.scheme == "https") and self.port in (None, target.port)


@dataclass(frozen=True)
class Targets:
    """What the operator admits: hosts, none by default, and networks besides the public addresses."""

    hosts: tuple[Admitted, ...] = ()
    private: tuple[Network, ...] = ()

    @classmethod
    def read(cls, hosts: str, private: str) -> Targets:
        """Read the settings ``webhook_hosts`` and ``webhook_private_addresses``; raises ``InvalidTargets``."""
        return cls(tuple(map(_entry, _listed(hosts))), tuple(map(_network, _listed(private))))

    def admit(self, url: str) -> Target:
        """Read a URL that is admitted; raises ``TargetRefused``."""
        target = read_url(url)
        if not self.hosts:
            raise TargetRefused("leads nowhere: the service sends no webhooks, for its setting webhook_hosts is empty")
        if not any(each.holds(target) for each in self.hosts):
            plain = target.scheme == "http" and any(each.holds(_by_https(target)) for each in self.hosts)
            raise TargetRefused(
                "must be https" if plain else "has a host or a port that the service's setting webhook_hosts lacks"
            )
        if target.address is not None and not may_reach(target.address, self.private):
            raise TargetRefused("is of an address that is not public, and not of webhook_private_addresses")
        return target

    def fit(self, found: Sequence[str]) -> list[str]:
        """Those of the addresses that a name was found to have that may be connected to, in this order."""
        read = [(text, ipaddress.ip_address(text.partition("%")[0])) for text in found]
        return [text for text, address in read if "%" not in text and may_reach(address, self.private)]


def read_url(url: str) -> Target:
    """Read a URL; raises ``TargetRefused`` for one that is not http or https, or is written in an odd way."""
    match = _URL.fullmatch(url)
    if match is None or _UNSAFE.search(url):
        raise TargetRefused(
            "must be an http or https URL of a host name in ASCII, without a user, a password or a fragment"
        )
    scheme, host, port, path = match[1].lower(), match[2].lower(), match[3], match[4]
    number = _PORTS[scheme] if port is None else int(port)
    if not 0 < number < 65536:
        raise TargetRefused("has a port that is none")
    return Target(scheme, _host(host), number, path if path.startswith("/") else f"/{path}")


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host as the system's resolver gives them; raises ``OSError``."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _host(host: str) -> str:
    """A host in its one form; raises ``TargetRefused``."""
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        if _NUMERIC.fullmatch(host):
            return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise TargetRefused("has an address that is not written as four numbers, or as IPv6 in brackets") from None
    if not _NAME.fullmatch(host):
        raise TargetRefused("has a host that is no name and no address")
    return host


def _by_https(target: Target) -> Target:
    return Target("https", target.host, target.port, target.path)


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
            f"{text!r} is no entry of webhook_hosts, such as alerts.example.com, *.example.com, "
            "alerts.example.com:8443, or http://alerts.example.com where http is admitted as well"
        ) from None
    return Admitted(host, below, plain, None if port is None else int(port))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InvalidTargets(f"{text!r} is no network of webhook_private_addresses, such as 10.0.0.0/8") from None
