"""Rows that come to a monitor: found, read, and counted."""

from __future__ import annotations

from collections.abc import Callable
from time import time

from calibrant.batch import Predictions
from calibrant.cells import Floats
from monitoring.taking.outcomes import Account
from monitoring.taking.screening import What
from monitoring.taking.taking import Taking
from schemas.monitors import MonitorRecord, Taken
from service.context import Context
from service.monitor_bodies.reading import Sent
from storage.monitors.definitions import Definitions
from storage.monitors.groups import Groups
from storage.monitors.ledger import Ledger
from telemetry.observed import note_rows, traced


@traced("work")
def take_rows(here: Context, name: str, what: What, sent: Sent) -> Taken:
    """Count the rows of a body; raises ``UnknownMonitor``, ``MonitorFull``, or what is wrong with the body."""
    record = Definitions(here.store.redis, here.store.keys).get(name)
    rows = sent.rows(what, record.n_classes)
    note_rows((len(rows),))
    account = Account()
    taking, now = taking_of(here, record), time()
    taking.take(what, rows, now, account)
    taking.close(now, account)
    return account.taken()


def taking_of(here: Context, record: MonitorRecord) -> Taking:
    """What takes in the rows of a monitor for this request."""
    store = here.store
    ledger, groups = Ledger(store.redis, store.keys, record), Groups(store.redis, store.keys, record)
    return Taking(ledger, groups, record, _map_of(here, record), here.seed)


def _map_of(here: Context, record: MonitorRecord) -> Callable[[Predictions], Floats] | None:
    """The monitor's map as it is now; raises ``UnknownMap`` where it has been deleted."""
    if record.map is None:
        return None
    fitted = here.find_map(record.map).map
    return fitted.apply_checked
