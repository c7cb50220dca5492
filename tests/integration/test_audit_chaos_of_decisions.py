"""Keys, monitors, decisions about challengers and hooks under kill -9: the audit log has the whole history of each."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.monitors.alarms import step_of
from backend.store.api_keys import ApiKeyStore
from backend.store.audit_hooks import AuditHooks
from backend.store.clock import stamp
from backend.store.errors import UnknownAlias
from backend.store.keyspace import Keyspace, new_id
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from backend.store.store import Store
from schemas.audit import ChangeRecord
from schemas.monitor_alarms import Occasion, Proposal, RecalibrationData, Standing
from schemas.monitors import MonitorRecord
from tests.integration.conftest import own_service
from tests.integration.monitors.receiver import Receiver, receiving
from tests.integration.monitors.stored import monitor
from tests.integration.redis_server import until
from tests.integration.test_audit_chaos import QUICK, Writers, kill, log_of, mending

pytestmark = pytest.mark.slow

#: Changes that are acknowledged between two kills, and the number of kills.
CHANGES, KILLS = 20, 6
#: A program that creates, rotates and revokes a key, then the next one; each line of its output is a finished change.
KEYS = """
import sys
from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
keys = ApiKeyStore(connect(sys.argv[1]))
while sys.stdin.readline():
    key = keys.create("churn", tenant="default", scope="maps:read maps:promote", rate_limit=5)
    print("created", flush=True)
    sys.stdin.readline()
    keys.rotate(key.record.id, grace=60)
    print("rotated", flush=True)
    sys.stdin.readline()
    keys.revoke(key.record.id)
    print("revoked", flush=True)
"""


class Caller:
    """Changes of monitors, hooks and aliases over HTTP; each method returns whether one was acknowledged."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def change_monitor(self, random: np.random.Generator) -> bool:
        path, description = f"/monitors/churn-{random.integers(3)}", f"version {random.integers(1000)}"
        match random.integers(4):
            case 0 | 1:
                body = {"name": path.rpartition("/")[2], "description": description}
                return self._http.post("/monitors", json=body).is_success
            case 2:
                patch = {"Content-Type": "application/merge-patch+json"}
                body = {"description": description}
                return self._http.patch(path, content=json.dumps(body), headers=patch).is_success
            case _:
                return self._http.delete(path).is_success

    def change_hook(self, random: np.random.Generator) -> bool:
        path = f"/audit/hooks/churn-{random.integers(2)}"
        if random.integers(3) == 0:
            return self._http.delete(path).is_success
        url = f"http://127.0.0.1:9/{random.integers(100)}"
        return self._http.put(path, json={"url": url, "secret": "whsec_" + "c2VjcmV0" * 4}).is_success

    def decide(self, store: Store, record: MonitorRecord, random: np.random.Generator) -> bool:
        """Propose a new challenger unless one waits, and accept or reject it."""
        draft = self._http.post("/maps", json=QUICK)
        if draft.is_success:
            _propose(store, record, draft.json()["id"])
        verdict = "reject" if random.integers(4) == 0 else "accept"
        return self._http.post(f"/monitors/{record.name}/proposal/{verdict}").is_success


def _propose(store: Store, record: MonitorRecord, draft: str) -> None:
    """As when a monitor has fitted a challenger that is better than the champion."""
    try:
        alias = store.aliases.get(record.name, "champion")
    except UnknownAlias:
        alias = None
    about = {"name": record.name, "alias": "champion", "champion": None if alias is None else alias.map}
    reasons = RecalibrationData(monitor=record.name, rule="evidence", challenger=draft, **about)

    def change(_: MonitorRecord, standing: Standing) -> StandingChange | None:
        if standing.proposal is not None or standing.moving is not None:
            return None
        occasion = Occasion(rule="evidence", number=1)
        proposal = Proposal(
            id=new_id("proposal"), created_at=stamp(), occasion=occasion, map=draft, name=record.name,
            alias="champion", revision=None if alias is None else alias.revision, found=reasons,
        )  # fmt: skip
        entry = step_of("challenger-proposed", 0.0, occasion, reasons)
        return StandingChange(standing.model_copy(update={"proposal": proposal}), [], [entry])

    Standings(store.redis, store.keys, record).change(change)


class KeyCommand:
    """A command that changes keys, one for each line that it is sent; it is started again after it was killed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command, root = [sys.executable, "-c", KEYS, self._url], Path(__file__).parents[2]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)

    def change(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("\n")
            process.stdin.flush()
            if process.stdout.readline():
                return
        self.close()
        self._process = self._start()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def test_kills_leave_the_whole_history_of_keys_monitors_decisions_and_hooks(folder: Path) -> None:
    allowed = {"CALIBRANT_WEBHOOK_HOSTS": "http://127.0.0.1", "CALIBRANT_WEBHOOK_PRIVATE_ADDRESSES": "127.0.0.0/8"}
    directory = folder / "decisions"
    with (folder / "decisions.log").open("ab") as log, contextlib.ExitStack() as started:
        url, _ = started.enter_context(embedded_server(directory, log=log))
        redis = started.enter_context(contextlib.closing(connect(url)))
        receiver = started.enter_context(receiving())
        key = ApiKeyStore(redis).create("operator", tenant="default", scope="admin", rate_limit=0).text
        store = Store.of(redis)
        record = monitor(store, name="decided", recalibration={"policy": "propose", "name": "decided"})
        running = started.enter_context(own_service(directory, allowed, redis_url=url))
        headers = {"Authorization": f"Bearer {key}"}
        clients = [httpx.Client(base_url=running.url, timeout=600, trust_env=False, headers=headers) for _ in range(4)]
        callers = [Caller(started.enter_context(http)) for http in clients]
        clients[0].put("/audit/hooks/siem", json={"url": f"http://127.0.0.1:{receiver.port}/"}).raise_for_status()
        command = started.enter_context(contextlib.closing(KeyCommand(url)))
        mended = started.enter_context(mending(running))

        def change_monitor_and_key(random: np.random.Generator) -> bool:
            acknowledged = callers[0].change_monitor(random)
            command.change()  # after a response, so that keys do not become many while the API starts
            return acknowledged

        steps = (change_monitor_and_key, callers[1].change_monitor, callers[2].change_hook)
        with Writers(*steps, lambda random: callers[3].decide(store, record, random)) as writers:
            for _ in range(KILLS):
                writers.wait_for(CHANGES)
                kill(running)
                command.kill()
            writers.wait_for(CHANGES)
        until(lambda: Standings(redis, Keyspace(), record).read().moving is None)
        last = clients[0].delete("/audit/hooks/churn-0")
        assert last.status_code in (204, 404)
        _check_receiver(redis, receiver)
        mended.set()
    # The commands and the service have ended, so that nothing changes any more.
    with (folder / "decisions.log").open("ab") as log, embedded_server(directory, log=log) as (url, _):
        redis = connect(url)
        entries = log_of(redis)
        _check_keys(redis, entries)
        _check_monitors(redis, entries)
        _check_decisions(redis, record, entries)
        _check_hooks(redis, entries)
        redis.close()


def _histories(
    entries: Sequence[ChangeRecord], prefix: str, of: Callable[[ChangeRecord], str | None]
) -> dict[str | None, list[ChangeRecord]]:
    """The entries of each object, oldest first."""
    histories: dict[str | None, list[ChangeRecord]] = defaultdict(list)
    for entry in entries:
        if entry.action.startswith(prefix):
            histories[of(entry)].append(entry)
    return histories


def _check_keys(redis: Redis, entries: list[ChangeRecord]) -> None:
    """Each key has its creation, and each of its changes begins with what the previous one ended with."""
    histories = _histories(entries, "key-", lambda entry: entry.key)
    records = {record.id: record for record in ApiKeyStore(redis).all()}
    assert records.keys() == histories.keys()
    assert len(histories) > 1
    for key_id, history in histories.items():
        assert [entry.action for entry in history] == ["key-created", "key-rotated", "key-revoked"][: len(history)]
        assert [entry.before for entry in history] == [None, *(entry.after for entry in history[:-1])]
        record, after = records[str(key_id)], history[-1].after or {}
        assert after["revoked_at"] == record.revoked_at
        assert after["expires_at"] == [secret.expires_at for secret in record.secrets]


def _check_monitors(redis: Redis, entries: list[ChangeRecord]) -> None:
    histories = _histories(entries, "monitor-", lambda entry: entry.monitor_id)
    records = {record.id: record for record in Store.of(redis).monitors.all()}
    changed = 0
    for monitor_id, history in histories.items():
        description = None
        for i, entry in enumerate(history):
            assert (entry.action == "monitor-created") == (i == 0)
            assert entry.action != "monitor-deleted" or i == len(history) - 1
            if entry.action == "monitor-changed":
                changed += 1
                assert (entry.before or {})["description"] == description
            description = (entry.after or {}).get("description")
        assert (history[-1].action == "monitor-deleted") == (monitor_id not in records)
        if monitor_id in records:
            assert records[monitor_id].description == description
    assert records.keys() <= histories.keys()
    assert changed > 0
    assert len(histories) > 1


def _check_decisions(redis: Redis, record: MonitorRecord, entries: list[ChangeRecord]) -> None:
    """Each proposal is decided once, and each accepted one moves the alias once, by who accepted it."""
    of_monitor = [entry for entry in entries if entry.monitor_id == record.id]
    assert {entry.monitor for entry in of_monitor} == {"decided"}
    proposals = [
        entry
        for entry in of_monitor
        if entry.action in ("challenger-proposed", "proposal-accepted", "proposal-rejected")
    ]
    assert [entry.action == "challenger-proposed" for entry in proposals] == [i % 2 == 0 for i in range(len(proposals))]
    accepted = [entry for entry in proposals if entry.action == "proposal-accepted"]
    moves = [entry for entry in entries if entry.action == "alias-moved" and entry.map == "decided"]
    assert len(accepted) > 1
    assert [(entry.after or {})["challenger"] for entry in accepted] == [(entry.after or {})["id"] for entry in moves]
    assert [entry.actor for entry in accepted] == [entry.actor for entry in moves]
    assert [entry.request_id for entry in accepted] == [entry.request_id for entry in moves]
    assert [entry.before for entry in moves] == [None, *(entry.after for entry in moves[:-1])]
    alias = Store.of(redis).aliases.get("decided", "champion")
    assert moves[-1].after == {"version": alias.version, "id": alias.map, "revision": alias.revision}
    assert all(entry.permitted for entry in moves)


def _check_hooks(redis: Redis, entries: list[ChangeRecord]) -> None:
    histories = _histories(entries, "audit-hook-", lambda entry: ((entry.after or entry.before) or {})["name"])
    stored = {hook.name: hook.shown_url for hook in AuditHooks(redis, Keyspace(), Store.of(redis).audit).all()}
    for name, history in histories.items():
        state: dict[str, Any] | None = None
        for entry in history:
            assert entry.before == state
            state = entry.after
        assert stored.get(str(name)) == (state or {}).get("url")
    assert stored.keys() <= histories.keys()
    assert len(histories["churn-0"]) + len(histories["churn-1"]) > 1


def _check_receiver(redis: Redis, receiver: Receiver) -> None:
    """The receiver gets every entry of the log since its hook, at least once and each first time in order."""
    entries = log_of(redis)
    first = next(i for i, entry in enumerate(entries) if (entry.after or {}).get("name") == "siem")
    expected = [entry.id for entry in entries[first:]]
    received: dict[str, None] = {}
    while expected[-1] not in received:
        received.setdefault(json.loads(receiver.next(120).body)["id"])
    assert list(received)[: len(expected)] == expected
