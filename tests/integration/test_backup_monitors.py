"""Monitors in backups: with all that they know, and never a row twice."""

from __future__ import annotations

import io
import threading
from typing import cast

import pytest
from redis import Redis

from backend.monitors.windows import Gatherer, Leaves, pooled, tally_of_cells
from backend.store.backup.contents import write_backup
from backend.store.backup.file import read_lines
from backend.store.backup.restoring import _Writer, restore
from backend.store.errors import StoreNotEmpty
from backend.store.keyspace import Shared
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ids import FIRST_GROUP, Ids, padded
from backend.store.monitors.ledger import Ledger, MonitorGroups, RowChanges
from backend.store.store import Store
from calibrant.monitoring.tally import Tally
from tests.integration.monitors.stored import NOW, change, fill_monitor, monitor, unnamed
from tests.integration.test_backup import _snapshot


def _backup(redis: Redis) -> io.BytesIO:
    file = io.BytesIO()
    write_backup(redis, file)
    return file


def test_monitors_come_back_as_they_were(redis: Redis, store: Store) -> None:
    records = [fill_monitor(store), fill_monitor(Store.of(redis, "other"))]
    before = _snapshot(redis)
    assert len(before) > 50
    due = {cast(bytes, chore) for chore in redis.zrange(Shared.chores_due(), 0, -1)}
    file = _backup(redis)
    redis.flushall()
    restored = restore(redis, file, merge=False)
    assert (restored.written, restored.left) == ({"monitor": 2, "audit": 2}, {})
    assert _snapshot(redis) == before
    asked = {cast(bytes, chore) for chore in redis.zrange(Shared.chores_due(), 0, -1)}
    looks = {f"look:{tenant}:{r.id}".encode() for tenant, r in zip(("default", "other"), records, strict=True)}
    assert asked == due | looks


def test_a_restored_monitor_goes_on_counting(redis: Redis, store: Store) -> None:
    record = fill_monitor(store)
    file = _backup(redis)
    redis.flushall()
    restore(redis, file, merge=False)
    ledger = Ledger(redis, store.keys, Definitions(redis, store.keys).get("m"))
    again = ledger.commit(change([b"64-0-0", b"new"]))
    assert again is not None
    assert (again.indices.tolist(), again.entries) == ([0], [b"J1"])
    for seed in range(100):
        ledger.commit(unnamed(10, 64, seed))
    assert len(ledger.buckets.tally(64, 64)) == 1300
    assert len(ledger.buckets.tally(0, 999)) == 1600
    assert MonitorGroups(redis, store.keys, record).indices(["c", "a"]) == [FIRST_GROUP + 2, FIRST_GROUP]
    forgotten = 0
    for slot in ledger.due_slots(1e12):
        while (pieces := ledger.oldest(slot)) is not None:
            entries = ledger.entries(pieces.ids)
            assert None not in entries
            expected = RowChanges(pieces.ids, padded(entries, 40), None, NOW, forgets=pieces)
            assert ledger.commit(expected) is None
            forgotten += len(pieces.ids)
    assert (forgotten, ledger.known()) == (900, 0)


@pytest.mark.parametrize("later", [0, 1, 5])
def test_a_process_reloads_a_monitor_after_its_restore(redis: Redis, store: Store, later: int) -> None:
    record = monitor(store)
    ledger = Ledger(redis, store.keys, record)
    ledger.commit(unnamed(10, seed=1))
    file = _backup(redis)
    gatherer = Gatherer(Leaves(), ledger.buckets, record.id)
    ledger.commit(unnamed(20, seed=2))
    ledger.commit(unnamed(20, seed=3))
    assert len(gatherer.span(7, 7).tally) == 50
    Definitions(redis, store.keys).delete("m")
    restore(redis, file, merge=True)
    for seed in range(later):
        ledger.commit(unnamed(7, seed=10 + seed))
    assert gatherer.span(7, 7).tally.to_bytes() == pooled_tally(ledger.buckets.tally(7, 7))


def pooled_tally(tally: Tally) -> bytes:
    """The rows of a tally whatever their fold, as leaves hold them."""
    return tally_of_cells(pooled([tally])).to_bytes()


def test_a_merge_leaves_a_monitor_that_is_there_and_one_whose_name_is_taken(redis: Redis, store: Store) -> None:
    fill_monitor(store)
    file = _backup(redis)
    before = _snapshot(redis)
    assert restore(redis, file, merge=True).left["monitor"] == 1
    assert _snapshot(redis) == before
    redis.flushall()
    other = monitor(store)
    before = _snapshot(redis)
    assert restore(redis, file, merge=True).left["monitor"] == 1
    after = _snapshot(redis)  # the audit log has the entries of both monitors
    assert {key: after[key] for key in after if ":audit" not in key} == {
        key: before[key] for key in before if ":audit" not in key
    }
    assert Definitions(redis, store.keys).get("m") == other


def test_a_store_with_a_monitor_alone_is_not_empty(redis: Redis, store: Store) -> None:
    file = _backup(redis)
    monitor(store)
    with pytest.raises(StoreNotEmpty):
        restore(redis, file, merge=False)


def test_an_interrupted_restore_of_monitors_is_completed_by_a_merge(redis: Redis, store: Store) -> None:
    fill_monitor(store)
    before, file = _snapshot(redis), _backup(redis)
    parts = [line for line in read_lines(file) if line.kind.startswith("monitor")]
    for written in (1, 10, len(parts) - 1):
        redis.flushall()
        writer = _Writer(redis)
        for line in parts[:written]:
            writer.plan(line)()
        assert Definitions(redis, store.keys).number() == 0
        restore(redis, file, merge=True)
        assert _snapshot(redis) == before


@pytest.mark.slow
def test_a_backup_under_writes_knows_every_row_that_it_does_not_count_twice(redis: Redis, store: Store) -> None:
    record = monitor(store, windows=[{"name": "last", "rows": 1600}])
    sent: list[bytes] = []
    done, enough = threading.Event(), threading.Event()

    def write() -> None:
        ledger = Ledger(redis, store.keys, record)
        while not done.is_set():
            names = [b"%d" % (len(sent) + i) for i in range(50)]
            ledger.commit(change(names, counts={}))
            sent.extend(names)
            if len(sent) > 2000:
                enough.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert enough.wait(600)
        file = _backup(redis)
    finally:
        done.set()
        writer.join()
    redis.flushall()
    restore(redis, file, merge=False)
    ledger = Ledger(redis, store.keys, record)
    for start in range(0, len(sent), 1000):
        some = sent[start : start + 1000]
        fresh = [name for name, entry in zip(some, ledger.entries(Ids.of(some)), strict=True) if entry is None]
        if fresh:
            ledger.commit(change(fresh, counts={}))
    assert ledger.known() == len(sent)
    counted = len(ledger.buckets.tally(7, 7))
    assert 2000 < counted <= len(sent)
    assert _same_rows(ledger, counted)


def _same_rows(ledger: Ledger, counted: int) -> bool:
    """Whether the span has the rows of its bucket."""
    (span,) = ledger.buckets.tails("measured-spans", [(0, 0)])
    return sum(map(len, span.parts)) == counted
