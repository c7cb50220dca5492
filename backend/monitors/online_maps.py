"""The map that follows the stream of a monitor: its options, its states, and the buckets that update it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from backend.monitors.evidence import settling
from backend.monitors.windows import bucket_seconds
from backend.store.monitors.buckets import Buckets, TallyKind
from calibrant.core.cells import Floats, Outcomes
from calibrant.core.errors import CalibrationError, InvalidOption
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.online import OnlineMap, start_online
from schemas.base import MINUTE
from schemas.monitor_alarms import Standing
from schemas.monitor_online import OnlineReading, OnlineStanding
from schemas.monitors import MonitorBody, MonitorRecord

# --- The map, and its experts as they were when rows were predicted
#
# A round is a time bucket. The map in force during a bucket is an older state, that of the last version, and the labels
# of the bucket score its experts. Scored as of now, experts that follow the last labels closely would look better than
# they were. So the states of all versions whose buckets are not yet counted are kept, as ``predicted_by``.

#: Buckets counted in one transaction.
_AT_ONCE = 100
#: The most rounds by which labels are late for the mixture, see ``start_online``; each of its parts learns from one in
#: so many buckets.
_MOST_DELAY = 24
#: Options that callers may set.
OPTIONS = ("memories", "window", "rows_per_round")
#: The name of the current state among the stored ones.
NOW = "now"
_TINY = 2.0**-52


def started(body: MonitorBody, static: CalibrationMap | None) -> OnlineMap:
    """The first state of a monitor's map; raises ``CalibrationError`` for an invalid option or map."""
    options = online_options(body)
    if not set(body.recalibration.options) <= set(OPTIONS):
        raise InvalidOption.at("/options", f"must be among: {', '.join(OPTIONS)}")
    try:
        return start_online(static, **options)
    except CalibrationError as error:
        raise error.under("/options") from None


def online_options(body: MonitorBody) -> dict[str, Any]:
    """The options of ``start_online``; labels are late by the time between versions and until labels are complete."""
    policy = body.recalibration
    delay = math.ceil((policy.every + settling(body)) / (body.bucket or MINUTE))
    return {**policy.options, "delay": min(delay, _MOST_DELAY)}


@dataclass(frozen=True)
class Following:
    """The progress, the current state, and the states that were in force from some buckets on, as documents."""

    online: OnlineStanding
    state: OnlineMap
    made: Mapping[int, bytes]

    def states(self) -> dict[str, bytes]:
        """All states that are still needed, as stored."""
        first = max((start for start in self.made if start <= self.online.following), default=0)
        needed = {str(start): state for start, state in self.made.items() if start >= first}
        return needed | {NOW: dumped(self.state)}


def counted(
    buckets: Buckets, record: MonitorRecord, before: Following, force: CalibrationMap | None, last: int
) -> Following:
    """Count the next buckets up to ``last``; ``force`` is the map in force, None for none."""
    online, state = before.online, before.state
    kind: TallyKind = "measured" if record.map is None else "raw"
    numbers = buckets.numbers(online.following, last)[:_AT_ONCE]
    # Clocks of processes differ: a bucket that was counted stays so.
    following = max(online.following, last + 1) if len(numbers) < _AT_ONCE else numbers[-1] + 1
    rounds, rows, log_e, missing = online.rounds, 0, online.log_e, 0
    if numbers:
        counts = buckets.counts_by_bucket(numbers[0], numbers[-1])
        missing = sum(
            max(0, counted_rows.get("predictions", 0) - counted_rows.get("joined", 0))
            for counted_rows in counts.values()
        )
        versions: dict[int, OnlineMap] = {}
        for number, tally in sorted(buckets.tallies(numbers[0], numbers[-1], kind).items()):
            if not len(tally):
                continue
            event = tally.event()
            if event.w is None:
                raise TypeError("the rows of a tally have counts")
            start = max((start for start in before.made if start <= number), default=None)
            if start is not None and start not in versions:
                versions[start] = read_state(before.made[start])
            applied = event.p if force is None else force.curve(event.p)
            log_e += float(event.w @ (_losses(applied, event.y) - _losses(state.predict(event.p), event.y)))
            predicted_by = None if start is None else versions[start]
            state = state.update(event.p, event.y, weights=event.w, predicted_by=predicted_by)
            rounds, rows = rounds + 1, rows + len(tally)
    changes = {
        "following": following,
        "rounds": rounds,
        "rows": online.rows + rows,
        "rows_since": online.rows_since + rows,
        "unlabelled": online.unlabelled + missing,
        "log_e": log_e,
        "weights": state.weights,
    }
    return replace(before, online=online.model_copy(update=changes), state=state)


def read_state(document: bytes) -> OnlineMap:
    """Read a stored state; raises ``InvalidDocument``."""
    return OnlineMap.from_document(orjson.loads(document))


def dumped(state: OnlineMap) -> bytes:
    """A state as it is stored."""
    return orjson.dumps(state.to_document())


def _losses(p: Floats, y: Outcomes) -> Floats:
    p = np.clip(p, _TINY, 1.0 - _TINY)
    return -np.log(np.where(y == 1, p, 1.0 - p))


def bound_of(record: MonitorRecord) -> float:
    """The logarithm of the e-value against the map in force at which a version is written."""
    return -math.log(1.0 - record.recalibration.level)


# --- For a request


def read_online(record: MonitorRecord, standing: Standing) -> OnlineReading | None:
    """The progress as callers see it; None for another policy, or before the start."""
    online = standing.online
    if record.recalibration.policy != "online" or online is None:
        return None
    return OnlineReading.with_fields_of(
        online,
        bound=bound_of(record),
        counted_until=float(online.following * bucket_seconds(record)),
        next_at=online.written_at + record.recalibration.every,
    )
