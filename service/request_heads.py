"""Checks of the head of a request that the parser accepts: its version, the fields that may occur once, its framing.

Two programs that read the same request, such as a proxy and this service, must not read two different ones (RFC 9110,
section 5.3; RFC 9112, sections 3.2 and 6.1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from service.errors import RequestError, UnsupportedTransferCoding

Headers = list[tuple[bytes, bytes]]

#: Fields with one value: of two, programs may read different ones.
SINGLE: Final = frozenset(
    (
        *(b"host", b"origin", b"authorization", b"cookie", b"content-type", b"content-length"),
        *(b"idempotency-key", b"last-event-id", b"x-csrf-token", b"calibrant-note"),
    )
)
_VERSIONS = ("1.0", "1.1")
_HOST = rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
_IS_HOST: Final = re.compile(_HOST)
#: A target in absolute form, as clients send it to a proxy; its host without user information.
_ABSOLUTE: Final = re.compile(rb"https?://(" + _HOST + rb")(?:[/?].*)?", re.IGNORECASE | re.DOTALL)


def check_head(version: str, url: bytes, headers: Headers) -> None:
    """Check a complete head; the names of its fields must be in lower case.

    The host of a target in absolute form replaces that of the field ``Host``. Raises ``RequestError``, or
    ``UnsupportedTransferCoding`` for a coding besides chunked.
    """
    if version not in _VERSIONS:
        raise RequestError("the version of HTTP must be 1.1 or 1.0")
    if b"#" in url:
        raise RequestError("the target must not have a fragment")
    names = [name for name, _ in headers]
    if len(set(names)) < len(names):
        for name in SINGLE:
            if names.count(name) > 1:
                raise RequestError(f"the header {name.decode()} may occur only once")
    if b"host" in names:
        at = names.index(b"host")
        if not _IS_HOST.fullmatch(headers[at][1].strip(b" \t")):
            raise RequestError("the header host must be a host, with or without a port")
        if not url.startswith(b"/"):
            headers[at] = (b"host", _host_of(url, headers[at][1]))
    elif version != "1.0":
        raise RequestError("the header host is missing")
    if b"transfer-encoding" in names:
        _check_codings(version, [value for name, value in headers if name == b"transfer-encoding"])


def _host_of(url: bytes, host: bytes) -> bytes:
    """The host of a target in absolute form; ``host`` for targets of other forms."""
    if b"://" not in url.partition(b"?")[0]:
        return host
    absolute = _ABSOLUTE.fullmatch(url)
    if absolute is None or not absolute[1]:
        raise RequestError("the target must be a path, or a URL of http or https without user information")
    return absolute[1]


def _check_codings(version: str, values: Sequence[bytes]) -> None:
    if version == "1.0":
        raise RequestError("the header transfer-encoding needs HTTP/1.1")
    codings = [coding.strip(b" \t").lower() for coding in b",".join(values).split(b",")]
    if codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise RequestError("the last transfer coding, and no other, must be chunked")
    if len(codings) > 1:
        raise UnsupportedTransferCoding("the transfer coding must be chunked; compress a body with Content-Encoding")
