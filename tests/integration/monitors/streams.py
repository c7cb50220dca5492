"""Streams of labelled rows, calibrated or not, as a monitor has counted them."""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.monitors.looks import look_at
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.monitors.standings import Standings
from backend.store.pages import PageRequest
from backend.store.store import Store
from calibrant.monitoring.tally import FOLDS, Tally, tally_of
from schemas.base import DAY
from schemas.monitor_alarms import AuditEntry, MonitorEvent, Standing
from schemas.monitor_rules import RuleState
from schemas.monitors import MonitorRecord
from tests.integration.monitors.stored import monitor

#: When the streams begin, at the beginning of a bucket of an hour.
BEGAN = 1_699_999_200.0
HOUR = 3600.0


def begun(store: Store, **changes: Any) -> MonitorRecord:
    """A monitor with buckets of an hour that began with the stream."""
    fields: dict[str, Any] = {"bucket": int(HOUR), "horizon": DAY, "retention": 10 * DAY}
    record = monitor(store, **fields | changes)
    change = {"started_at": BEGAN}
    return Definitions(store.redis, store.keys).patch(record.name, lambda record: record.model_copy(update=change))


def rows(n: int, seed: int, *, shift: float = 0.0, group: int = 0) -> Tally:
    """Rows whose log-odds are ``shift`` above those of the predictions, dealt to the folds."""
    random = np.random.default_rng(seed)
    p = random.uniform(0.02, 0.98, size=n)
    true = p / (p + (1.0 - p) * np.exp(-shift))
    y = (random.random(n) < true).astype(np.int8)
    return tally_of(p, y, np.full(n, group), random.integers(0, FOLDS, n))


def pour(store: Store, record: MonitorRecord, hour: int, tally: Tally, *, raw: Tally | None = None) -> float:
    """Count rows that were predicted in an hour of the stream; gives the end of the hour."""
    bucket, end = int(BEGAN // HOUR) + hour, BEGAN + (hour + 1) * HOUR
    counts = {bucket: {"predictions": len(tally), "joined": len(tally)}}
    change = RowChanges(None, None, None, end, {bucket: (tally, raw)}, counts, {"joined": len(tally)})
    assert Ledger(store.redis, store.keys, record).commit(change) is None
    return end


def looked(store: Store, record: MonitorRecord, hour: int, tally: Tally) -> RuleState:
    """The state of the first rule after a look at the end of an hour with these rows."""
    now = pour(store, record, hour, tally)
    look_at(store, Definitions(store.redis, store.keys).get(record.name), now)
    return next(iter(standing_of(store, record).rules.values()))


def standing_of(store: Store, record: MonitorRecord) -> Standing:
    return Standings(store.redis, store.keys, record).read()


def events_of(store: Store, record: MonitorRecord) -> tuple[MonitorEvent, ...]:
    """What happened, oldest first."""
    return Standings(store.redis, store.keys, record).events(PageRequest(100)).items[::-1]


def entries_of(store: Store, record: MonitorRecord) -> tuple[AuditEntry, ...]:
    """The audit log of a monitor, oldest first."""
    return Standings(store.redis, store.keys, record).audit(PageRequest(100)).items[::-1]


def actions_of(store: Store, record: MonitorRecord) -> list[str]:
    """The actions in the audit log of a monitor, oldest first."""
    return [entry.action for entry in entries_of(store, record)]
