"""Times as written in records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def seconds(text: str) -> float:
    """A timestamp in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def stamp(moment: datetime | None = None, after: int = 0) -> str:
    """An RFC 3339 timestamp with milliseconds, ``after`` seconds later."""
    instant = (now() if moment is None else moment) + timedelta(seconds=after)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def at(moment: float) -> str:
    """The timestamp of a time in seconds since 1970."""
    return stamp(datetime.fromtimestamp(moment, UTC))


def seconds_of(answered: tuple[int, int]) -> float:
    """A reply of the Redis command TIME in seconds since 1970."""
    whole, micro = answered
    return whole + micro / 1e6
