"""Recalibration: what a policy does after an alarm or for finished buckets, and challengers that callers request."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import numpy as np
from redis import Redis
from scipy.special import ndtri

from backend.kinds.classes import record_without_fit
from backend.monitors.adaptive import adaptive_step
from backend.monitors.alarms import recalibrated, step_of
from backend.monitors.answers import MonitorCache, MonitorReader
from backend.monitors.challengers import Challenge, challenge, move, opponent, tags_of
from backend.monitors.class_shift import OF_ROWS, SampledMonitor
from backend.monitors.definitions import target_of
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.looks import evidence_since, queue_events, rested, rows_between
from backend.monitors.online import online_step
from backend.monitors.proposals import data_of, proposal_of, refused
from backend.monitors.windows import window_named
from backend.settings import shared_setting
from backend.store.budget import Quotas, budget_of, default_maps
from backend.store.chores import Chore, schedule
from backend.store.clock import at
from backend.store.errors import QuotaExceeded, UnknownAlias, UnknownMonitor
from backend.store.keyspace import Keyspace, derived_id
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger
from backend.store.monitors.standings import StandingChange, Standings, author_of
from backend.store.store import Store
from calibrant.core.errors import CalibrationError
from calibrant.io.errors import InvalidField
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.label_shift import LabelShift
from schemas.maps import MapRecord, Registration
from schemas.monitor_alarms import (
    AuditEntry,
    Correction,
    Occasion,
    RecalibrationData,
    RecalibrationRequested,
    Standing,
)
from schemas.monitors import MonitorRecord, WindowSpec

# --- Challengers without labels: the map of the reference, corrected for the class frequencies of a window

ASSUMPTION = "only class frequencies changed: the predictions of each class are distributed as in the reference"
_AFTER_THE_MAP = (
    "without a reservoir, predictions without labels are counted after the map of the monitor, which has one"
)
_OF_CONFIDENCE = "without a reservoir, the event must be binary or class:k"


def prior_challenge(store: Store, record: MonitorRecord, occasion: Occasion, now: float) -> Challenge:
    """Correct a map for the class frequencies of the window, without storing anything.

    It is not compared with the champion, because it has no labels; it must be accepted.
    """
    candidate, _ = opponent(store, record)
    window = window_named(record, record.recalibration.window)
    if candidate.why is not None or window is None:
        return candidate
    try:
        shift = _estimate(store, record, window, now)
    except CalibrationError as error:
        shift = f"the reference cannot be used: {error.detail}"
    if isinstance(shift, str):
        return replace(candidate, why=shift, code="label-shift-withheld")
    candidate = replace(candidate, labelled=shift.n)
    if shift.withheld is not None or shift.map is None:
        return replace(candidate, why=shift.withheld, code="label-shift-withheld")
    if not _moved(shift):
        why = f"no class frequency differs significantly from the reference at the level {shift.level:g}"
        return replace(candidate, why=why, code="not-shifted")
    return replace(candidate, assumption=ASSUMPTION, draft=_draft(record, occasion, shift, shift.map))


def _estimate(store: Store, record: MonitorRecord, window: WindowSpec, now: float) -> LabelShift | str:
    if record.reservoir is not None:
        return OF_ROWS if window.seconds is None else SampledMonitor(store, record).estimate(window, now)
    if record.map is not None:
        return _AFTER_THE_MAP
    if record.reduction is None or not record.reduction.startswith(("binary", "class:")):
        return _OF_CONFIDENCE
    shift = MonitorReader(store.redis, store.keys, record, MonitorCache()).event_shift(window, now)
    if isinstance(shift, str) or shift.map is None:
        return shift
    corrected = replace(shift.map, reduction=record.reduction, scale=record.scale, n_classes=record.n_classes)
    return replace(shift, map=corrected)


def _moved(shift: LabelShift) -> bool:
    """Whether an interval excludes the frequency of the reference, at the level of all K - 1 comparisons together."""
    if shift.estimated is None or shift.low is None or shift.high is None:
        return False
    beyond = (1.0 - shift.level) / 2.0
    wider = float(ndtri(1.0 - beyond / (len(shift.reference) - 1)) / ndtri(1.0 - beyond))
    low = shift.estimated - wider * (shift.estimated - shift.low)
    high = shift.estimated + wider * (shift.high - shift.estimated)
    return bool(np.any((shift.reference < low) | (high < shift.reference)))


def _draft(record: MonitorRecord, occasion: Occasion, shift: LabelShift, corrected: CalibrationMap) -> MapRecord:
    """The record of the corrected map, without a name until it is accepted."""
    return record_without_fit(
        derived_id("map", f"{record.id} {occasion.seed}"),
        corrected,
        Registration(
            tags=tags_of(record, occasion, shift.n) | {"correction": "label-shift"},
            description=f"corrected for the class frequencies of a window; assumes that {ASSUMPTION}",
        ),
    )


# --- The background task ``recalibrate``: actions after an alarm if the policy is propose or auto
#
# Each occasion has one challenger, even if the task runs twice: its id is derived from the occasion, and the outcome is
# one change of the monitor's standing, which also removes the occasion. An alias is moved only if it has not changed
# since the comparison. A process that finds a decision that was not carried out completes it.


def recalibrate(redis: Redis, chore: Chore) -> float | None:
    """Process the requested challengers of a monitor."""
    store = Store.of(redis, chore.tenant, Quotas(maps=most_maps(redis)))
    with contextlib.suppress(UnknownMonitor):
        recalibrate_at(store, Definitions(redis, Keyspace(chore.tenant)).by_uid(chore.id), time.time())
    return None


def most_maps(redis: Redis) -> int:
    """The quota of maps, from the settings of the worker."""
    most: int | None = shared_setting("quota_maps")
    if most is not None:
        return most
    return default_maps(budget_of(redis.info("memory"), shared_setting("store_budget")))


def recalibrate_at(store: Store, record: MonitorRecord, now: float) -> None:
    """Process them at time ``now``; raises ``UnknownMonitor`` if the monitor is deleted in the meantime."""
    store = store.by(author_of(record))
    standings, step = Standings(store.redis, store.keys, record), _STEPS.get(record.recalibration.policy)
    standing, unfinished = standings.read(), step is not None
    while step is not None and unfinished:
        move(store, record, now)
        unfinished = step(store, record, standings, now)
    for occasion in standing.asked if step is None else ():
        _see_to(store, record, standings, occasion, now)
    move(store, record, now)
    queue_events(store, record, standings)
    if standings.read().online not in (None, standing.online):  # the metrics are those of the last check
        schedule(store.redis, Chore("look", store.keys.tenant, record.id))


#: The steps of policies that follow the stream; each returns whether another step is needed.
_STEPS = {"online": online_step, "adaptive": adaptive_step}


def _see_to(store: Store, record: MonitorRecord, standings: Standings, occasion: Occasion, now: float) -> None:
    policy, standing = record.recalibration, standings.read()
    revision = _revision(store, record)
    joined = Ledger(store.redis, store.keys, record).totals().get("joined", 0)
    if occasion.rule is not None and policy.policy == "off":
        candidate = Challenge("recalibration was disabled", "recalibration-off")
    elif occasion.rule is not None and not rested(record, standing, now):
        candidate = Challenge(f"the last attempt was less than {policy.pause} s ago", "pause")
    else:
        candidate = _challenge(store, record, occasion, evidence_since(standing, occasion), now)
    if candidate.draft is not None:
        store.maps.put(candidate.draft, allow_shape_change=True)  # the policy names the map and its event
    wanted = joined + rows_between(record, candidate.labelled)
    standings.change(lambda record, standing: decided(record, standing, occasion, candidate, revision, wanted, now))


def _challenge(store: Store, record: MonitorRecord, occasion: Occasion, since: str | None, now: float) -> Challenge:
    """Fit a challenger, unless the quota of maps is reached."""
    try:
        store.charges.check_maps()
    except QuotaExceeded as error:
        return Challenge(error.detail, error.code, failed=True)
    if occasion.correction is not None:
        return prior_challenge(store, record, occasion, now)
    return challenge(store, record, occasion, now, since)


def decided(
    record: MonitorRecord,
    standing: Standing,
    occasion: Occasion,
    candidate: Challenge,
    revision: int | None,
    wanted: int,
    now: float,
) -> StandingChange | None:
    """The change after a challenger; None if the occasion was already processed.

    ``wanted`` is the number of labelled rows for the next attempt. Too few rows are reported only once per alarm.
    """
    if occasion not in standing.asked:
        return None
    data = _data(record, occasion, candidate)
    changes: dict[str, object] = {"asked": [waiting for waiting in standing.asked if waiting != occasion]}
    if candidate.tried:
        changes["last_asked"] = now
    if candidate.tried or candidate.code == "too-few-rows":
        changes["rows_wanted"] = wanted
    after = standing.model_copy(update=changes)
    if candidate.draft is None and occasion.attempt > 1 and not candidate.tried:
        return StandingChange(after)
    if candidate.draft is None:
        return refused(record, after, occasion, data, candidate.why, now, failed=candidate.failed)
    proposal = proposal_of(record, occasion, candidate.draft.id, data, revision, now)
    entries = [step_of("challenger-proposed", now, occasion, data)]
    if standing.proposal is not None:
        replaced = standing.proposal
        entries.insert(0, step_of("proposal-replaced", now, replaced.occasion, replaced.found))
    if record.recalibration.policy == "auto" and candidate.assumption is None:
        moving = {"proposal": None, "moving": proposal, "moved_by": None, "moved_for": None}
        return StandingChange(after.model_copy(update=moving), [], entries)
    event = recalibrated(record, occasion, "monitor.recalibration.proposed", data, now)
    return StandingChange(after.model_copy(update={"proposal": proposal}), [event], entries)


def _revision(store: Store, record: MonitorRecord) -> int | None:
    """The revision of the alias before the comparison."""
    try:
        return store.aliases.get(target_of(record), record.recalibration.alias).revision
    except UnknownAlias:
        return None


def _data(record: MonitorRecord, occasion: Occasion, candidate: Challenge) -> RecalibrationData:
    gain = candidate.gain
    return data_of(
        record,
        rule=occasion.rule,
        champion=candidate.champion,
        challenger=None if candidate.draft is None else candidate.draft.id,
        gain=None if gain is None else gain.value,
        low=None if gain is None else gain.low,
        high=None if gain is None else gain.high,
        rows=candidate.labelled if gain is None else gain.rows,
        since=candidate.since,
        code=candidate.code,
        assumption=candidate.assumption,
    )


# --- Requesting a challenger without an alarm


def request_challenger(
    store: Store, record: MonitorRecord, who: str | None, now: float, correction: Correction | None = None
) -> RecalibrationRequested:
    """Request a challenger, regardless of the pause; raises ``UnknownMonitor`` and ``PredictionKindMismatch``.

    Samples and intervals have no challengers, and forecasts no ``correction``.

    Concurrent requests create one challenger; only the first has an entry, because the others change nothing.
    """
    kind_of_monitor(record).check_request(correction)
    requested, number = record, 0

    def change(record: MonitorRecord, standing: Standing) -> StandingChange | None:
        nonlocal requested, number
        requested = record
        if correction is not None and record.recalibration.policy == "online":
            raise InvalidField.at("/correction", "is not supported with online recalibration")
        pending = [earlier for earlier in standing.asked if earlier.rule is None and earlier.correction == correction]
        if pending:
            number = pending[0].number
            return None
        number = standing.requests + 1
        occasion = Occasion(number=number, correction=correction)
        after = standing.model_copy(update={"asked": [*standing.asked, occasion], "requests": occasion.number})
        chore = Chore("recalibrate", store.keys.tenant, record.id)
        entry = AuditEntry(at=at(now), action="recalibration-requested", who=who, alarm=number)
        return StandingChange(after, [], [entry], chores=[chore])

    Standings(store.redis, store.keys, record, store.audit).change(change)
    return RecalibrationRequested(
        monitor=record.name,
        number=number,
        requested_at=at(now),
        requested_by=who,
        recalibration=requested.recalibration,
    )
