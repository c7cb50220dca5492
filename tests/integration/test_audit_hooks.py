"""Hooks of the audit log: what a receiver gets, in which order, and what it gets after a failure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from redis import Redis
from standardwebhooks import Webhook
from typer.testing import CliRunner, Result

from backend.monitors.audit_hooks import LONGEST_SECONDS, LOOK_SECONDS, line_of, send_entries
from backend.monitors.webhooks import Means
from backend.store.api_keys import ApiKeyStore
from backend.store.audit import AuditTrail
from backend.store.audit_hooks import AuditHooks
from backend.store.chores import Chore
from backend.store.keyspace import Keyspace, Shared
from backend.store.pages import PageRequest
from backend.store.store import Store
from calibrant.cli.main import app
from calibrant.client import Calibrant
from schemas.audit import AuditFact, AuditQuery, ChangeRecord
from schemas.audit_hooks import MAX_AUDIT_HOOKS, StoredHook
from service.settings import Settings
from tests.integration.conftest import own_service, serving
from tests.integration.monitors.receiver import Receiver, receiving, status
from tests.integration.monitors.test_deliveries import HUSH, NAME, SECRET, means

FIT = {"method": "identity", "name": "spam", "predictions": [0.1, 0.9], "labels": [0, 1]}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as hooks:
        yield hooks


@pytest.fixture
def store(redis: Redis, receiver: Receiver) -> Store:
    """A store with one hook, whose own entry was not sent yet."""
    store = Store.of(redis, "risk")
    hook = StoredHook(name="siem", url=f"http://{NAME}:{receiver.port}/in?token={HUSH}", secret=SECRET)
    AuditHooks(redis, store.keys, store.audit).put(hook)
    return store


def _sent(store: Store, means: Means) -> float | None:
    """Send entries as the task of the hook does."""
    return send_entries(store, "siem", line_of(_hooks(store).get("siem")), means)


def _hooks(store: Store) -> AuditHooks:
    return AuditHooks(store.redis, store.keys, store.audit)


def _add(store: Store, *versions: int) -> None:
    with store.redis.pipeline() as pipe:
        facts = (AuditFact(action="alias-moved", map="m", alias="a", after={"version": v}) for v in versions)
        store.audit.add(pipe, *facts)
        pipe.execute()


def _progress(store: Store) -> Any:
    return _hooks(store).get("siem").progress


def test_a_receiver_gets_every_entry_once_in_order_as_a_signed_cloud_event(store: Store, receiver: Receiver) -> None:
    _add(store, 1, 2)
    assert _sent(store, means()) == LOOK_SECONDS
    got = [receiver.next() for _ in range(3)]
    events = [Webhook(SECRET).verify(request.body, dict(request.headers)) for request in got]
    assert [event["type"] for event in events] == [
        "calibrant.audit.audit-hook-set",
        "calibrant.audit.alias-moved",
        "calibrant.audit.alias-moved",
    ]
    assert [event["data"]["after"]["version"] for event in events[1:]] == [1, 2]
    last = events[-1]
    assert {name: last[name] for name in ("specversion", "source", "subject", "tenant", "datacontenttype")} == {
        "specversion": "1.0",
        "source": "/audit",
        "subject": "m@a",
        "tenant": "risk",
        "datacontenttype": "application/json",
    }
    assert (last["id"], last["time"]) == (last["data"]["id"], last["data"]["at"])
    assert got[-1].headers["webhook-id"] == last["id"]
    assert got[-1].headers["content-type"] == "application/cloudevents+json"
    assert _sent(store, means()) == LOOK_SECONDS
    assert receiver.got.empty()


def test_a_receiver_that_fails_gets_the_same_entry_again_before_any_other(store: Store, receiver: Receiver) -> None:
    _add(store, 1)
    receiver.will(status(204), status(500), status(503, Retry_After="60"), status(410))
    for expected in (5.0, 60.0, 30.0):
        wait = _sent(store, means())
        assert wait is not None
        assert 0.7 * expected <= wait <= LONGEST_SECONDS
    assert (_progress(store).failures, _progress(store).status) == (3, 410)
    _add(store, 2)
    assert _sent(store, means()) == LOOK_SECONDS
    ids = [json.loads(receiver.next().body)["id"] for _ in range(6)]
    assert ids[1] == ids[2] == ids[3] == ids[4] < ids[5]
    assert (_progress(store).failures, _progress(store).sent) == (0, ids[5])


def test_an_entry_that_was_removed_is_passed_over(store: Store, receiver: Receiver) -> None:
    _add(store, 1, 2)
    first = cast(list[bytes], store.redis.zrange(store.keys.audit(), 0, 1))
    store.redis.hdel(store.keys.audit_entries(), *map(bytes.decode, first))
    assert _sent(store, means()) == LOOK_SECONDS
    assert json.loads(receiver.next().body)["data"]["after"]["version"] == 2
    assert receiver.got.empty()


def test_a_host_that_is_admitted_no_more_gets_nothing(store: Store, receiver: Receiver) -> None:
    assert _sent(store, means(private="10.0.0.0/8")) is not None
    assert _progress(store).error == "address-refused"
    assert receiver.got.empty()


def test_a_hook_is_stored_with_the_task_that_sends_to_it_and_an_earlier_task_ends(
    store: Store, receiver: Receiver
) -> None:
    hooks = _hooks(store)
    before = hooks.get("siem")
    moved = before.model_copy(update={"url": f"http://{NAME}:{receiver.port + 1}/in"})
    task = Chore("deliver", "risk", f"{line_of(moved)}/audit/siem")
    hooks.put(moved, task)
    assert store.redis.zscore(Shared.chores_due(), task.field) is not None
    assert send_entries(store, "siem", line_of(before), means()) is None
    assert receiver.got.empty()


def test_a_deleted_hook_gets_nothing_more(store: Store, receiver: Receiver) -> None:
    hooks = _hooks(store)
    former = hooks.get("siem")
    hooks.delete("siem")
    assert send_entries(store, "siem", line_of(former), means()) is None
    hooks.note(former, _any_progress())
    assert not store.redis.exists(store.keys.audit_hooks())
    later = former.model_copy(update={"url": f"http://{NAME}:{receiver.port + 1}/in"})
    hooks.put(later, Chore("deliver", "risk", f"{line_of(later)}/audit/siem"))
    place = hooks.get("siem").progress
    hooks.note(former, _any_progress())  # the answer to an attempt that began before
    assert hooks.get("siem").progress == place


def _any_progress() -> Any:
    from schemas.audit_hooks import HookProgress

    return HookProgress(sent="")


def test_hooks_need_the_scope_admin_and_never_show_their_secrets(redis: Redis, redis_url: str) -> None:
    keys = ApiKeyStore(redis)
    admin, writer, other = (
        keys.create(name, tenant=tenant, scope=scope).text
        for name, tenant, scope in (("a", "a", "admin"), ("b", "a", "write"), ("c", "b", "admin"))
    )
    url = f"https://{NAME}/token-{HUSH}"
    with serving(Settings(redis_url, webhook_hosts=NAME)) as served:
        with Calibrant(served, api_key=admin) as client:
            created = client.audit_hook("siem", url)
            assert created.secret is not None
            again = client.audit_hook("siem", url)
            listed = client.audit_hooks()
            assert [hook.secret for hook in (again, *listed)] == [None, None]
            assert {hook.url for hook in (created, again, *listed)} == {f"https://{NAME}/..."}
            log = list(client.audit_log())
            assert [entry.action for entry in log[:2]] == ["audit-hook-set", "key-created"]
            client.audit_hook("siem", url, secret=SECRET)
            assert [entry.action for entry in client.audit_log()][:2] == ["audit-hook-set"] * 2
        for key, path in ((writer, "/audit/hooks"), (writer, "/audit/hooks/siem")):
            refused = httpx.delete(served + path, headers={"Authorization": f"Bearer {key}"}, timeout=600)
            assert refused.status_code in (403, 405)
        headers = {"Authorization": f"Bearer {other}"}
        assert httpx.get(f"{served}/audit/hooks", headers=headers, timeout=600).json()["items"] == []
        assert httpx.delete(f"{served}/audit/hooks/siem", headers=headers, timeout=600).status_code == 404
        headers = {"Authorization": f"Bearer {admin}"}
        for name, body, code in (
            ("siem", {"url": "https://elsewhere.example.com"}, "hook-refused"),
            ("siem", {"url": f"http://{NAME}"}, "hook-refused"),
            ("siem", {"url": url, "secret": "whsec_short"}, "invalid-option"),
            ("siem", {"url": "x" * 2001}, "invalid-field"),
            ("siem", {}, "invalid-field"),
            ("Siem", {"url": url}, "invalid-field"),
            ("s" * 33, {"url": url}, "invalid-field"),
        ):
            refused = httpx.put(f"{served}/audit/hooks/{name}", json=body, headers=headers, timeout=600)
            assert refused.json()["type"] == f"/problems/{code}"
            assert HUSH not in refused.text
        for number in range(MAX_AUDIT_HOOKS):
            made_status = httpx.put(
                f"{served}/audit/hooks/more-{number}", json={"url": url}, headers=headers, timeout=600
            ).status_code
            assert made_status == (200 if number < MAX_AUDIT_HOOKS - 1 else 429)
    stored = b"".join(cast(list[bytes], redis.hvals(Keyspace("a").audit_entries())))
    assert HUSH.encode() not in stored
    assert (created.secret or "").encode() not in stored


def test_the_command_sets_lists_and_deletes_hooks_and_prints_a_new_secret_once(redis: Redis, redis_url: str) -> None:
    admin, writer = (ApiKeyStore(redis).create(scope, tenant="a", scope=scope).text for scope in ("admin", "write"))
    url = f"https://{NAME}/token-{HUSH}"
    with serving(Settings(redis_url, webhook_hosts=NAME)) as served:

        def run(*arguments: str, key: str = admin, **variables: str) -> Result:
            arguments = ("audit-hooks", *arguments, "--server", served)
            return CliRunner().invoke(app, arguments, env={"CALIBRANT_API_KEY": key, **variables})

        created = run("set", "siem", url)
        assert created.exit_code == 0, created.stderr
        assert created.stdout.startswith("whsec_")
        assert HUSH not in created.output
        assert run("set", "siem", url, CALIBRANT_HOOK_SECRET=SECRET).stdout == ""
        assert json.loads(run("set", "siem", url, "--json").stdout)["secret"] is None
        listed = run("list")
        assert all(text in listed.stdout for text in ("siem", f"https://{NAME}/...", "audit_"))
        (hook,) = json.loads(run("list", "--json").stdout)
        assert (hook["name"], hook["progress"]["failures"]) == ("siem", 0)
        assert run("set", "siem", "https://elsewhere.example.com").exit_code == 1
        assert run("list", key=writer).exit_code == 1
        assert run("delete", "siem").exit_code == 0
        assert run("delete", "siem").exit_code == 1
        assert json.loads(run("list", "--json").stdout) == []


@pytest.mark.slow
def test_a_worker_sends_the_changes_of_a_running_service(folder: Path, receiver: Receiver) -> None:
    allowed = {"CALIBRANT_WEBHOOK_HOSTS": "http://127.0.0.1", "CALIBRANT_WEBHOOK_PRIVATE_ADDRESSES": "127.0.0.0/8"}
    with contextlib.ExitStack() as started:
        running = started.enter_context(own_service(folder / "hooks", allowed))
        with Calibrant(running.url, note="to the SIEM") as client:
            client.audit_hook("siem", f"http://127.0.0.1:{receiver.port}/in")
            client.fit("identity", name="spam", predictions=[0.1, 0.9], labels=[0, 1])
            client.alias("spam", "champion", 1)
        events = [json.loads(receiver.next(120).body) for _ in range(3)]
    assert [event["data"]["action"] for event in events] == ["audit-hook-set", "map-fitted", "alias-moved"]
    assert {event["data"]["note"] for event in events} == {"to the SIEM"}


def test_a_clock_that_was_set_back_by_days_stops_no_hook(store: Store, receiver: Receiver) -> None:
    _add(store, 1)
    assert _sent(store, means()) == LOOK_SECONDS
    # As if these entries had been written, and sent, by a clock that was ten days ahead.
    for (entry, score), serial in zip(_scores(store), (1, 2), strict=True):
        ahead = f"audit_{int(score) + 864_000_000:012x}{serial:010x}00000000"
        stored = store.redis.hget(store.keys.audit_entries(), entry.decode())
        store.redis.hset(store.keys.audit_entries(), ahead, stored)
        store.redis.zadd(store.keys.audit(), {ahead: score + 864_000_000})
        store.redis.zrem(store.keys.audit(), entry)
        _hooks(store).note(_hooks(store).get("siem"), _progress(store).model_copy(update={"sent": ahead}))
    _add(store, 2, 3)
    assert _sent(store, means()) == LOOK_SECONDS
    sent = [json.loads(receiver.next().body)["data"] for _ in range(4)]
    assert [(entry["after"] or {}).get("version") for entry in sent] == [None, 1, 2, 3]
    assert sent[2]["at"] < max(entry.at for entry in _entries(store))
    assert _sent(store, means()) == LOOK_SECONDS
    assert receiver.got.empty()


def _entries(store: Store) -> tuple[ChangeRecord, ...]:
    return store.audit.page(PageRequest(100), AuditQuery()).items


def test_the_time_of_entries_does_not_go_back_with_the_clock(redis: Redis) -> None:
    store = Store.of(redis, "clock")
    _add(store, 1)
    ((entry, score),) = _scores(store)
    ahead = score + 3_600_000
    redis.zadd(store.keys.audit(), {entry.decode(): ahead})
    _add(store, 2)
    assert [score for _, score in _scores(store)] == [ahead, ahead]
    trail = AuditTrail(redis, store.keys)
    assert trail.next_after("") is not None


def _scores(store: Store) -> list[tuple[bytes, float]]:
    return cast(list[tuple[bytes, float]], store.redis.zrange(store.keys.audit(), 0, -1, withscores=True))
