"""Who is served: with API keys their bearers, without keys this machine alone."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import ForeignOrigin, RequestError, Unauthorized
from service.problems import problem_of, respond

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
#: Probes bear no key.
_OPEN = ("/health/", "/v2/health/")


class KeysFileError(Exception):
    """The file of API keys cannot be read or holds none."""


def read_keys(path: Path) -> frozenset[bytes]:
    """Digests of the keys in a file, one a line; blank lines and lines that begin with # are passed over."""
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise KeysFileError(f"the file of API keys cannot be read: {path}") from error
    keys = frozenset(_digest(line) for line in lines if line and not line.startswith("#"))
    if not keys:
        raise KeysFileError(f"the file of API keys holds no key: {path}")
    return keys


def is_loopback(host: str) -> bool:
    """Whether binding to ``host`` reaches this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """ASGI middleware that refuses whoever may not come in, before anything is read."""

    def __init__(self, app: ASGIApp, keys: frozenset[bytes]) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer with its problem."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._with_keys(scope["path"], headers) if self._keys else _without_keys(headers)
            if refusal is not None:
                challenge = {"WWW-Authenticate": "Bearer"} if isinstance(refusal, Unauthorized) else None
                await respond(problem_of(refusal), challenge)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _with_keys(self, path: str, headers: Headers) -> RequestError | None:
        if path.startswith(_OPEN):
            return None
        kind, _, key = headers.get("authorization", "").partition(" ")
        sent = _digest(key.strip())
        # Every key is compared, so that the time taken tells nothing.
        known = [hmac.compare_digest(sent, stored) for stored in self._keys]
        if kind.lower() == "bearer" and any(known):
            return None
        return Unauthorized("send a known API key: Authorization: Bearer KEY")


def _without_keys(headers: Headers) -> RequestError | None:
    """A page in a browser can send requests here, but not with a local name as their host and origin."""
    if _host_of(f"//{headers.get('host', '')}") not in LOCAL_HOSTS:
        return ForeignOrigin("without API keys only 127.0.0.1, localhost and [::1] are served")
    origin = headers.get("origin")
    if origin is not None and _host_of(origin) not in LOCAL_HOSTS:
        return ForeignOrigin("without API keys requests of other origins are refused")
    return None


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
