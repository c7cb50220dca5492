"""The periodic check of a monitor, which also runs soon after new rows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from redis import Redis

from backend.monitors.alarms import (
    Turn,
    entry_of,
    happened,
)
from backend.monitors.answers import MonitorCache, MonitorReader, ReferenceTally
from backend.monitors.class_shift import is_due
from backend.monitors.evidence import (
    last_counted,
    last_settled,
    next_start,
    oldest_kept,
)
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.outcomes import (
    PREDICTION,
    WAITING_LABEL,
    WAITING_PREDICTION,
    Entries,
    came_after,
    known,
    nothing,
)
from backend.monitors.rules.catalogue import RULE_TYPES
from backend.monitors.rules.rule import Check, digest
from backend.monitors.webhooks import queue_deliveries
from backend.monitors.windows import Gathered, keep_reference, window_span
from backend.store.chores import Chore, schedule
from backend.store.clock import at, seconds
from backend.store.errors import UnknownMap, UnknownMonitor
from backend.store.keyspace import Keyspace
from backend.store.monitors.buckets import Buckets, TallyKind
from backend.store.monitors.definitions import Definitions, delete_keys, delete_left
from backend.store.monitors.ledger import Ledger, MonitorGroups, OldestIds
from backend.store.monitors.ledger import RowChanges as LedgerChange
from backend.store.monitors.standings import StandingChange, Standings, put_latest, read_label_shifts
from backend.store.store import Store
from calibrant.monitoring.tally import Tally
from schemas.monitor_alarms import AuditEntry, MonitorEvent, Occasion, ReferenceState, Standing
from schemas.monitor_online import OnlineStanding
from schemas.monitor_rules import RuleState
from schemas.monitors import Counts, MonitorRecord, WindowSpec


def tally_of_window(
    buckets: Buckets,
    record: MonitorRecord,
    window: WindowSpec,
    now: float,
    kind: TallyKind = "measured",
    after: int = 0,
) -> Tally:
    """The labelled rows of a window, by group and fold; a time window ends ``after`` seconds ago."""
    if window.rows is not None:
        return buckets.latest_rows(window.rows, kind)
    span = window_span(record, window.seconds or 0, now - after)
    return buckets.tally(span.first, min(span.last, last_counted(record, now, after)), kind)


# --- The latest values of a monitor for Prometheus, stored by each check so that a scrape computes nothing


def latest_values(
    reader: MonitorReader, ledger: Ledger, windows: Mapping[str, Gathered], standing: Standing, now: float
) -> dict[str, Any]:
    """The name, the counts, the readings of each window, the state of each rule, and the online map.

    All as of ``now``. ``errors`` lists the measures that are calibration errors in units of probability.
    """
    values, record = {}, reader.record
    reference = reader.reference()
    for window in record.windows:
        gathered, estimated = windows[window.name], {}
        measures = kind_of_monitor(record).values(gathered.tally) if len(gathered.tally) else {}
        if reference is not None:
            estimated = _estimated(reader, window, now, reference)
        values[window.name] = {
            "rows": len(gathered.tally),
            "coverage": gathered.coverage,
            "measures": measures,
        } | estimated
    online = standing.online if record.recalibration.policy == "online" else None
    return {
        "name": record.name,
        "looked_at": now,
        "counts": Counts.of(ledger.totals()).model_dump(),
        "windows": values,
        "errors": kind_of_monitor(record).error_keys(),
        "alarms": {rule: state.status == "alarm" for rule, state in standing.rules.items()},
        "changed": {
            rule: seconds(state.evidence.change.time)
            for rule, state in standing.rules.items()
            if state.status == "alarm" and state.evidence is not None and state.evidence.change is not None
        },
        "online": None if online is None else _progress(online),
    }


def _progress(online: OnlineStanding) -> dict[str, Any]:
    return {name: getattr(online, name) for name in ("log_e", "written_at", "weights")}


def _estimated(reader: MonitorReader, window: WindowSpec, now: float, reference: ReferenceTally) -> dict[str, Any]:
    """The estimated and realised figures of a window, the evidence of drift, and the frequencies under label shift."""
    estimates, drift, shift = reader.estimates(window, now, reference)
    figures, of_classes = estimates.figures.items(), reader.record.reservoir is not None
    return {
        "estimated": {name: figure.estimated for name, figure in figures if figure.estimated is not None},
        "realised": {name: figure.realised for name, figure in figures if figure.realised is not None},
        "drift": drift.log_e,
        "event_frequency": None if of_classes or shift.estimated is None else shift.estimated[1],
        "class_frequencies": shift.estimated if of_classes else None,
    }


# --- Expiry of the ids whose horizon has passed


def expire(ledger: Ledger, now: float, seconds: float, layout: np.dtype[Any] = PREDICTION) -> bool:
    """Delete the ids of expired slots, for at most ``seconds``; returns False if some are left.

    ``layout`` is that of the monitor's entries.
    """
    deadline = time.monotonic() + seconds
    for slot in ledger.due_slots(now):
        while (pieces := ledger.oldest(slot)) is not None:
            if time.monotonic() > deadline:
                return False
            _forget(ledger, pieces, now, layout)
    return True


def _forget(ledger: Ledger, pieces: OldestIds, now: float, layout: np.dtype[Any]) -> None:
    """Delete the ids of some chunks, unless another process does; entries that change meanwhile are read again."""
    while True:
        entries = known(ledger.entries(pieces.ids), layout)
        conflict = ledger.commit(_change(entries, pieces, now))
        if conflict is None or not len(conflict.indices):
            return


def _change(entries: Entries, pieces: OldestIds, now: float) -> LedgerChange:
    """The change that deletes ids; ids with later predictions are kept."""
    stays = came_after(entries, pieces.end)
    pending = entries["bucket"][entries["kind"] == WAITING_PREDICTION]
    buckets, expired = np.unique(pending, return_counts=True)
    counts = {int(bucket): {"expired": int(n)} for bucket, n in zip(buckets, expired, strict=True)}
    unmatched = int(np.count_nonzero(entries["kind"] == WAITING_LABEL))
    totals = {"expired": len(pending), "unmatched": unmatched}
    return LedgerChange(
        pieces.ids,
        entries,
        np.where(stays, entries, nothing(len(entries), entries.dtype)) if stays.any() else None,
        now,
        counts=counts,
        totals={field: n for field, n in totals.items() if n},
        forgets=pieces,
    )


# --- When challengers are requested: on a raised alarm, repeatedly while it lasts and rows arrive, or by a caller

#: A new attempt needs a tenth of the minimum number of rows as new rows.
_SHARE = 10


def rested(record: MonitorRecord, standing: Standing, now: float) -> bool:
    """Whether the pause after the last challenger has passed."""
    return standing.last_asked is None or now >= standing.last_asked + record.recalibration.pause


def rows_between(record: MonitorRecord, labelled: int | None) -> int:
    """The number of labelled rows to wait for before the next challenger, after one with ``labelled`` rows."""
    least = record.recalibration.least_rows
    missing = 0 if labelled is None else least - labelled
    return max(least // _SHARE, missing)


def next_attempt(
    record: MonitorRecord, standing: Standing, rules: Mapping[str, RuleState], joined: int, now: float
) -> RuleState | None:
    """The persisting alarm for which another challenger is due; None if none is.

    A challenger is due once the pause has passed, there are enough newly labelled rows, and none is in progress or
    pending.
    """
    busy = standing.asked or standing.proposal is not None or standing.moving is not None
    if record.recalibration.policy in ("off", "online", "adaptive") or busy:
        return None
    if joined < standing.rows_wanted or not rested(record, standing, now):
        return None
    raised = (rules[rule.name] for rule in record.rules if rules[rule.name].status == "alarm")
    return next((state for state in raised if RULE_TYPES[state.kind].recalibrates), None)


def follows(record: MonitorRecord, standing: Standing, now: float) -> bool:
    """Whether what follows the stream of a monitor has to start, has buckets to count, or a version to write."""
    policy = record.recalibration
    if policy.policy not in ("online", "adaptive"):
        return False
    following = standing.online if policy.policy == "online" else standing.adaptive
    if following is None:
        return rested(record, standing, now)
    due = policy.policy == "adaptive" and following.rows_since > 0 and now >= following.written_at + policy.every
    return due or last_settled(record, now) >= following.following


def occasion_of(state: RuleState) -> tuple[RuleState, Occasion]:
    """The next request of a challenger for a rule's alarm, and the rule with it counted."""
    attempt = state.challengers + 1
    counted = state.model_copy(update={"challengers": attempt})
    return counted, Occasion(rule=state.rule, number=state.alarms, attempt=attempt)


def evidence_since(standing: Standing, occasion: Occasion) -> str | None:
    """The start of the evidence: that of the rule of the occasion, else of any other raised rule."""
    raised = [state for state in standing.rules.values() if state.status == "alarm" and state.evidence is not None]
    raised.sort(key=lambda state: state.rule != occasion.rule)
    return raised[0].evidence.since if raised and raised[0].evidence is not None else None


# --- The background task ``look``: the periodic check of a monitor
#
# A check first reads everything. All consequences are one change of the monitor's standing, applied to its state at
# that time, so that of two concurrent checks the second finds the alarm already raised.

#: Seconds between two checks of a monitor without new rows.
LOOK_SECONDS = 60.0
#: Maximum seconds that a check spends on expired ids; the next check then continues immediately.
EXPIRING_SECONDS = 10.0

_KEPT = MonitorCache()


@dataclass(frozen=True)
class Observations:
    """The observations of a check at ``moment``, in seconds since 1970.

    ``seen`` has for the name of each rule the state that the check began with, and what it saw. ``applied`` is the id
    of the monitor's map, None if it has none or the map does not exist; ``started_at`` was that of the monitor.
    ``joined`` is the number of labelled rows since the monitor was created.
    """

    moment: float
    seen: Mapping[str, tuple[RuleState, Any]]
    applied: str | None
    started_at: float
    joined: int


def look(redis: Redis, chore: Chore) -> float | None:
    """Check the monitor of a task; returns the seconds until the next check, None if the monitor is gone."""
    keys = Keyspace(chore.tenant)
    try:
        record = Definitions(redis, keys).by_uid(chore.id)
        return look_at(Store.of(redis, chore.tenant), record, time.time())
    except UnknownMonitor:
        delete_keys(redis, keys, chore.id)  # it may have been deleted during this check, which then wrote keys
        delete_left(redis)
        return None


def look_at(store: Store, record: MonitorRecord, now: float) -> float:
    """Check a monitor; raises ``UnknownMonitor`` if it is deleted in the meantime."""
    ledger = Ledger(store.redis, store.keys, record)
    expired = expire(ledger, now, EXPIRING_SECONDS, kind_of_monitor(record).layout)
    oldest = oldest_kept(record, now)
    keep_reference(store, record, ledger.buckets, oldest)
    ledger.buckets.drop(oldest)
    ledger.buckets.drop_rows()
    ledger.buckets.compact_closed(now)
    standings = Standings(store.redis, store.keys, record)
    reader = MonitorReader(store.redis, store.keys, record, _KEPT)
    windows = {window.name: reader.gathered(window, now) for window in record.windows}
    observed = observe(store, reader, ledger, windows, standings.read(), now)
    standings.change(lambda record, standing: conclude(record, standing, observed, store.keys.tenant))
    queue_events(store, record, standings)
    if is_due(record, read_label_shifts(store.redis, store.keys, record.id), ledger.totals(), now):
        schedule(store.redis, Chore("estimate", store.keys.tenant, record.id))
    put_latest(store.redis, store.keys, record.id, latest_values(reader, ledger, windows, standings.read(), now))
    return LOOK_SECONDS if expired else 0.0


def observe(
    store: Store,
    reader: MonitorReader,
    ledger: Ledger,
    windows: Mapping[str, Gathered],
    standing: Standing,
    now: float,
) -> Observations:
    """Read everything that the rules need; ``standing`` is that before the check."""
    applied, record = None, reader.record
    if record.map is not None:
        with contextlib.suppress(UnknownMap):
            applied = store.maps.resolve(record.map)

    def reference_tally() -> Tally | None:
        reference = reader.reference()
        return None if reference is None else reference.tally

    groups = MonitorGroups(store.redis, store.keys, record).all()
    reference = reference_state(record, standing.reference, applied)
    check = Check(record, ledger.buckets, windows, groups, reference, reference_tally, applied, now)
    seen = {}
    for rule in record.rules:
        kind = RULE_TYPES[rule.kind]
        state = kind.begin(rule, standing.rules.get(rule.name), record)
        seen[rule.name] = (state, kind.observe(rule, state, check))
    return Observations(now, seen, applied, record.started_at, ledger.totals().get("joined", 0))


def conclude(record: MonitorRecord, standing: Standing, observed: Observations, tenant: str) -> StandingChange:
    """The new standing after a check; rules without observations keep their state."""
    states: dict[str, RuleState] = {}
    events: list[MonitorEvent] = []
    entries: list[AuditEntry] = []
    requests = list(standing.asked)
    restarted, begins_again = _restarted(record, standing, observed), record
    if restarted is not None:
        begins_again = record.model_copy(update={"started_at": restarted})
        detail = f"the monitor's map {record.map} has changed"
        entries.append(AuditEntry(at=at(observed.moment), action="evidence-restarted", detail=detail))
    reference = reference_state(record, standing.reference, observed.applied)
    for rule in record.rules:
        kind, before = RULE_TYPES[rule.kind], standing.rules.get(rule.name)
        after = kind.begin(rule, before, begins_again)
        begun, seen = observed.seen.get(rule.name, (None, None))
        if begun is not None and (begun.definition, begun.started_at) == (after.definition, after.started_at):
            after = kind.conclude(rule, after, seen, observed.moment)
            message = kind.describe(after).message if after.status == "alarm" else None
            after = after.model_copy(update={"message": message})
        states[rule.name] = after
        turn = _turn(before, after)
        if turn is None:
            continue
        state = after if turn == "raised" or before is None else before
        events.append(happened(record, state, turn, observed.moment))
        entries.append(entry_of(state, turn, observed.moment))
        if turn == "raised" and kind.recalibrates and record.recalibration.policy not in ("off", "adaptive"):
            states[rule.name], occasion = occasion_of(after)
            requests.append(occasion)
    for name, gone in standing.rules.items():
        if name not in states and gone.status == "alarm":
            events.append(happened(record, gone, "cleared", observed.moment))
            entries.append(entry_of(gone, "cleared", observed.moment))
    again = next_attempt(record, standing, states, observed.joined, observed.moment)
    if again is not None and not requests:
        states[again.rule], occasion = occasion_of(again)
        requests.append(occasion)
    recalibrates = len(requests) > len(standing.asked) or follows(record, standing, observed.moment)
    chores = [Chore("recalibrate", tenant, record.id)] if recalibrates else []
    renewed = restarted is not None or standing.applied is None or record.recalibration.policy == "online"
    applied = observed.applied if renewed else standing.applied
    changes = {"rules": states, "asked": requests, "applied": applied, "reference": reference}
    after_all = standing.model_copy(update=changes)
    return StandingChange(after_all, events, entries, restarted, chores)


def reference_state(record: MonitorRecord, before: ReferenceState | None, applied: str | None) -> ReferenceState | None:
    """The reference with the map that was applied when it was set: later maps make other predictions."""
    if record.reference is None:
        return None
    definition = digest(record.reference.model_dump_json())
    if before is not None and before.definition == definition:
        return before if before.map is not None else before.model_copy(update={"map": applied})
    return ReferenceState(definition=definition, map=applied)


def _restarted(record: MonitorRecord, standing: Standing, observed: Observations) -> float | None:
    """When evidence restarts because another map is applied than at the last check.

    None if it restarted after this check began to read, or while an alias is being moved, which restarts it itself.
    """
    if record.recalibration.policy == "online":  # evidence is against the rows as they were predicted
        return None
    changed = None not in (observed.applied, standing.applied) and observed.applied != standing.applied
    if not changed or standing.moving is not None or observed.started_at != record.started_at:
        return None
    return next_start(record, observed.moment)


def _turn(before: RuleState | None, after: RuleState) -> Turn | None:
    """Whether an alarm was raised or cleared."""
    was, is_now = before is not None and before.status == "alarm", after.status == "alarm"
    return None if was == is_now else "raised" if is_now else "cleared"


def queue_events(store: Store, record: MonitorRecord, standings: Standings) -> None:
    """Queue the deliveries of all events without one; at least once, which is idempotent."""
    for event in standings.unqueued_events():
        queue_deliveries(store, record, event)
        standings.mark_queued(event)
