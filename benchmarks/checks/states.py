"""The list of the pages, with what is known of what made them and what is computed again: docs/benchmarks/checks.md."""

from __future__ import annotations

from benchmarks.checks.catalogue import CHECKED, UNCHECKED, WITHOUT_FIGURES
from benchmarks.provenance import ROOT
from benchmarks.records import origin_of

DOCS = ROOT / "docs" / "benchmarks"
PAGE = DOCS / "checks.md"

_HEAD = """# Checks of these pages

A page that is written now ends with a line that names its code and versions. `benchmarks/origins` has the digest of
every module, version and file of data that made it. Results of other code are refused, unless the command has
`ACCEPT_OLDER=1`; the page then says so. Before a page is written, its figures are checked against laws that they cannot
break, such as that a share is in [0, 1]. See [ADR 89](../adr/0089-origin-of-figures.md).

`make pages-check` computes a random 2 % of the cells of every page again, and at least one, and compares them with the
page: numbers within one unit of the last digit, and within the tolerance that a page states in its module. Times are
not compared. Results that are stored in the repository, or in `.calibrant` by an earlier run, are computed again one
by one. `SEED` repeats a choice, `SECONDS` limits the time, `PAGES` names pages, and `DATA` is the folder of
[the data sets](data-sets.md).

Pages of *an earlier state* were written before pages named their code: which code made them is unknown, until their
command runs again.

| page | made by | computed again |
|---|---|---|
"""


def page() -> str:
    """Return the page."""
    names = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in WITHOUT_FIGURES)
    return _HEAD + "".join(f"| [{name}]({name}.md) | {_made_by(name)} | {_checked(name)} |\n" for name in names)


def _made_by(name: str) -> str:
    stored = origin_of(name)
    if stored is None:
        return "an earlier state"
    return "code that it names" + (", with results of an earlier state" if stored[1]["older"] else "")


def _checked(name: str) -> str:
    if name in CHECKED:
        return "from records in `.calibrant`" if ".recorded:" in CHECKED[name] else "yes"
    if name not in UNCHECKED:
        raise LookupError(f"{name} is neither in CHECKED nor in UNCHECKED of benchmarks/checks/catalogue.py")
    return f"no: {UNCHECKED[name]}"


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
