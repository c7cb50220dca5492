"""Deliveries of monitors and hooks that are deleted meanwhile: nothing of them is left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest
from redis import Redis

from backend.monitors.webhooks import attempt, queue_delivery
from backend.store.errors import UnknownHook, UnknownMonitor
from backend.store.store import Store
from schemas.monitors import MonitorRecord
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.monitors.receiver import receiving, status
from tests.integration.monitors.stored import HOOK, monitor
from tests.integration.monitors.test_deliveries import asked, event, hook, means

_LEFT = "calibrant:default:monitor:*"


def _test_event(store: Store, watched: MonitorRecord) -> None:
    queue_delivery(store, watched, watched.hooks[0], event(watched))


def test_no_delivery_is_created_for_a_monitor_that_was_deleted_since_it_was_read(store: Store) -> None:
    watched = monitor(store, hooks=[HOOK])
    store.monitors.delete(watched.name)
    with pytest.raises(UnknownMonitor):
        _test_event(store, watched)
    assert store.redis.keys(_LEFT) == []
    another = monitor(store, hooks=[HOOK])
    with pytest.raises(UnknownMonitor):
        _test_event(store, watched)
    assert store.redis.keys(f"*{watched.id}*") == []
    _test_event(store, another)


def test_no_delivery_is_created_for_a_hook_that_was_removed_since_it_was_read(store: Store) -> None:
    watched = monitor(store, hooks=[HOOK, HOOK | {"name": "other"}])
    store.monitors.patch(watched.name, lambda stored: stored.model_copy(update={"hooks": watched.hooks[1:]}))
    with pytest.raises(UnknownHook):
        _test_event(store, watched)
    assert store.redis.keys(_LEFT) == []
    assert [record.hook for record in asked(store, watched)] == ["other"]


def test_nothing_is_left_of_a_monitor_that_is_deleted_while_its_event_is_sent(store: Store) -> None:
    with receiving() as receiver:
        watched = monitor(store, hooks=[hook(receiver)])
        (record,) = asked(store, watched)

        def delete(handler: BaseHTTPRequestHandler) -> None:
            store.monitors.delete(watched.name)
            status(503)(handler)

        receiver.will(delete)
        # Every failed attempt counts as slow, so others to the hook would wait.
        assert attempt(store, watched.id, record.id, replace(means(), slow_seconds=0.0)) is None
        assert receiver.next()
    assert store.redis.keys(_LEFT) == []


def test_a_hook_is_tested_while_its_monitor_is_deleted(redis: Redis, redis_url: str) -> None:
    with (
        serving_client(Settings(redis_url, webhook_hosts="receiver.test")) as api,
        ThreadPoolExecutor(4) as threads,
    ):
        for _ in range(20):
            body = {"name": "live", "hooks": [{"name": "pager", "url": "https://receiver.test/"}]}
            api.post("/monitors", json=body).raise_for_status()
            tests = [threads.submit(api.post, "/monitors/live/hooks/pager/test") for _ in range(3)]
            api.delete("/monitors/live").raise_for_status()
            answers = [(request.result().status_code, request.result().json().get("type")) for request in tests]
            assert set(answers) <= {(202, None), (404, "/problems/unknown-monitor")}
            assert redis.keys(_LEFT) == []
