"""Sessions: the cookie of a browser, and the caller that it identifies."""

from __future__ import annotations

from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from backend.store.sessions import SessionStore
from service.callers import Caller, Keyring
from service.threads import run_in_thread

_PLAIN = "calibrant"
#: Browsers accept a cookie with this prefix only from the same host, over TLS, for all paths.
_SECURE = "__Host-calibrant"


class SignedIn(NamedTuple):
    """A signed-in caller, and the token in the forms of the session."""

    caller: Caller
    token: str


class Sessions:
    """The sessions of a process: stored in the store, and valid while the keyring has their key."""

    def __init__(self, store: SessionStore, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    async def find(self, scope: Scope) -> SignedIn | None:
        """The session of a request's cookie; None without a cookie, or if the session or its key is no longer valid."""
        text = cookie_of(scope)
        record = None if text is None else await run_in_thread(self._store.find, text)
        if record is None:
            return None
        caller = self._keyring.bearer(record.key, record.secret)
        return None if caller is None else SignedIn(caller, record.token)

    async def open(self, key: str) -> str | None:
        """Open a session for a valid key and return the text of its cookie; None for an invalid key."""
        opened = self._keyring.open(key)
        if opened is None:
            return None
        caller, secret = opened
        return (await run_in_thread(self._store.open, caller.key_id or "", secret)).text

    async def end(self, scope: Scope) -> None:
        """End the session of a request, if there is one."""
        text = cookie_of(scope)
        if text is not None:
            await run_in_thread(self._store.end, text)


def cookie_of(scope: Scope) -> str | None:
    """The session cookie of a request."""
    header = Headers(scope=scope).get("cookie")
    return None if header is None else cookie_parser(header).get(_name(scope)) or None


def set_cookie(response: Response, scope: Scope, text: str) -> None:
    """Set the session cookie: until the browser closes, for this site only, and not readable by scripts."""
    response.set_cookie(_name(scope), text, path="/", secure=_is_secure(scope), httponly=True, samesite="strict")


def drop_cookie(response: Response, scope: Scope) -> None:
    """Delete the session cookie."""
    response.delete_cookie(_name(scope), path="/", secure=_is_secure(scope), httponly=True, samesite="strict")


def _name(scope: Scope) -> str:
    return _SECURE if _is_secure(scope) else _PLAIN


def _is_secure(scope: Scope) -> bool:
    """Whether the browser used TLS, with this server or with a trusted proxy (uvicorn sets the scheme)."""
    return bool(scope["scheme"] == "https")
