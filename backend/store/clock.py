"""The time as records state it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The time, UTC."""
    return datetime.now(UTC)


def seconds(text: str) -> float:
    """The moment of a stamp, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def stamp(moment: datetime | None = None, after: int = 0) -> str:
    """RFC 3339 with milliseconds, ``after`` seconds later."""
    instant = (now() if moment is None else moment) + timedelta(seconds=after)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def at(moment: float) -> str:
    """The stamp of a moment in seconds since 1970."""
    return stamp(datetime.fromtimestamp(moment, UTC))


def seconds_of(answered: tuple[int, int]) -> float:
    """The seconds since 1970 of what Redis answers to TIME."""
    whole, micro = answered
    return whole + micro / 1e6
