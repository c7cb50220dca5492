"""Calls that load with their first request: each pattern covers the calls of its modules."""

from __future__ import annotations

import asyncio
import re

import pytest

from service.route_table import LATER, RouteTable


@pytest.mark.parametrize("pattern", LATER)
def test_a_first_request_for_a_call_loads_all_calls_of_its_pattern(pattern: re.Pattern[str]) -> None:
    eager = {call.path for call in RouteTable([]).calls}
    table = RouteTable([])
    for path in (
        "/measures",
        "/diagrams",
        "/monitors",
        "/docs",
        "/decisions",
        "/recommendations",
        "/audit",
        "/datasets",
        "/monitors/x/backfill",
    ):
        if pattern.fullmatch(path):
            asyncio.run(table.load(path))
            break
    loaded = {re.sub(r"\{[^}]*\}", "x", call.path) for call in table.calls if call.path not in eager}
    assert loaded
    assert [path for path in loaded if not any(later.fullmatch(path) for later in LATER)] == []


def test_calls_of_no_pattern_load_at_the_start() -> None:
    table = RouteTable([])
    before = len(table.calls)
    for path in ("/evaluate", "/maps", "/maps/x", "/health/ready", "/v2/models/x/infer"):
        asyncio.run(table.load(path))
        assert not any(pattern.fullmatch(path) for pattern in LATER)
    assert len(table.calls) == before


def test_a_module_is_loaded_once() -> None:
    router: list[object] = []
    table = RouteTable(router)  # type: ignore[arg-type]
    for _ in range(2):
        asyncio.run(table.load("/measures"))
    table.load_all()
    assert len({str(call) for call in table.calls}) == len(table.calls) == len(router)
