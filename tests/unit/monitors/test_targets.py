"""Where webhooks may go. Nothing here resolves a name: names stand for the addresses that a test says."""

from __future__ import annotations

import ipaddress

import pytest

from backend.monitors.webhook_targets import InvalidTargets, Target, TargetRefused, Targets, may_reach, read_url

HOSTS = (
    "alerts.example.com, *.hooks.example.com, http://plain.example.com, only.example.com:8443, "
    "8.8.8.8, [2606:4700::1111]"
)
TARGETS = Targets.read(HOSTS, "")


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("https://alerts.example.com", Target("https", "alerts.example.com", 443, "/")),
        ("HTTPS://Alerts.EXAMPLE.com:444/a?b=c", Target("https", "alerts.example.com", 444, "/a?b=c")),
        ("https://alerts.example.com?b", Target("https", "alerts.example.com", 443, "/?b")),
        ("https://a.hooks.example.com/", Target("https", "a.hooks.example.com", 443, "/")),
        ("https://a.b.hooks.example.com/", Target("https", "a.b.hooks.example.com", 443, "/")),
        ("http://plain.example.com:80/", Target("http", "plain.example.com", 80, "/")),
        ("https://plain.example.com/", Target("https", "plain.example.com", 443, "/")),
        ("https://only.example.com:8443/", Target("https", "only.example.com", 8443, "/")),
        ("https://8.8.8.8/", Target("https", "8.8.8.8", 443, "/")),
        ("https://[2606:4700:0:0::1111]/", Target("https", "2606:4700::1111", 443, "/")),
    ],
)
def test_listed_hosts_are_admitted(url: str, read: Target) -> None:
    assert TARGETS.admit(url) == read


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://evil-alerts.example.com/",
        "https://alerts.example.com.evil.net/",
        "https://hooks.example.com/",
        "https://only.example.com/",
        "http://alerts.example.com/",
        "https://8.8.4.4/",
    ],
)
def test_unlisted_hosts_are_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        TARGETS.admit(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "alerts.example.com",
        "//alerts.example.com/",
        "ftp://alerts.example.com/",
        "file:///etc/passwd",
        "gopher://alerts.example.com/",
        "https:alerts.example.com",
        "https:///alerts.example.com",
        "https://user@alerts.example.com/",
        "https://user:word@alerts.example.com/",
        "https://alerts.example.com@evil.net/",
        "https://evil.net#@alerts.example.com/",
        "https://evil.net\\@alerts.example.com/",
        "https://alerts.example.com\\.evil.net/",
        "https://alerts.example.com/#part",
        "https://alerts.example.com/a b",
        "https://alerts.example.com/\r\nX-Injected: 1",
        "https://alerts.example.com/\n",
        "https://alerts.example.com\n",
        " https://alerts.example.com/",
        "https://alerts.example.com\t/",
        "https://alerts.example.com./",
        "https://.alerts.example.com/",
        "https://alerts..example.com/",
        "https://-alerts.example.com/",
        "https://alerts.example.com:0/",
        "https://alerts.example.com:65536/",
        "https://alerts.example.com:/",
        "https://alerts.example.com:80:80/",
        "https://\u0430lerts.example.com/",
        "https://alerts\u3002example.com/",
        "https://%61lerts.example.com/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.0.0x1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://[127.0.0.1]/",
        "https://" + "a" * 64 + ".example.com/",
        "https://" + "a." * 130 + "com/",
    ],
)
def test_ambiguous_urls_are_refused(url: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        read_url(url)
    assert url.strip() == "" or url.strip() not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.9",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_private_addresses_are_refused_in_every_notation(address: str) -> None:
    assert not may_reach(ipaddress.ip_address(address), ())
    literal = f"[{address}]" if ":" in address else address
    admitting = Targets.read(literal, "")
    with pytest.raises(TargetRefused, match="private address"):
        admitting.admit(f"https://{literal}/")
    assert TARGETS.fit([address]) == []


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2a00::1"],
)
def test_a_public_address_is_reached(address: str) -> None:
    assert may_reach(ipaddress.ip_address(address), ())


def test_the_permitted_addresses_of_a_name_are_used_in_order() -> None:
    assert TARGETS.fit(["10.0.0.1", "2606:4700::1111", "fe80::1%eth0", "::ffff:127.0.0.1", "1.1.1.1"]) == [
        "2606:4700::1111",
        "1.1.1.1",
    ]


def test_the_networks_that_are_named_are_reached_and_no_others() -> None:
    targets = Targets.read("10.1.2.3,[fd00::1],http://inside", "10.0.0.0/8, fd00::/8, 0.0.0.0/0")
    assert targets.admit("https://10.1.2.3/").host == "10.1.2.3"
    assert targets.admit("https://[fd00::1]/").host == "fd00::1"
    assert targets.fit(["127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]) == [
        "127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
    ]
    assert targets.fit(["0.0.0.0", "224.0.0.1", "::", "ff02::1", "fe80::1"]) == []


def test_nothing_is_sent_without_hosts_and_the_refusal_says_why() -> None:
    with pytest.raises(TargetRefused, match="webhook_hosts is empty"):
        Targets.read(" , ", "").admit("https://alerts.example.com/")
    with pytest.raises(TargetRefused, match="must use https"):
        TARGETS.admit("http://alerts.example.com/")


@pytest.mark.parametrize(
    "entry",
    [
        "*",
        "*.com",
        "https://a.example.com",
        "a.example.com/",
        "a b",
        "user@a.example.com",
        "*.8.8.8.8",
        "0x7f.1",
        "*a.b",
    ],
)
def test_an_invalid_host_pattern_is_refused(entry: str) -> None:
    with pytest.raises(InvalidTargets, match="webhook_hosts"):
        Targets.read(f"alerts.example.com,{entry}", "")


@pytest.mark.parametrize("network", ["10.0.0.1/8", "ten", "10.0.0.0/33"])
def test_an_invalid_network_is_refused(network: str) -> None:
    with pytest.raises(InvalidTargets, match="webhook_private_addresses"):
        Targets.read("", network)
