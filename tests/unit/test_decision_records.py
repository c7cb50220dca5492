"""The index of the architecture decision records."""

from __future__ import annotations

import re
from pathlib import Path

RECORDS = Path(__file__).parents[2] / "docs" / "adr"


def test_every_decision_is_listed_once_with_its_title() -> None:
    listed = re.findall(r"^- \[(.*)\]\(([^)]*)\)", (RECORDS / "index.md").read_text("utf-8"), re.MULTILINE)
    titles = [(path.read_text("utf-8").partition("\n")[0].removeprefix("# "), path.name) for path in RECORDS.glob("0*")]
    assert sorted(listed) == sorted(titles)
