"""How the connections of an address are counted."""

from __future__ import annotations

import pytest

from service.shares import Addresses


def test_each_address_has_a_count_of_its_own_that_falls_when_connections_close() -> None:
    held = Addresses(2, "")
    first = held.open("192.0.2.1")
    held.open("192.0.2.1")
    with pytest.raises(ConnectionRefusedError):
        held.open("192.0.2.1")
    held.open("192.0.2.2")
    held.close(first)
    held.open("192.0.2.1")


@pytest.mark.parametrize(
    ("first", "other", "together"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "192.0.2.2", False),
    ],
)
def test_the_last_64_bits_of_an_ipv6_address_count_as_one_client(first: str, other: str, together: bool) -> None:
    held = Addresses(1, "")
    held.open(first)
    if together:
        with pytest.raises(ConnectionRefusedError):
            held.open(other)
    else:
        held.open(other)


@pytest.mark.parametrize(
    ("most", "proxies", "address"),
    [(0, "", "192.0.2.1"), (1, "192.0.2.0/24, 2001:db8::1", "192.0.2.7"), (1, "*", "192.0.2.1"), (1, "", None)],
)
def test_no_bound_holds_for_proxies_that_are_trusted_and_for_unix_sockets(
    most: int, proxies: str, address: str | None
) -> None:
    held = Addresses(most, proxies)
    for _ in range(3):
        held.close(None if held.open(address) is None else "counted")
