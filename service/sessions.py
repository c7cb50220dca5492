"""Sessions over HTTP: the cookie that a browser holds, and the caller for whom it stands."""

from __future__ import annotations

from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from backend.store.sessions import SessionStore
from service.callers import Caller, Keyring

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
