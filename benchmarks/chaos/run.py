"""Chaos on one machine: ``make chaos``.

Writes its part of docs/benchmarks/reliability.md; fails if anything does not hold.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.chaos.clock import Clock, made_clock
from benchmarks.chaos.cluster import Cluster, cluster
from benchmarks.chaos.disk import Disk, disk
from benchmarks.chaos.figures import figures, print_figures
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.page import write_page
from benchmarks.chaos.results import circumstances, write
from benchmarks.chaos.scenario import Scenario, harass, step_clocks

#: What is killed, each ``--times`` over.
KILLED = ("work-horse", "worker", "supervisor", "API", "store")
#: Of the time for harm, so much goes to that under clocks that step.
_STEPPING_SHARE = 0.15


def asked(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=540, help="for the harm; the start and the drain come on top")
    parser.add_argument("--times", type=int, default=50, help="kills of each kind")
    parser.add_argument("--seed", type=int, default=None, help="of what is done when; a fresh one by default")
    parser.add_argument("--drain", type=float, default=180, help="seconds that the last jobs may take to end")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    given = parser.parse_args(words)
    given.seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    return given


def schedules(times: int, *, stepping: bool) -> tuple[dict[str, int], dict[str, int]]:
    """How often what is done while clocks are right, and while they step."""
    tenth, few = max(1, times // 10), max(1, times // 16)
    others = {"supervisor told to stop": 2 * tenth, "store paused": few, "disk full": few}
    if not stepping:
        return dict.fromkeys(KILLED, times) | others, {}
    return dict.fromkeys(KILLED, times - tenth) | others, dict.fromkeys(KILLED, tenth) | {"clock step": 2 * tenth}


def chaos(running: Cluster, space: Disk, clock: Clock | None, given: argparse.Namespace) -> dict[str, Any]:
    """The figures of a run."""
    numbers = random.Random(given.seed)  # noqa: S311 - no secret
    harms = Harms(running, numbers, space, clock)
    first, second = schedules(given.times, stepping=clock is not None)

    def do_harm() -> None:
        stepped = _STEPPING_SHARE * given.seconds if second else 0.0
        harass(harms, first, given.seconds - stepped, numbers)
        if clock is not None:
            step_clocks(running, clock)
            harms.clock_steps = True
            harass(harms, second, stepped, numbers)

    scenario = Scenario(running, seed=given.seed, drain=given.drain)
    found = scenario.run(do_harm)
    return figures(scenario, harms, found) | {"disk": space.kind, "clock": clock is not None}


def main() -> None:
    given = asked()
    # Told to stop, it stops what it started, and unmounts.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    told = circumstances() | {"seed": given.seed, "times": given.times, "seconds": given.seconds}
    folder = Path(tempfile.mkdtemp(prefix="calibrant-chaos-"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    clock = made_clock(folder)
    with disk(folder / "store") as space, cluster(folder, store_folder=space.folder) as running:
        running.await_ready()
        found = chaos(running, space, clock, given)
    if not given.keep:
        shutil.rmtree(folder)
    write("chaos", told | found)
    write_page()
    sys.exit(0 if print_figures(found) else 1)


if __name__ == "__main__":
    main()
