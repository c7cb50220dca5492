"""Refusals of rows in the words of people, who count rows from 1 and read no pointers."""

from __future__ import annotations

import re

_COUNTED = re.compile(
    r"(?P<array>predictions|labels|weights|groups): (?P<bad>\d+) of (?P<all>\d+) (?P<what>[^;]+(?:; [^;]+)?); "
    r"the first at /\w+/(?P<row>\d+)(?:/\d+)?"
)


def in_rows(detail: str) -> str | None:
    """The detail of a refusal that counts rows, with the row in the place of its pointer; None of any other.

    >>> in_rows("predictions: 1000 of 1000 rows do not sum to 1; the first at /predictions/0")
    'predictions: 1,000 of 1,000 rows do not sum to 1, the first is row 1'
    >>> in_rows("labels: 1 of 3 must be 0 or 1; the first at /labels/2")
    'labels: 1 of 3 must be 0 or 1, that of row 3'
    """
    found = _COUNTED.search(detail)
    if found is None:
        return None
    bad, row, what = int(found["bad"]), int(found["row"]) + 1, found["what"]
    where = f"the first {'is' if what.startswith('row') else 'in'} row {row}" if bad > 1 else f"that of row {row}"
    if bad == 1 and what.startswith("row"):
        where = f"row {row}"
    return f"{found['array']}: {bad:,} of {int(found['all']):,} {what}, {where}"
