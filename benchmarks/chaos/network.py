"""Fault injection over a network: ``make chaos-net``. APIs, store and two workers in namespaces; requires root.

Writes its section of docs/benchmarks/reliability.md; fails on any violation.
"""

from __future__ import annotations

import argparse
import random
import secrets
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.chaos.cluster import Cluster, cluster
from benchmarks.chaos.cuts import CUT_SECONDS, Cut, Cutter, turns
from benchmarks.chaos.figures import figures, print_figures, recovery_figures
from benchmarks.chaos.harms import Harms
from benchmarks.chaos.key_changes import first_key
from benchmarks.chaos.namespaces import NamespaceSwitch, network
from benchmarks.chaos.page import write_page
from benchmarks.chaos.recovery import InjectedFault, recoveries
from benchmarks.chaos.results import circumstances, write
from benchmarks.chaos.scenario import Scenario, harass

MACHINES = ("store", "api", "worker-1", "worker-2")
#: Kills between the cuts.
KILLED = ("work-horse", "worker", "supervisor", "API", "store")
#: Jobs of a disconnected machine have the recovery goal of a killed supervisor.
_CUT = "cut off"
_CHECK = "the jobs of a disconnected machine ended elsewhere, and the machine works again"


def chaos(running: Cluster, net: NamespaceSwitch, arguments: argparse.Namespace, key: str) -> dict[str, Any]:
    """The figures of a run."""
    numbers = random.Random(arguments.seed)  # noqa: S311 - no secret
    scenario = Scenario(running, key, seed=arguments.seed, drain=arguments.drain)
    harms = Harms(running, numbers, None, None, scenario.scorer.answered)
    cutter = Cutter(running, net, scenario.keys)

    def do_harm() -> None:
        for part in turns(running.supervisors, arguments.cuts):
            harass(harms, dict.fromkeys(KILLED, arguments.times), arguments.seconds, numbers)
            running.await_ready()
            cutter.cut(part)

    run_figures = scenario.run(do_harm)
    record = figures(scenario, harms, run_figures)
    cut_off = [InjectedFault("supervisor", cut.at, cut.name, cut.jobs) for cut in cutter.done]
    recovered = recoveries(cut_off, scenario.changes(run_figures), scenario.monitor.seen(), scenario.supervisors)
    record["recovery"][_CUT] = recovery_figures(recovered, "supervisor")
    said = [words for cut in cutter.done for words in cut_faults(cut)]
    record["faults"][_CHECK], record["fault_counts"][_CHECK] = said, len(said)
    return record | {"cuts": [asdict(cut) for cut in cutter.done], "cut_seconds": CUT_SECONDS}


def cut_faults(cut: Cut) -> list[str]:
    """The violations of a cut."""
    waited = set(cut.jobs) - set(cut.ended_meanwhile)
    said = [f"{job} waited for {cut.name} to be back" for job in sorted(waited)]
    return said + ([f"{cut.name} does not work again"] if cut.back_after is None else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=4, help="number of disconnections")
    parser.add_argument("--seconds", type=float, default=30, help="of kills before each cut")
    parser.add_argument("--times", type=int, default=3, help="kills of each kind before each cut")
    parser.add_argument("--drain", type=float, default=180, help="time limit of the last jobs in seconds")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    arguments = parser.parse_args()
    # On SIGTERM it stops its processes and removes the network.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    record = circumstances() | {"seed": arguments.seed}
    try:
        with (
            network(MACHINES) as net,
            tempfile.TemporaryDirectory(prefix="calibrant-chaos-") as name,
            cluster(Path(name), sites=net.sites, apis=2) as running,
        ):
            key = first_key(running)
            running.await_ready()
            run_figures = chaos(running, net, arguments, key)
    except PermissionError as error:
        write("network", record | {"not_run": str(error)})
        write_page()
        print(f"not run: {error}")
        return
    write("network", record | run_figures)
    write_page()
    sys.exit(0 if print_figures(run_figures) else 1)


if __name__ == "__main__":
    main()
