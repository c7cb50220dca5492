"""Asking for a challenger without an alarm."""

from __future__ import annotations

from schemas.monitor_alarms import AuditEntry, Occasion, RecalibrationRequested, Standing
from schemas.monitors import MonitorRecord
from storage.chores import Chore
from storage.clock import at
from storage.monitors.standings import Change, Standings
from storage.store import Store


def request_challenger(store: Store, record: MonitorRecord, who: str | None, now: float) -> RecalibrationRequested:
    """Have a challenger fitted as soon as a worker is free, whatever the pause; raises ``UnknownMonitor``.

    Of requests at once one is seen to, and all are in the audit.
    """
    requested = record

    def change(record: MonitorRecord, standing: Standing) -> Change:
        nonlocal requested
        requested = record
        entry = AuditEntry(at=at(now), action="recalibration-requested", who=who)
        if any(occasion.rule is None for occasion in standing.asked):
            return Change(standing, [], [entry.model_copy(update={"alarm": standing.requests})])
        occasion = Occasion(number=standing.requests + 1)
        after = standing.model_copy(update={"asked": [*standing.asked, occasion], "requests": occasion.number})
        chore = Chore("recalibrate", store.keys.tenant, record.uid)
        return Change(after, [], [entry.model_copy(update={"alarm": occasion.number})], chores=[chore])

    changed = Standings(store.redis, store.keys, record).change(change)
    return RecalibrationRequested(
        monitor=record.name,
        number=changed.standing.requests if changed is not None else 0,
        requested_at=at(now),
        requested_by=who,
        recalibration=requested.recalibration,
    )
