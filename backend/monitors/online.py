"""Online recalibration: a map that follows the stream of a monitor, and its versions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from backend.monitors.definitions import target_of
from backend.monitors.evidence import last_settled
from backend.monitors.online_maps import (
    NOW,
    OPTIONS,
    Following,
    bound_of,
    counted,
    dumped,
    online_options,
    read_state,
    started,
)
from backend.monitors.proposals import NotFollowed, unwritten, written
from backend.monitors.windows import bucket_seconds, window_named, window_span
from backend.store.clock import at
from backend.store.errors import QuotaExceeded, UnknownAlias, UnknownMap
from backend.store.keyspace import derived_id
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.store import Store
from calibrant.core.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap, load
from schemas.aliases import AliasRecord
from schemas.maps import MapRecord
from schemas.monitor_alarms import Standing
from schemas.monitor_online import OnlineReason, OnlineStanding, OnlineVersion
from schemas.monitors import MonitorRecord

# --- One step: count buckets and, if it is time, decide on a version
#
# The progress, the states and the decision to move the alias are one transaction, which fails if another process was
# faster. A version's map is stored before, without a name and under an id that is derived from the decision; the alias
# is moved afterwards, by whichever process finds the decision.


def online_step(store: Store, record: MonitorRecord, standings: Standings, now: float) -> bool:
    """Count some buckets whose labels are complete at time ``now``, and write the version that is due.

    Returns False once all are counted.
    """
    standing, states = standings.read_online()
    try:
        alias = _alias(store, record)
        before, force = _begun(store, record, standing, states, alias, now)
    except NotFollowed as declined:
        reason_to_stop = declined

        def stop(record: MonitorRecord, now_standing: Standing) -> StandingChange | None:
            if not _unchanged(now_standing, standing):
                return None
            # The map starts again after the pause.
            return unwritten(record, now_standing.model_copy(update={"online": None}), reason_to_stop, now)

        return standings.change(stop) is None
    last = last_settled(record, now)
    following = counted(Buckets(store.redis, store.keys, record), record, before, force, last)
    more = following.online.following <= last
    reason = None if more else _reason(record, standing, following.online, now)
    draft, failed = None, None
    if reason is not None:
        draft = _draft(record, following, reason, now)
        try:
            store.charges.check_maps()
            draft = store.maps.put(draft, allow_shape_change=True)
        except QuotaExceeded as error:
            draft, failed = None, error

    def change(record: MonitorRecord, now_standing: Standing) -> StandingChange | None:
        if not _unchanged(now_standing, standing):
            return None
        if failed is not None:
            waiting = replace(following, online=following.online.model_copy(update={"written_at": now}))
            tried = now_standing.model_copy(update={"online": waiting.online})
            declined = NotFollowed(failed.detail, failed.code)
            return replace(unwritten(record, tried, declined, now, failed=True), states=waiting.states())
        after = now_standing.model_copy(update={"online": following.online})
        if not more and reason is None and standing.asked:
            unchanged = NotFollowed("no labelled rows were counted since the last version", "no-new-rows")
            return replace(unwritten(record, after, unchanged, now), states=following.states())
        if draft is None or reason is None:
            return StandingChange(after, states=following.states())
        return decided(record, now_standing, following, draft, reason, alias, now)

    changed = standings.change(change)
    return changed is None or more or draft is not None


def _unchanged(now_standing: Standing, standing: Standing) -> bool:
    """Whether no other process was faster; the alias is where the standing has it unless it is being moved."""
    same = (now_standing.online, now_standing.asked) == (standing.online, standing.asked)
    return same and now_standing.moving is None


def _begun(
    store: Store,
    record: MonitorRecord,
    standing: Standing,
    states: Mapping[str, bytes],
    alias: AliasRecord | None,
    now: float,
) -> tuple[Following, CalibrationMap | None]:
    """The progress so far and the map in force; a new start if someone moved the alias, or for other options."""
    online, here = standing.online, None if alias is None else alias.map
    options = online_options(record)
    if online is not None and online.in_force == here and NOW in states:
        force = _map(store, here)
        if online.options == options:
            versions = {int(start): state for start, state in states.items() if start != NOW}
            return Following(online, read_state(states[NOW]), versions), force
        static = online.static
    else:
        if record.map is None and alias is not None:
            why = f"{alias.name}@{alias.alias} exists, but the monitor has no map, so its map was not compared"
            raise NotFollowed(why, "alias-not-compared")
        force, static = _map(store, here), here
    try:
        state = started(record, force if static == here else _map(store, static))
    except CalibrationError as error:
        raise NotFollowed(error.detail, error.code) from error
    bucket = bucket_seconds(record)
    window = window_named(record, record.recalibration.window)
    current = math.floor(now / bucket)
    first = current if window is None or window.seconds is None else window_span(record, window.seconds, now).first
    fresh = OnlineStanding(
        static=static,
        in_force=here,
        started_at=at(now),
        weights=state.weights,
        options=options,
        following=first,
        written_at=now,
    )
    return Following(fresh, state, {current + 1: dumped(state)}), force


def _alias(store: Store, record: MonitorRecord) -> AliasRecord | None:
    try:
        return store.aliases.get(target_of(record), record.recalibration.alias)
    except UnknownAlias:
        if record.map is not None:
            raise NotFollowed("the map of the monitor no longer exists", "unknown-map") from None
        return None


def _map(store: Store, map_id: str | None) -> CalibrationMap | None:
    if map_id is None:
        return None
    try:
        loaded = load(store.maps.read(map_id).document)
    except UnknownMap as error:
        raise NotFollowed("the map of the monitor no longer exists", error.code) from error
    if loaded.of_vector:
        raise NotFollowed("the map of the monitor applies to the whole vector, not to a single event", "map-of-vector")
    return loaded


def _reason(record: MonitorRecord, standing: Standing, online: OnlineStanding, now: float) -> OnlineReason | None:
    """Why to write a version now; None for no reason, or without rows since the last one."""
    policy = record.recalibration
    if not online.rows_since:
        return None
    if standing.asked:
        return "request" if standing.asked[0].rule is None else "alarm"
    if now >= online.written_at + policy.every:
        return "schedule"
    rested = not online.versions or now >= online.written_at + policy.pause
    return "evidence" if rested and online.log_e >= bound_of(record) else None


def _draft(record: MonitorRecord, following: Following, reason: OnlineReason, now: float) -> MapRecord:
    """The record of a version, without a name until the alias moves to it."""
    version = following.state.to_map(
        reduction=record.reduction or "binary", scale=record.scale, n_classes=record.n_classes
    )
    online = following.online
    return MapRecord(
        id=derived_id("map", f"{record.id} online {online.started_at} {online.rounds}"),
        name=None,
        version=None,
        method=version.method,
        options={name: value for name, value in online.options.items() if name in OPTIONS},
        reduction=version.reduction,
        scale=version.scale,
        n_classes=version.n_classes,
        n=online.rows,
        seed=None,
        created_at=at(now),
        tags={"monitor": record.name, "reason": reason, "rounds": str(online.rounds), "rows": str(online.rows)},
        description="follows the stream of a monitor",
        document=version.to_document(),
    )


def decided(
    record: MonitorRecord,
    standing: Standing,
    following: Following,
    draft: MapRecord,
    reason: OnlineReason,
    alias: AliasRecord | None,
    now: float,
) -> StandingChange:
    """The change that counts the buckets and decides to move the alias to a version."""
    online = following.online
    version = OnlineVersion(map=draft.id, at=at(now), reason=reason, rounds=online.rounds, rows=online.rows)
    revision, gain = None if alias is None else alias.revision, online.log_e / online.rows_since
    online, after = written(record, standing, online, version, reason, revision, now, gain=gain, log_e=0.0)
    from_here_on = math.floor(now / bucket_seconds(record)) + 1
    versions = {**following.made, from_here_on: dumped(following.state)}
    states = replace(following, online=online, made=versions).states()
    return StandingChange(after.model_copy(update={"online": online}), states=states)
