"""The sections of docs/benchmarks/reliability.md about speed and memory."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

#: Goals: jobs per second, seconds of overhead, and growth of memory.
RATE_GOAL, OVERHEAD_GOAL, GROWTH_GOAL = 40, 0.030, 0.05
_RATES = {
    "drained": "all queued before the first worker starts",
    "while_queueing": "while 4 clients queue jobs",
    "plain_rq": "empty jobs, all queued",
}


def throughput_part(figures: dict[str, Any]) -> list[str]:
    """Jobs per second, and the overhead of the queue."""
    return [
        *paragraph(
            f"{figures['jobs']:,} fits (`platt`, 1,000 rows, one uploaded batch, `Prefer: respond-async`) run on "
            "two worker processes. Workers run jobs one after another in a fork, or in their own process with "
            f"`--warm`. Rates are from the first start to the last end, in {figures['rounds']} interleaved rounds. "
            "For comparison, two plain `rq worker` processes, which fork for every job, run as many empty jobs "
            f"on the same store. Then {figures['single_jobs']} fits run one at a time on an idle queue, measured "
            "from queueing to end. The overhead is their median minus the median of the same fit in process."
        ),
        "",
        *paragraph(circumstances(figures)),
        "",
        "| workers | jobs | median, jobs/s | each round, jobs/s | goal |",
        "|---|---|---|---|---|",
        *(row for name, worker_figures in figures["workers"].items() for row in _rate_rows(name, worker_figures)),
        "",
        "| workers | one fit, median, ms | p99, ms | longest, ms | in process, ms | overhead, ms | goal, ms |",
        "|---|---|---|---|---|---|---|",
        *(_overhead_row(name, worker_figures) for name, worker_figures in figures["workers"].items()),
    ]


def _rate_rows(name: str, worker_figures: dict[str, Any]) -> list[str]:
    return [
        f"| {'RQ, forks' if what == 'plain_rq' else name} | {words} | {worker_figures['medians'][what]:.1f} "
        f"| {', '.join(f'{rate:.1f}' for rate in worker_figures['rates'][what])} "
        f"| {'' if what == 'plain_rq' else f'at least {RATE_GOAL}'} |"
        for what, words in _RATES.items()
    ]


def _overhead_row(name: str, worker_figures: dict[str, Any]) -> str:
    single = worker_figures["single_job_seconds"]
    seconds = (*(single[what] for what in ("median", "p99", "max")), worker_figures["fit_in_process_seconds"])
    cells = " | ".join(f"{1e3 * overhead:.1f}" for overhead in (*seconds, worker_figures["overhead_seconds"]))
    return f"| {name} | {cells} | at most {1e3 * OVERHEAD_GOAL:.0f} |"


def soak_part(figures: dict[str, Any]) -> list[str]:
    """Answers, latency and memory under load."""
    rows = [
        f"| {kind} | {', '.join(f'{n:,} {status}' for status, n in figures['answers'][kind].items())} "
        f"| {1e3 * figures['latency'][kind]['median']:.0f} | {1e3 * figures['latency'][kind]['p99']:.0f} |"
        for kind in sorted(figures["answers"])
    ]
    memory = [
        f"| {part} | {growth['first_minute'] / 1e6:.1f} | {growth['last_minute'] / 1e6:.1f} "
        f"| {100 * growth['growth']:+.1f} % | at most {100 * GROWTH_GOAL:+.0f} % |"
        for part, growth in figures["memory"].items()
    ]
    return [
        *paragraph(
            f"{figures['clients']} concurrent clients for {figures['seconds']:g} s. Half of the requests calibrate ten "
            "scores, a quarter evaluate, and a quarter fit (`platt`, 1,000 rows). A third of the evaluations and "
            "fits are jobs whose results are not awaited. There is one API process and one supervisor with two "
            "workers."
        ),
        "",
        *paragraph(circumstances(figures)),
        "",
        "| call | answers by status | median, ms | p99, ms |",
        "|---|---|---|---|",
        *rows,
        "",
        *paragraph(
            "Answers other than success or a documented 429 or 503: "
            f"{figures['errors']}. Processes that ended: {figures['restarts']}."
        ),
        "",
        "| resident memory | first minute, MB | last minute, MB | growth | goal |",
        "|---|---|---|---|---|",
        *memory,
    ]
