"""Monitors in the store, and changes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backend.store.clock import stamp
from backend.store.keyspace import new_id
from backend.store.monitors.buckets import Lists
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.deliveries import Deliveries
from backend.store.monitors.ids import Ids, padded
from backend.store.monitors.ledger import Ledger, MonitorGroups, RowChanges
from backend.store.monitors.reference import write_reference
from backend.store.monitors.standings import StandingChange, Standings, put_label_shifts
from backend.store.store import Store
from calibrant.monitoring.reservoir import Reservoir
from calibrant.monitoring.tally import Tally, tally_of
from schemas.monitor_alarms import AlarmData, AuditEntry, DeliveryRecord, MonitorEvent
from schemas.monitor_answers import StoredLabelShifts
from schemas.monitors import MonitorBody, MonitorRecord

NOW = 1_700_000_000.0
HOUR = 3600
#: The seconds that ids are known, whose slots are 100 s long.
HORIZON = 3200
HOOK = {"name": "hook", "url": "https://alerts.example.com", "secret": "whsec_" + "A" * 32}


def record_of(name: str = "m", **changes: Any) -> MonitorRecord:
    body = MonitorBody.model_validate({"name": name, "bucket": HOUR, "horizon": HORIZON} | changes)
    return MonitorRecord(**body.model_dump(), id=new_id("monitor"), created_at=stamp(), started_at=0.0)


def monitor(store: Store, name: str = "m", **changes: Any) -> MonitorRecord:
    return Definitions(store.redis, store.keys).put(record_of(name, **changes))


def ledger_of(store: Store, name: str = "m", **changes: Any) -> Ledger:
    return Ledger(store.redis, store.keys, monitor(store, name, **changes))


def tally(n: int, seed: int = 0) -> Tally:
    p = np.random.default_rng(seed).uniform(size=n)
    return tally_of(p, (p > 0.5).astype(np.int8))


def reservoir(n: int, seed: int = 0) -> Reservoir:
    random = np.random.default_rng(seed)
    return Reservoir.of(random.random(n), random.random((n, 3)), random.integers(-1, 3, n))


def change(
    names: Sequence[bytes], entry: bytes | None = b"J1", expected: bytes | None = None, **more: Any
) -> RowChanges:
    """A row for each name, in time bucket 7, whose entry becomes another."""
    size = 40
    asked = None if expected is None else padded([expected] * len(names), size)
    coming = None if entry is None else padded([entry] * len(names), size)
    defaults: dict[str, Any] = {
        "now": NOW,
        "tallies": {7: (tally(len(names)), None)},
        "counts": {7: {"joined": len(names)}},
        "totals": {"joined": len(names)},
    }
    return RowChanges(Ids.of(names), asked, coming, **(defaults | more))


def unnamed(n: int, bucket: int = 7, seed: int = 0, *, raw: bool = False) -> RowChanges:
    """Rows without ids in one time bucket."""
    return RowChanges(None, None, None, NOW, {bucket: (tally(n, seed), tally(n, seed + 1000) if raw else None)})


def put_reference(store: Store, uid: str, tally: Tally | None, vectors: Reservoir | None = None) -> None:
    """Replace the reference of a monitor, as a change of its definition does."""
    with store.redis.pipeline() as pipe:
        write_reference(pipe, store.keys, uid, tally, vectors)
        pipe.execute()


def fill_standing(store: Store, record: MonitorRecord) -> None:
    """An event, an entry of the audit, a standing, and states of an online map."""
    alarm = AlarmData(monitor=record.name, rule="evidence", kind="evidence")
    event = MonitorEvent(id=new_id("event"), type="monitor.alarm.raised", timestamp=stamp(), data=alarm)
    entry = AuditEntry(at=stamp(), action="alarm-raised")
    standings = Standings(store.redis, store.keys, record)
    standings.change(lambda _, standing: StandingChange(standing, [event], [entry], states={"now": b"{}", "7": b"{}"}))


def fill_monitor(store: Store, name: str = "m") -> MonitorRecord:
    """A monitor with something of everything that is kept of one."""
    record = monitor(store, name, windows=[{"name": "last", "rows": 1600}], hooks=[HOOK], n_classes=3, reservoir=1000)
    ledger = Ledger(store.redis, store.keys, record)
    for bucket in (3, 64, 70):
        for i in range(2):
            names = [f"{bucket}-{i}-{row}".encode() for row in range(150)]
            both = {bucket: (tally(150, i), tally(150, i + 1))}
            later = NOW + 500 * bucket
            vectors = {bucket: reservoir(600, bucket + i)}
            ledger.commit(change(names, tallies=both, counts={bucket: {"joined": 150}}, now=later, vectors=vectors))
    ledger.buckets.vectors.compact(64)
    Lists(store.redis, store.keys.monitor(record.id)).compact("measured", 3)
    ledger.buckets.drop(4)
    MonitorGroups(store.redis, store.keys, record).indices(["a", "b"])
    put_reference(store, record.id, tally(10), reservoir(10))
    put_label_shifts(store.redis, store.keys, record, StoredLabelShifts(at=NOW, seconds=1.0, predictions=9, windows={}))
    fill_standing(store, record)
    alarm = AlarmData(monitor=record.name, rule="evidence", kind="evidence")
    event = MonitorEvent(id=new_id("event"), type="monitor.alarm.raised", timestamp=stamp(), data=alarm)
    Deliveries(store.redis, store.keys, record.id).create(
        DeliveryRecord(id=new_id("delivery"), monitor=name, hook="hook", event=event, created_at=stamp())
    )
    return record
