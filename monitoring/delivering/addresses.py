"""Which addresses a webhook may be sent to: public ones, and of the others those that the operator names.

After IANA's registries of special-purpose addresses, written out: what Python calls global differs between its
versions. An IPv6 address that stands for an IPv4 address is judged as that one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

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
