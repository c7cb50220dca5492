"""How long abandoned jobs were abandoned: from a kill to the moment when the job waits or runs again, or has ended.

Both moments are of one clock, which nobody sets: the harness takes the kill's, the store puts it into the event's id.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.chaos.evidence import Change

#: The part that every recovery needs.
STORE = "store"
#: Seconds from a kill to the job's recovery that are meant to be the most.
GOALS = {"work-horse": 1.0, "worker": 5.0, "supervisor": 5.0}


@dataclass(frozen=True)
class Harm:
    """Something that was done to the deployment; ``jobs`` are what its victim ran, None where that is not known."""

    kind: str
    at: float
    victim: str
    jobs: tuple[str, ...] | None = ()
    during_clock_steps: bool = False


@dataclass(frozen=True)
class Outage:
    """A time in which a part did not work; ``until`` is infinite where that was not seen."""

    part: str
    since: float
    until: float


@dataclass(frozen=True)
class Recovery:
    """A job's recovery: seconds since the kill, and since the last disturbance, which are the same without one."""

    kind: str
    job: str
    seconds: float
    after_disturbance: float
    disturbed: bool


def recoveries(
    harms: Iterable[Harm], changes: Mapping[str, Sequence[Change]], outages: Sequence[Outage], supervisors: int
) -> list[Recovery]:
    """The recoveries of all jobs that ran on a victim when it was killed and had not ended by then."""
    away = [outage for outage in outages if outage.part == STORE] + nobody(outages, supervisors)
    found = []
    for harm in harms:
        for job in harm.jobs or ():
            moment = next((change.at for change in changes.get(job, ()) if change.at > harm.at), None)
            if moment is not None:
                began = max(harm.at, _able(harm, moment, away), _watched(harm, moment, outages))
                found.append(Recovery(harm.kind, job, moment - harm.at, moment - began, disturbed=began > harm.at))
    return found


def _able(harm: Harm, moment: float, away: Iterable[Outage]) -> float:
    """Since when the store answered and a supervisor lived, up to the recovery."""
    ends = [outage.until for outage in away if outage.since < moment and outage.until > harm.at]
    return min(moment, max(ends, default=harm.at))


def _watched(harm: Harm, moment: float, outages: Iterable[Outage]) -> float:
    """Since when no supervisor but the victim has died: one that does takes with it what it had seen so far."""
    ends = [
        outage.since
        for outage in outages
        if outage.part not in (STORE, harm.victim) and harm.at < outage.since < moment
    ]
    return max(ends, default=harm.at)


def nobody(outages: Iterable[Outage], supervisors: int) -> list[Outage]:
    """The times in which no supervisor lived at all."""
    steps = sorted(
        step for outage in outages if outage.part != STORE for step in ((outage.since, 1), (outage.until, -1))
    )
    found, missing, since = [], 0, 0.0
    for at, step in steps:
        if missing == supervisors and step < 0:
            found.append(Outage("supervisors", since, at))
        missing += step
        since = at if step > 0 else since
    return found


def summary(seconds: Sequence[float]) -> dict[str, float | int]:
    """How many, their median, their 99th percentile (the least that 99 % do not pass) and the longest."""
    if not seconds:
        return {"count": 0}
    ordered = sorted(seconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"count": len(ordered), "median": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
