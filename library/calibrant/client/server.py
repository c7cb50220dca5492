"""The URL of the server and the headers of every request."""

from __future__ import annotations

import inspect
import os
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from importlib.metadata import PackageNotFoundError, version

import httpx

#: Environment variables of the default URL and API key.
SERVER_VARIABLE, KEY_VARIABLE = "CALIBRANT_SERVER", "CALIBRANT_API_KEY"
#: Environment variable of why changes are made, for the audit log.
NOTE_VARIABLE = "CALIBRANT_NOTE"
LOCAL = "http://127.0.0.1:8000"
_KEY = re.compile(r"[\x21-\x7e]+")


def url_of(url: str | None) -> str:
    """Return the given URL, that of CALIBRANT_SERVER, or the local default."""
    address = url or os.environ.get(SERVER_VARIABLE) or LOCAL
    if not isinstance(address, str) or not address.startswith(("http://", "https://")):
        raise ValueError("the URL of the server must begin with http:// or https://")
    return address


def context_of(verify: ssl.SSLContext | None) -> ssl.SSLContext | bool:
    """Return the TLS context, or True for the certificates of the system; raises ``TypeError`` for anything else."""
    if verify is None or isinstance(verify, ssl.SSLContext):
        return verify or True
    how = "for a certificate authority of your own, pass ssl.create_default_context(cafile=...)"
    raise TypeError(f"verify must be an ssl.SSLContext; {how}")


def noted(error: httpx.TransportError, url: httpx.URL) -> httpx.TransportError:
    """Add the URL of the server to an error, whose message has none."""
    error.add_note(f"no answer from the server {shown(url)}; check its URL, and that it is running")
    return error


def headers_of(api_key: str | None, note: str | None = None) -> dict[bytes, bytes]:
    """Return the headers of every request, with the given API key and note or those of the environment, if any."""
    key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
    headers = {b"User-Agent": f"calibrant-client/{_version()} httpx/{httpx.__version__}".encode()}
    if reason := (os.environ.get(NOTE_VARIABLE, "") if note is None else note).strip():
        if not reason.isprintable():
            raise ValueError("the note must not contain control characters or line ends")
        headers[b"Calibrant-Note"] = reason.encode()
    if not key:
        return headers
    return {**headers, b"Authorization": _bearer(key, "API key").encode()}


def _bearer(text: str, what: str) -> str:
    if not _KEY.fullmatch(text):  # the error of the transport would contain it
        raise ValueError(f"the {what} must consist of visible ASCII characters, without spaces or line ends")
    return f"Bearer {text}"


class TokenSource(httpx.Auth):
    """Gets the token for each request from a function, which refreshes it when necessary."""

    def __init__(self, source: Callable[[], str | Awaitable[str]]) -> None:
        self._source = source

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request of a synchronous client."""
        yield _with_token(request, self._source())

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add the token to a request of an asynchronous client, whose function may be a coroutine."""
        token = self._source()
        yield _with_token(request, await token if inspect.isawaitable(token) else token)


def _with_token(request: httpx.Request, token: object) -> httpx.Request:
    if not isinstance(token, str):
        raise TypeError(f"token must return a text; it returned {type(token).__name__}")
    request.headers["Authorization"] = _bearer(token, "token")
    return request


def credentials_of(
    api_key: str | None, token: str | Callable[[], str | Awaitable[str]] | None, note: str | None
) -> tuple[dict[bytes, bytes], TokenSource | None]:
    """Return the headers of every request, and what adds the token to each if ``token`` is a function."""
    if token is None:
        return headers_of(api_key, note), None
    if api_key is not None:
        raise ValueError("pass api_key or token, not both")
    if callable(token):
        return headers_of("", note), TokenSource(token)
    return {**headers_of("", note), b"Authorization": _bearer(token, "token").encode()}, None


def shown(url: httpx.URL) -> str:
    """Return the URL without a user name and password."""
    return str(url.copy_with(username=None, password=None)).rstrip("/")


def _version() -> str:
    try:
        return version("calibrant")
    except PackageNotFoundError:  # source tree that is not installed
        return "0"
