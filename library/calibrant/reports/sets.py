"""The section of a report about prediction sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.core.results import n_rows
from calibrant.plots.panel import decimal, level_text
from calibrant.plots.sets import draw_sets
from calibrant.reports.figures import WIDTH, Figure, figure
from calibrant.reports.panel import ReportSubject
from calibrant.sets.evaluation import MOST_SHOWN, SetEvaluation, StratumCoverage, lowest, set_evaluation

_IN_SAMPLE = "The set map was fitted to these rows, so this coverage says nothing about new rows."
_CAPTIONS = {
    "set-coverage": "Share of the sets that have the label of their row, of all rows, by size of the set, group and "
    "class, with pointwise intervals. Sets that promise only marginal coverage may have another one in each part.",
    "set-sizes": "How many classes the sets have: fewer are more useful at the same coverage.",
}


@dataclass(frozen=True)
class SetSection:
    """Sentences, figures, and the rows of the table: name, rows, coverage with its interval, and mean size."""

    sentences: list[str]
    figures: list[Figure]
    level: str
    rows: list[tuple[str, str, str, str, str]]


def set_section(report: Mapping[str, Any], about: ReportSubject) -> SetSection | None:
    """Return the section of a report with ``sets``, else None."""
    if report.get("sets") is None:
        return None
    found = set_evaluation(report["sets"])
    figures = [
        figure(name, draw_sets(found, name, name=about.name, width=WIDTH), caption)
        for name, caption in _CAPTIONS.items()
    ]
    whole = StratumCoverage("all rows", found.n, found.coverage, found.low, found.high, found.mean_size)
    rows = [_row("", whole)]
    for kind, strata in (("size ", found.by_size), ("group ", found.by_group), ("class ", found.by_class)):
        rows += [_row(kind, row) for row in lowest(strata, MOST_SHOWN)]
    return SetSection(_sentences(found), figures, level_text(found.level), rows)


def _row(kind: str, row: StratumCoverage) -> tuple[str, str, str, str, str]:
    interval = f"{decimal(row.low)} to {decimal(row.high)}"
    return f"{kind}{row.name}", f"{row.n:,}", decimal(row.coverage), interval, decimal(row.mean_size)


def _sentences(found: SetEvaluation) -> list[str]:
    interval = f"{level_text(found.level)} interval {decimal(found.low)} to {decimal(found.high)}"
    sentences = [
        *([_IN_SAMPLE] if found.in_sample else []),
        f"Of {n_rows(found.n)}, {decimal(found.coverage)} have their label in the set ({interval}).",
        f"A set has {decimal(found.mean_size)} classes on average; {found.singletons:.1%} have one class, and "
        f"{found.empty:.1%} none.",
    ]
    if found.alpha is None or found.class_gap is None or found.size_violation is None:
        return sentences
    nominal = 1.0 - found.alpha
    where = "below" if found.high < nominal else "above" if found.low > nominal else "not clearly different from"
    sentences.insert(len(sentences) - 1, f"The coverage is {where} the nominal {level_text(nominal)}.")
    chance = found.class_gap_by_chance
    of_chance = "" if chance is None else f"; it would be {decimal(chance)} by chance if every class had this coverage"
    return [
        *sentences,
        f"The coverage of classes is {decimal(found.class_gap)} from the nominal one on average{of_chance}.",
        f"The coverage of sets of {found.violating_sizes} classes is {decimal(found.size_violation)} from the nominal "
        "one, the most of all strata of sizes.",
    ]
