"""Fill in the page of the papers with the values of the pages that it links to: ``python -m benchmarks.papers``.

The systems, the calls and the papers' values stand in template.md. Most of our values are placeholders in the last
column of its tables, which are read from the page and heading of the next link in the cell, or else of the link before:

``{ROW|COLUMN}``
    A cell of a table, without its rank.
``{|COLUMN}``
    The smallest and the largest number of a column, without the paper's.
``{2 lowest|ROW}``, ``{2 highest|ROW}``
    The columns of a row with the lowest or highest numbers.
``{/PATTERN/}``
    The group of a regular expression in the text.

``{ANCHOR|ROW|COLUMN}`` reads another heading of that page.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "papers.md"
TEMPLATE = Path(__file__).with_name("template.md")

_PLACEHOLDER = re.compile(r"\{(/.*?/|[^{}]*)\}")
_LINK = re.compile(r"\]\(([^)#]+)#?([^)]*)\)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def page() -> str:
    """Return the page, with every placeholder filled in."""
    return "".join(_filled(line) for line in TEMPLATE.read_text("utf-8").splitlines(keepends=True))


def _filled(line: str) -> str:
    links = list(_LINK.finditer(line))

    def value(place: re.Match[str]) -> str:
        after = (link for link in links if link.start() > place.start())
        link = next(after, links[-1] if links else None)
        if link is None:
            raise ValueError(f"{place[0]} has no link to a page")
        try:
            return _value(place[1], *link.groups())
        except (LookupError, StopIteration):
            raise LookupError(f"{link[1]}#{link[2]} has no {place[0]}") from None

    return _PLACEHOLDER.sub(value, line)


def _value(place: str, name: str, anchor: str) -> str:
    if place.startswith("/"):
        figure = re.search(place[1:-1], _section(name, anchor), re.DOTALL)
        if figure is None:
            raise LookupError(place)
        return figure[1]
    *other, row, column = place.split("|")
    rows = _rows(_section(name, *other or [anchor]))
    if not row:
        return _range([cells[column] for label, cells in rows if column in cells and "paper" not in label])
    if few := re.fullmatch(r"(\d+) (lowest|highest)", row):
        return _best(next(cells for label, cells in rows if label == column), int(few[1]), few[2] == "highest")
    return _plain(next(cells[column] for label, cells in rows if label == row and column in cells))


def _range(cells: list[str]) -> str:
    numbers = sorted(map(_plain, cells), key=float)
    return f"{numbers[0]} to {numbers[-1]}"


def _best(cells: dict[str, str], count: int, highest: bool) -> str:
    ordered = sorted(((name, _plain(cell)) for name, cell in cells.items() if cell), key=lambda pair: float(pair[1]))
    return ", ".join(" ".join(pair) for pair in (ordered[::-1] if highest else ordered)[:count])


def _plain(cell: str) -> str:
    """Return a cell without its rank, the paper's value in brackets and emphasis."""
    return re.sub(r" \(.*\)", "", cell.strip("* "))


@cache
def _section(name: str, anchor: str) -> str:
    text = (DOCS / name).read_text("utf-8")
    if not anchor:
        return text
    headings = list(re.finditer(r"^(#+) (.*)$", text, re.MULTILINE))
    first = next(heading for heading in headings if _anchor(heading[2]) == anchor)
    after = (h.start() for h in headings if h.start() > first.start() and len(h[1]) <= len(first[1]))
    return text[first.end() : next(after, len(text))]


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _rows(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the rows of a text's tables: the first cell, and the others by the name of their column."""
    filled_rows = []
    for table in re.findall(r"(?:^\|.*\n)+", text + "\n", re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines())
        filled_rows += [(row[0], dict(zip(head[1:], row[1:], strict=True))) for row in rows]
    return filled_rows


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
