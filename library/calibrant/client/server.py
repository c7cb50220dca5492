"""The server's URL, and the headers of every request."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version

import httpx

#: Where the server is, and the key to it, where a program does not say.
SERVER_VARIABLE, KEY_VARIABLE = "CALIBRANT_SERVER", "CALIBRANT_API_KEY"
LOCAL = "http://127.0.0.1:8000"
_KEY = re.compile(r"[\x21-\x7e]+")


def url_of(url: str | None) -> str:
    """The URL given, that of CALIBRANT_SERVER, or this machine's."""
    found = url or os.environ.get(SERVER_VARIABLE) or LOCAL
    if not found.startswith(("http://", "https://")):
        raise ValueError("the URL of the server must begin with http:// or https://")
    return found


def headers_of(api_key: str | None) -> dict[str, str]:
    """The headers of every request, with the key given or that of CALIBRANT_API_KEY, if there is one."""
    key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
    headers = {"User-Agent": f"calibrant-client/{_version()} httpx/{httpx.__version__}"}
    if not key:
        return headers
    if not _KEY.fullmatch(key):  # the transport's own refusal would tell the key
        raise ValueError("the API key must be visible ASCII characters, without spaces or line ends")
    return {**headers, "Authorization": f"Bearer {key}"}


def shown(url: httpx.URL) -> str:
    """The URL as it may be shown: without a password."""
    return str(url.copy_with(username=None, password=None)).rstrip("/")


def _version() -> str:
    try:
        return version("calibrant")
    except PackageNotFoundError:  # a copy of the source, not installed
        return "0"
