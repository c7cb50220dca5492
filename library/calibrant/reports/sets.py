"""The section of a report about prediction sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.core.results import from_plain_json, n_rows
from calibrant.diagrams.sets import SET_DIAGRAMS
from calibrant.plots.panel import decimal, level_text
from calibrant.plots.sets import draw_sets
from calibrant.reports.figures import WIDTH, Figure, figure
from calibrant.reports.panel import ReportSubject
from calibrant.sets.evaluation import MOST_SHOWN, SetEvaluation, StratumCoverage, lowest

_IN_SAMPLE = "The set map was fitted to these rows, so this coverage says nothing about new rows."


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
    evaluation = from_plain_json(SetEvaluation, report["sets"])
    figures = [
        figure(name, draw_sets(evaluation, name, name=about.name, width=WIDTH), caption)
        for name, caption in SET_DIAGRAMS.items()
    ]
    whole = StratumCoverage(
        "all rows", evaluation.n, evaluation.coverage, evaluation.low, evaluation.high, evaluation.mean_size
    )
    rows = [_row("", whole)]
    for kind, strata in (
        ("size ", evaluation.by_size),
        ("group ", evaluation.by_group),
        ("class ", evaluation.by_class),
    ):
        rows += [_row(kind, row) for row in lowest(strata, MOST_SHOWN)]
    return SetSection(_sentences(evaluation), figures, level_text(evaluation.level), rows)


def _row(kind: str, row: StratumCoverage) -> tuple[str, str, str, str, str]:
    interval = f"{decimal(row.low)} to {decimal(row.high)}"
    return f"{kind}{row.name}", f"{row.n:,}", decimal(row.coverage), interval, decimal(row.mean_size)


def _sentences(evaluation: SetEvaluation) -> list[str]:
    interval = f"{level_text(evaluation.level)} interval {decimal(evaluation.low)} to {decimal(evaluation.high)}"
    sentences = [
        *([_IN_SAMPLE] if evaluation.in_sample else []),
        f"Of {n_rows(evaluation.n)}, {decimal(evaluation.coverage)} have their label in the set ({interval}).",
        f"A set has {decimal(evaluation.mean_size)} classes on average; {evaluation.singletons:.1%} have one class, "
        f"and {evaluation.empty:.1%} none.",
    ]
    if evaluation.alpha is None or evaluation.class_gap is None or evaluation.size_violation is None:
        return sentences
    nominal = 1.0 - evaluation.alpha
    where = (
        "below" if evaluation.high < nominal else "above" if evaluation.low > nominal else "not clearly different from"
    )
    sentences.insert(len(sentences) - 1, f"The coverage is {where} the nominal {level_text(nominal)}.")
    chance = evaluation.class_gap_by_chance
    of_chance = "" if chance is None else f"; it would be {decimal(chance)} by chance if every class had this coverage"
    return [
        *sentences,
        f"The coverage of classes is {decimal(evaluation.class_gap)} from the nominal one on average{of_chance}.",
        f"The coverage of sets of {evaluation.violating_sizes} classes is {decimal(evaluation.size_violation)} from "
        "the nominal one, the most of all strata of sizes.",
    ]
