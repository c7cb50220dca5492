"""docs/monitoring.md: what was measured of monitors stands in it as the benchmarks wrote it."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"
#: From here on the page is made of others.
_MEASURED = "## What was measured\n"
#: Those pages, in their order.
MEASURED = (
    "alarms",
    "tally-accuracy",
    "monitor-speed",
    "monitor-answers",
    "tally-speed",
    "monitor-memory",
    "monitor-chaos",
    "large-data-speed",
)
_HEADING = re.compile(r"^#+ ", re.MULTILINE)


def monitoring_page() -> str:
    """The page as it is written, and behind it the pages of the benchmarks, a section each."""
    written, _, _ = (_DOCS / "monitoring.md").read_text("utf-8").partition(_MEASURED)
    return "\n".join([written + _MEASURED, *(_section(name) for name in MEASURED)])


def _section(name: str) -> str:
    text = (_DOCS / f"{name}.md").read_text("utf-8")
    return _HEADING.sub(lambda found: "##" + found[0], text)
