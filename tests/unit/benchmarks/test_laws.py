"""No page has a figure that cannot be what it is called."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks import laws
from benchmarks.laws import ImpossibleFigure, check_page, possible
from benchmarks.markdown import CellFigure, PageTable, figures, tables
from benchmarks.provenance import ROOT

PAGES = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))
#: Pages whose tables are in thousandths.
THOUSANDTHS = [page for page in PAGES if "thousandths" in page.read_text("utf-8").partition("\n## ")[0]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_figures_of_a_page_obey_the_laws_of_their_columns(page: object) -> None:
    assert isinstance(page, type(ROOT))
    check_page(page.stem, page.read_text("utf-8"))


@pytest.mark.parametrize("page", THOUSANDTHS, ids=lambda page: page.stem)
def test_no_table_of_thousandths_has_a_larger_error_than_1(page: object) -> None:
    assert isinstance(page, type(ROOT))
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    numbers = [float(text) for line in rows for text in re.findall(r"(?<![\d.,])\d+\.\d\d(?!\d)", line)]
    assert max(numbers, default=0.0) <= 1000.0


@pytest.mark.parametrize("figure", [1.03599, -1.1, float("nan"), np.array([0.2, np.inf])])
def test_an_impossible_figure_is_refused(figure: float) -> None:
    with pytest.raises(ImpossibleFigure, match=r"distance must be in \[-1, 1\]"):
        possible(figure, "distance")


def test_possible_figures_are_unchanged() -> None:
    assert possible(0.5, "ECE", low=0.0) == 0.5
    with pytest.raises(ImpossibleFigure):
        possible(-0.1, "ECE", low=0.0)


@pytest.mark.parametrize(
    ("law", "good", "bad"),
    [
        (laws.absolute, [0.0, 0.3, 1.0], [1.03, -0.01, float("nan")]),
        (laws.signed, [-1.0, 0.0, 1.0], [-1.2, 1.2, float("inf")]),
        (laws.share, [0.0, 0.95, 1.0], [1.001, -0.2]),
        (laws.loss, [0.0, 7.0], [-0.1, float("inf"), float("nan")]),
        (laws.count, [0.0, 3.0, 1e6], [0.5, -1.0, float("nan"), float("inf")]),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_each_law_refuses_each_impossible_number(law: object, good: list[float], bad: list[float]) -> None:
    assert callable(law)
    assert law(np.array(good), "figure") is not None
    for number in bad:
        with pytest.raises(ImpossibleFigure, match="figure"):
            law(np.array([*good, number]), "figure")


@pytest.mark.parametrize(
    ("law", "good", "bad", "message"),
    [
        (laws.square, [[0.04, 0.0], [0.2, 0.0]], [[0.21, 0.0], [0.2, 0.0]], ": 1 mean squares"),
        *((laws.ranks, [[1.5, 1.5, 3.0]], [bad], "") for bad in ([1.0, 2.0, 4.0], [0.5, 2.5, 3.0], [1.5, 1.5, 2.0])),
        (laws.wins, [[0.75, 0.5, 0.25]], [[0.75, 0.65, 0.4]], r": win rates have the mean 0\.6"),
        (laws.ordered, [[0.1, 0.2], [0.1, 0.3]], [[0.4], [0.3]], ""),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_numbers_that_contradict_each_other_are_refused(
    law: Callable[..., object], good: list[list[float]], bad: list[list[float]], message: str
) -> None:
    law(*good, "figure")
    with pytest.raises(ImpossibleFigure, match=f"figure{message}"):
        law(*bad, "figure")


#: A page, a text of it and an impossible number in its place, for every kind of rule.
_PLANTED = (
    ("interval-coverage", r"(\| `ece` \| )0\.\d+", r"\g<1>1.036"),
    ("weights", r"(\| `ece` \| )0\.\d+", r"\g<1>-0.1"),
    ("conformal-coverage", r"90\.04%", "100.04%"),
    ("find-segments", r"\| 1,000 \| 0\.024", "| 1,000.5 | 0.024"),
    ("distributions", r"(normal, n = 300 \| )4\.7", r"\g<1>104.7"),
    ("dataset-shift", r"(\| `platt` \| \**)\d+\.\d", r"\g<1>1010.7"),
    ("tables", r"(\| ES_CV \| )6\.59", r"\g<1>-6.59"),
    ("tables", r"(\| ES_CV \| )0\.81", r"\g<1>7.81"),
    ("by-size", r"(\| ECE \| )0\.0037", r"\g<1>0.0637"),
    ("averaged-order", r"0\.8483", "8.8483"),
    ("early-stopping", r"\| 25\.82 \|", "| 1025.82 |"),
    ("arena", r"\| 78\.7 \|", "| 178.7 |"),
    ("arena", r"\| 78\.7 \|", "| 98.7 |"),
    ("arena", r"\| 76\.6 to 80\.9", "| 86.6 to 80.9"),
    ("alarms", r"\(0\.0025 to 0\.0347\)", "(0.0425 to 0.0347)"),
    ("debiased", r"\+0\.0878", "+1.0878"),
)


@pytest.mark.parametrize(("name", "pattern", "planted"), _PLANTED, ids=lambda case: str(case)[:20])
def test_a_page_with_a_planted_impossible_number_is_refused(name: str, pattern: str, planted: str) -> None:
    text = (ROOT / "docs" / "benchmarks" / f"{name}.md").read_text("utf-8")
    other, count = re.subn(pattern, planted, text, count=1)
    assert count == 1
    with pytest.raises(ImpossibleFigure, match=name):
        check_page(name, other)


def test_mean_ranks_of_a_page_must_sum() -> None:
    page = "## Table 3\n\n| | a | b | c |\n|---|---|---|---|\n| mean rank | 1.5 | 2.0 | {} |\n"
    check_page("pseudo-real", page.format("2.5"))
    with pytest.raises(ImpossibleFigure, match=r"pseudo-real, Table 3: 3 ranks sum to 6\.5"):
        check_page("pseudo-real", page.format("3.0"))


def test_tables_of_a_page_are_read_by_section() -> None:
    text = "# A\n\n| x | y |\n|---|---|\n| 1 | a \\| b |\n\n## B\n| z |\n|---|\n| 2 |\n"
    assert list(tables(text)) == [
        PageTable("A", ("x", "y"), (("1", "a \\| b"),)),
        PageTable("B", ("z",), (("2",),)),
    ]


@pytest.mark.parametrize(
    ("cell", "expected_figures"),
    [
        ("**0.1640**", [CellFigure(0.164, 0.00005)]),
        ("96.8%", [CellFigure(96.8, 0.05, percent=True)]),
        ("1,174", [CellFigure(1174.0, 0.5)]),
        ("1.2e-04 (3e-03)", [CellFigure(0.00012, 0.000005), CellFigure(0.003, 0.0005)]),
        ("+0.0002 (0.0011)", [CellFigure(0.0002, 0.00005), CellFigure(0.0011, 0.00005)]),
        ("`iop-2`", []),
        ("-", []),
    ],
)
def test_numbers_of_a_cell_are_read_with_their_precision(cell: str, expected_figures: list[CellFigure]) -> None:
    for figure, expected in zip(figures(cell), expected_figures, strict=True):
        assert figure.value == pytest.approx(expected.value)
        assert figure.half == pytest.approx(expected.half)
        assert figure.percent == expected.percent
