"""Fault injection on one machine: ``make chaos``.

Writes its section of docs/benchmarks/reliability.md; fails on any violation.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.chaos.clock import Clock, made_clock
from benchmarks.chaos.cluster import Cluster, cluster
from benchmarks.chaos.disk import Disk, disk
from benchmarks.chaos.figures import figures, print_figures
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.key_changes import first_key
from benchmarks.chaos.page import write_page
from benchmarks.chaos.results import circumstances, write
from benchmarks.chaos.scenario import Scenario, harass, step_clocks

#: Kinds of processes that are killed, ``--times`` each.
KILLED = ("work-horse", "worker", "supervisor", "API", "store")
#: The share of the time with changed clocks.
_STEPPING_SHARE = 0.15


def asked(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of fault injection, without start and drain")
    parser.add_argument("--times", type=int, default=60, help="kills of each kind")
    parser.add_argument("--seed", type=int, default=None, help="of the schedule of faults; random by default")
    parser.add_argument("--drain", type=float, default=180, help="time limit of the last jobs in seconds")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    arguments = parser.parse_args(words)
    arguments.seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    return arguments


def schedules(times: int, *, stepping: bool) -> tuple[dict[str, int], dict[str, int]]:
    """The counts of each fault with correct clocks, and with changed clocks."""
    tenth, few = max(1, times // 10), max(1, times // 16)
    others = {"supervisor terminated": 2 * tenth, "store paused": few, "store away": few, "disk full": few}
    if not stepping:
        return dict.fromkeys(KILLED, times) | others, {}
    return dict.fromkeys(KILLED, times - tenth) | others, dict.fromkeys(KILLED, tenth) | {"clock step": 2 * tenth}


def chaos(
    running: Cluster, key: str, space: Disk, clock: Clock | None, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The figures of a run."""
    numbers = random.Random(arguments.seed)  # noqa: S311 - no secret
    scenario = Scenario(running, key, seed=arguments.seed, drain=arguments.drain)
    harms = Harms(running, numbers, space, clock, scenario.scorer.answered)
    injected_seconds = 0.0
    first, second = schedules(arguments.times, stepping=clock is not None)

    def do_harm() -> None:
        began = time.monotonic()
        stepped = _STEPPING_SHARE * arguments.seconds if second else 0.0
        harass(harms, first, arguments.seconds - stepped, numbers)
        if clock is not None:
            step_clocks(running, clock)
            harms.clock_steps = True
            harass(harms, second, stepped, numbers)
            clock.set(0)
        nonlocal injected_seconds
        injected_seconds = time.monotonic() - began

    run_figures = scenario.run(do_harm)
    return figures(scenario, harms, run_figures) | {
        "seconds": injected_seconds,
        "disk": space.kind,
        "clock": clock is not None,
    }


def main() -> None:
    arguments = asked()
    # On SIGTERM it stops its processes and unmounts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    record = circumstances() | {"seed": arguments.seed, "times": arguments.times}
    folder = Path(tempfile.mkdtemp(prefix="calibrant-chaos-"))
    print(f"seed {arguments.seed}, folder {folder}", flush=True)
    clock = made_clock(folder)
    with disk(folder / "store") as space, cluster(folder, store_folder=space.folder, apis=2) as running:
        key = first_key(running)
        running.await_ready()
        run_figures = chaos(running, key, space, clock, arguments)
    if not arguments.keep:
        shutil.rmtree(folder)
    write("chaos", record | run_figures)
    write_page()
    sys.exit(0 if print_figures(run_figures) else 1)


if __name__ == "__main__":
    main()
