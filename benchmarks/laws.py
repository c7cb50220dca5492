"""What the figures of pages must obey: named laws, and the columns that each holds for.

``records.publish`` checks every page before it is written. A law is stated here once; a page gets it by the head of a
column, and arrays by calling its function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.markdown import PageTable, figures, tables

Values = TypeVar("Values", float, npt.NDArray[np.float64])
_SLACK = 1e-9
#: Rounding of the mean of win rates that are printed in tenths of a percent.
_PRINTED = 5e-4
#: An interval in a cell.
_INTERVAL = re.compile(r"\(?([+-]?[\d.,]+) to ([+-]?[\d.,]+)\)?")


class ImpossibleFigure(ValueError):
    """A figure that cannot be what it is called, so that no page is written."""


def possible(values: Values, name: str, *, low: float = -1.0, high: float = 1.0) -> Values:
    """Return values unchanged; raise ``ImpossibleFigure`` if any is not in [low, high], or is not a number.

    Calibration errors, distances of maps, Brier scores, frequencies, and their differences are in [-1, 1].

    >>> possible(0.03, "ECE", low=0.0)
    0.03
    """
    outside = ~((np.asarray(values) >= low - _SLACK) & (np.asarray(values) <= high + _SLACK))
    if outside.any():
        first = np.asarray(values)[outside].flat[0]
        raise ImpossibleFigure(f"{name} must be in [{low:g}, {high:g}], but {outside.sum()} of them are not: {first:g}")
    return values


def absolute(values: Values, name: str) -> Values:
    """A mean absolute error of probabilities, or a distance of maps, is in [0, 1]."""
    return possible(values, name, low=0.0)


def signed(values: Values, name: str) -> Values:
    """A difference of probabilities or frequencies, a bias or a correlation is in [-1, 1]."""
    return possible(values, name)


def share(values: Values, name: str) -> Values:
    """A coverage, a size, a power, an accuracy or a p-value is in [0, 1]."""
    return possible(values, name, low=0.0)


def loss(values: Values, name: str) -> Values:
    """A log loss, a Brier score, a duration or a standard error is not negative, and finite."""
    return possible(values, name, low=0.0, high=float(np.finfo(np.float64).max))


def count(values: Values, name: str) -> Values:
    """A number of rows, runs or files is whole and not negative."""
    numbers = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(numbers) & (numbers >= 0.0) & (numbers == np.round(numbers))).all():
        raise ImpossibleFigure(f"{name} must be whole and not negative")
    return values


def square(squares: npt.ArrayLike, absolutes: npt.ArrayLike, name: str, slack: float = _SLACK) -> None:
    """A mean squared error of probabilities is at most the mean absolute error, since errors are at most 1."""
    greater = np.asarray(squares, dtype=np.float64) > np.asarray(absolutes, dtype=np.float64) + slack
    if greater.any():
        raise ImpossibleFigure(f"{name}: {greater.sum()} mean squares are larger than the mean absolute errors")


def ranks(means: npt.ArrayLike, name: str, slack: float = 1e-6) -> None:
    """Mean ranks of m contenders, ties sharing a rank, are in [1, m] and sum to m (m + 1) / 2."""
    values = np.asarray(means, dtype=np.float64)
    m = len(values)
    possible(values, name, low=1.0 - slack, high=m + slack)
    if abs(values.sum() - m * (m + 1) / 2) > slack * m:
        raise ImpossibleFigure(f"{name}: {m} ranks sum to {values.sum():g}, not to {m * (m + 1) / 2:g}")


def wins(rates: npt.ArrayLike, name: str) -> None:
    """Win rates of all contenders of a board, a tie counting half, have the mean 1/2."""
    mean = float(np.mean(np.asarray(rates, dtype=np.float64)))
    if abs(mean - 0.5) > _PRINTED:
        raise ImpossibleFigure(f"{name}: win rates have the mean {mean:g}, not 0.5")


def ordered(low: npt.ArrayLike, high: npt.ArrayLike, name: str) -> None:
    """The lower end of an interval or quantile is at most the upper end."""
    if (np.asarray(low) > np.asarray(high) + _SLACK).any():
        raise ImpossibleFigure(f"{name}: a lower end is above its upper end")


@dataclass(frozen=True)
class LawColumn:
    """A law for the columns of a page: regular expressions of its name, the section and the head; and the unit.

    The section is the heading above a table, or the head of its first column.

    With ``first``, only the first number of a cell obeys the law.
    """

    page: str
    section: str
    head: str
    law: Callable[[npt.NDArray[np.float64], str], object]
    unit: float = 1.0
    first: bool = False

    def holds_for(self, page: str, table: PageTable, head: str) -> bool:
        """Whether this column of a table obeys the law."""
        here = any(_matches(self.section, text) for text in (table.section, table.head[0]))
        return here and _matches(self.page, page) and _matches(self.head, head)


_ALL = ".*"
_COUNTS = (
    r"n|runs|fits|refused|K|classes|samples|files|steps|jobs|count|violations|requests|failures|wrong versions|tied|"
    r"clipped|moved|epoch|segments|connections|events|expected events of|repetitions|with changed clocks|above goal"
)
_SHAPES = r"square|sqrt|beta1|beta2|stairs|mean"
#: The first number of these columns counts on every page; the other rules are those of a page.
COLUMNS = (
    LawColumn(_ALL, _ALL, _COUNTS, count, first=True),
    LawColumn("(?!peers).*", _ALL, "rows", count, first=True),
    LawColumn(_ALL, _ALL, r".*(standard error|s\.e\.|median|p95|p99|seconds|, s|, ms|peak|MB).*", loss),
    LawColumn("interval-coverage", "Fitted calibration errors", r"ece-.*", share),
    LawColumn("interval-coverage", "(One|Class).*", r".*n = .*", share),
    LawColumn("interval-coverage", "Gaps.*", r"error .*", share),
    LawColumn("clusters", _ALL, r"(calibrated|distorted|clusters|without).*", share),
    LawColumn("clinical|decision-curves", _ALL, r".*rows.*%|`.*`", share),
    LawColumn("weights", _ALL, r".* samples", share),
    LawColumn("calibration-test", _ALL, r"smooth-test|ks|n = .*", share),
    LawColumn("comparison-error", _ALL, r"false difference.*|holm|joint coverage.*", share),
    LawColumn("conformal-coverage", _ALL, r"expected|mean coverage", share),
    LawColumn("conformal-coverage|find-segments", _ALL, r"p-value|share|family-wise error|search|oracle|split", share),
    LawColumn("alarms", "False alarms", r"alpha = .*", share),
    LawColumn("change-time", _ALL, "coverage", share),
    LawColumn("distributions", "(Size|Coverage).*", r"(?!forecasts).*", share, 0.01),
    LawColumn("flusight", _ALL, r".* covers", share),
    LawColumn("exchangeability", _ALL, r"alarms before the change, %|no alarm, %", share, 0.01),
    LawColumn("estimates", _ALL, r"error|floor", absolute),
    LawColumn("estimates", _ALL, r"share with an alarm|accuracy|auroc|f1", share),
    LawColumn("debiased", "`ece`.*", r"bias.*", signed),
    LawColumn("debiased", "`ece`.*", r"root mean.*", absolute),
    LawColumn("dataset-shift", _ALL, r"(?!method|shift|calibration error).*", absolute, 1e-3),
    LawColumn("tables", "F2[012].*", _SHAPES, absolute, 1e-3),
    LawColumn("tables", "F23.*", _SHAPES, signed),
    LawColumn("tables", "By number.*", r"(distance, |error, )?n = .*", signed, 1e-3),
    LawColumn("averaged-order", _ALL, "F2[012]", absolute, 1e-3),
    LawColumn("averaged-order", _ALL, "F23", signed),
    LawColumn("early-stopping", _ALL, r"distance of the map|error of the calibration error", absolute, 1e-3),
    LawColumn("pseudo-real", _ALL, r"accuracy|mean confidence", share),
    LawColumn("pseudo-real", _ALL, r"CE, .*", absolute, 1e-3),
    LawColumn("by-size", ".*Figure (5|7, first).*", r"[\d,]+", absolute),
    LawColumn("by-size", ".*Figure (6|7, second).*", r"[\d,]+", signed),
    LawColumn("revisiting", r"ECE (before|after).*", r"severity \d", absolute),
    LawColumn("arena", _ALL, r"(log loss|Brier), wins %|strict %|of the board's|harm [ab] %", share, 0.01),
    LawColumn("arena", "#", r"(log loss|Brier), wins %", wins, 0.01),
    LawColumn("arena|splines", _ALL, "ECE", share, first=True),
    LawColumn("real-data", _ALL, r"identity|platt|beta|isotonic|pl|pl3|averaged", loss),
    LawColumn("classifier", _ALL, r"(log loss|Brier): .*", loss),
    LawColumn("calibrators", "(Brier|ECE|KS).*", r"(?!method).*", loss),
    LawColumn("optimality", "(Convex|Separable|Logits).*", r"(n = |times |as prob).*", loss),
    LawColumn("optimality", "PL and PL3", r"lowest.*", share),
    LawColumn("optimality", "PL and PL3", r"(mean|largest) excess.*", loss),
)
#: Sections of mean absolute errors, and of squares in the same unit: every cell of the second is at most the first's.
SQUARES = (
    ("tables", r"F21.*", r"F22.*"),
    ("by-size", r"(.*), Figure 5: measures", r"(.*), Figure 7, first row.*"),
)
_COMPARED = rf"{_SHAPES}|[\d,]+"
_SQUARED_COLUMNS = (("averaged-order", "F21", "F22"),)
#: Sections of pages with mean ranks that must sum, if all contenders are on the page: by the head of the column.
RANKS = (("pseudo-real", r"Table (3|5|6|8).*", "mean rank"),)


def check_page(name: str, text: str) -> None:
    """Check every table of a page.

    Raises
    ------
    ImpossibleFigure
        With the page, the section, the column and the law.
    """
    parts = list(tables(text))
    for table in parts:
        for place, head in enumerate(table.head):
            for rule in COLUMNS:
                if rule.holds_for(name, table, head):
                    _check_column(rule, name, table, place)
            _check_intervals(f"{name}, {table.section}, {head}", [row[place] for row in table.rows])
        _check_table(name, table)
    for page, first, second in SQUARES:
        if page == name:
            _check_squares(name, parts, first, second)


def _check_intervals(about: str, cells: Sequence[str]) -> None:
    for cell in cells:
        if interval := _INTERVAL.fullmatch(cell.rpartition(" (")[2] or cell):
            low, high = (float(end.replace(",", "")) for end in interval.groups())
            ordered(low, high, f"{about}, {cell}")


def _check_table(name: str, table: PageTable) -> None:
    for page, small, large in _SQUARED_COLUMNS:
        if page == name and {small, large} <= set(table.head):
            squares, absolutes = (
                _numbers([row[table.head.index(head)] for row in table.rows]) for head in (large, small)
            )
            square(squares, absolutes, f"{name}, {table.section}")
    for page, section, row in RANKS:
        if page == name and _matches(section, table.section):
            _check_ranks(f"{name}, {table.section}", table, row)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _numbers(cells: Sequence[str]) -> list[float]:
    return [numbers[0].value if (numbers := figures(cell)) else np.nan for cell in cells]


def _check_column(rule: LawColumn, name: str, table: PageTable, place: int) -> None:
    if lost := [row[place] for row in table.rows if re.search(r"(?i)\b(nan|inf)\b", row[place])]:
        raise ImpossibleFigure(f"{name}, {table.section}, {table.head[place]}: {lost[0]} is no number")
    # A percentage obeys a law for shares as it is printed.
    cells = [[x.value * (0.01 if x.percent else rule.unit) for x in figures(row[place])] for row in table.rows]
    values = [value for cell in cells for value in (cell[:1] if rule.first else cell)]
    about = f"{name}, {table.section}, {table.head[place]}"
    law = (rule.law.__doc__ or "").partition("\n")[0]
    try:
        rule.law(np.array(values, dtype=np.float64), about)
    except ImpossibleFigure as error:
        raise ImpossibleFigure(f"{error}. {law}") from None


def _check_squares(name: str, parts: Sequence[PageTable], absolutes: str, squares: str) -> None:
    """Compare two sections row by row; both have the same columns, and a group of the patterns names the pair."""
    by_group: dict[tuple[str | None, ...], PageTable] = {}
    for table in parts:
        if match := re.fullmatch(absolutes, table.section):
            by_group.setdefault(match.groups(), table)
    for table in parts:
        match = re.fullmatch(squares, table.section)
        if not match or match.groups() not in by_group:
            continue
        first = by_group[match.groups()]
        rows = {row[0]: row for row in first.rows}
        heads = [head for head in first.head[1:] if head in table.head and re.fullmatch(_COMPARED, head)]
        for row in table.rows:
            if row[0] in rows:
                pairs = [(row[table.head.index(h)], rows[row[0]][first.head.index(h)]) for h in heads]
                both = [(small[0], large[0]) for a, b in pairs if (small := figures(a)) and (large := figures(b))]
                # As large and as small as the printed digits allow.
                least, most = [x.value - x.half for x, _ in both], [x.value + x.half for _, x in both]
                square(least, most, f"{name}, {table.section}, {row[0]}")


def _check_ranks(about: str, table: PageTable, row: str) -> None:
    for cells in table.rows:
        if cells[0] == row:
            means = _numbers(cells[1:])
            # Printed with one digit, so that the sum is off by at most half of it for each.
            if not np.isnan(means).any():
                ranks(means, about, slack=0.05)
