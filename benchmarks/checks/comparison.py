"""Parts of a page that can be computed alone, and their comparison with what is printed or stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.markdown import CellFigure, PageTable, figures, tables


class NotChecked(Exception):
    """A page, or a part of it, cannot be computed again here; the message says why."""


@dataclass
class CellComparison:
    """The number of cells that were compared, and those that differ, each as text."""

    cells: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, name: str, printed: str, computed: str, tolerance: float) -> None:
        """Compare two cells: numbers within the printed digits and the tolerance, other text exactly."""
        self.cells += 1
        if not same(printed, computed, tolerance):
            self.differences.append(f"{name}: the page has {printed}, computed is {computed}")


def same(printed: str, computed: str, tolerance: float) -> bool:
    """Return whether two cells agree: numbers within one unit of the last digit plus a relative tolerance.

    Whole numbers, which are counts, and the text between numbers agree exactly.

    >>> same("0.031 better", "0.032 better", 0.0), same("0.031 better", "0.031 worse", 0.0), same("0", "1", 0.0)
    (True, False, False)
    """
    old, new = figures(printed), figures(computed)
    if len(old) != len(new) or not old:
        return _words(printed) == _words(computed)
    between = [re.sub(r"[-+\N{MINUS SIGN}]?\d[\d.,]*(e[-+]?\d+)?", "#", _words(cell)) for cell in (printed, computed)]
    return between[0] == between[1] and all(_near(a, b, tolerance) for a, b in zip(old, new, strict=True))


def _near(a: CellFigure, b: CellFigure, tolerance: float) -> bool:
    if a.half == b.half == 0.5 and not (a.percent or b.percent):
        return abs(a.value - b.value) <= tolerance * abs(a.value)
    return abs(a.value - b.value) <= 2.0 * a.half * (1.0 + 1e-9) + tolerance * abs(a.value)


def _words(cell: str) -> str:
    return cell.replace("*", "").strip()


class PagePart(Protocol):
    """A part of a page that can be computed alone."""

    @property
    def name(self) -> str:
        """What is computed."""

    def compare(self, page: str) -> CellComparison:
        """Compute this part and compare it with the page or with what is stored."""


@dataclass(frozen=True)
class PageCheck:
    """A part of a table: ``compute`` returns its lines with the head, as they are on the page.

    Parameters
    ----------
    name
        What is computed.
    compute
        Returns the head, the separator and some rows; columns and rows that the page does not have are differences.
    section
        The heading above the table, or "" for any.
    keys
        Number of cells at the start of a row that name it.
    without
        A regular expression of the heads of columns that are not compared: timings, and other libraries.
    tolerance
        Relative tolerance beside one unit of the last printed digit.
    """

    name: str
    compute: Callable[[], Sequence[str]]
    section: str = ""
    keys: int = 1
    without: str = r".*(seconds|time|, ms|, s|times as long)"
    tolerance: float = 0.0

    def compare(self, page: str) -> CellComparison:
        """Compute this part and compare it with the page."""
        comparison = CellComparison()
        printed = [table for table in tables(page) if self.section in ("", table.section)]
        for computed in tables("\n".join(self.compute())):
            own = [table for table in printed if set(computed.head) <= set(table.head)]
            for row in computed.rows:
                self._compare_row(own, computed, row, comparison)
        return comparison

    def _compare_row(
        self, own: list[PageTable], computed: PageTable, row: Sequence[str], comparison: CellComparison
    ) -> None:
        label = tuple(map(_words, row[: self.keys]))
        matches = [(t, r) for t in own for r in t.rows if tuple(map(_words, r[: self.keys])) == label]
        name = f"{self.section or self.name}, {', '.join(label)}"
        if not matches:
            comparison.cells += 1
            comparison.differences.append(f"{name}: the page has no such row")
            return
        # Rows with the same label, of other figures of a reference: the one that is meant has no differences.
        candidates = [self._cells(name, computed, row, table, cells) for table, cells in matches]
        nearest = min(candidates, key=lambda candidate: len(candidate.differences))
        comparison.cells += nearest.cells
        comparison.differences += nearest.differences

    def _cells(
        self, name: str, computed: PageTable, row: Sequence[str], table: PageTable, cells: Sequence[str]
    ) -> CellComparison:
        comparison = CellComparison()
        for place, head in list(enumerate(computed.head))[self.keys :]:
            if not re.fullmatch(self.without, head):
                # The same head can occur twice: the first of the computed is the first of the page.
                nth = computed.head[:place].count(head)
                at = [i for i, other in enumerate(table.head) if other == head][nth]
                comparison.add(f"{name}, {head}", cells[at], row[place], self.tolerance)
        return comparison


@dataclass(frozen=True)
class StoredRecord:
    """A stored record: its value, and how it is computed again. Timings are named in ``without``."""

    name: str
    value: Any
    compute: Callable[[], Any]
    without: str = r"seconds|time|machine"
    tolerance: float = 1e-9

    def compare(self, page: str) -> CellComparison:
        """Compute the record and compare it with the stored one."""
        del page
        comparison = CellComparison()
        computed = json.loads(json.dumps(self.compute()))
        for name, old, new in self._pairs(self.name, self.value, computed):
            comparison.cells += 1
            if not self._equal(old, new):
                comparison.differences.append(f"{name}: stored is {old!r}, computed is {new!r}")
        return comparison

    def _pairs(self, name: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
            for key in old:
                if not re.fullmatch(self.without, key):
                    yield from self._pairs(f"{name}, {key}", old[key], new[key])
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for place, pair in enumerate(zip(old, new, strict=True)):
                yield from self._pairs(f"{name}, {place}", *pair)
        else:
            yield name, old, new

    def _equal(self, old: Any, new: Any) -> bool:
        if isinstance(old, int | float) and isinstance(new, int | float):
            return old == new or abs(old - new) <= self.tolerance * max(1.0, abs(old)) or (old != old and new != new)
        return bool(old == new)


@dataclass(frozen=True)
class Rendering:
    """The whole page as its stored results give it; this computes no cell, so it counts as none."""

    name: str
    compute: Callable[[], str]

    def compare(self, page: str) -> CellComparison:
        """Compare the text line by line."""
        comparison = CellComparison()
        lines, others = page.rstrip().splitlines(), self.compute().rstrip().splitlines()
        if len(lines) != len(others):
            comparison.differences.append(f"{self.name}: {len(lines)} lines, computed are {len(others)}")
        for number, (old, new) in enumerate(zip(lines, others, strict=False), 1):
            if old != new:
                comparison.differences.append(f"{self.name}: line {number} differs")
        return comparison
