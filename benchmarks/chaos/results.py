"""The figures of the last runs as JSON files, from which docs/benchmarks/reliability.md is made."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from benchmarks.records import load, save
from benchmarks.timing import machine

FOLDER = Path(__file__).parent / "results"
ROOT = Path(__file__).parents[2]
#: The commands of figures that have another name.
_COMMANDS = {"network": "chaos-net", "by-reference": "by-reference-kills"}


def write(name: str, figures: dict[str, Any]) -> None:
    """Store the figures of a run."""
    save(FOLDER / f"{name}.json", figures)


def read(name: str, *, older: bool | None = None) -> dict[str, Any] | None:
    """The figures of the last run, or None; ``older`` as for ``records.load``."""
    path = FOLDER / f"{name}.json"
    return load(path, f"make {_COMMANDS.get(name, name)}", older=older) if path.exists() else None


def circumstances() -> dict[str, Any]:
    """Date, machine and load."""
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "kernel": platform.release().partition("-")[0],
        "load_before": round(os.getloadavg()[0], 2),
    }
