"""Writes docs/benchmarks/reliability.md from the figures of the last runs; each run updates its section."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.chaos.page_attack import attack_part
from benchmarks.chaos.page_chaos import by_reference_part, chaos_part, network_part
from benchmarks.chaos.page_load import soak_part, throughput_part
from benchmarks.chaos.page_scoring import scoring_part
from benchmarks.chaos.results import ROOT, read
from benchmarks.records import publish

PAGE = ROOT / "docs" / "benchmarks" / "reliability.md"

_INTRODUCTION = """# Reliability

Results of fault injection, attacks and sustained load. The command in each section title (`benchmarks/chaos/`) produces
the figures of that section.

The design guarantees the following:

- A job is acknowledged (202) after it is in the store, whose append-only file is synced before the answer
  (`appendfsync always`).
- The process that runs a job holds a lease and renews it every 0.5 s. Supervisors check leases every 0.5 s. If a lease
  does not change for 2 s of a supervisor's monotonic clock, it is taken away and the job returns to the front of its
  queue. If a work-horse or worker is killed, its parent process recovers the job at once.
- Each run of a job has a number. Its writes take effect only while the job is running with that number. One transaction
  stores the map or report and ends the job. A map's id is derived from its job's id.
- A lost job is repeated after 0, 1 and 3 s. The fourth loss, or the third loss by a killed process, ends it as failed
  (`worker-lost`).
"""

#: Section -> its title, and the function that writes it from its figures.
_SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], list[str]]]] = {
    "chaos": ("Fault injection on one machine: `make chaos`", chaos_part),
    "network": ("Fault injection over a network: `make chaos-net`", network_part),
    "scoring-outages": ("Scoring without the store: `make scoring-outages`", scoring_part),
    "by-reference": ("Fault injection into jobs by reference: `make by-reference-kills`", by_reference_part),
    "throughput": ("Throughput: `make throughput`", throughput_part),
    "attack": ("Attacks: `make attack`", attack_part),
    "soak": ("Sustained load: `make soak`", soak_part),
}


def page(*, older: bool | None = None) -> str:
    """The page with the current figures of what was run; ``older`` as for ``records.load``."""
    lines = [_INTRODUCTION]
    for name, (title, part) in _SECTIONS.items():
        figures = read(name, older=older)
        if figures is not None:
            lines.extend([f"## {title}", "", *part(figures), ""])
    return "\n".join(lines).rstrip() + "\n"


def write_page() -> None:
    """Rewrite the page."""
    publish(PAGE, page())


if __name__ == "__main__":
    write_page()
