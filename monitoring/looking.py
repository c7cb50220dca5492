"""The chore ``look``: what is done about a monitor from time to time, and soon after rows have come.

All that a look reads is read first. What follows from it is one change of the monitor's standing, made on the standing
as it is then, so that of two looks at once the second finds that an alarm is raised already.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from redis import Redis

from monitoring.delivering.asking import ask as ask_for_delivery
from monitoring.evidence import Remembered, Seen, look_at_evidence, next_start, oldest_kept
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
from storage.clock import at
from storage.errors import UnknownMap, UnknownMonitor
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
    """What a look saw at a ``moment``, in seconds since 1970.

    ``evidence`` is by how long ago its buckets ended, ``measured`` the number of each threshold. ``applied`` is the id
    of the monitor's map, None where it has none or that is not there; ``started_at`` was the monitor's. ``joined`` rows
    have labels since it began.
    """

    moment: float
    evidence: Mapping[int, Seen]
    measured: Mapping[str, Measured]
    applied: str | None
    started_at: float
    joined: int


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
    sight = see(store, ledger, record, meter, now)
    standings.change(lambda record, standing: concluded(record, standing, sight, store.keys.tenant))
    tell(store, record, standings)
    put_latest(store.redis, store.keys, record.uid, latest_values(record, ledger, meter, standings.read(), now))
    return LOOK_SECONDS if expired else 0.0


def see(store: Store, ledger: Ledger, record: MonitorRecord, meter: Meter, now: float) -> Sight:
    """Read what the rules ask for."""
    applied = None
    if record.map is not None:
        with contextlib.suppress(UnknownMap):
            applied = store.maps.resolve(record.map)
    afters = {rule.after for rule in record.rules if isinstance(rule, EvidenceRule)}
    evidence = {after: look_at_evidence(ledger.buckets, record, _REMEMBERED, now, after) for after in sorted(afters)}
    thresholds = [rule for rule in record.rules if isinstance(rule, ThresholdRule)]
    measured = {rule.name: meter.compared(rule) for rule in thresholds}
    joined = ledger.totals().get("joined", 0)
    return Sight(now, evidence, measured, applied, record.started_at, joined)


def concluded(record: MonitorRecord, standing: Standing, sight: Sight, tenant: str) -> Change:
    """What becomes of a standing by what was seen. A rule of which nothing fitting was seen stays as it is."""
    states: dict[str, RuleState] = {}
    events: list[MonitorEvent] = []
    entries: list[AuditEntry] = []
    asked = list(standing.asked)
    restarted = _restarted(record, standing, sight)
    if restarted is not None:
        detail = f"the monitor's map, {record.map}, is another one now"
        entries.append(AuditEntry(at=at(sight.moment), action="evidence-restarted", detail=detail))
    for rule in record.rules:
        before = standing.rules.get(rule.name)
        after = begun(rule, before, record.started_at if restarted is None else restarted)
        if isinstance(rule, EvidenceRule):
            seen = sight.evidence.get(rule.after)
            if seen is not None and seen.started_at == after.started_at:
                after = judged_by_evidence(rule, after, seen, record, sight.moment)
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
    applied = sight.applied if restarted is not None or standing.applied is None else standing.applied
    after_all = standing.model_copy(update={"rules": states, "asked": asked, "applied": applied})
    return Change(after_all, events, entries, restarted, chores)


def _restarted(record: MonitorRecord, standing: Standing, sight: Sight) -> float | None:
    """When evidence starts anew, where rows are mapped by another map than at the look before.

    Not where it did so since this look began to read, and not while an alias is being moved: that starts it anew.
    """
    changed = None not in (sight.applied, standing.applied) and sight.applied != standing.applied
    if not changed or standing.moving is not None or sight.started_at != record.started_at:
        return None
    return next_start(record, sight.moment)


def _turn(before: RuleState | None, after: RuleState) -> Turn | None:
    """Whether an alarm was raised or cleared."""
    was, is_now = before is not None and before.status == "alarm", after.status == "alarm"
    return None if was == is_now else "raised" if is_now else "cleared"


def tell(store: Store, record: MonitorRecord, standings: Standings) -> None:
    """Ask for the deliveries of all events of which nobody was told yet; at least once, which comes to once."""
    for event in standings.untold():
        ask_for_delivery(store, record, event)
        standings.told(event)
