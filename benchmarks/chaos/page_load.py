"""The parts of docs/reliability.md that tell of speed and memory."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

#: Jobs a second, and seconds of overhead, that are meant to be reached.
RATE_GOAL, OVERHEAD_GOAL, GROWTH_GOAL = 40, 0.030, 0.05
_RATES = {
    "drained": "all queued before the first worker is there",
    "while_queueing": "while 4 clients queue them",
    "plain_rq": "RQ alone, jobs that do nothing",
}


def throughput_part(told: dict[str, Any]) -> list[str]:
    """Jobs a second, and what the queue costs."""
    single = told["single_job_seconds"]
    rows = [
        f"| {words} | {told['medians'][name]:.1f} | {', '.join(f'{rate:.1f}' for rate in told['rates'][name])} "
        f"| {f'at least {RATE_GOAL}' if name != 'plain_rq' else ''} |"
        for name, words in _RATES.items()
    ]
    return [
        *paragraph(
            f"{told['jobs']:,} fits (`platt`, 1,000 rows, the batch uploaded once, `Prefer: respond-async`) by two "
            f"worker processes, from the first start to the last end; {told['rounds']} rounds of all three in turns. "
            "Beside them jobs that do nothing, by two plain `rq worker` processes on the same store."
        ),
        "",
        *paragraph(circumstances(told)),
        "",
        "| | jobs/s, median | of each round | goal |",
        "|---|---|---|---|",
        *rows,
        "",
        *paragraph(
            f"One fit at a time on an idle queue, {told['single_jobs']} of them, from the moment it is queued to its "
            f"end: median {1e3 * single['median']:.0f} ms, p99 {1e3 * single['p99']:.0f} ms, longest "
            f"{1e3 * single['max']:.0f} ms. In process the same fit takes "
            f"{1e3 * told['fit_in_process_seconds']:.1f} ms: the queue costs {1e3 * told['overhead_seconds']:.0f} ms "
            f"(goal: at most {1e3 * OVERHEAD_GOAL:.0f})."
        ),
    ]


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
