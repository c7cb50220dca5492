"""Rows that come to a monitor: found, read, and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import time

from starlette.datastructures import Headers

from calibrant.batch import Predictions
from calibrant.cells import Floats
from monitoring.taking.outcomes import Account
from monitoring.taking.screening import What
from monitoring.taking.taking import Taking
from schemas.monitors import MonitorRecord, Taken
from service.context import Context
from service.monitor_bodies.payloads import By, rows_of_events
from service.monitor_bodies.reading import Sent
from storage.chores import Chore, ask
from storage.monitors.groups import Groups
from storage.monitors.ledger import Ledger
from telemetry.observed import note_rows, traced

#: Seconds from new rows to the look at them; the rows that come meanwhile are looked at with them.
LOOK_AFTER = 1.0


@traced("work")
def take_rows(here: Context, name: str, what: What, sent: Sent) -> Taken:
    """Count the rows of a body; raises ``UnknownMonitor``, ``MonitorFull``, or what is wrong with the body."""
    record = here.store.monitors.get(name)
    rows = sent.rows(what, record.n_classes)
    note_rows((len(rows),))
    account = Account()
    taking, now = taking_of(here, record), time()
    taking.take(what, rows, now, account)
    return _closed(here, record, taking, account, now)


@traced("work")
def take_events(here: Context, name: str, headers: Headers, sent: Sent, output: str | None, by: By = "id") -> Taken:
    """Count what the events of a body tell of, in their order; raises as ``take_rows`` does."""
    record = here.store.monitors.get(name)
    account = Account()
    parts, ignored = rows_of_events(sent.events(headers), sent.limits, record.n_classes, output, by)
    account.ignore(ignored)
    taking, now, numbered = taking_of(here, record), time(), 0
    for what, rows in parts:
        taking.take(what, replace(rows, numbers=rows.numbers + numbered), now, account)
        numbered += len(rows)
    note_rows((numbered,))
    return _closed(here, record, taking, account, now)


def _closed(here: Context, record: MonitorRecord, taking: Taking, account: Account, now: float) -> Taken:
    """The account of a request, all of whose rows were taken in; a look at the monitor is due."""
    taking.close(now, account)
    taken = account.taken()
    if taken.accepted:
        ask(here.store.redis, Chore("look", here.store.keys.tenant, record.uid), LOOK_AFTER)
    return taken


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
