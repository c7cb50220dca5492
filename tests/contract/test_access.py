"""What each call does, and the scope of keys and the room in the store that it needs for that."""

from __future__ import annotations

import pytest

from service.calls import Call
from service.route_table import RouteTable


def _table() -> RouteTable:
    table = RouteTable([])
    table.load_all()
    return table


TABLE = _table()
CHANGES = [call for call in TABLE.calls if call.method != "GET"]
#: Pages whose forms store nothing, and pages that delete something or cancel a job. Signing in may be needed for that.
READING_PAGES = {"/ui/calibrate/{ref}", "/ui/in-order"}
FREEING_PAGES = {
    "/ui/jobs/{job_id}/cancel",
    "/ui/jobs/{job_id}/delete",
    "/ui/maps/{name}/aliases/{alias}/delete",
    "/ui/maps/{ref}/delete",
    "/ui/sign-in",
    "/ui/sign-out",
}


def _path(call: Call) -> str:
    return call.path.replace("{", "").replace("}", "")


@pytest.mark.parametrize("call", CHANGES, ids=str)
def test_a_call_that_may_change_something_needs_a_key_that_writes_unless_it_only_reads(call: Call) -> None:
    needed = "read" if call.needs == "reads" else "write"
    assert TABLE.needed_scope(call.method, _path(call)) == needed


@pytest.mark.parametrize("call", CHANGES, ids=str)
def test_only_calls_that_free_room_work_in_a_full_store(call: Call) -> None:
    frees = call.path in FREEING_PAGES or call.method == "DELETE" or str(call) == "POST /jobs/{job}/cancel"
    assert TABLE.frees_room(call.method, _path(call)) is frees


def test_pages_that_read_are_the_listed_ones() -> None:
    pages = [call for call in CHANGES if not call.is_documented]
    assert {call.path for call in pages if call.needs == "reads"} == READING_PAGES
    assert {call.path for call in pages} > FREEING_PAGES


def test_calls_that_only_read_need_no_key_that_writes() -> None:
    scopes = {call.path: TABLE.needed_scope("GET", _path(call)) for call in TABLE.calls if call.method == "GET"}
    assert {path: scope for path, scope in scopes.items() if scope != "read"} == {"/metrics": "admin"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", True),
        ("/docs", True),
        ("/openapi.json", True),
        ("/problems", True),
        ("/problems/not-found", True),
        ("/health/live", True),
        ("/assets/page.css", True),
        ("/ui/sign-in", True),
        ("/ui/maps", False),
        ("/ui/", False),
        ("/measures", False),
        ("/batches/x", False),
        ("/docs/../maps/x", False),
        ("/problemsx", False),
        ("/problems/x/y", False),
        ("//", False),
        ("", False),
    ],
)
def test_pages_and_probes_need_no_key_and_nothing_else_does(path: str, expected: bool) -> None:
    assert TABLE.is_open(path) is expected
