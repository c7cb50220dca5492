"""Where the store is: its URL, read and checked before anything connects, and never repeated with its secrets.

``redis://``, ``rediss://`` (TLS) and ``unix://`` name a server, ``redis+sentinel://`` and ``rediss+sentinel://`` the
sentinels that know which server is the master.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

Scheme: TypeAlias = Literal["redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"]
SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_PORT, _SENTINEL_PORT = 6379, 26379
_TLS_TEXTS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_ciphers")
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CREDENTIALS = ("username", "password")
#: Of the sentinels, which have users of their own.
_SENTINEL_CREDENTIALS = ("sentinel_username", "sentinel_password")
_SECRETS = ("password", "sentinel_password", "ssl_password")


class UnreadableUrl(ValueError):
    """A URL that names no store; its text is not in the message."""


@dataclass(frozen=True)
class RedisUrl:
    """A store's place and how to enter. ``hosts`` are the sentinels' where ``service`` is the name of a master."""

    scheme: Scheme
    hosts: tuple[tuple[str, int], ...]
    path: str
    service: str | None
    db: int
    login: Mapping[str, str] = field(repr=False)
    sentinel_login: Mapping[str, str] = field(repr=False)
    tls: Mapping[str, Any] = field(repr=False)

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme.startswith("rediss")

    @property
    def has_secret(self) -> bool:
        """Whether a password stands in it."""
        return any(name in held for held in (self.login, self.sentinel_login, self.tls) for name in _SECRETS)

    def __str__(self) -> str:
        """The URL without credentials and options."""
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        service = "" if self.service is None else f"/{self.service}"
        return f"{self.scheme}://{places}{self.path}{service}" + ("" if self.path else f"/{self.db}")


def read_url(text: str) -> RedisUrl:
    """Read a URL; raises ``UnreadableUrl``."""
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        raise UnreadableUrl("the URL of the store is not one") from None
    if parts.scheme not in SCHEMES:
        raise UnreadableUrl(f"the URL of the store must begin with {', '.join(s + '://' for s in SCHEMES[:-1])} or "
                            f"{SCHEMES[-1]}://")  # fmt: skip
    scheme = cast(Scheme, parts.scheme)
    if parts.fragment or "#" in text:
        raise UnreadableUrl("a # in the password of the store's URL is written %23")
    options = _options(parts)
    login, places = _authority(parts.netloc)
    login |= {name: options.pop(name) for name in _CREDENTIALS if name in options}
    sentinel_login = {name.removeprefix("sentinel_"): options.pop(name) for name in _SENTINEL_CREDENTIALS
                      if name in options}  # fmt: skip
    is_sentinel = scheme.endswith("+sentinel")
    service, db = _path(parts.path, is_sentinel=is_sentinel) if scheme != "unix" else (None, None)
    db = _whole(options.pop("db"), "the db") if "db" in options else db or 0
    tls = _tls(options)
    if tls and not scheme.startswith("rediss"):
        raise UnreadableUrl("options of TLS need rediss:// or rediss+sentinel://")
    if sentinel_login and not is_sentinel:
        raise UnreadableUrl("credentials of sentinels need redis+sentinel:// or rediss+sentinel://")
    if scheme == "unix":
        if not parts.path or places:
            raise UnreadableUrl("a unix:// URL names the path of a socket, as unix:///run/redis.sock")
        return RedisUrl(scheme, (), unquote(parts.path), None, db, login, {}, {})
    hosts = _hosts(places, _SENTINEL_PORT if is_sentinel else _PORT)
    if len(hosts) > 1 and not is_sentinel:
        raise UnreadableUrl("several hosts need redis+sentinel:// or rediss+sentinel://")
    return RedisUrl(scheme, hosts, "", service, db, login, sentinel_login, tls)


def safe_url(text: str) -> str:
    """The URL without its credentials, for logs and messages; of one that cannot be read nothing is told."""
    try:
        return str(read_url(text))
    except UnreadableUrl:
        return "a URL that cannot be read"


def _options(parts: SplitResult) -> dict[str, str]:
    known = {"db", *_CREDENTIALS, *_SENTINEL_CREDENTIALS, *_TLS_TEXTS, "ssl_check_hostname", "ssl_cert_reqs"}
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - known:
        # A ? in a password would show a part of it here.
        raise UnreadableUrl(f"the store's URL has {len(unknown)} unknown options; known: {', '.join(sorted(known))}")
    return options


def _authority(netloc: str) -> tuple[dict[str, str], str]:
    credentials, _, places = netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    given = {"username": unquote(username), "password": unquote(password)}
    return {name: value for name, value in given.items() if value}, places


def _hosts(places: str, port: int) -> tuple[tuple[str, int], ...]:
    return tuple(_place(place, port) for place in places.split(",")) if places else (("localhost", port),)


def _place(place: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place}")
        host, given = parts.hostname, parts.port
    except ValueError:
        host, given = None, None
    if not host or parts.path:
        raise UnreadableUrl(
            "a host of the store's URL cannot be read; a password's / ? # @ are written %2F %3F %23 %40"
        )
    return host, given or port


def _path(path: str, *, is_sentinel: bool) -> tuple[str | None, int]:
    pieces = [unquote(piece) for piece in path.split("/") if piece]
    service = pieces.pop(0) if is_sentinel and pieces else None
    if is_sentinel and service is None:
        raise UnreadableUrl("a URL of sentinels names the master, as redis+sentinel://one,two,three/mymaster")
    if len(pieces) > 1:
        raise UnreadableUrl("the path of the store's URL is the number of a database")
    return service, _whole(pieces[0], "the path") if pieces else 0


def _whole(text: str, what: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise UnreadableUrl(f"{what} of the store's URL must be the number of a database")
    return int(text)


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    read: dict[str, Any] = {name: value for name, value in options.items() if name in _TLS_TEXTS}
    if "ssl_check_hostname" in options:
        checked = _BOOLEANS.get(options["ssl_check_hostname"].lower())
        if checked is None:
            raise UnreadableUrl("ssl_check_hostname must be true or false")
        read["ssl_check_hostname"] = checked
    if "ssl_cert_reqs" in options:
        if options["ssl_cert_reqs"] not in ("none", "optional", "required"):
            raise UnreadableUrl("ssl_cert_reqs must be none, optional or required")
        read["ssl_cert_reqs"] = options["ssl_cert_reqs"]
    return read
