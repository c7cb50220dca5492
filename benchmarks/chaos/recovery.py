"""How long abandoned jobs were abandoned: from a kill to the moment when the job waits or runs again, or has ended.

Both moments are of one clock, which nobody sets: the harness takes the kill's, the store puts it into the event's id.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.chaos.evidence import Change

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
    harms: Iterable[Harm], changes: Mapping[str, Sequence[Change]], outages: Sequence[Outage]
) -> list[Recovery]:
    """The recoveries of all jobs that ran on a victim when it was killed and had not ended by then."""
    found = []
    for harm in harms:
        for job in harm.jobs or ():
            moment = next((change.at for change in changes.get(job, ()) if change.at > harm.at), None)
            if moment is not None:
                found.append(_recovery(harm, job, moment, outages))
    return found


def _recovery(harm: Harm, job: str, moment: float, outages: Sequence[Outage]) -> Recovery:
    """Nobody can recover a job while the store is away, and a supervisor that dies takes its watch with it.

    The victim's own absence is no excuse.
    """
    began = harm.at
    for outage in outages:
        own = outage.part == harm.victim and abs(outage.since - harm.at) < _SAME_SECONDS
        if not own and outage.since < moment and outage.until > harm.at:
            began = max(began, min(outage.until, moment))
    return Recovery(harm.kind, job, moment - harm.at, moment - began, disturbed=began > harm.at)


#: An outage that is seen so soon after a kill is the kill's.
_SAME_SECONDS = 0.5


def summary(seconds: Sequence[float]) -> dict[str, float | int]:
    """How many, their median, their 99th percentile (the least that 99 % do not pass) and the longest."""
    if not seconds:
        return {"count": 0}
    ordered = sorted(seconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"count": len(ordered), "median": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
