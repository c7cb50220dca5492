"""Adaptive conformal inference as a policy: the error level of a map to prediction sets follows a monitor's stream."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backend.held_map import HeldMap
from backend.monitors.adaptive_levels import level_of
from backend.monitors.definitions import target_of
from backend.monitors.evidence import last_settled
from backend.monitors.proposals import NotFollowed, unwritten, written
from backend.monitors.windows import bucket_seconds
from backend.store.clock import at
from backend.store.errors import QuotaExceeded, UnknownAlias, UnknownMap
from backend.store.keyspace import derived_id
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.store import Store
from calibrant.sets.adaptive import start_adaptive
from calibrant.sets.set_map import SetMap
from schemas.aliases import AliasRecord
from schemas.maps import MapRecord
from schemas.monitor_alarms import Standing
from schemas.monitor_online import AdaptiveStanding, AdaptiveVersion
from schemas.monitors import MonitorRecord

# --- The level, and the version of the map that has it
#
# A version has the level that follows from all labels that were counted before it. Buckets count once their labels are
# complete, so the labels are late by up to the sets that were made since the first bucket of a version: ``delay``. With
# it the bound of ``AdaptiveAlpha`` holds for the sets that the versions made.

#: Buckets counted in one transaction.
_AT_ONCE = 1000


@dataclass(frozen=True)
class _Champion:
    """The alias of the set map, and the map in force."""

    alias: AliasRecord
    record: MapRecord
    fitted: SetMap


def adaptive_step(store: Store, record: MonitorRecord, standings: Standings, now: float) -> bool:
    """Count some buckets whose labels are complete at time ``now``, and write the version that is due.

    Returns False once all are counted and no version is due.
    """
    standing = standings.read()
    draft: MapRecord | None = None
    declined: NotFollowed | None = None
    champion: _Champion | None = None
    counted: AdaptiveStanding | None = None
    try:
        champion = _champion(store, record)
        before = _begun(record, standing, champion, now)
        last = last_settled(record, now)
        counted = _counted(Buckets(store.redis, store.keys, record), before, last)
        due = now >= counted.written_at + record.recalibration.every and counted.rows_since > 0
        if due and counted.following > last:
            draft = _draft(record, counted, champion, now)
            store.charges.check_maps()
            draft = store.maps.put(draft, allow_shape_change=True)
    except QuotaExceeded as error:
        draft, declined = None, NotFollowed(error.detail, error.code)
    except NotFollowed as error:
        declined = error

    def change(record: MonitorRecord, now_standing: Standing) -> StandingChange | None:
        if now_standing.adaptive != standing.adaptive or now_standing.moving is not None:
            return None  # another process was faster
        if declined is not None:
            later = counted and counted.model_copy(update={"written_at": now})
            return unwritten(record, now_standing.model_copy(update={"adaptive": later}), declined, now)
        if counted is None or champion is None:
            raise TypeError("without a level, it was declined")
        after = now_standing.model_copy(update={"adaptive": counted})
        return StandingChange(after) if draft is None else _decided(record, after, counted, draft, champion, now)

    changed = standings.change(change)
    more = declined is None and counted is not None and counted.following <= last_settled(record, now)
    return changed is None or more or draft is not None


def _champion(store: Store, record: MonitorRecord) -> _Champion:
    name, alias = target_of(record), record.recalibration.alias
    try:
        target = store.aliases.get(name, alias)
        map_record = store.maps.read(target.map)
    except (UnknownAlias, UnknownMap) as error:
        raise NotFollowed(f"there is no map {name}@{alias}, whose level would follow the stream", error.code) from error
    fitted = HeldMap.of(map_record).loaded
    if not isinstance(fitted, SetMap) or getattr(fitted.function, "scores", None) is None:
        why = f"{name}@{alias} is no map to prediction sets that was fitted with adjustable"
        raise NotFollowed(why, "not-adjustable")
    if not getattr(fitted.function, "allow_empty", True):
        why = f"{name}@{alias} leaves no set empty, so that its error does not follow the level"
        raise NotFollowed(why, "not-adjustable")
    if (fitted.n_classes or 2) != record.n_classes:
        raise NotFollowed(f"{name}@{alias} has another number of classes than the monitor", "wrong-shape")
    return _Champion(target, map_record, fitted)


def _begun(record: MonitorRecord, standing: Standing, champion: _Champion, now: float) -> AdaptiveStanding:
    """The progress so far; a new start if someone moved the alias, or for other options."""
    adaptive, fitted = standing.adaptive, champion.fitted
    level = start_adaptive(1.0 - (record.coverage or 0.0), **record.recalibration.options, first=fitted.alpha)
    same = adaptive is not None and (adaptive.target, adaptive.gamma) == (level.target, level.gamma)
    if adaptive is not None and same and adaptive.in_force == champion.alias.map:
        return adaptive
    return AdaptiveStanding.with_fields_of(
        level,
        in_force=champion.alias.map,
        started_at=at(now),
        level=level.first,
        following=math.floor(now / bucket_seconds(record)) + 1,  # earlier sets have levels of other maps
        written_at=now,
    )


def _counted(buckets: Buckets, before: AdaptiveStanding, last: int) -> AdaptiveStanding:
    """Count the next buckets up to ``last``."""
    numbers = buckets.numbers(before.following, last)[:_AT_ONCE]
    rows = misses = 0
    for tally in buckets.tallies(numbers[0], numbers[-1], "measured").values() if numbers else ():
        event = tally.event()
        if event.w is None:
            raise TypeError("the rows of a tally have counts")
        rows += round(float(event.w.sum()))
        misses += round(float(event.w[event.y == 0].sum()))
    n_sets, first = 0, before.first_since
    if rows + before.rows_since:
        first = before.first_since if before.rows_since else numbers[0]
        n_sets = sum(counts.get("predictions", 0) for counts in buckets.counts_by_bucket(first, 2**32).values())
    return before.model_copy(
        update={
            "following": max(before.following, last + 1) if len(numbers) < _AT_ONCE else numbers[-1] + 1,
            "rows": before.rows + rows,
            "misses": before.misses + misses,
            "rows_since": before.rows_since + rows,
            "first_since": first,
            "delay": max(before.delay, n_sets),
        }
    )


def _draft(record: MonitorRecord, counted: AdaptiveStanding, champion: _Champion, now: float) -> MapRecord:
    """The record of the version with the next level, without a name until the alias moves to it."""
    level, base = level_of(counted).value, champion.record
    fitted = champion.fitted.at(level)
    tags = {"monitor": record.name, "level": f"{level:.6g}", "rows": str(counted.rows)}
    return base.model_copy(
        update={
            "id": derived_id("map", f"{record.id} adaptive {counted.started_at} {counted.rows}"),
            "name": None,
            "version": None,
            "created_at": at(now),
            "created_by": None,
            "tags": tags,
            "description": "follows the coverage of a monitor",
            "document": fitted.to_document(),
        }
    )


def _decided(
    record: MonitorRecord,
    standing: Standing,
    counted: AdaptiveStanding,
    draft: MapRecord,
    champion: _Champion,
    now: float,
) -> StandingChange:
    """The change that counts the buckets and decides to move the alias to a version."""
    level, revision = level_of(counted).value, champion.alias.revision
    version = AdaptiveVersion(map=draft.id, at=at(now), level=level, rows=counted.rows, misses=counted.misses)
    adaptive, after = written(record, standing, counted, version, "schedule", revision, now, level=level)
    return StandingChange(after.model_copy(update={"adaptive": adaptive}))
