"""Which of the media types on offer a caller would rather have (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The offered type of the largest weight; of equal ones, and where none is accepted, the first."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    if not ranges:
        return offered[0]
    return max(offered, key=lambda kind: _weight(kind, ranges))


def _range(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return kind, float(parameter[2:])
            except ValueError:
                return kind, 0.0
    return kind, 1.0


def _weight(kind: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The weight of the most exact range that holds ``kind``."""
    for wanted in (kind, kind.partition("/")[0] + "/*", "*/*"):
        weights = [weight for name, weight in ranges if name == wanted]
        if weights:
            return max(weights)
    return 0.0
