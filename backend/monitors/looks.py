"""Looks: what is done about a monitor from time to time, and soon after rows have arrived."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from redis import Redis

from backend.monitors.alarms import Measured, Turn, begun, entry_of, happened, judged_by_evidence, judged_by_threshold
from backend.monitors.decisions import WAITING_LABEL, WAITING_PREDICTION, Entries, came_after, known, nothing
from backend.monitors.evidence import Remembered, Seen, last_counted, look_at_evidence, next_start, oldest_kept
from backend.monitors.readings import counts_of, event_of, measured, read_measures
from backend.monitors.webhooks import ask as ask_for_delivery
from backend.monitors.windows import Gathered, Gatherer, Leaves, keep_reference, window_span
from backend.store.chores import Chore
from backend.store.clock import at
from backend.store.errors import UnknownMap, UnknownMonitor
from backend.store.keyspace import Keyspace
from backend.store.monitors.buckets import Buckets, TallyKind
from backend.store.monitors.definitions import Definitions, delete_keys, delete_left
from backend.store.monitors.ledger import Change as LedgerChange
from backend.store.monitors.ledger import Groups, Ledger, Pieces
from backend.store.monitors.standings import Change, Standings, put_latest
from backend.store.store import Store
from calibrant.errors import CalibrationError
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import MeasureRequest, answers
from calibrant.monitoring.tally import Tally
from calibrant.reductions import Event
from schemas.monitor_alarms import AuditEntry, MonitorEvent, Occasion, RuleState, Standing
from schemas.monitor_answers import MeasureReading
from schemas.monitors import EvidenceRule, MonitorRecord, ThresholdRule, WindowSpec

# --- What a look measures: each window is read once, each measure computed once


class Meter:
    """What is measured at one look; ``now`` is its moment, and ``leaves`` what the process has read before."""

    def __init__(self, store: Store, record: MonitorRecord, now: float, leaves: Leaves) -> None:
        self._store = store
        self._record = record
        self._now = now
        self._gatherer = Gatherer(leaves, Buckets(store.redis, store.keys, record), record.uid)
        self._windows: dict[str, Gathered] = {}
        self._requests = {request.key: request for request in read_requests(list(record.measures))}

    def compared(self, rule: ThresholdRule) -> Measured:
        """The number that a rule compares; none where there is no such window, measure or group, or too few rows."""
        found = self._window(rule.window)
        tally, groups = (None, None) if found is None else (found.tally, found.groups)
        if found is not None and rule.group is not None:
            index = Groups(self._store.redis, self._store.keys, self._record).all().get(rule.group)
            tally = None if index is None or groups is None else groups.of_group(index)
        if tally is None or not len(tally) or len(tally) < rule.least_rows:
            return Measured(0 if tally is None else len(tally), None)
        level = self._record.interval if rule.by == "lower" else None
        reading = self._measured(tally, rule.measure, level)
        if reading is None:
            return Measured(len(tally), None)
        lower = None if reading.interval is None else reading.interval[0]
        return Measured(len(tally), {"value": reading.value, "lower": lower, "debiased": reading.debiased}[rule.by])

    def values(self, window: str) -> tuple[int, dict[str, float | None]]:
        """The labelled rows of a window, and the value of each measure."""
        found = self._window(window)
        if found is None or not len(found.tally):
            return 0, {}
        found_values = answers(self._requests.values(), self._event(found.tally), PLAIN)
        return len(found.tally), {key: result.value for key, result in found_values.items()}

    def coverage(self, window: str) -> float | None:
        """The share of the predictions of a window of time that have a label; None of another, or of none."""
        found = self._window(window)
        return None if found is None else found.coverage

    def _measured(self, tally: Tally, key: str, level: float | None) -> MeasureReading | None:
        request = self._requests.get(key)
        if request is None:
            return None
        try:
            return measured([request], self._event(tally), level)[key]
        except CalibrationError:
            return None

    def _event(self, tally: Tally) -> Event:
        return event_of(tally, self._record.reduction or "binary")

    def _window(self, name: str) -> Gathered | None:
        window = next((window for window in self._record.windows if window.name == name), None)
        if window is None:
            return None
        if name not in self._windows:
            self._windows[name] = self._gatherer.window(self._record, window, self._now)
        return self._windows[name]


def tally_of_window(
    buckets: Buckets,
    record: MonitorRecord,
    window: WindowSpec,
    now: float,
    kind: TallyKind = "measured",
    after: int = 0,
) -> Tally:
    """The labelled rows of a window, by group and fold; of one of time that ended ``after`` seconds ago."""
    if window.rows is not None:
        return buckets.latest_rows(window.rows, kind)
    span = window_span(record, window.seconds or 0, now - after)
    return buckets.tally(span.first, min(span.last, last_counted(record, now, after)), kind)


# --- The latest values of a monitor for Prometheus: stored by each look, so that a scrape computes nothing

#: Families of measures that are errors of calibration in the unit of probability: 0 is none, and 1 the largest.
_ERRORS = (
    "Binned calibration errors",
    "Cumulative calibration errors",
    "Smooth calibration errors",
    "Fit on the test data",
)


def latest_values(
    record: MonitorRecord, ledger: Ledger, meter: Meter, standing: Standing, now: float
) -> dict[str, Any]:
    """The name, the counts, of each window its rows, coverage and measures, of each rule whether it is raised.

    All as of ``now``. ``errors`` are the keys of the measures that are calibration errors in the unit of probability.
    """
    windows = {}
    for window in record.windows:
        rows, measures = meter.values(window.name)
        windows[window.name] = {"rows": rows, "coverage": meter.coverage(window.name), "measures": measures}
    requests = read_measures(record.measures, record.reduction or "binary")
    return {
        "name": record.name,
        "looked_at": now,
        "counts": counts_of(ledger.totals()).model_dump(),
        "windows": windows,
        "errors": [request.key for request in requests if is_error(request)],
        "alarms": {rule: state.status == "alarm" for rule, state in standing.rules.items()},
    }


def is_error(request: MeasureRequest) -> bool:
    """Whether a measure is a calibration error in the unit of probability, as a mean of squares is not."""
    measure = request.measure
    ranged = (measure.lowest, measure.highest) == (0.0, 1.0) and measure.better == "smaller"
    return ranged and measure.family in _ERRORS and request.options.get("norm") != 2


# --- The ids of a monitor whose horizon has passed: forgotten, and counted where nothing joined them


def expire(ledger: Ledger, now: float, seconds: float) -> bool:
    """Forget the ids of passed slots, for so many seconds at most; False where some are left."""
    deadline = time.monotonic() + seconds
    for slot in ledger.due_slots(now):
        while (pieces := ledger.oldest(slot)) is not None:
            if time.monotonic() > deadline:
                return False
            _forget(ledger, pieces, now)
    return True


def _forget(ledger: Ledger, pieces: Pieces, now: float) -> None:
    """Forget the ids of some pieces at once, unless another does; entries that change meanwhile are read again."""
    while True:
        entries = known(ledger.entries(pieces.ids))
        conflict = ledger.commit(_change(entries, pieces, now))
        if conflict is None or not len(conflict.indices):
            return


def _change(entries: Entries, pieces: Pieces, now: float) -> LedgerChange:
    """What becomes of the ids of some pieces: those stay whose predictions came later than they did themselves."""
    stays = came_after(entries, pieces.end)
    pending = entries["bucket"][entries["kind"] == WAITING_PREDICTION]
    buckets, expired = np.unique(pending, return_counts=True)
    counts = {int(bucket): {"expired": int(n)} for bucket, n in zip(buckets, expired, strict=True)}
    unmatched = int(np.count_nonzero(entries["kind"] == WAITING_LABEL))
    totals = {"expired": len(pending), "unmatched": unmatched}
    return LedgerChange(
        pieces.ids,
        entries,
        np.where(stays, entries, nothing(len(entries))) if stays.any() else None,
        now,
        counts=counts,
        totals={field: n for field, n in totals.items() if n},
        forgets=pieces,
    )


# --- When challengers are requested: on a raised alarm, while it lasts and rows arrive, or by a caller

#: A tenth of the rows that a challenger needs are to be new before another one is tried.
_SHARE = 10


def rested(record: MonitorRecord, standing: Standing, now: float) -> bool:
    """Whether the pause after the last challenger has passed."""
    return standing.last_asked is None or now >= standing.last_asked + record.recalibration.pause


def rows_between(record: MonitorRecord, labelled: int | None) -> int:
    """How many labelled rows are to come before another challenger is worth a try, where there were so many."""
    least = record.recalibration.least_rows
    missing = 0 if labelled is None else least - labelled
    return max(least // _SHARE, missing)


def asked_again(
    record: MonitorRecord, standing: Standing, rules: Mapping[str, RuleState], joined: int, now: float
) -> RuleState | None:
    """The alarm that persists and for which another challenger is due; None if it is not the time.

    That is once the pause has passed, ``joined`` rows have labels and there are enough new ones among them, and nothing
    is under way or waits to be decided.
    """
    busy = standing.asked or standing.proposal is not None or standing.moving is not None
    if record.recalibration.policy == "off" or busy:
        return None
    if joined < standing.rows_wanted or not rested(record, standing, now):
        return None
    return next((rules[rule.name] for rule in record.rules if rules[rule.name].status == "alarm"), None)


def occasion_of(state: RuleState) -> tuple[RuleState, Occasion]:
    """The next challenger requested for a rule's alarm, and the rule with it counted."""
    attempt = state.challengers + 1
    counted = state.model_copy(update={"challengers": attempt})
    return counted, Occasion(rule=state.rule, number=state.alarms, attempt=attempt)


def spoken_since(standing: Standing, occasion: Occasion) -> str | None:
    """Since when evidence speaks: that of the rule which is seen to, else of any other that is raised."""
    raised = [state for state in standing.rules.values() if state.status == "alarm" and state.evidence is not None]
    raised.sort(key=lambda state: state.rule != occasion.rule)
    return raised[0].evidence.since if raised and raised[0].evidence is not None else None


# --- The chore ``look``: what is done about a monitor from time to time, and soon after rows have come
#
# All that a look reads is read first. What follows from it is one change of the monitor's standing, made on the
# standing as it is then, so that of two looks at once the second finds that an alarm is raised already.

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
    requests = list(standing.asked)
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
        state = after if turn == "raised" or before is None else before
        events.append(happened(record, state, turn, sight.moment))
        entries.append(entry_of(state, turn, sight.moment))
        if turn == "raised" and record.recalibration.policy != "off":
            states[rule.name], occasion = occasion_of(after)
            requests.append(occasion)
    for name, gone in standing.rules.items():
        if name not in states and gone.status == "alarm":
            events.append(happened(record, gone, "cleared", sight.moment))
            entries.append(entry_of(gone, "cleared", sight.moment))
    again = asked_again(record, standing, states, sight.joined, sight.moment)
    if again is not None and not requests:
        states[again.rule], occasion = occasion_of(again)
        requests.append(occasion)
    chores = [Chore("recalibrate", tenant, record.uid)] if len(requests) > len(standing.asked) else []
    applied = sight.applied if restarted is not None or standing.applied is None else standing.applied
    after_all = standing.model_copy(update={"rules": states, "asked": requests, "applied": applied})
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
    """Request the deliveries of all events that have none yet; at least once, which comes to once."""
    for event in standings.unqueued_events():
        ask_for_delivery(store, record, event)
        standings.mark_queued(event)
