"""docs/reference/http-calls.md, generated from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.problem_table import TABLE
from service.app import create_app
from service.openapi import ANYWHERE, BEHIND_A_KEY, OF_BODIES, OF_ROWS, everywhere, operations, problem_codes
from service.settings import Settings

_HEAD = """# HTTP calls

Generated from the OpenAPI document (`make reference`). The service serves that document at `/openapi.json` and shows it
at `/docs`, with an example of every request and response. [HTTP fields](http-fields.md) lists the fields of
every object, [Problems](problems.md) the errors. Every path that accepts `GET` also accepts `HEAD`.

The tables list the problems that are specific to a call. In addition:

- any call can return {anywhere};
- any call except those under *pages* and *health* can return {behind};
- any call with a body can return {bodies}. *Rows* stands for the problems that rows can have: {rows};
- any call that stores something, or has an `Idempotency-Key`, can return 507 `store-full`.
"""


def calls_page() -> str:
    """The page: a section a noun, a row a call."""
    document = create_app(Settings(redis_url="unix:///nowhere")).openapi()
    sections: dict[str, list[str]] = {}
    for path, method, operation in operations(document):
        sections.setdefault(operation["tags"][0], []).append(_row(method.upper(), path, operation))
    head = _HEAD.format(
        anywhere=_codes(ANYWHERE), behind=_codes(BEHIND_A_KEY), bodies=_codes(OF_BODIES), rows=_codes(OF_ROWS)
    )
    return head + "".join(_section(name, rows) for name, rows in sections.items())


def _section(name: str, rows: list[str]) -> str:
    table = "| call | description | success | problems |\n|---|---|---|---|\n"
    return f"\n## {name.capitalize()}\n\n{table}" + "".join(rows)


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    does = operation["description"].replace("``", "`").replace("\n\n", " ").replace("\n", " ").replace("|", "\\|")
    answers = ", ".join(_answer(s, r) for s, r in operation["responses"].items() if int(s) < 400)
    listed = {*everywhere(path, method, operation)} - {"not-found"}
    own = [code for codes in problem_codes(operation).values() for code in codes if code not in listed]
    return f"| `{method} {path}` | {does} | {answers} | {_own(own)} |\n"


def _own(codes: list[str]) -> str:
    """The problems of one call; those of rows, which many share, by their common name."""
    if not set(OF_ROWS) <= set(codes):
        return _codes(codes)
    return f"*rows*, {_codes([code for code in codes if code not in OF_ROWS])}".removesuffix(", ")


def _answer(status: str, response: dict[str, Any]) -> str:
    """A status and the headers of its response."""
    return " ".join([status, *(f"`{name}`" for name in response.get("headers", ()))])


def _codes(codes: Sequence[str]) -> str:
    """Codes, by status: each status before its own."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(TABLE[code].status, []).append(f"`{code}`")
    return "; ".join(f"{status} {', '.join(names)}" for status, names in sorted(by_status.items()))
