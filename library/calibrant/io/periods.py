"""The rows of a file by hour, day, month or year."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from calibrant.io.errors import InvalidTimes
from calibrant.io.texts import number

#: The shortest time between the first and the last row, and the format of the period.
_PERIODS = (
    (timedelta(days=3 * 366), "%Y"),
    (timedelta(days=45), "%Y-%m"),
    (timedelta(days=3), "%Y-%m-%d"),
    (timedelta(0), "%Y-%m-%d %H:00"),
)
#: Larger numbers are milliseconds, microseconds or nanoseconds since 1970.
_MOST_SECONDS = 1e11


def periods(times: Sequence[str], whose: str) -> list[str]:
    """Return the period of each time as written, such as ``2026-01``; raises ``InvalidTimes`` if one is not a time.

    >>> periods(["2026-01-31", "2026-02-01 12:00", "2026-05-01T00:00:00Z"], "column 'date'")
    ['2026-01', '2026-02', '2026-05']
    """
    read = {text: _time(text) for text in dict.fromkeys(times)}
    bad = next((text for text, found in read.items() if found is None), None)
    if bad is not None:
        raise InvalidTimes(
            f"{whose} has no time in row {list(times).index(bad) + 1}; times are ISO 8601, such as 2026-01-31 or "
            "2026-01-31T12:00:00, or seconds since 1970",
            field="times",
        )
    found = [time for time in read.values() if time is not None]
    form = next(form for least, form in _PERIODS if max(found) - min(found) >= least)
    named = {text: "" if time is None else time.strftime(form) for text, time in read.items()}
    return [named[text] for text in times]


def _time(text: str) -> datetime | None:
    is_date = len(text) == 8 and text.isdigit()  # 20260131
    try:
        seconds = number("" if is_date else text)
        for _ in range(3):
            seconds /= 1000 if abs(seconds) > _MOST_SECONDS else 1
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
