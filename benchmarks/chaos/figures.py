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


def figures(scenario: Scenario, harms: Harms, evidence: ChaosEvidence) -> dict[str, Any]:
    """The injected faults, the ends of jobs, the recovery times and the violations."""
    wrong = faults(evidence) | {
        _INJECTED: [f"{kind}: {count} times" for kind, count in sorted((+harms.missed).items())]
    }
    if any(harm.kind == "store away" for harm in harms.done):
        wrong[_WITHOUT_STORE] = harms.silent
    changes, outages = scenario.changes(evidence), scenario.monitor.seen()
    recovered = recoveries(harms.done, changes, outages, scenario.supervisors)
    return {
        "harms": dict(Counter(harm.kind for harm in harms.done)),
        "harms_under_stepping_clocks": dict(Counter(harm.kind for harm in harms.done if harm.during_clock_steps)),
        "harms_whose_jobs_are_unknown": sum(harm.jobs is None for harm in harms.done),
        "outages": {part: _outage_figures(outages, part) for part in sorted({outage.part for outage in outages})},
        **_jobs(evidence),
        "drained_seconds": scenario.drained,
        "scoring": _scoring(evidence.scoring),
        "key_changes": dict(Counter(action for key in scenario.key_changer.issued.values() for action in key.actions)),
        "recovery": {kind: recovery_figures(recovered, kind) for kind in GOALS},
        "faults": {name: said[:_SHOWN] for name, said in wrong.items()},
        "fault_counts": {name: len(said) for name, said in wrong.items()},
    }


def _jobs(evidence: ChaosEvidence) -> dict[str, Any]:
    statuses = [change.status for job in evidence.jobs for change in job.changes]
    return {
        "jobs": dict(Counter(job.promise.kind for job in evidence.jobs)),
        "ends": dict(Counter(str(job.status) for job in evidence.jobs)),
        "problems": dict(Counter(job.problem for job in evidence.jobs if job.problem is not None)),
        "runs": statuses.count("running"),
        "maps": len(evidence.maps),
        "answers": {str(status): times for status, times in sorted(evidence.answers.items())},
    }


def _scoring(evidence: ScoringEvidence) -> dict[str, Any]:
    return {
        "requests": evidence.requests,
        "stale": evidence.stale,
        "oldest": evidence.oldest,
        "moves": evidence.moves,
        "retried": dict(evidence.retried.most_common()),
    }


def _outage_figures(outages: Sequence[Outage], part: str) -> dict[str, float | int]:
    return summary([outage.until - outage.since for outage in outages if outage.part == part])


def recovery_figures(recovered: Sequence[JobRecovery], kind: str) -> dict[str, Any]:
    """The recoveries from one kind of kill, with disturbed ones apart."""
    mine = [job for job in recovered if job.kind == kind]
    goal = GOALS[kind]

    def distribution(seconds: Sequence[float]) -> dict[str, float | int]:
        return summary(seconds) | {"over": sum(job > goal for job in seconds)}

    return {
        "goal": goal,
        "undisturbed": distribution([job.seconds for job in mine if not job.disturbed]),
        "disturbed": distribution([job.after_disturbance for job in mine if job.disturbed]),
        "slowest": [asdict(job) for job in sorted(mine, key=lambda job: -job.after_disturbance)[:5]],
    }


def print_figures(run_figures: dict[str, Any]) -> bool:
    """Print the results of all checks; True if there are no violations."""
    for name, count in run_figures["fault_counts"].items():
        print(f"VIOLATION: {name} ({count}): {run_figures['faults'][name][:3]}" if count else f"ok: {name}")
    for kind, times in run_figures["recovery"].items():
        print(f"recovery, {kind}: {times['undisturbed']}, after a disturbance: {times['disturbed']}")
    return not any(run_figures["fault_counts"].values())
