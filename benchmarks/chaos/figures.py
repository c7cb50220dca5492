"""The figures of a run, as in its JSON file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.chaos.checks import faults
from benchmarks.chaos.evidence import ChaosEvidence
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.recovery import GOALS, JobRecovery, Outage, recoveries, summary
from benchmarks.chaos.scenario import Scenario
from benchmarks.chaos.scorer import ScoringEvidence

#: Violations of a kind that are listed.
_SHOWN = 20
#: Checks of the faults themselves.
_INJECTED = "every planned fault was injected"
_WITHOUT_STORE = "every API that was restarted without the store scored before its return"


def figures(scenario: Scenario, harms: Harms, found: ChaosEvidence) -> dict[str, Any]:
    """The injected faults, the ends of jobs, the recovery times and the violations."""
    wrong = faults(found) | {_INJECTED: [f"{kind}: {count} times" for kind, count in sorted((+harms.missed).items())]}
    if any(harm.kind == "store away" for harm in harms.done):
        wrong[_WITHOUT_STORE] = harms.silent
    changes, outages = scenario.changes(found), scenario.monitor.seen()
    recovered = recoveries(harms.done, changes, outages, scenario.supervisors)
    return {
        "harms": dict(Counter(harm.kind for harm in harms.done)),
        "harms_under_stepping_clocks": dict(Counter(harm.kind for harm in harms.done if harm.during_clock_steps)),
        "harms_whose_jobs_are_unknown": sum(harm.jobs is None for harm in harms.done),
        "outages": {part: _outage_figures(outages, part) for part in sorted({outage.part for outage in outages})},
        **_jobs(found),
        "drained_seconds": scenario.drained,
        "scoring": _scoring(found.scoring),
        "key_changes": dict(Counter(action for key in scenario.key_changer.issued.values() for action in key.actions)),
        "recovery": {kind: recovery_figures(recovered, kind) for kind in GOALS},
        "faults": {name: said[:_SHOWN] for name, said in wrong.items()},
        "fault_counts": {name: len(said) for name, said in wrong.items()},
    }


def _jobs(found: ChaosEvidence) -> dict[str, Any]:
    statuses = [change.status for job in found.jobs for change in job.changes]
    return {
        "jobs": dict(Counter(job.promise.kind for job in found.jobs)),
        "ends": dict(Counter(str(job.status) for job in found.jobs)),
        "problems": dict(Counter(job.problem for job in found.jobs if job.problem is not None)),
        "runs": statuses.count("running"),
        "maps": len(found.maps),
        "answers": {str(status): times for status, times in sorted(found.answers.items())},
    }


def _scoring(found: ScoringEvidence) -> dict[str, Any]:
    return {
        "requests": found.requests,
        "stale": found.stale,
        "oldest": found.oldest,
        "moves": found.moves,
        "retried": dict(found.retried.most_common()),
    }


def _outage_figures(outages: Sequence[Outage], part: str) -> dict[str, float | int]:
    return summary([outage.until - outage.since for outage in outages if outage.part == part])


def recovery_figures(found: Sequence[JobRecovery], kind: str) -> dict[str, Any]:
    """The recoveries from one kind of kill, with disturbed ones apart."""
    mine = [one for one in found if one.kind == kind]
    goal = GOALS[kind]

    def distribution(seconds: Sequence[float]) -> dict[str, float | int]:
        return summary(seconds) | {"over": sum(one > goal for one in seconds)}

    return {
        "goal": goal,
        "undisturbed": distribution([one.seconds for one in mine if not one.disturbed]),
        "disturbed": distribution([one.after_disturbance for one in mine if one.disturbed]),
        "slowest": [asdict(one) for one in sorted(mine, key=lambda one: -one.after_disturbance)[:5]],
    }


def print_figures(found: dict[str, Any]) -> bool:
    """Print the results of all checks; True if there are no violations."""
    for name, count in found["fault_counts"].items():
        print(f"VIOLATION: {name} ({count}): {found['faults'][name][:3]}" if count else f"ok: {name}")
    for kind, times in found["recovery"].items():
        print(f"recovery, {kind}: {times['undisturbed']}, after a disturbance: {times['disturbed']}")
    return not any(found["fault_counts"].values())
