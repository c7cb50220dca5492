"""Recovery times of jobs: from a kill until the job is queued or runs again, or has ended.

Both times are from one unchanged clock: the harness reads it at the kill, the store for the event's id.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.chaos.evidence import Change

#: The part required by every recovery.
STORE = "store"
#: Goals: the most seconds from a kill to the job's recovery.
GOALS = {"work-horse": 1.0, "worker": 5.0, "supervisor": 5.0}


@dataclass(frozen=True)
class InjectedFault:
    """An injected fault; ``jobs`` are the jobs of its victim, None if unknown."""

    kind: str
    at: float
    victim: str
    jobs: tuple[str, ...] | None = ()
    during_clock_steps: bool = False


@dataclass(frozen=True)
class Outage:
    """A time in which a part did not work; ``until`` is infinite if its end was not observed."""

    part: str
    since: float
    until: float


@dataclass(frozen=True)
class JobRecovery:
    """A job's recovery: seconds since the kill, and since the last disturbance, which are the same without one."""

    kind: str
    job: str
    seconds: float
    after_disturbance: float
    disturbed: bool


def recoveries(
    harms: Iterable[InjectedFault], changes: Mapping[str, Sequence[Change]], outages: Sequence[Outage], supervisors: int
) -> list[JobRecovery]:
    """The recoveries of all jobs that ran on a victim when it was killed and had not ended by then."""
    away = [outage for outage in outages if outage.part == STORE] + nobody(outages, supervisors)
    recovered = []
    for harm in harms:
        for job in harm.jobs or ():
            moment = next((change.at for change in changes.get(job, ()) if change.at > harm.at), None)
            if moment is not None:
                began = max(harm.at, _able(harm, moment, away), _watched(harm, moment, outages))
                recovered.append(
                    JobRecovery(harm.kind, job, moment - harm.at, moment - began, disturbed=began > harm.at)
                )
    return recovered


def _able(harm: InjectedFault, moment: float, away: Iterable[Outage]) -> float:
    """The time since which the store answered and a supervisor was alive, up to the recovery."""
    ends = [outage.until for outage in away if outage.since < moment and outage.until > harm.at]
    return min(moment, max(ends, default=harm.at))


def _watched(harm: InjectedFault, moment: float, outages: Iterable[Outage]) -> float:
    """The time since which no other supervisor died: a supervisor's observations end with it."""
    ends = [
        outage.since
        for outage in outages
        if outage.part not in (STORE, harm.victim) and harm.at < outage.since < moment
    ]
    return max(ends, default=harm.at)


def nobody(outages: Iterable[Outage], supervisors: int) -> list[Outage]:
    """The times without any supervisor."""
    steps = sorted(
        step for outage in outages if outage.part != STORE for step in ((outage.since, 1), (outage.until, -1))
    )
    intervals, missing, since = [], 0, 0.0
    for at, step in steps:
        if missing == supervisors and step < 0:
            intervals.append(Outage("supervisors", since, at))
        missing += step
        since = at if step > 0 else since
    return intervals


def summary(seconds: Sequence[float]) -> dict[str, float | int]:
    """Count, median, 99th percentile (the least value that 99 % do not exceed) and maximum."""
    if not seconds:
        return {"count": 0}
    ordered = sorted(seconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"count": len(ordered), "median": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
