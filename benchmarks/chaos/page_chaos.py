"""The parts of docs/benchmarks/reliability.md that tell of harm."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

_HARMS = {
    "work-horse": "`kill -9` of a work-horse",
    "worker": "`kill -9` of a worker",
    "supervisor": "`kill -9` of a supervisor",
    "API": "`kill -9` of the API",
    "store": "`kill -9` of the store",
    "supervisor told to stop": "SIGTERM of a supervisor",
    "store paused": "store paused for 10 s (SIGSTOP)",
    "disk full": "disk of the store full for 5 s",
    "clock step": "clocks of API and workers set by an hour or two",
}
_CAUSES = {
    "work-horse": "work-horse killed",
    "worker": "worker killed",
    "supervisor": "supervisor killed",
    "cut off": "machine cut off",
}
#: Faults of a kind that are told word for word.
_TOLD = 3


def chaos_part(told: dict[str, Any]) -> list[str]:
    """Kills, pauses, a full disk and steps of clocks."""
    return [
        *paragraph(
            "A store on a file system of its own, an API, and two supervisors of two workers each, as processes that "
            "are started again 0.2 s after their end, as an orchestrator would. Clients keep 200 jobs under way, each "
            "posted under an idempotency key until it is acknowledged: of a hundred, 45 are quick fits, 20 fits of PL, "
            "10 averaged fits (half of them on 20,000 rows), 5 fits of PL to three classes of 20,000 rows, which go "
            "in parts, and 20 evaluations; the others are on 1,000 rows. Harm is done "
            f"in random order at random moments of {told['seconds'] / 60:.3g} minutes. Then no more is posted, the end "
            "of every job is awaited, and all is looked at. So that a client whose request died with the API may send "
            "it again soon, `idempotency-lease` is 2 s and `max-wait` 1 s."
        ),
        "",
        *paragraph(circumstances(told)),
        "",
        *_harm_rows(told),
        "",
        *paragraph(_limits(told)),
        "",
        *_outcome(told),
    ]


def network_part(told: dict[str, Any]) -> list[str]:
    """A machine that is cut off."""
    if "not_run" in told:
        return paragraph(f"Not run: network namespaces could not be made here ({told['not_run']}).")
    cuts = [
        f"| {cut['name']} | {len(cut['jobs'])} | {len(cut['ended_meanwhile'])} | {_seconds(cut['back_after'])} |"
        for cut in told["cuts"]
    ]
    return [
        *paragraph(
            "API, store and two supervisors of two workers each, every one in a network namespace of its own with a "
            "cable to one switch, under the load of the section above. Between kills the cable of a worker's machine "
            f"is unplugged while it runs jobs, for {told['cut_seconds']:g} s."
        ),
        "",
        *paragraph(circumstances(told)),
        "",
        *_harm_rows(told),
        "",
        "| machine cut off | jobs that it ran | of them ended elsewhere meanwhile | another job of its own after, s |",
        "|---|---|---|---|",
        *cuts,
        "",
        *_outcome(told),
    ]


def _limits(told: dict[str, Any]) -> str:
    disk = (
        "A full disk was not tried: no file system could be mounted here, which takes root."
        if told["disk"] is None
        else f"The store's file system is {told['disk']}; a store that cannot write ends, and is started again."
    )
    clock = (
        "Clocks are set by a library that stands between a process and the kernel's wall clock."
        if told["clock"]
        else "Setting clocks was not tried: there is no C compiler here to make the clock with."
    )
    return f"{disk} {clock}"


def _harm_rows(told: dict[str, Any]) -> list[str]:
    """What was done, and how often."""
    stepping = told["harms_under_stepping_clocks"]
    lines = ["| harm | times | of them under clocks that are set |", "|---|---|---|"]
    lines += [
        f"| {words} | {told['harms'][kind]} | {stepping.get(kind, 0)} |"
        for kind, words in _HARMS.items()
        if kind in told["harms"]
    ]
    return lines


def _outcome(told: dict[str, Any]) -> list[str]:
    """What became of the jobs, what holds, and how fast jobs were recovered."""
    return [
        *paragraph(_jobs(told)),
        "",
        "| afterwards | faults |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in told["fault_counts"].items()),
        "",
        *(f"- {words}" for said in told["faults"].values() for words in said[:_TOLD]),
        *([""] if any(told["faults"].values()) else []),
        *_recovery_rows(told),
    ]


def _jobs(told: dict[str, Any]) -> str:
    ends = ", ".join(f"{n} {status}" for status, n in told["ends"].items())
    problems = "".join(f", {n} of them `{kind}`" for kind, n in told["problems"].items())
    drained = "not empty when its time was over"
    if told["drained_seconds"] is not None:
        drained = f"empty after {told['drained_seconds']:.0f} s"
    answers = ", ".join(f"{n:,} times {'none' if status == '0' else status}" for status, n in told["answers"].items())
    return (
        f"{sum(told['jobs'].values()):,} jobs were acknowledged ({ends}{problems}) and took {told['runs']:,} runs; "
        f"{told['maps']:,} maps were made. Behind the last request the queue was {drained}. Answers that the clients "
        f"got: {answers}."
    )


def _recovery_rows(told: dict[str, Any]) -> list[str]:
    """How long abandoned jobs were abandoned."""
    rows = [
        f"| {_CAUSES[cause]} | {kind} | {_distribution(found[kind])} | {found['goal']:g} | {found[kind]['over']} |"
        for cause, found in told["recovery"].items()
        for kind in ("undisturbed", "disturbed")
    ]
    return [
        *paragraph(
            "Seconds from a kill to the moment when the job that ran on the victim waits or runs again, or has ended, "
            "by the times of the job's events; for a part of a job, of which no event tells, to the end of its lease, "
            "looked at every 0.02 s. Disturbed are those before whose recovery the store was away, no "
            "supervisor lived, or another supervisor died: they count from the end of that."
        ),
        "",
        "| cause | | jobs | median, s | p99, s | longest, s | goal, s | over it |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _distribution(found: dict[str, float]) -> str:
    if not found["count"]:
        return "0 | | |"
    return f"{found['count']} | {found['median']:.2f} | {found['p99']:.2f} | {found['max']:.2f}"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"
