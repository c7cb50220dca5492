"""docs/reference/http-calls.md, generated from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.problem_table import TABLE
from service.app import create_app
from service.calls import OF_ROWS, Call
from service.openapi import ANYWHERE, BEHIND_A_KEY, OF_BODIES, common_problems
from service.route_table import RouteTable
from service.settings import Settings

_HEAD = """# HTTP calls

Generated from the OpenAPI document (`make reference`). The service serves that document at `/openapi.json` and shows it
at `/docs`, with an example of every request and response. [HTTP fields](http-fields.md) lists the fields of
every object, [Problems](problems.md) the errors. Every path that accepts `GET` also accepts `HEAD`.

The tables list the problems that are specific to a call. In addition:

- any call can return {anywhere};
- any call except those under *pages* and *health* can return {behind};
- any call with a body can return {bodies}. *Rows* stands for the problems that rows can have: {rows};
- any call with a query can return 422 `invalid-field`, and any list 422 `invalid-cursor`;
- any call that stores something, or has an `Idempotency-Key`, can return 507 `store-full`.

The column *scope* has the [scope](../how-to/keys.md#scopes) that a key needs; *any* stands for a key with any scope.
Calls without one need no key. Calls with DELETE, and those that cancel a job, work while the store is full.
"""
#: Headers of every call with a key, an idempotency key or a preference, or with several content types.
_OF_MANY = ("X-Request-Id", "RateLimit-Policy", "RateLimit", "Idempotency-Replayed", "Preference-Applied", "Vary")


def calls_page() -> str:
    """The page: a section a noun, a row a call."""
    document = create_app(Settings(redis_url="unix:///nowhere")).openapi()
    table = RouteTable([])
    table.load_all()
    sections: dict[str, list[str]] = {}
    for call in table.calls:
        if call.is_documented:
            operation = document["paths"][call.path][call.method.lower()]
            sections.setdefault(call.tag, []).append(_row(call, operation["responses"]))
    head = _HEAD.format(
        anywhere=_codes(ANYWHERE), behind=_codes(BEHIND_A_KEY), bodies=_codes(OF_BODIES), rows=_codes(OF_ROWS)
    )
    return head + "".join(_section(name, rows) for name, rows in sections.items())


def _section(name: str, rows: list[str]) -> str:
    table = "| call | description | scope | success | problems |\n|---|---|---|---|---|\n"
    return f"\n## {name.capitalize()}\n\n{table}" + "".join(rows)


def _row(call: Call, responses: dict[str, Any]) -> str:
    does = call.description.replace("``", "`").replace("\n\n", " ").replace("\n", " ").replace("|", "\\|")
    answers = ", ".join(_answer(status, response) for status, response in responses.items() if int(status) < 400)
    own = [code for code in dict.fromkeys(call.problems) if code not in common_problems(call)]
    scope = f"`{call.needed_scope}`" if call.needed_scope else "" if call.is_open else "any"
    return f"| `{call}` | {does} | {scope} | {answers} | {_own(own)} |\n"


def _own(codes: list[str]) -> str:
    """The problems of one call; those of rows, which many share, by their common name."""
    if not set(OF_ROWS) <= set(codes):
        return _codes(codes)
    return f"*rows*, {_codes([code for code in codes if code not in OF_ROWS])}".removesuffix(", ")


def _answer(status: str, response: dict[str, Any]) -> str:
    """A status and the headers of its response."""
    own = [name for name in response.get("headers", ()) if name not in _OF_MANY]
    return " ".join([status, *(f"`{name}`" for name in own)])


def _codes(codes: Sequence[str]) -> str:
    """Codes, by status: each status before its own."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(TABLE[code].status, []).append(f"`{code}`")
    return "; ".join(f"{status} {', '.join(names)}" for status, names in sorted(by_status.items()))
