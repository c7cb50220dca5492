"""What a report shows of predictive distributions: the verdict in words, the recommended map, groups and coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.core.results import n_rows
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.distributions.forecasts import FIELDS
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.kinds.distributions import LEVEL, MEASURES
from calibrant.plots.canvas import Caption
from calibrant.reports import lookup, numbers
from calibrant.reports.advice import Advice, CandidateRow
from calibrant.reports.figures import figures
from calibrant.reports.panel import ReportSubject
from calibrant.reports.reproduction import Reproduction, in_words
from calibrant.reports.tables import MOST_GROUPS, grouped, measured, titled
from calibrant.reports.text import cleaned
from calibrant.reports.verdict import ALPHA, Tone, Verdict

#: Fewer rows give no verdict.
LEAST_ROWS = 100
#: The measure of calibration, by which groups are ranked.
_ERROR = "quantile-calibration-error"
#: Scores whose change by a map is reported.
_PROPER = ("crps", "quantile-score", "interval-score")

# --- The verdict in words


def verdict(side: Mapping[str, Any], *, in_sample: bool = False) -> Verdict:
    """Return the verdict on one side of a report; ``in_sample`` if a map was fitted to these rows."""
    n, intervals = side["n"], side["intervals"]
    test = side["measures"][_ERROR]
    p = None if in_sample else test.get("p_value")
    coverage, measure = _coverage(side), side["measures"]["coverage"]
    reasons = []
    if p is not None:
        reasons.append(
            f"The test of all levels together {'rejects' if p < ALPHA else 'does not reject'} calibration "
            f"({numbers.p_value(p)})."
        )
    elif in_sample:
        reasons.append("The map was fitted to these rows, so that no test of calibration is valid.")
    elif test.get("problem"):
        reasons.append(f"There is no test of calibration: {test['problem'].removeprefix('no p-value: ')}.")
    if coverage and measure.get("interval") is not None:
        low, high = measure["interval"]
        reasons.append(
            f"{coverage.capitalize()}; the {numbers.level(LEVEL)} interval of this share is "
            f"{_percent(low)} to {_percent(high)}."
        )
    shifted = _shift(side)
    if shifted:
        reasons.append(f"{shifted}.")
    worst = _worst(side)
    if worst and p is not None and p < ALPHA:
        reasons.append(worst)
    rejected = p is not None and p < ALPHA
    wrong = rejected and intervals is not None and _is_off(side)
    shift = 0.0 if not shifted else abs(intervals["above"] - 0.5)
    mainly_shifted = shift > (abs(measure["value"] - intervals["level"]) if wrong else 0.0)
    if n < LEAST_ROWS and not rejected:
        headline = f"Too few rows for a verdict{f': {coverage}' if coverage else ''}"
    elif p is None:
        headline = f"No verdict{f': {coverage}' if coverage else ''}"
    elif not rejected:
        headline = f"No evidence of miscalibration{f': {coverage}' if coverage else ''}"
    elif mainly_shifted:
        headline = shifted
    elif wrong and coverage:
        headline = f"{coverage}{_correction(intervals)}"
    else:
        headline = f"Calibration rejected{f', although {coverage}' if coverage else ''}"
    tone: Tone = "rejected" if rejected else "unknown" if p is None else "not-rejected"
    return Verdict(
        headline, tone, tuple(reasons), tuple(_decisions(side, tested=p is not None, rejected=rejected, wrong=wrong))
    )


def _coverage(side: Mapping[str, Any]) -> str:
    """Return how often intervals contain the outcome; empty without a coverage."""
    coverage, intervals = side["measures"]["coverage"], side["intervals"]
    if coverage["value"] is None or intervals is None:
        return ""
    return f"{_percent(intervals['level'], 2)} intervals contain {_percent(coverage['value'])} of outcomes"


def _is_off(side: Mapping[str, Any]) -> bool:
    """Whether the interval of the coverage does not contain its level."""
    ends, level = side["measures"]["coverage"].get("interval"), side["intervals"]["level"]
    return ends is not None and not ends[0] <= level <= ends[1]


def _correction(intervals: Mapping[str, Any]) -> str:
    factor = intervals["factor"]
    if factor is None:
        return ""
    text = f"{factor:.2g}" if factor < 10.0 else f"{factor:.0f}"
    return f"; {'widen' if factor > 1.0 else 'narrow'} by {text}" if text != "1" else ""


def _shift(side: Mapping[str, Any]) -> str:
    """Return a sentence if clearly more or fewer than half of the outcomes are above the median; else empty."""
    shown, intervals = side["diagrams"]["quantile-reliability"]["data"], side["intervals"]
    if shown is None or intervals is None or intervals["above"] is None:
        return ""
    at = int(np.argmin(np.abs(np.asarray(shown["levels"]) - 0.5)))
    share = shown["share"][at]
    if abs(shown["levels"][at] - 0.5) > 1e-9 or shown["low"][at] <= share <= shown["high"][at]:
        return ""
    where, what = ("above", "low") if share < 0.5 else ("below", "high")
    return f"The medians are too {what}: {_percent(max(share, 1.0 - share))} of outcomes are {where} them"


def _worst(side: Mapping[str, Any]) -> str:
    shown = side["diagrams"]["quantile-reliability"]["data"]
    if shown is None:
        return ""
    gaps = np.abs(np.asarray(shown["share"]) - shown["levels"])
    at = int(np.argmax(gaps))
    level, share = shown["levels"][at], shown["share"][at]
    return f"The largest error is at level {level:g}: {_percent(share)} of outcomes are at most this quantile."


def _decisions(side: Mapping[str, Any], *, tested: bool, rejected: bool, wrong: bool) -> list[str]:
    sentences = []
    intervals, value = side["intervals"], side["measures"]["coverage"]["value"]
    if wrong and intervals is not None and value is not None:
        missed, planned = round((1.0 - value) * 100), round((1.0 - intervals["level"]) * 100)
        sentences.append(
            f"Of 100 outcomes, about {missed} are outside the {_percent(intervals['level'], 2)} intervals; the "
            f"forecasts promise {planned}. Stocks, reserves or alarms set from the ends of the intervals fail as often."
        )
    elif not rejected and side["n"] < LEAST_ROWS:
        sentences.append("Collect more outcomes before you trust or recalibrate these forecasts.")
    elif tested and not rejected:
        sentences.append("Decisions can use the quantiles as they are.")
    return sentences


def _percent(share: float, digits: int = 0) -> str:
    return f"{100.0 * share:.{digits}f}".rstrip("0").rstrip(".") + " %" if digits else f"{100.0 * share:.0f} %"


# --- Advice on the map


def advice(report: Mapping[str, Any]) -> Advice | None:
    """Return the description of the recommendation of a report; None without one."""
    recommendation = report.get("recommendation")
    if recommendation is None:
        return None
    name, z = recommendation["recommended"], recommendation["z"]
    rows = []
    for candidate in recommendation["candidates"]:
        gain = candidate["gain"]
        note = "recommended" if candidate["method"] == name else candidate["problem"] or ""
        cells = [("", "")] * len(_COLUMNS)
        if gain is not None:
            half = z * gain["standard_error"]
            ends = numbers.interval((gain["gain"] - half, gain["gain"] + half))
            relative = "" if gain.get("relative") is None else _signed_percent(gain["relative"])
            cells = [(gain["score"], ""), (numbers.number(gain["gain"]), ends), (relative, "")]
        rows.append(CandidateRow(candidate["method"], note or ("" if gain else "not compared"), tuple(cells)))
    folded = "rows of a cluster in one fold" if recommendation["clusters"] else "rows as if they were independent"
    reasons = [f"Gains are cross-fitted on {n_rows(recommendation['n'])}, {folded}; intervals are simultaneous."]
    headline = "No map is proven to improve these forecasts"
    if name != "identity":
        best = next(candidate["gain"] for candidate in recommendation["candidates"] if candidate["method"] == name)
        expected = "" if best.get("relative") is None else f", {_signed_percent(best['relative'])}"
        headline = f"Fit {name}: expected gain in the {best['score']} {numbers.number(best['gain'])}{expected}"
        reasons.append("It is the simplest map whose gain is proven and about as large as the largest.")
    return Advice(headline, tuple(reasons), _COMPARED_MAPS, _COLUMNS, tuple(rows))


#: The caption and the columns of the table of compared maps.
_COMPARED_MAPS = "Compared maps by their cross-fitted gain per row; the simultaneous interval is below each gain."
_COLUMNS = ("Score", "Gain", "Relative gain")


def _signed_percent(share: float) -> str:
    return f"{100.0 * share:+.1f} %".replace("-", "\N{MINUS SIGN}")


# --- Code that reproduces the report


def _arguments(about: ReportSubject) -> list[str]:
    """Return the forecasts, and the other columns that the report used, as arguments."""
    where, forecasts = ("rows.", "rows.forecasts.") if about.loading else ("", "")
    own = [f"{name}={forecasts}{name}" for name in FIELDS[about.options["kind"]]]
    kind = [] if about.weights is None else [f"weights_kind={about.weights!r}"]
    return [*own, *(f"{name}={where}{name}" for name in about.options["columns"]), *kind]


def _python(about: ReportSubject) -> list[str]:
    call = ["report = calibrant.evaluate_distribution(", f"    {'rows.' if about.loading else ''}observed,"]
    call += [f"    {argument}," for argument in _arguments(about)]
    call += [f"    measures={about.options['measures']!r},", f"    interval={LEVEL},"]
    call += [f"    seed={about.options['seed']},", ")"]
    if about.applying is not None:
        names = (*FIELDS[about.options["kind"]], "by")
        own = [argument for argument in _arguments(about) if argument.split("=")[0] in names]
        call += [f"fitted = {about.applying}", f"after = fitted.apply({', '.join(own)})"]
    return [*(about.loading or ["import calibrant"]), "", *call]


def _fitting(recommendation: Mapping[str, Any] | None, about: ReportSubject) -> list[str]:
    if recommendation is None or recommendation["recommended"] == "identity":
        return []
    unused = ("groups=",) if recommendation["by"] else ("groups=", "by=")
    used = [argument for argument in _arguments(about) if not argument.startswith(unused)]
    options = recommendation["options"].items()
    used += [f"{name}={tuple(value) if name == 'support' else value!r}" for name, value in options]
    observed = "rows.observed" if about.loading else "observed"
    call = f'fitted = calibrant.fit_distribution("{recommendation["recommended"]}", {observed},'
    return [*about.loading, *([""] if about.loading else []), call, f"    {', '.join(used)})"]


# --- The page


def shown(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    """Return the values of the templates."""
    after, keys = report.get("after"), [key for key in MEASURES[report["kind"]] if key in (*_PROPER, "coverage")]
    options = {name: value for name, value in about.options.items() if name != "columns"}
    command = [] if about.command is None else [about.command]
    return {
        "verdict": verdict(report),
        "verdict_after": None if after is None else verdict(after, in_sample=report["in_sample"]),
        "improved": _improved(report),
        "advice": advice(report),
        "fitting": _fitting(report.get("recommendation"), about),
        "figures": figures(report, about, DISTRIBUTION_DIAGRAMS, _title),
        "measures": measured(report, DISTRIBUTION_MEASURES),
        "groups": grouped(report, DISTRIBUTION_MEASURES, (*keys, _ERROR), _ERROR, _of_groups),
        "coverage_by": _coverage_by(report),
        "facts": _facts(report, about),
        "reproduction": Reproduction(in_words(options), command, [], [], _python(about)),
    }


def _title(report: Mapping[str, Any], side: Mapping[str, Any], _: ReportSubject, name: str | None) -> Caption:
    return Caption(report["n"], side["kind"], name)


def _improved(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sentences on the change of the scores by the map."""
    if report.get("after") is None:
        return ()
    sentences = []
    for name in _PROPER:
        was, now = (side["measures"].get(name) for side in (report, report["after"]))
        if was is None or now is None or was["value"] is None or now["value"] is None:
            continue
        change = _signed_percent(now["value"] / was["value"] - 1.0) if was["value"] > 0.0 else ""
        sentences.append(
            f"{DISTRIBUTION_MEASURES[name].title}: {numbers.number(was['value'])} before, "
            f"{numbers.number(now['value'])} after ({change})."
        )
    if report["in_sample"]:
        sentences.append("These results are in-sample and optimistic.")
    return tuple(sentences)


@dataclass(frozen=True)
class CoverageTable:
    """The coverage by values of a column, as text: sentences on the tests, titles, and rows of names and cells."""

    sentences: tuple[str, ...]
    columns: list[str]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    hidden: int


def _coverage_by(report: Mapping[str, Any]) -> CoverageTable | None:
    """Return the table of coverage by the column ``by``, with bands around the level; None without one."""
    after = report.get("after")
    sides = [("", report)] if after is None else [("before the map", report), ("after the map", after)]
    measures = [(name, side["measures"].get("conditional-coverage")) for name, side in sides]
    known = [(name, measure) for name, measure in measures if measure is not None and measure.get("parts")]
    if len(known) < len(sides):
        return None
    sentences, columns = [], ["Rows"]
    for name, measure in known:
        columns.append(titled("Coverage", name))
        if name.startswith("after") and report["in_sample"]:
            continue  # its test is not valid, as the verdict says
        level, p = measure["definition"]["level"], measure["p_value"]
        what = f"{_percent(level, 2)} intervals {name}".rstrip()
        verb, where = (
            ("differs from", "for some values") if p < ALPHA else ("is not proven to differ from", "for any value")
        )
        sentences.append(f"The coverage of {what} {verb} their level {where} ({numbers.p_value(p)}).")
    parts = [measure["parts"] for _, measure in known]
    rows = []
    for i, value in enumerate(parts[0]["name"]):
        cells = [(numbers.count(parts[0]["rows"][i]), "")]
        for (_, measure), part in zip(known, parts, strict=True):
            level, half = measure["definition"]["level"], part["half_width"][i]
            band = f"{_percent(max(level - half, 0.0))} to {_percent(min(level + half, 1.0))}"
            cells.append((_percent(part["coverage"][i]), f"expected {band}"))
        rows.append((cleaned(value), tuple(cells)))
    return CoverageTable(tuple(sentences), columns, tuple(rows[:MOST_GROUPS]), max(len(rows) - MOST_GROUPS, 0))


def _of_groups(side: lookup.GroupSide) -> tuple[str, ...]:
    """Return a sentence on the groups with the lowest and the highest coverage."""
    coverages = [(measures["coverage"]["value"], name) for name, measures in side.measures.items()]
    known = sorted((value, name) for value, name in coverages if value is not None)
    if len(known) < 2:
        return ()
    (low, first), (high, last) = known[0], known[-1]
    which = f"Coverage {side.name}".rstrip()
    return (
        f"{which} is lowest in {cleaned(first)} ({_percent(low)}) and highest in {cleaned(last)} ({_percent(high)}).",
    )


def _facts(report: Mapping[str, Any], about: ReportSubject) -> list[tuple[str, str]]:
    named = {"normal": "means and variances of normal distributions", "interval": "central intervals"}
    facts = [("Rows", numbers.count(report["n"])), ("Forecasts", named.get(report["kind"], report["kind"]))]
    shown = report["diagrams"]["quantile-reliability"]["data"]
    if report["kind"] == "quantiles" and shown is not None:
        levels = shown["levels"]
        facts.append(("Levels", f"{len(levels)}, from {levels[0]:g} to {levels[-1]:g}"))
    facts.append(("Weights", about.weights or "none"))
    if report["n_repaired"]:
        facts.append(("Sorted, crossing by rounding", n_rows(report["n_repaired"])))
    if about.map is not None:
        facts.append(("Map applied", about.map))
    clustered = "clusters" in about.options.get("columns", ())
    facts.append(("Dependence", "rows of a cluster may depend on each other" if clustered else "rows are independent"))
    return facts
