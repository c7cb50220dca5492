"""Groups of routes that load with their first request: each pattern covers the routes of its group."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from fastapi.routing import APIRoute

from service import route_groups

GROUPS = (route_groups.diagrams, route_groups.monitors, route_groups.catalogue, route_groups.pages)


@pytest.mark.parametrize("make", GROUPS)
def test_a_first_request_for_any_route_of_a_group_loads_the_group(make: Callable[[], route_groups.RouteGroup]) -> None:
    group = make()
    paths = [re.sub(r"\{[^}]*\}", "x", route.path) for route in group.routes if isinstance(route, APIRoute)]
    assert paths
    missed = [path for path in paths if not group.matches({"type": "http", "path": path, "method": "GET"})[0].value]
    assert missed == []


def test_a_group_matches_no_other_path() -> None:
    for path in ("/evaluate", "/maps", "/maps/x", "/health/ready", "/v2/models/x/infer"):
        for make in GROUPS:
            assert not make().matches({"type": "http", "path": path, "method": "GET"})[0].value
