"""docs/benchmarks/reliability.md, made from the figures of the last runs: each run renews its own part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.chaos.page_attack import attack_part
from benchmarks.chaos.page_chaos import chaos_part, network_part
from benchmarks.chaos.page_load import soak_part, throughput_part
from benchmarks.chaos.results import ROOT, read

PAGE = ROOT / "docs" / "benchmarks" / "reliability.md"

_INTRODUCTION = """# Reliability

What was done to the service, and what it did then. The figures were produced by the commands that the sections name
(`benchmarks/chaos/`), which write them here. What the design promises stands first.

- A job is acknowledged (202) once it is in the store, whose append-only file is written before the answer
  (`appendfsync always`).
- What runs a job holds a lease, renewed every 0.5 s. Supervisors look every 0.5 s; a lease that one of them saw
  unchanged for 2 s of its own monotonic clock is taken away, and the job waits at the front of its line again. The job
  of a killed work-horse or worker is recovered at once, by the process above it.
- Each run of a job has a number, and what it writes counts only while the job is running and has that number: the map
  or the report and the job's end are one transaction. A map's id comes from its job's.
- A job that was lost is run again after 0, 1 and 3 s; the fourth loss, or the third that came with a killed process,
  ends it as failed (`worker-lost`).
"""

#: Section -> its title, and what makes it from its figures.
_SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], list[str]]]] = {
    "chaos": ("Chaos on one machine: `make chaos`", chaos_part),
    "network": ("Chaos over a network: `make chaos-net`", network_part),
    "throughput": ("Throughput: `make throughput`", throughput_part),
    "attack": ("Attacks: `make attack`", attack_part),
    "soak": ("Load for minutes: `make soak`", soak_part),
}


def page() -> str:
    """The page, of the figures as they are now."""
    lines = [_INTRODUCTION]
    for name, (title, part) in _SECTIONS.items():
        figures = read(name)
        lines.extend([f"## {title}", "", *(["Not run yet."] if figures is None else part(figures)), ""])
    return "\n".join(lines).rstrip() + "\n"


def write_page() -> None:
    """Write the page anew."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_page()
