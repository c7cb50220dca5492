"""Monitors in the store, and changes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.tallies.tally import Tally, tally_of
from schemas.monitor_alarms import AuditEntry
from schemas.monitor_events import AlarmTold, MonitorEvent
from schemas.monitors import MonitorBody, MonitorRecord
from storage.clock import stamp
from storage.keyspace import new_id
from storage.monitors.definitions import Definitions
from storage.monitors.ledger import Change, Ledger
from storage.monitors.standings import Change as StandingChange
from storage.monitors.standings import Standings
from storage.monitors.strings import Ids, padded
from storage.store import Store

NOW = 1_700_000_000.0
HOUR = 3600
#: The seconds that ids are known, whose slots are 100 s long.
HORIZON = 3200


def record_of(name: str = "m", **changes: Any) -> MonitorRecord:
    body = MonitorBody.model_validate({"name": name, "bucket": HOUR, "horizon": HORIZON} | changes)
    return MonitorRecord(**body.model_dump(), uid=new_id("monitor"), created_at=stamp(), started_at=0.0)


def monitor(store: Store, name: str = "m", **changes: Any) -> MonitorRecord:
    return Definitions(store.redis, store.keys).put(record_of(name, **changes))


def ledger_of(store: Store, name: str = "m", **changes: Any) -> Ledger:
    return Ledger(store.redis, store.keys, monitor(store, name, **changes))


def tally(n: int, seed: int = 0) -> Tally:
    p = np.random.default_rng(seed).uniform(size=n)
    return tally_of(p, (p > 0.5).astype(np.int8))


def change(names: Sequence[bytes], entry: bytes | None = b"J1", expected: bytes | None = None, **more: Any) -> Change:
    """A row for each name, in time bucket 7, whose entry becomes another."""
    size = 40
    asked = None if expected is None else padded([expected] * len(names), size)
    coming = None if entry is None else padded([entry] * len(names), size)
    given: dict[str, Any] = {
        "now": NOW,
        "tallies": {7: (tally(len(names)), None)},
        "counts": {7: {"joined": len(names)}},
        "totals": {"joined": len(names)},
    }
    return Change(Ids.of(names), asked, coming, **(given | more))


def unnamed(n: int, bucket: int = 7, seed: int = 0, *, raw: bool = False) -> Change:
    """Rows without ids in one time bucket."""
    return Change(None, None, None, NOW, {bucket: (tally(n, seed), tally(n, seed + 1000) if raw else None)})


def fill_standing(store: Store, record: MonitorRecord) -> None:
    """An event, an entry of the audit, and a standing."""
    told = AlarmTold(monitor=record.name, rule="evidence", kind="evidence")
    event = MonitorEvent(id=new_id("event"), type="monitor.alarm.raised", timestamp=stamp(), data=told)
    entry = AuditEntry(at=stamp(), action="alarm-raised")
    standings = Standings(store.redis, store.keys, record)
    standings.change(lambda _, standing: StandingChange(standing, [event], [entry]))
