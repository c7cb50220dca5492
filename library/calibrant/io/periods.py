"""The rows of a file by hour, day, month or year."""

from __future__ import annotations

import re
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
#: If all numbers are in one of these ranges, they are years, or days since the end of 1899 as Excel stores dates.
_YEARS, _EXCEL_DAYS = (1900, 2100), (20_000, 80_000)
_EXCEL_START = datetime(1899, 12, 30)
_MONTH = re.compile(r"\d{4}-\d{2}")


def periods(times: Sequence[str], whose: str) -> list[str]:
    """Return the period of each time as written, such as ``2026-01``; raises ``InvalidTimes`` if one is not a time.

    >>> periods(["2026-01-31", "2026-02-01 12:00", "2026-05-01T00:00:00Z"], "column 'date'")
    ['2026-01', '2026-02', '2026-05']
    """
    distinct = dict.fromkeys(times)
    numbers = [value for text in distinct if (value := _number(text)) is not None]
    if len(numbers) == len(distinct) and all(value.is_integer() and _is_in(_YEARS, value) for value in numbers):
        return [str(int(float(text))) for text in times]
    is_excel = all(_is_in(_EXCEL_DAYS, value) for value in numbers)
    read = {text: _time(text, is_excel=is_excel) for text in distinct}
    bad = next((text for text, time in read.items() if time is None), None)
    if bad is not None:
        raise InvalidTimes(
            f"{whose} has no time in row {list(times).index(bad) + 1}; times are ISO 8601, such as 2026-01-31, "
            "2026-01-31T12:00:00 or 2026-01, years, or seconds since 1970",
            field="times",
        )
    moments = [time for time in read.values() if time is not None]
    form = next(form for least, form in _PERIODS if max(moments) - min(moments) >= least)
    named = {text: "" if time is None else time.strftime(form) for text, time in read.items()}
    return [named[text] for text in times]


def _is_in(bounds: tuple[int, int], value: float) -> bool:
    return bounds[0] <= value <= bounds[1]


def _number(text: str) -> float | None:
    try:
        return None if len(text) == 8 and text.isdigit() else number(text)  # 20260131 is a date
    except ValueError:
        return None


def _time(text: str, *, is_excel: bool) -> datetime | None:
    value = _number(text)
    try:
        if value is None:
            date = f"{text}-01" if _MONTH.fullmatch(text) else text.removesuffix(" UTC")  # as BigQuery writes it
            return datetime.fromisoformat(date).replace(tzinfo=None)
        if is_excel:
            return _EXCEL_START + timedelta(days=value)
        for _ in range(3):
            value /= 1000 if abs(value) > _MOST_SECONDS else 1
        return datetime.fromtimestamp(value, UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None
