"""The sections of docs/benchmarks/reliability.md about injected faults."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

_HARMS = {
    "work-horse": "`kill -9` of a work-horse",
    "worker": "`kill -9` of a worker",
    "supervisor": "`kill -9` of a supervisor",
    "API": "`kill -9` of the API",
    "store": "`kill -9` of the store",
    "supervisor terminated": "SIGTERM of a supervisor",
    "store paused": "store paused for 10 s (SIGSTOP)",
    "store away": "`kill -9` of the store and an API; the store stays away until the API scores again",
    "Dask worker": "`kill -9` of a worker of Dask that has parts to count",
    "disk full": "disk of the store full for 5 s",
    "clock step": "clocks of API and workers changed by one or two hours",
}
_CAUSES = {
    "work-horse": "work-horse killed",
    "worker": "worker killed",
    "supervisor": "supervisor killed",
    "cut off": "machine disconnected",
}
_CALLERS = (
    "Meanwhile clients score a map with two versions, 50 requests per second by id, version, name and alias, on both "
    "APIs in turn; the alias moves every two seconds. As a balancer does, a client tries the other API if one does "
    "not answer with 200, three times in all. An API is killed only while the other one is ready, since two killed "
    "APIs cannot answer. The version must be that of the alias since the API last reached the store, or a second "
    "ago, and the values exactly those of its document. API keys are created, rotated and revoked; monitors change, "
    "and aliases move."
)
#: Violations of a kind that are listed.
_SHOWN = 3


def chaos_part(figures: dict[str, Any]) -> list[str]:
    """Kills, pauses, a full disk and clock changes."""
    return [
        *paragraph(
            f"The deployment has a store on its own file system, {'two APIs' if _scores(figures) else 'an API'}, and "
            "two supervisors with two workers each. Every process is restarted 0.2 s after its end, as an "
            "orchestrator would. Clients keep 200 "
            "jobs in flight and post each one with an idempotency key until it is acknowledged. Of a hundred "
            "jobs, 45 are quick fits, 20 fits of PL, 10 fits of `averaged` (half of them on 20,000 rows), 5 fits "
            "of PL to three classes of 20,000 rows, which run in parts, and 20 evaluations; the others have "
            f"1,000 rows. Faults are injected in random order at random times during {figures['seconds'] / 60:.0f} "
            "minutes. Then posting stops, all jobs end, and the state is checked. `idempotency-lease` is 2 s and "
            "`max-wait` 1 s, so that clients can soon resend requests that were lost with the API."
        ),
        "",
        *([*paragraph(_CALLERS), ""] if _scores(figures) else ()),
        *paragraph(circumstances(figures)),
        "",
        *_harm_rows(figures),
        "",
        *paragraph(_limits(figures)),
        "",
        *_outcome(figures),
    ]


def by_reference_part(figures: dict[str, Any]) -> list[str]:
    """Kills during jobs that read and write files."""
    jobs = ", ".join(f"{n} {kind}" for kind, n in figures["jobs"].items())
    ends = ", ".join(f"{n} {status}" for status, n in figures["ends"].items())
    return [
        *paragraph(
            f"Twenty jobs by reference ({jobs}; {figures['dask_jobs']} of them on Dask) read {figures['rows']:,} rows "
            "of Parquet files, or a hundredth of them where all rows are needed, on the deployment of the section "
            "above and three workers of Dask of one thread. They run twice: undisturbed, and while processes are "
            "killed at random times. The runs of a job are killed at most twice, and a part of Dask is lost at most "
            "three times, since one more ends the job as `worker-lost` or `engine-unavailable`. Meanwhile a reader "
            f"looks at the data sets that batch scoring writes; it looked {figures['looks']:,} times. Then every "
            "result is compared with that of the undisturbed job: reports and maps, all rows of data sets, and the "
            "counts of monitors, by group."
        ),
        "",
        *paragraph(circumstances(figures)),
        "",
        "| fault | count |",
        "|---|---|",
        *(f"| {words} | {figures['kills'][kind]} |" for kind, words in _HARMS.items() if kind in figures["kills"]),
        "",
        *paragraph(
            f"The jobs ended ({ends}) after {figures['runs']:,} runs, in {figures['took']:.0f} s; undisturbed they "
            f"took {figures['undisturbed']:.0f} s."
        ),
        "",
        "| check | violations |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in figures["fault_counts"].items()),
        *([""] if any(figures["faults"].values()) else []),
        *(f"- {words}" for said in figures["faults"].values() for words in said[:_SHOWN]),
    ]


def network_part(figures: dict[str, Any]) -> list[str]:
    """A disconnected machine."""
    if "not_run" in figures:
        return paragraph(f"Not run: network namespaces are not available here ({figures['not_run']}).")
    cuts = [
        f"| {cut['name']} | {len(cut['jobs'])} | {len(cut['ended_meanwhile'])} | {_seconds(cut['back_after'])} |"
        for cut in figures["cuts"]
    ]
    return [
        *paragraph(
            f"{'Two APIs' if _scores(figures) else 'The API'}, the store and two supervisors with two workers each "
            "have one network namespace each, connected to one switch, under the load of the section above. Between "
            f"kills the machine of a worker is disconnected for {figures['cut_seconds']:g} s while it runs jobs."
        ),
        "",
        *paragraph(circumstances(figures)),
        "",
        *_harm_rows(figures),
        "",
        "| disconnected machine | jobs it ran | ended elsewhere "
        "in the meantime | first new job after reconnection, s |",
        "|---|---|---|---|",
        *cuts,
        "",
        *_outcome(figures),
    ]


def _scores(figures: dict[str, Any]) -> bool:
    """Whether clients scored during the run, which has two APIs then."""
    return "scoring" in figures


def _limits(figures: dict[str, Any]) -> str:
    disk = (
        "A full disk was not tested, because mounting a file system requires root."
        if figures["disk"] is None
        else f"The store's file system is {figures['disk']}. A store that cannot write ends and is restarted."
    )
    clock = (
        "A preloaded library changes the wall clock that a process reads."
        if figures["clock"]
        else "Clock changes were not tested, because no C compiler is available to build the clock library."
    )
    return f"{disk} {clock}"


def _harm_rows(figures: dict[str, Any]) -> list[str]:
    """The injected faults and their counts."""
    stepping = figures["harms_under_stepping_clocks"]
    lines = ["| fault | count | with changed clocks |", "|---|---|---|"]
    lines += [
        f"| {words} | {figures['harms'][kind]} | {stepping.get(kind, 0)} |"
        for kind, words in _HARMS.items()
        if kind in figures["harms"]
    ]
    return lines


def _outcome(figures: dict[str, Any]) -> list[str]:
    """The ends of jobs, the checks, and the recovery times."""
    return [
        *paragraph(_jobs(figures)),
        "",
        *([*paragraph(_scoring(figures["scoring"], figures["key_changes"])), ""] if _scores(figures) else ()),
        "| check | violations |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in figures["fault_counts"].items()),
        "",
        *(f"- {words}" for said in figures["faults"].values() for words in said[:_SHOWN]),
        *([""] if any(figures["faults"].values()) else []),
        *_recovery_rows(figures),
    ]


def _jobs(figures: dict[str, Any]) -> str:
    ends = ", ".join(f"{n} {status}" for status, n in figures["ends"].items())
    problems = "".join(f", {n} of them `{kind}`" for kind, n in figures["problems"].items())
    drained = "was not empty at the time limit"
    if figures["drained_seconds"] is not None:
        drained = f"was empty after {figures['drained_seconds']:.0f} s"
    answers = ", ".join(f"{'none' if status == '0' else status} to {n:,}" for status, n in figures["answers"].items())
    return (
        f"{sum(figures['jobs'].values()):,} jobs were acknowledged ({ends}{problems}) and took {figures['runs']:,} "
        f"runs; {figures['maps']:,} maps were created. After the last request the queue {drained}. "
        f"Answers to requests: {answers}."
    )


def _scoring(scoring: dict[str, Any], changes: dict[str, int]) -> str:
    retried = ", ".join(f"{reason} {count:,}" for reason, count in scoring["retried"].items()) or "none"
    return (
        f"{scoring['requests']:,} requests for the held map, while its alias moved {scoring['moves']:,} times. "
        f"{scoring['stale']:,} were answered without the store, at most {scoring['oldest']} s after it was last "
        f"reached. Tries without a result, by reason: {retried}. Acknowledged changes of API keys: "
        f"{changes.get('key-created', 0):,} created, {changes.get('key-rotated', 0):,} rotated, "
        f"{changes.get('key-revoked', 0):,} revoked."
    )


def _recovery_rows(figures: dict[str, Any]) -> list[str]:
    """The recovery times of abandoned jobs."""
    rows = [
        f"| {_CAUSES[cause]} | {kind} | {_distribution(cases[kind])} | {cases['goal']:g} | {cases[kind]['over']} |"
        for cause, cases in figures["recovery"].items()
        for kind in ("undisturbed", "disturbed")
    ]
    return [
        *paragraph(
            "The table has the seconds from a kill until the job that ran on the killed process is queued again, "
            "runs again or has ended, by the times of the job's events. Parts of jobs have no events; their time "
            "lasts until the end of the lease, checked every 0.02 s. A recovery is disturbed if, before it, the "
            "store was unavailable, no supervisor was alive, or another supervisor died; its time starts at the end of "
            "the disturbance."
        ),
        "",
        "| cause | recovery | jobs | median, s | p99, s | longest, s | goal, s | above goal |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _distribution(quantiles: dict[str, float]) -> str:
    if not quantiles["count"]:
        return "0 | | |"
    return f"{quantiles['count']} | {quantiles['median']:.2f} | {quantiles['p99']:.2f} | {quantiles['max']:.2f}"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"
