"""The parts of docs/benchmarks/reliability.md that tell of speed and memory."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

#: Jobs a second, and seconds of overhead, that are meant to be reached.
RATE_GOAL, OVERHEAD_GOAL, GROWTH_GOAL = 40, 0.030, 0.05
_RATES = {
    "drained": "all queued before the first worker is there",
    "while_queueing": "while 4 clients queue them",
    "plain_rq": "jobs that do nothing, all queued",
}


def throughput_part(told: dict[str, Any]) -> list[str]:
    """Jobs a second, and what the queue costs."""
    return [
        *paragraph(
            f"{told['jobs']:,} fits (`platt`, 1,000 rows, the batch uploaded once, `Prefer: respond-async`) by two "
            "worker processes, which have jobs done by a fork, one after another, or, with `--warm`, do them "
            f"themselves; from the first start to the last end, {told['rounds']} rounds in turns. Beside them as many "
            "jobs that do nothing, by two plain "
            "`rq worker` processes, which fork for each, on the same store. Then one fit at a time on an idle queue, "
            f"{told['single_jobs']} of them, from the moment when it is queued to its end; the overhead is what their "
            "median is more than that of the same fit in process."
        ),
        "",
        *paragraph(circumstances(told)),
        "",
        "| workers | jobs/s | median | of each round | goal |",
        "|---|---|---|---|---|",
        *(row for name, found in told["workers"].items() for row in _rate_rows(name, found)),
        "",
        "| workers | one fit, median, ms | p99, ms | longest, ms | in process, ms | overhead, ms | goal, ms |",
        "|---|---|---|---|---|---|---|",
        *(_overhead_row(name, found) for name, found in told["workers"].items()),
    ]


def _rate_rows(name: str, found: dict[str, Any]) -> list[str]:
    return [
        f"| {'RQ, forks' if what == 'plain_rq' else name} | {words} | {found['medians'][what]:.1f} "
        f"| {', '.join(f'{rate:.1f}' for rate in found['rates'][what])} "
        f"| {'' if what == 'plain_rq' else f'at least {RATE_GOAL}'} |"
        for what, words in _RATES.items()
    ]


def _overhead_row(name: str, found: dict[str, Any]) -> str:
    single = found["single_job_seconds"]
    seconds = (*(single[what] for what in ("median", "p99", "max")), found["fit_in_process_seconds"])
    told = " | ".join(f"{1e3 * one:.1f}" for one in (*seconds, found["overhead_seconds"]))
    return f"| {name} | {told} | at most {1e3 * OVERHEAD_GOAL:.0f} |"


def soak_part(told: dict[str, Any]) -> list[str]:
    """Answers, latency and memory under load."""
    rows = [
        f"| {kind} | {', '.join(f'{n:,} {status}' for status, n in told['answers'][kind].items())} "
        f"| {1e3 * told['latency'][kind]['median']:.0f} | {1e3 * told['latency'][kind]['p99']:.0f} |"
        for kind in sorted(told["answers"])
    ]
    memory = [
        f"| {part} | {found['first_minute'] / 1e6:.1f} | {found['last_minute'] / 1e6:.1f} "
        f"| {100 * found['growth']:+.1f} % | at most {100 * GROWTH_GOAL:+.0f} % |"
        for part, found in told["memory"].items()
    ]
    return [
        *paragraph(
            f"{told['clients']} clients at once for {told['seconds']:g} s: half calibrations of ten scores, a quarter "
            "evaluations, a quarter fits (`platt`, 1,000 rows); a third of the last two by the queue, whose jobs "
            "nobody waits for. One API process, one supervisor of two workers."
        ),
        "",
        *paragraph(circumstances(told)),
        "",
        "| call | answers, by status | median, ms | p99, ms |",
        "|---|---|---|---|",
        *rows,
        "",
        *paragraph(
            f"Answers that are neither a success nor a documented 429 or 503: {told['errors']}. Processes that ended: "
            f"{told['restarts']}."
        ),
        "",
        "| resident memory | first minute, MB | last minute, MB | growth | goal |",
        "|---|---|---|---|---|",
        *memory,
    ]
