"""What each call does, and the scope of keys and the room in the store that it needs for that."""

from __future__ import annotations

import contextlib

import pytest

from schemas.keys import SCOPES, UNIONS, WRITING, Scope
from service.callers import Caller, require_scope
from service.calls import Call
from service.errors import Forbidden
from service.route_table import RouteTable


def _table() -> RouteTable:
    table = RouteTable([])
    table.load_all()
    return table


TABLE = _table()
CHANGES = [call for call in TABLE.calls if call.method != "GET"]
#: Calls of the page and for models in the path that store nothing permanently.
READING_CALLS = {
    "POST /ui/calibrate/{ref}",
    "POST /ui/in-order",
    *(f"POST /v2/models/{{name}}{version}/infer" for version in ("", "/versions/{version}")),
}
#: Calls that move an alias or decide about a challenger.
PROMOTING_CALLS = {
    "PUT /maps/{name}/aliases/{alias}",
    "DELETE /maps/{name}/aliases/{alias}",
    "POST /monitors/{name}/proposal/accept",
    "POST /monitors/{name}/proposal/reject",
    "POST /ui/maps/{name}/aliases",
    "POST /ui/maps/{name}/aliases/{alias}/delete",
    "POST /ui/monitors/{name}/proposal/accept",
    "POST /ui/monitors/{name}/proposal/reject",
}
#: What each scope of a key grants.
GRANTED: dict[str, frozenset[Scope]] = {**{scope: frozenset({scope}) for scope in SCOPES}, **UNIONS}
#: Pages that delete something or cancel a job. Signing in may be needed for that.
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


def _only_reads(call: Call) -> bool:
    """Whether a call with a body stores nothing permanently.

    Calls that create something respond with 201, and those that change something have it in their path.
    """
    of_page = call.path.startswith("/ui/")
    computes = call.method == "POST" and call.status == 200 and "{" not in call.path and not of_page
    return computes or str(call) in READING_CALLS


@pytest.mark.parametrize("call", TABLE.calls, ids=str)
def test_the_table_finds_the_scope_that_a_call_declares(call: Call) -> None:
    assert TABLE.needed_scope(call.method, _path(call)) == call.needed_scope
    assert TABLE.stores(call.method, _path(call)) is call.stores


@pytest.mark.parametrize("call", CHANGES, ids=str)
def test_a_call_that_may_change_something_needs_a_scope_that_writes_unless_it_only_reads(call: Call) -> None:
    reads = _only_reads(call)
    assert call.is_open or call.needed_scope in (("maps:read",) if reads else (*WRITING, "admin"))


def test_a_call_that_only_reads_needs_no_scope_that_writes() -> None:
    reading = {call.path: call.needed_scope for call in TABLE.calls if call.method == "GET"}
    assert {path for path, scope in reading.items() if scope in WRITING} == set()
    assert {path for path, scope in reading.items() if scope == "admin"} == {"/metrics", "/audit/hooks"}


def test_calls_that_move_an_alias_or_decide_about_a_challenger_need_the_scope_to_promote() -> None:
    promoting = {str(call) for call in TABLE.calls if call.needed_scope == "maps:promote"}
    assert promoting == PROMOTING_CALLS


def test_calls_of_monitors_need_the_scopes_of_monitors() -> None:
    others = [call for call in TABLE.calls if "/monitors" in call.path and str(call) not in PROMOTING_CALLS]
    scopes = {call.needed_scope for call in others}
    assert scopes == {"monitors:read", "monitors:write"}
    assert not {call.path for call in TABLE.calls if call.needed_scope in scopes} - {call.path for call in others}


@pytest.mark.parametrize("call", CHANGES, ids=str)
def test_only_calls_that_free_room_work_in_a_full_store(call: Call) -> None:
    frees = call.path in FREEING_PAGES or call.method == "DELETE" or str(call) == "POST /jobs/{job}/cancel"
    assert TABLE.stores(call.method, _path(call)) is not (frees or _only_reads(call) or call.is_open)


@pytest.mark.parametrize("scope", [*UNIONS, *SCOPES])
def test_a_key_may_make_exactly_the_calls_whose_scope_it_grants(scope: str) -> None:
    caller = Caller(scope=scope)
    for call in TABLE.calls:
        needed = TABLE.needed_scope(call.method, _path(call))
        with contextlib.nullcontext() if needed is None or needed in GRANTED[scope] else pytest.raises(Forbidden):
            require_scope(caller, needed)


def test_read_and_write_are_what_they_were_before_there_were_finer_scopes() -> None:
    for call in TABLE.calls:
        if call.needed_scope not in (None, "admin"):
            reads = call.method == "GET" or _only_reads(call)
            assert Caller(scope="read").may(call.needed_scope) is reads
            assert Caller(scope="write").may(call.needed_scope)


@pytest.mark.parametrize("path", ["/metrics\n", "/ui/maps/x/delete\n", "/maps/x/aliases/y\n"])
def test_a_path_that_the_router_accepts_needs_its_scope_with_a_line_end_too(path: str) -> None:
    method = "GET" if "metrics" in path else "POST" if "ui" in path else "PUT"
    assert TABLE.needed_scope(method, path) == TABLE.needed_scope(method, path.strip())
    assert TABLE.needed_scope(method, path) is not None


def test_a_method_that_a_path_does_not_support_needs_no_scope() -> None:
    assert TABLE.needed_scope("DELETE", "/metrics") is None
    assert TABLE.needed_scope("HEAD", "/metrics") == "admin"


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
