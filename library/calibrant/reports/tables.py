"""The tables of a report, and what each measure means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.measures.catalogue import MEASURES
from calibrant.reports import lookup, numbers
from calibrant.reports.panel import ReportSubject
from calibrant.reports.regions import error_interval
from calibrant.reports.text import cleaned

# --- The meaning of each measure for readers who are new to it

#: By the measure's name; the catalogue's definition stands for those that are not here.
MEANINGS: Mapping[str, tuple[str, str]] = {
    "ece": (
        "Expected calibration error",
        "How far the label share lies from the prediction, on average over bins of rows; 0 is perfect. The debiased "
        "value leaves out what chance alone adds.",
    ),
    "ece-sweep": (
        "Calibration error, bins by the sweep",
        "The same with as many bins as keep label shares rising with predictions.",
    ),
    "ece-isotonic": (
        "Calibration error by an isotonic fit",
        "Mean distance between the predictions and the best rising curve through the labels; needs no bins.",
    ),
    "ece-platt": (
        "Calibration error by a logistic fit",
        "Mean distance between the predictions and the best logistic curve through the labels.",
    ),
    "mce": ("Maximum calibration error", "The largest distance of any bin; a few unlucky rows are enough to raise it."),
    "rmsce": ("Root mean squared calibration error", "As the calibration error, but large distances count for more."),
    "ks": (
        "Kolmogorov-Smirnov error",
        "The largest difference between predicted and true events added up from the lowest prediction; needs no bins. "
        "Errors of both signs cancel in part.",
    ),
    "ks-end": (
        "Mean label less mean prediction",
        "Whether predictions are too high (below 0) or too low (above 0) overall.",
    ),
    "kuiper": ("Kuiper error", "As the Kolmogorov-Smirnov error, wherever on the axis the difference lies."),
    "smooth-ece": (
        "Smooth calibration error",
        "The calibration error with neighbouring predictions smoothed instead of binned; no bins to choose.",
    ),
    "smooth-test": (
        "Smooth test of calibration",
        "The p-value is how often calibrated predictions would look at least this wrong. The value itself has no unit.",
    ),
    "confidence-gap": (
        "Mean confidence less accuracy",
        "Above 0 the model is surer than it is right; errors of both signs cancel.",
    ),
    "optimal-temperature": (
        "Temperature of least log loss",
        "Above 1 predictions are too extreme, below 1 too timid; 1 needs no change. Dividing logits by it is the "
        "simplest repair.",
    ),
    "log-loss": (
        "Log loss (nats)",
        "A proper score: honest probabilities have the least. It counts calibration and discrimination, and punishes "
        "certainty that was wrong most of all.",
    ),
    "brier": (
        "Brier score",
        "Mean squared distance from the labels, a proper score: honest probabilities have the least.",
    ),
    "root-brier": ("Root Brier score", "The root of the Brier score, on the scale of probabilities."),
    "decomposition": (
        "Miscalibration part of the score",
        "The share of the proper score that a recalibration could take away.",
    ),
    "accuracy": ("Accuracy", "Share of right decisions; recalibration hardly changes it."),
    "auroc": (
        "Area under the ROC curve",
        "How well predictions rank events above the rest: 0.5 not at all, 1 perfectly. Calibration is no part of it.",
    ),
}


def column(key: str, definition: Mapping[str, Any]) -> str:
    """The title of a measure over a column, with its key where that is another."""
    name = str(definition.get("name", key))
    title = meaning(name)[0]
    return title if key == name else f"{title} ({key})"


def meaning(name: str) -> tuple[str, str]:
    """Title and meaning of a measure."""
    if name in MEANINGS:
        return MEANINGS[name]
    entry = MEASURES.get(name)
    return (name, "") if entry is None else (entry.title, entry.definition)


# --- Tables of measures, groups and facts, as text

#: So many groups stand in the table, those of the largest errors; the rest are counted.
MOST_GROUPS = 50


@dataclass(frozen=True)
class Measured:
    """A row of the measures: texts, empty where there is nothing to say. ``after`` is the value after the map."""

    key: str
    title: str
    meaning: str
    value: str
    debiased: str
    interval: str
    p_value: str
    after: str
    after_interval: str
    problem: str


def measured(report: Mapping[str, Any]) -> list[Measured]:
    """The measures in the order of the request."""
    later = (report.get("after") or {}).get("measures", {})
    alike, alike_later = _alike(report), _alike(report.get("after"))
    return [
        _measured(key, answer, later.get(key), alike=key in alike, alike_later=key in alike_later)
        for key, answer in report["measures"].items()
    ]


def _alike(side: Mapping[str, Any] | None) -> set[str]:
    """The keys of the measures for whose interval the rows are too alike."""
    if side is None:
        return set()
    error = lookup.measure(side, "ece", norm=1)
    keys = {key for key, answer in side["measures"].items() if lookup.too_alike(answer)}
    if error is not None and error_interval(side) is None:
        keys |= {key for key, answer in side["measures"].items() if answer is error and answer.get("interval")}
    return keys


def _measured(
    key: str, answer: Mapping[str, Any], later: Mapping[str, Any] | None, *, alike: bool, alike_later: bool
) -> Measured:
    name = str(answer["definition"].get("name", key))
    title, text = meaning(name)
    problem = answer.get("problem") or ("no interval: the rows are too alike for one" if alike else "")
    return Measured(
        key,
        title,
        text,
        _value(answer),
        "" if answer.get("debiased") is None else numbers.number(answer["debiased"]),
        "" if alike else numbers.interval(lookup.interval(answer)),
        chance(answer.get("p_value")),
        "" if later is None else _best(later),
        "" if later is None or alike_later else numbers.interval(lookup.interval(later)),
        # A test has no interval: nothing is missing.
        "" if problem.startswith("no interval") and answer.get("p_value") is not None else problem,
    )


def chance(p: float | None) -> str:
    """A p-value as the cell of a table; empty for None."""
    return "" if p is None else numbers.p_value(p).removeprefix("p ").removeprefix("= ")


def _value(answer: Mapping[str, Any]) -> str:
    return "" if answer["value"] is None else numbers.number(answer["value"])


def _best(answer: Mapping[str, Any]) -> str:
    if answer.get("debiased") is not None:
        return numbers.number(answer["debiased"])
    return _value(answer)


@dataclass(frozen=True)
class GroupRow:
    """A row of the subgroups: its cells by measure, a value and its interval each."""

    name: str
    n: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GroupTable:
    """The subgroups: ``columns`` are titles of measures, ``gaps`` a sentence each; ``hidden`` are not in the table."""

    columns: list[str]
    rows: tuple[GroupRow, ...]
    gaps: tuple[str, ...]
    hidden: int


def grouped(report: Mapping[str, Any]) -> GroupTable | None:
    """The groups, the largest error first; None where there are none."""
    groups = report.get("groups")
    if not groups:
        return None
    keys = list(next(iter(groups.values()))["measures"])
    ranked = sorted(groups.items(), key=lambda item: -_size(item[1]["measures"].get(keys[0])))
    rows = tuple(
        GroupRow(cleaned(name), numbers.count(group["n"]), tuple(cell(group["measures"].get(key)) for key in keys))
        for name, group in ranked[:MOST_GROUPS]
    )
    columns = [column(key, answer["definition"]) for key, answer in next(iter(groups.values()))["measures"].items()]
    seen, level = report.get("gaps") or {}, lookup.level(report)
    gaps = tuple(_gap(title, seen[key], level) for title, key in zip(columns, keys, strict=True) if key in seen)
    return GroupTable(columns, rows, gaps, len(ranked) - len(rows))


def _size(answer: Mapping[str, Any] | None) -> float:
    if answer is None or answer["value"] is None:
        return -1.0
    return abs(float(answer["value"] if answer.get("debiased") is None else answer["debiased"]))


def cell(answer: Mapping[str, Any] | None) -> tuple[str, str]:
    """The value of a measure, debiased if there is one, and its interval."""
    if answer is None or answer["value"] is None:
        return "none", ""
    return _best(answer), numbers.interval(lookup.interval(answer))


def _gap(title: str, gap: Mapping[str, Any], level: float) -> str:
    if gap.get("between") is None or gap.get("value") is None:
        return f"{title}: {gap.get('problem') or 'no gap'}."
    low, high = (numbers.listed([name]) for name in gap["between"])
    text = f"{title}: the largest difference is {numbers.number(gap['value'])}, between {low} and {high}"
    ends = lookup.interval(gap)
    text += "" if ends is None else f" ({numbers.level(level)} interval {numbers.interval(ends)})"
    if gap.get("p_value") is None:
        return f"{text}."
    chance = "chance could explain it" if gap["p_value"] >= 0.05 else "chance does not explain it"
    return f"{text}; {chance}, {numbers.p_value(gap['p_value'])}."


def facts(report: Mapping[str, Any], about: ReportSubject) -> list[tuple[str, str]]:
    """What there was to measure: terms and what they are."""
    rows = [("Rows", numbers.count(report["n"])), ("Question", _question(report["reduction"]))]
    if about.classes is not None:
        rows.append(("Classes", f"{len(about.classes)}: {numbers.listed(about.classes, most=10)}"))
    if about.scale == "logit":
        rows.append(("Scale", "the predictions are logits"))
    rows.append(("Weights", about.weights or "none: every row counts once"))
    mended = {
        "left_out": "Left out, rows of other classes",
        "clipped": "Clipped into [0, 1]",
        "renormalised": "Renormalised to a sum of 1",
    }
    rows += [(title, f"{numbers.count(report[key])} rows") for key, title in mended.items() if report.get(key)]
    if report.get("map") is not None:
        rows.append(("Map applied", str(report["map"]) if about.map is None else about.map))
    return rows


def _question(reduction: str) -> str:
    questions = {
        "binary": "how probable is the positive label",
        "confidence": "how probable is it that the predicted class is right",
        "classwise": "how probable is each class, one by one",
        "canonical": "the whole vector of probabilities",
        "pooled": "every probability of every row",
    }
    return f"{questions[reduction]} ({reduction})" if reduction in questions else reduction
