"""Who calls: the keys that processes keep in memory, the sessions of browsers, and the callers they stand for."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from backend.store.api_keys import PREFIX, digest_of
from backend.store.clock import seconds
from backend.store.keyspace import DEFAULT_TENANT
from backend.store.sessions import SessionStore
from schemas.keys import SCOPES, KeyRecord
from schemas.keys import Scope as KeyScope


@dataclass(frozen=True)
class Caller:
    """Whose data a request is about. ``key_id`` and ``name`` are those of its API key, None without keys."""

    tenant: str = DEFAULT_TENANT
    scope: KeyScope = "admin"
    name: str | None = None
    key_id: str | None = None
    rate_limit: int | None = None

    def may(self, scope: KeyScope) -> bool:
        """Whether the caller holds a scope."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


#: The one caller of a service without keys.
LOCAL = Caller()
#: Who asks for an open page where keys are needed elsewhere; no tenant has this name.
STRANGER = Caller(tenant="-", scope="read")
_NOBODY = ("0" * 64, float("inf"))


class Keyring:
    """The API keys of all tenants, as the store had them when it was last read."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[Caller, list[tuple[str, float]]]] = {}

    def __bool__(self) -> bool:
        """Whether a key was ever made."""
        return bool(self._keys)

    def read(self, records: Iterable[KeyRecord]) -> None:
        """Take these keys in the place of those before."""
        self._keys = {r.id: (_caller(r), [(s.digest, _end(s.expires_at)) for s in r.secrets]) for r in records}

    def find(self, text: str) -> Caller | None:
        """The caller whose key this is; None for a key that is unknown, ended or revoked.

        The id is no secret; the digests of the secrets are compared in constant time, also for an unknown id.
        """
        found = self.open(text)
        return None if found is None else found[0]

    def open(self, text: str) -> tuple[Caller, str] | None:
        """``find``, with the digest of the key's secret."""
        prefix, _, rest = text.partition("_")
        key_id, _, secret = rest.partition("_")
        digest = digest_of(secret)
        caller = self.bearer(key_id, digest)
        return (caller, digest) if caller is not None and prefix == PREFIX else None

    def bearer(self, key_id: str, sent: str) -> Caller | None:
        """The caller of a key by its id and the digest of its secret; None where that one is no longer live."""
        caller, known = self._keys.get(key_id, (None, []))
        now = time.time()
        matches = [
            hmac.compare_digest(sent, digest) and end > now for digest, end in (*known, *(_NOBODY,) * (2 - len(known)))
        ]
        return caller if any(matches[: len(known)]) else None


def _caller(record: KeyRecord) -> Caller:
    return Caller(record.tenant, record.scope, record.name, record.id, record.rate_limit)


def _end(expires_at: str | None) -> float:
    return float("inf") if expires_at is None else seconds(expires_at)


# --- Sessions: the cookie that a browser holds, and the caller for whom it stands

_PLAIN = "calibrant"
#: A browser keeps a cookie of such a name only from this very host, by TLS, for all paths.
_SECURE = "__Host-calibrant"


class SignedIn(NamedTuple):
    """Who is signed in, and what goes with the forms of the session."""

    caller: Caller
    token: str


class Sessions:
    """The sessions of a process: the store remembers them, the keyring says whether their keys are still live."""

    def __init__(self, store: SessionStore, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    async def find(self, scope: Scope) -> SignedIn | None:
        """Who is signed in by the cookie of a request; None for no cookie, a session that ended or a dead key."""
        text = cookie_of(scope)
        record = None if text is None else await run_in_threadpool(self._store.find, text)
        if record is None:
            return None
        caller = self._keyring.bearer(record.key, record.secret)
        return None if caller is None else SignedIn(caller, record.token)

    async def open(self, key: str) -> str | None:
        """The text of a new session's cookie, for whoever sends a live key; None for any other."""
        found = self._keyring.open(key)
        if found is None:
            return None
        caller, secret = found
        return (await run_in_threadpool(self._store.open, caller.key_id or "", secret)).text

    async def end(self, scope: Scope) -> None:
        """End the session of a request, if it has one."""
        text = cookie_of(scope)
        if text is not None:
            await run_in_threadpool(self._store.end, text)


def cookie_of(scope: Scope) -> str | None:
    """The session's cookie of a request."""
    header = Headers(scope=scope).get("cookie")
    return None if header is None else cookie_parser(header).get(_name(scope)) or None


def set_cookie(response: Response, scope: Scope, text: str) -> None:
    """Have a browser hold a session's cookie until it is closed: for this site alone, and never for scripts."""
    response.set_cookie(_name(scope), text, path="/", secure=_is_secure(scope), httponly=True, samesite="strict")


def drop_cookie(response: Response, scope: Scope) -> None:
    """Have a browser forget it."""
    response.delete_cookie(_name(scope), path="/", secure=_is_secure(scope), httponly=True, samesite="strict")


def _name(scope: Scope) -> str:
    return _SECURE if _is_secure(scope) else _PLAIN


def _is_secure(scope: Scope) -> bool:
    """Whether the browser came by TLS: ours, or that of a proxy that is trusted, which the server has seen to."""
    return bool(scope["scheme"] == "https")
