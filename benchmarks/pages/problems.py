"""docs/reference/problems.md, generated from the table."""

from __future__ import annotations

from itertools import groupby

from schemas.problem_table import PREFIX, TABLE, ProblemRow

_HEAD = """# Problems

The service returns every error as a problem document (RFC 9457) with the content type `application/problem+json`. Its
fields are:

- `type`: `{prefix}` followed by one of the codes below
- `title`: a short text, the same for every problem with this code
- `status`: the HTTP status
- `detail`: what is wrong with this request; it begins with the first place, as in `/labels/4: must be 0 or 1`
- `errors`: a list of at most five invalid places, each with a `detail` and one of `pointer` (a JSON Pointer into the
  body), `parameter` (of the query or the path) and `header`. The options of binary bodies are parameters

Problem documents never repeat the values of a request. A failed job has such a document in its field `problem`. The
service also serves each of the texts below at the path in `type`. This page is generated from the table of problems
(`make reference`).
"""


def problems_page() -> str:
    """The page: a section a status, an entry a code."""
    by_status = sorted(TABLE.items(), key=lambda item: item[1].status)
    parts = [_HEAD.format(prefix=PREFIX)]
    for status, rows in groupby(by_status, key=lambda item: item[1].status):
        parts += [f"\n## {status}\n", *(_entry(code, row) for code, row in rows)]
    return "".join(parts)


def _entry(code: str, row: ProblemRow) -> str:
    return f"\n### `{code}`\n\n**{row.title}**\n\n{row.cause}\n\n*Remedy:* {row.remedy}\n"
