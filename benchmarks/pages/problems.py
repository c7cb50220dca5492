"""docs/reference/problems.md, made from the table."""

from __future__ import annotations

from itertools import groupby

from schemas.problem_table import PREFIX, TABLE, Row

_HEAD = """# Problems

What is refused or fails is answered by a problem document (RFC 9457), `application/problem+json`: `type` (`{prefix}`
and one of the codes below), `title`, `status`, `detail`, and `errors: [{{"pointer", "detail"}}]` with at most the first
five places, as JSON Pointers into the body. Values are never repeated. A job that failed tells the same document as its
`problem`.

The service serves each problem's text at its `type`. Generated from the table of problems (`make reference`).
"""


def problems_page() -> str:
    """The page: a section a status, an entry a code."""
    by_status = sorted(TABLE.items(), key=lambda item: item[1].status)
    parts = [_HEAD.format(prefix=PREFIX)]
    for status, rows in groupby(by_status, key=lambda item: item[1].status):
        parts += [f"\n## {status}\n", *(_entry(code, row) for code, row in rows)]
    return "".join(parts)


def _entry(code: str, row: Row) -> str:
    return f"\n### `{code}`\n\n{row.title}. {row.cause}\n\n*Mend:* {row.mend}\n"
