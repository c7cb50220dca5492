"""The URL of the store: parsed and validated before any connection, and never shown with its secrets.

``redis://``, ``rediss://`` (TLS) and ``unix://`` name a server and are parsed by redis-py. ``redis+sentinel://`` and
``rediss+sentinel://`` name the sentinels that know the master; redis-py parses everything except the hosts and the
master. redis-py ignores invalid paths, hosts and booleans; here these are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.connection import parse_url

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_PORT, _SENTINEL_PORT = 6379, 26379
_SENTINEL_LOGIN = ("sentinel_username", "sentinel_password")
_TLS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_ciphers",
        "ssl_check_hostname", "ssl_cert_reqs")  # fmt: skip
_OPTIONS = {"db", "username", "password", *_SENTINEL_LOGIN, *_TLS}
_BOOLEANS = ("true", "yes", "1", "false", "no", "0")


class UnreadableUrl(ValueError):
    """An invalid store URL; the message does not contain it."""


@dataclass(frozen=True)
class RedisUrl:
    """A store's address: ``url`` and ``options`` for redis-py, of the server or of the master.

    ``hosts`` are the sentinels and ``sentinel_options`` theirs if ``service`` is the name of a master.
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    service: str | None
    url: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    sentinel_options: Mapping[str, Any] = field(repr=False)

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme.startswith("rediss")

    @property
    def has_secret(self) -> bool:
        """Whether it contains a password."""
        return any(name.endswith("password") for name in (*self.options, *self.sentinel_options))

    def __str__(self) -> str:
        """The URL without credentials and options."""
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        service = "" if self.service is None else f"/{self.service}"
        return f"{self.scheme}://{places}{service}{self.options.get('path') or '/' + str(self.options.get('db', 0))}"


def read_url(text: str) -> RedisUrl:
    """Parse a URL; raises ``UnreadableUrl``."""
    scheme, mark, rest = text.strip().partition("://")
    if not mark or (scheme := scheme.lower()) not in SCHEMES:
        raise UnreadableUrl(f"the URL of the store must begin with {', '.join(s + '://' for s in SCHEMES[:-1])} or "
                            f"{SCHEMES[-1]}://")  # fmt: skip
    if "#" in rest:
        raise UnreadableUrl("a # in the password of the store's URL must be written as %23")
    try:
        return _read(scheme, rest)
    except UnreadableUrl:
        raise
    except ValueError:  # its message contains a part of the URL
        raise UnreadableUrl(
            "the store's URL has an invalid host; in a password write / ? # @ as %2F %3F %23 %40"
        ) from None


def safe_url(text: str) -> str:
    """The URL without its credentials, for logs and messages; a placeholder for an invalid URL."""
    try:
        return str(read_url(text))
    except UnreadableUrl:
        return "an invalid URL"


def _read(scheme: str, rest: str) -> RedisUrl:
    kind, _, sentinel = scheme.partition("+")
    parts = urlsplit(f"//{rest}")
    _check_options(scheme, dict(parse_qsl(parts.query, keep_blank_values=True)))
    login, at, places = parts.netloc.rpartition("@")
    if kind == "unix":
        if not parts.path or places:
            raise UnreadableUrl("a unix:// URL must name the path of a socket, such as unix:///run/redis.sock")
        return RedisUrl(scheme, (), None, f"unix://{rest}", _options(f"unix://{rest}"), {})
    hosts = tuple(_host(place, _SENTINEL_PORT if sentinel else _PORT) for place in (places or "localhost").split(","))
    service, _, database = parts.path.strip("/").partition("/") if sentinel else ("", "", parts.path.strip("/"))
    if sentinel and not service:
        raise UnreadableUrl("a sentinel URL must name the master, such as redis+sentinel://one,two,three/mymaster")
    if len(hosts) > 1 and not sentinel:
        raise UnreadableUrl("several hosts need redis+sentinel:// or rediss+sentinel://")
    if database:
        _check_database(database)
    url = f"{kind}://{login}{at}{places.partition(',')[0]}/{database}?{parts.query}"
    options = _options(url)
    if not sentinel:
        return RedisUrl(scheme, hosts, None, url, options, {})
    tls = {name: value for name, value in options.items() if name in _TLS}
    of_sentinels = {name.removeprefix("sentinel_"): options[name] for name in _SENTINEL_LOGIN if name in options}
    of_master = {name: options[name] for name in ("db", "username", "password") if name in options}
    return RedisUrl(scheme, hosts, unquote(service), url, of_master | tls, of_sentinels | tls)


def _options(url: str) -> dict[str, Any]:
    return cast(dict[str, Any], cast(Any, parse_url)(url))


def _host(place: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{place}")
    if not parts.hostname or parts.path:
        raise ValueError("no host")
    return parts.hostname, parts.port or port


def _check_database(text: str) -> None:
    if not text.isdecimal() or not text.isascii():
        raise UnreadableUrl("the path or the db of the store's URL must be the number of a database")


def _check_options(scheme: str, options: Mapping[str, str]) -> None:
    """Reject options that redis-py would ignore, pass on, or only detect when it connects."""
    if unknown := options.keys() - _OPTIONS:
        # A ? in a password would show a part of it here.
        raise UnreadableUrl(
            f"the store's URL has {len(unknown)} unknown options; allowed: {', '.join(sorted(_OPTIONS))}"
        )
    if options.keys() & set(_TLS) and not scheme.startswith("rediss"):
        raise UnreadableUrl("TLS options need rediss:// or rediss+sentinel://")
    if options.keys() & set(_SENTINEL_LOGIN) and not scheme.endswith("+sentinel"):
        raise UnreadableUrl("sentinel credentials need redis+sentinel:// or rediss+sentinel://")
    if "db" in options:
        _check_database(options["db"])
    if options.get("ssl_check_hostname", "true").lower() not in _BOOLEANS:
        raise UnreadableUrl("ssl_check_hostname must be true or false")
    if options.get("ssl_cert_reqs", "required") not in ("none", "optional", "required"):
        raise UnreadableUrl("ssl_cert_reqs must be none, optional or required")
