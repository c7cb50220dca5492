"""Words of docs/benchmarks/reliability.md."""

from __future__ import annotations

import textwrap
from typing import Any

_WIDTH = 118


def paragraph(text: str) -> list[str]:
    """The lines of a paragraph."""
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def circumstances(told: dict[str, Any]) -> str:
    """Say when and where a run was made."""
    seed = f", seed {told['seed']}" if "seed" in told else ""
    return (
        f"Run of {told['day']}: {told['machine']}, Linux {told['kernel']}, load average before the run "
        f"{told['load_before']}{seed}."
    )
