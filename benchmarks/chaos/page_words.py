"""Paragraphs shared by the sections of docs/benchmarks/reliability.md."""

from __future__ import annotations

import textwrap
from typing import Any

_WIDTH = 118


def paragraph(text: str) -> list[str]:
    """The lines of a paragraph."""
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def circumstances(figures: dict[str, Any]) -> str:
    """The date, machine and load of a run."""
    seed = f", seed {figures['seed']}" if "seed" in figures else ""
    return (
        f"Run of {figures['day']}: {figures['machine']}, kernel {figures['kernel']}, load average before the run "
        f"{figures['load_before']}{seed}."
    )
