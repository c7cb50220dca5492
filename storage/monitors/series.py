"""The series of lists in which a monitor's tallies stand.

Of each kind, measured and raw, there are three: by time bucket, by span, which is so many time buckets, and by row
bucket, which holds rows in the order in which they were counted. What is counted in a bucket is counted in its span as
well: a long window is read off few lists, though labels of its oldest rows still come.
"""

from __future__ import annotations

from typing import Literal

from schemas.monitors import MonitorRecord

TallyKind = Literal["measured", "raw"]
KINDS: tuple[TallyKind, ...] = ("measured", "raw")

#: Time buckets of a span.
SPAN = 64
#: A row window is so many row buckets; all of them together are at most so many.
_OF_A_WINDOW, _OF_ALL = 16, 4096


def by_span(kind: TallyKind) -> str:
    """The series by span of a kind, whose series by time bucket has its name."""
    return f"{kind}-spans"


def by_rows(kind: TallyKind) -> str:
    """The series by row bucket of a kind."""
    return f"{kind}-rows"


def rows_of_bucket(record: MonitorRecord) -> int:
    """Rows at which a row bucket is closed; 0 for a monitor without windows by rows."""
    windows = [window.rows for window in record.windows if window.rows is not None]
    return max(1, min(windows) // _OF_A_WINDOW, max(windows) // _OF_ALL) if windows else 0
