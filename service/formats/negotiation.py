"""Which content type to answer in: the Accept header of RFC 9110, 12.5.1."""

from __future__ import annotations

import re
from collections.abc import Sequence

from service.errors import NotAcceptable

_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def choose(accept: str, offered: Sequence[str]) -> str:
    """The offered type that the header likes best; of equally liked ones the first that is offered.

    The most specific range that a type falls under says how much it is liked: ``type/subtype``, else ``type/*``,
    else ``*/*``. Without a header everything is liked. Raises ``NotAcceptable`` where no type is.
    """
    if not accept.strip():
        return offered[0]
    ranges = dict(_range(part) for part in accept.split(",") if part.strip())
    best = max(offered, key=lambda kind: _liked(kind, ranges))
    if not _liked(best, ranges):
        raise NotAcceptable(f"this call answers in one of: {', '.join(offered)}")
    return best


def _range(part: str) -> tuple[str, float]:
    """A media range and its quality; a quality that is none counts as 0, and other parameters are passed over."""
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            quality = float(value) if _QUALITY.fullmatch(value.strip()) else 0.0
    return kind, quality


def _liked(kind: str, ranges: dict[str, float]) -> float:
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0
