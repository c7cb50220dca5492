"""The chore ``look``: what is done about a monitor from time to time, and soon after rows have come.

All that a look reads is read first. What follows from it is one change of the monitor's standing, made on the standing
as it is then, so that of two looks at once the second finds that an alarm is raised already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from redis import Redis

from monitoring.delivering.asking import ask as ask_for_delivery
from monitoring.evidence import Remembered, Seen, look_at_evidence, oldest_kept
from monitoring.expiring import expire
from monitoring.gathering import Leaves
from monitoring.happening import Turn, entry_of, happened
from monitoring.latest import latest_values
from monitoring.occasions import asked_again, occasion_of
from monitoring.reference import keep_reference
from monitoring.rules import Measured, begun, judged_by_evidence, judged_by_threshold
from monitoring.thresholds import Meter
from schemas.monitor_alarms import AuditEntry, RuleState, Standing
from schemas.monitor_events import MonitorEvent
from schemas.monitors import EvidenceRule, MonitorRecord, ThresholdRule
from storage.chores import Chore
from storage.errors import UnknownMonitor
from storage.keyspace import Keyspace
from storage.monitors.definitions import Definitions
from storage.monitors.deletion import delete_keys, delete_left
from storage.monitors.latest import put_latest
from storage.monitors.ledger import Ledger
from storage.monitors.standings import Change, Standings
from storage.store import Store

#: Seconds between two looks at a monitor to which no rows come.
LOOK_SECONDS = 60.0
#: Seconds that a look spends on ids whose horizon has passed; the next one goes on at once.
EXPIRING_SECONDS = 10.0

_REMEMBERED = Remembered()
_LEAVES = Leaves()


@dataclass(frozen=True)
class Sight:
    """What a look saw: the evidence, and of each threshold its number, and how many rows have had labels.

    ``moment`` is in seconds since 1970.
    """

    moment: float
    evidence: Seen | None
    measured: Mapping[str, Measured]
    joined: int = 0


def look(redis: Redis, chore: Chore) -> float | None:
    """Look at the monitor of a chore; in how many seconds to look again, None where it is gone."""
    keys = Keyspace(chore.tenant)
    try:
        record = Definitions(redis, keys).by_uid(chore.id)
        return look_at(Store.of(redis, chore.tenant), record, time.time())
    except UnknownMonitor:
        delete_keys(redis, keys, chore.id)  # it may have been deleted within this look, which wrote since
        delete_left(redis)
        return None


def look_at(store: Store, record: MonitorRecord, now: float) -> float:
    """Look at a monitor; raises ``UnknownMonitor`` where it is deleted meanwhile."""
    ledger = Ledger(store.redis, store.keys, record)
    expired = expire(ledger, now, EXPIRING_SECONDS)
    oldest = oldest_kept(record, now)
    keep_reference(store, record, ledger.buckets, oldest)
    ledger.buckets.drop(oldest)
    ledger.buckets.drop_rows()
    ledger.buckets.compact_closed(now)
    standings = Standings(store.redis, store.keys, record)
    meter = Meter(store, record, now, _LEAVES)
    sight = see(ledger, record, meter, now)
    standings.change(lambda record, standing: concluded(record, standing, sight, store.keys.tenant))
    tell(store, record, standings)
    put_latest(store.redis, store.keys, record.uid, latest_values(record, ledger, meter, standings.read()))
    return LOOK_SECONDS if expired else 0.0


def see(ledger: Ledger, record: MonitorRecord, meter: Meter, now: float) -> Sight:
    """Read what the rules ask for."""
    tests = any(isinstance(rule, EvidenceRule) for rule in record.rules)
    evidence = look_at_evidence(ledger.buckets, record, _REMEMBERED, now) if tests else None
    thresholds = [rule for rule in record.rules if isinstance(rule, ThresholdRule)]
    measured = {rule.name: meter.compared(rule) for rule in thresholds}
    return Sight(now, evidence, measured, ledger.totals().get("joined", 0))


def concluded(record: MonitorRecord, standing: Standing, sight: Sight, tenant: str) -> Change:
    """What becomes of a standing by what was seen. A rule of which nothing fitting was seen stays as it is."""
    states: dict[str, RuleState] = {}
    events: list[MonitorEvent] = []
    entries: list[AuditEntry] = []
    asked = list(standing.asked)
    for rule in record.rules:
        before = standing.rules.get(rule.name)
        after = begun(rule, before, record.started_at)
        if isinstance(rule, EvidenceRule):
            if sight.evidence is not None and sight.evidence.started_at == record.started_at:
                after = judged_by_evidence(rule, after, sight.evidence, record, sight.moment)
        elif rule.name in sight.measured:
            after = judged_by_threshold(rule, after, sight.measured[rule.name], sight.moment)
        states[rule.name] = after
        turn = _turn(before, after)
        if turn is None:
            continue
        told = after if turn == "raised" or before is None else before
        events.append(happened(record, told, turn, sight.moment))
        entries.append(entry_of(told, turn, sight.moment))
        if turn == "raised" and record.recalibration.policy != "off":
            states[rule.name], occasion = occasion_of(after)
            asked.append(occasion)
    for name, gone in standing.rules.items():
        if name not in states and gone.status == "alarm":
            events.append(happened(record, gone, "cleared", sight.moment))
            entries.append(entry_of(gone, "cleared", sight.moment))
    again = asked_again(record, standing, states, sight.joined, sight.moment)
    if again is not None and not asked:
        states[again.rule], occasion = occasion_of(again)
        asked.append(occasion)
    chores = [Chore("recalibrate", tenant, record.uid)] if len(asked) > len(standing.asked) else []
    return Change(standing.model_copy(update={"rules": states, "asked": asked}), events, entries, chores=chores)


def _turn(before: RuleState | None, after: RuleState) -> Turn | None:
    """Whether an alarm was raised or cleared."""
    was, is_now = before is not None and before.status == "alarm", after.status == "alarm"
    return None if was == is_now else "raised" if is_now else "cleared"


def tell(store: Store, record: MonitorRecord, standings: Standings) -> None:
    """Ask for the deliveries of all events of which nobody was told yet; at least once, which comes to once."""
    for event in standings.untold():
        ask_for_delivery(store, record, event)
        standings.told(event)
