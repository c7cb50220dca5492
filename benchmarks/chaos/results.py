"""The figures of the last runs as JSON files, from which docs/benchmarks/reliability.md is made."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import machine

FOLDER = Path(__file__).parent / "results"
ROOT = Path(__file__).parents[2]


def write(name: str, figures: dict[str, Any]) -> None:
    """Store the figures of a run."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any] | None:
    """The figures of the last run, or None."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def circumstances() -> dict[str, Any]:
    """Date, machine and load."""
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "kernel": platform.release().partition("-")[0],
        "load_before": round(os.getloadavg()[0], 2),
    }
