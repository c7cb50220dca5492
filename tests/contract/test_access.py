"""What each route does, and the scope of keys and the room in the store that it needs for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from fastapi.routing import APIRoute

from service.access import frees_room, needed_scope
from service.app import create_app
from service.route_groups import every_route
from service.settings import Settings

#: What a call with a method other than GET does: reads and computes, frees room, or stores or changes something.
Deed = Literal["reads", "frees", "stores"]

DEEDS: dict[str, Deed] = {
    "DELETE /batches/{batch_id}": "frees",
    "DELETE /jobs/{job_id}": "frees",
    "DELETE /maps/{name}/aliases/{alias}": "frees",
    "DELETE /maps/{ref}": "frees",
    "DELETE /monitors/{name}": "frees",
    "PATCH /maps/{ref}": "stores",
    "PATCH /monitors/{name}": "stores",
    "POST /batches": "stores",
    "POST /batches/{batch_id}/rows": "stores",
    "POST /calibrate": "reads",
    "POST /diagrams": "reads",
    # It queues what takes long, and checks then whether there is room.
    "POST /evaluate": "reads",
    "POST /maps": "stores",
    "POST /maps/import": "stores",
    "POST /monitors": "stores",
    "POST /monitors/{name}/alarms/{rule}/acknowledge": "stores",
    "POST /monitors/{name}/deliveries/{delivery_id}/resend": "stores",
    "POST /monitors/{name}/events": "stores",
    "POST /monitors/{name}/hooks/{hook}/test": "stores",
    "POST /monitors/{name}/labels": "stores",
    "POST /monitors/{name}/predictions": "stores",
    "POST /monitors/{name}/proposal/accept": "stores",
    "POST /monitors/{name}/proposal/reject": "stores",
    "POST /monitors/{name}/recalibrate": "stores",
    "POST /monitors/{name}/rows": "stores",
    "POST /ui/calibrate/{ref}": "reads",
    "POST /ui/compare": "reads",
    "POST /ui/in-order": "reads",
    "POST /ui/jobs/{job_id}/cancel": "frees",
    "POST /ui/maps/{name}/aliases": "stores",
    "POST /ui/maps/{name}/aliases/{alias}/delete": "frees",
    "POST /ui/maps/{ref}/about": "stores",
    "POST /ui/maps/{ref}/delete": "frees",
    "POST /ui/monitors/{name}/alarms/{rule}/acknowledge": "stores",
    "POST /ui/monitors/{name}/deliveries/{delivery_id}/resend": "stores",
    "POST /ui/monitors/{name}/proposal/accept": "stores",
    "POST /ui/monitors/{name}/proposal/reject": "stores",
    "POST /ui/reports/{batch_id}/fit": "stores",
    "POST /ui/sample": "stores",
    # Signing in may be needed to delete something.
    "POST /ui/sign-in": "frees",
    "POST /ui/sign-out": "frees",
    "POST /ui/upload": "stores",
    "POST /v2/models/{name}/infer": "reads",
    "POST /v2/models/{name}/versions/{version}/infer": "reads",
    "PUT /maps/{name}/aliases/{alias}": "stores",
}


def _calls() -> Iterator[tuple[str, str]]:
    for route in every_route(create_app(Settings(redis_url="unix:///nowhere")).routes):
        if isinstance(route, APIRoute):
            yield from ((method, route.path) for method in route.methods or ())


def test_every_route_that_may_change_something_has_a_deed() -> None:
    assert sorted(f"{method} {path}" for method, path in _calls() if method not in ("GET", "HEAD")) == sorted(DEEDS)


@pytest.mark.parametrize("call", sorted(DEEDS))
def test_a_call_needs_what_its_deed_needs(call: str) -> None:
    method, _, path = call.partition(" ")
    path = path.replace("{", "").replace("}", "")
    assert (needed_scope(method, path) == "read") is (DEEDS[call] == "reads")
    assert frees_room(method, path) is (DEEDS[call] == "frees")


def test_calls_that_only_read_need_no_key_that_writes() -> None:
    scopes = {path: needed_scope(method, path) for method, path in _calls() if method == "GET"}
    assert {path: scope for path, scope in scopes.items() if scope != "read"} == {"/metrics": "admin"}
