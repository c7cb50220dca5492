"""Words of the documentation that are written by hand: ``python -m benchmarks.pages.words``.

Tutorials, generated reference pages, benchmarks, the papers' tables and decisions are left out, and so is code.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.pages import PAGES

DOCS = Path(__file__).parents[2] / "docs"
_GENERATED = {*PAGES, "reference/gallery", "reference/licences"}
_LEFT_OUT = ("tutorials", "benchmarks", "papers", "adr", "_build", "_templates", "reference/generated")
_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def words() -> dict[str, int]:
    """Page -> its words."""
    pages = (path for suffix in ("md", "rst") for path in DOCS.rglob(f"*.{suffix}"))
    names = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in sorted(pages)}
    return {
        name: len(_CODE.sub("", path.read_text("utf-8")).split())
        for name, path in names.items()
        if not name.startswith(_LEFT_OUT) and name.removeprefix("reference/") not in PAGES and name not in _GENERATED
    }


if __name__ == "__main__":
    counted = words()
    print("\n".join(f"{count:6,} {name}" for name, count in counted.items()))
    print(f"{sum(counted.values()):6,} words on {len(counted)} pages")
