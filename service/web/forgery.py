"""Requests that another site would have a browser send in its user's name: told by their origin and by their token."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from service.errors import ForgedRequest

#: The header in which a script of the page sends its token.
HEADER = "X-CSRF-Token"


def check_origin(scope: Scope) -> None:
    """Refuse a request whose ``Origin`` is not this service under the name by which it was called.

    Every browser tells it with whatever is not a plain reading. The proxy before the service may have taken off TLS:
    ``https`` is right where ``http`` arrives, not the other way round. Raises ``ForgedRequest``.
    """
    headers = Headers(scope=scope)
    if not _is_own(headers.get("origin", ""), headers.get("host", ""), scope["scheme"]):
        raise ForgedRequest("the page's own forms alone are answered: Origin must be this service's")


def check_token(sent: str | None, known: str) -> None:
    """Refuse a request without the token that the page has; raises ``ForgedRequest``."""
    if sent is None or not hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), known.encode()):
        raise ForgedRequest("the page's token is missing or no longer known; load the page again and repeat")


def _is_own(origin: str, host: str, scheme: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return bool(host) and parts.netloc == host.lower() and parts.scheme in {"https", scheme}
