"""Reports of predictive distributions as HTML: the verdict in words, diagrams, measures, and the recommended map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from calibrant.core.errors import CalibrationError
from calibrant.core.results import n_rows
from calibrant.diagrams.forecasts import (
    DISTRIBUTION_DIAGRAMS,
    drawing_seconds,
    drawn,
    read_distribution_diagrams,
    times_with_weight,
)
from calibrant.distributions import scores
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS, DistributionFitting
from calibrant.distributions.evaluation import read_rows, report_of, seconds_of
from calibrant.distributions.forecast_rows import ForecastRows
from calibrant.distributions.forecasts import FIELDS
from calibrant.distributions.maps.distribution_map import DistributionMap, Support
from calibrant.distributions.maps.scales import ForecastScale
from calibrant.distributions.maps.tables import quantiles_of
from calibrant.distributions.measures import DISTRIBUTION_MEASURES, MeasuredForecasts, read_measure_requests
from calibrant.distributions.pit import ForecastSize
from calibrant.distributions.rows import is_in_sample, refuse_infinite
from calibrant.plots.canvas import Caption
from calibrant.reports import lookup, numbers
from calibrant.reports.advice import Advice, CandidateRow
from calibrant.reports.figures import figures
from calibrant.reports.panel import ReportSubject
from calibrant.reports.reproduction import Reproduction, in_words
from calibrant.reports.tables import MOST_GROUPS, grouped, measured, titled
from calibrant.reports.text import cleaned
from calibrant.reports.verdict import ALPHA, Tone, Verdict

#: Level of all intervals of a report.
LEVEL = 0.95
#: Fewer rows give no verdict.
LEAST_ROWS = 100
#: The most rows that maps are compared on; from more, a random sample is drawn.
MOST_ROWS = 20_000

_CALIBRATION = ("quantile-calibration-error", "pit-ks")
#: Scores whose change by a map is reported.
_PROPER = ("crps", "quantile-score", "interval-score")
#: The measures of a report, and those of its groups.
MEASURES: Mapping[str, tuple[str, ...]] = {
    "normal": ("crps", "log-score", "rmse", "coverage", "sharpness", *_CALIBRATION, "variance-ratio"),
    "quantiles": ("quantile-score", "interval-score", "coverage", "sharpness", *_CALIBRATION),
    "samples": ("crps", "rmse", "coverage", "sharpness", *_CALIBRATION),
    "interval": ("interval-score", "coverage", "sharpness", "quantile-calibration-error"),
}
#: The most values of a column ``by`` for which the compared maps have functions of their own.
_MOST_VALUES = 50
#: The measure that a report also has if the rows have a column ``by``.
_BY_COLUMN = {"name": "conditional-coverage", "by": "column"}
#: The compared methods by kind, the simplest first.
COMPARED: Mapping[str, tuple[str, ...]] = {
    "normal": ("location-scale", "std-isotonic", "averaged"),
    "quantiles": ("location-scale", "quantile-recalibration", "averaged"),
    "samples": ("location-scale", "quantile-recalibration", "averaged"),
    "interval": ("location-scale", "conformal", "averaged"),
}
#: Captions of the diagrams, in the order of a report.
CAPTIONS: Mapping[str, str] = {
    "coverage": "Share of outcomes inside central intervals against their level. Below the diagonal, intervals are too "
    "narrow.",
    "pit": "Distribution of the outcomes among the quantiles. Calibrated forecasts are flat; outcomes at both ends "
    "mean intervals that are too narrow, and a slope means forecasts that are too high or too low.",
    "quantile-reliability": "Share of outcomes that are at most each quantile. Below the diagonal, the quantile is too "
    "low.",
    "mean-variance": "Mean squared error of rows with similar predicted variances. Above the diagonal, errors are "
    "larger than predicted.",
    "sharpness": "Mean width of intervals against the share of outcomes inside; rings are at the promised level. Of "
    "two models, the lower curve is better.",
    "fan": "Intervals, medians and outcomes of the last rows, in the order of time.",
}


def measures_of(kind: str, *, by: bool) -> list[str | dict[str, str]]:
    """Return the measures of a report of forecasts of a kind, with or without a column ``by``."""
    return [*MEASURES[kind], *([dict(_BY_COLUMN)] if by else [])]


# --- The document of a report


@dataclass(frozen=True)
class ForecastReport:
    """Options of a full report of forecasts, without the rows; with a map, of the forecasts before and after it.

    ``scale`` and ``support`` are those of the compared maps. ``map_id`` names the map in the document.
    """

    map: DistributionMap | None = None
    seed: int = 0
    scale: ForecastScale = "identity"
    support: Support = (None, None)
    map_id: str | None = None

    def seconds(self, rows: ForecastRows) -> float:
        """Estimate the seconds of ``document``."""
        forecasts = rows.forecasts
        requests = read_measure_requests(measures_of(forecasts.kind, by=rows.by is not None))
        drawn = drawing_seconds(len(DISTRIBUTION_DIAGRAMS), ForecastSize.of(forecasts))
        total = (1 + (self.map is not None)) * (seconds_of(requests, rows) + drawn)
        size = ForecastSize.of(forecasts, MOST_ROWS)
        compared = () if self.map is not None else COMPARED[forecasts.kind]
        return total + sum(DISTRIBUTION_METHODS[method].seconds(size) for method in compared)

    def document(self, rows: ForecastRows) -> dict[str, Any]:
        """Return the report as plain JSON.

        The fields are those of ``DistributionReport.to_dict``, with ``diagrams``, ``intervals`` (the coverage, and the
        factor that corrects it), and either ``after`` and ``in_sample``, or ``recommendation``.
        """
        if self.map is None:
            several = rows.by is not None and len(set(rows.by)) <= _MOST_VALUES
            compared = rows if several else replace(rows, by=None)
            return self._side(rows) | {"recommendation": self.recommendation(compared)}
        before, after = rows.forecasts, self.map.apply_checked(rows.forecasts, by=rows.by, seed=self.seed)
        refuse_infinite(after)
        if after.kind != before.kind and after.kind == "quantiles":  # so that scores are comparable
            before = quantiles_of(before.quantile(after.levels), after.levels)
        earlier, later = (self._side(replace(rows, forecasts=forecasts)) for forecasts in (before, after))
        for name, group in (earlier["groups"] or {}).items():
            group["after"] = {"measures": later["groups"][name]["measures"]}
        in_sample = is_in_sample(self.map, rows)
        map_id = self.map.method if self.map_id is None else self.map_id
        return earlier | {"after": {**later, "groups": None}, "in_sample": in_sample, "map": map_id}

    def _side(self, unchecked: ForecastRows) -> dict[str, Any]:
        rows, names = read_rows(unchecked, interval=LEVEL, seed=self.seed)
        requests = read_measure_requests(measures_of(unchecked.forecasts.kind, by=unchecked.by is not None))
        shown = times_with_weight(unchecked.times, unchecked.weights)
        drawn_without = {"fan"} if unchecked.times is None else set()
        pictures = read_distribution_diagrams([name for name in DISTRIBUTION_DIAGRAMS if name not in drawn_without])
        plain = replace(rows, level=None, by=None)
        diagrams = {request.key: drawn(request, plain, shown) for request in pictures}
        return report_of(rows, names, requests).to_dict() | {"diagrams": diagrams, "intervals": widening(rows)}

    def recommendation(self, rows: ForecastRows) -> dict[str, Any]:
        """Compare maps by their cross-fitted gain, and recommend the simplest that is about as good as the best.

        A map is recommended if its gain is above 0 by a one-sided test at 2.5 %, corrected for the number of maps, and
        at most one standard error below the largest gain; otherwise ``identity``. Rows of a cluster are in one fold.
        """
        if len(rows) > MOST_ROWS:
            random, chosen = np.random.default_rng(self.seed), np.zeros(len(rows), np.bool_)
            chosen[random.choice(len(rows), MOST_ROWS, replace=False)] = True
            rows = replace(rows, observed=np.asarray(rows.observed)).taken(chosen)
        kind = rows.forecasts.kind
        own: dict[str, Any] = {} if kind == "normal" else {"support": self.support, "scale": self.scale}
        candidates: list[dict[str, Any]] = []
        for method in COMPARED[kind]:
            try:
                fitting = DistributionFitting.read(method, {}, seed=self.seed, **own)
                fitted = fitting.run(fitting.check(rows))
                candidates.append({"method": method, "gain": fitted.diagnostics.get("held_out_gain"), "problem": None})
            except CalibrationError as error:
                candidates.append({"method": method, "gain": None, "problem": error.detail})
        z = float(ndtri(1.0 - 0.025 / len(candidates)))
        known = [candidate for candidate in candidates if candidate["gain"] is not None]
        proven = [
            candidate for candidate in known if candidate["gain"]["gain"] > z * candidate["gain"]["standard_error"]
        ]
        best = max(proven, key=lambda candidate: float(candidate["gain"]["gain"]), default=None)
        recommended = "identity"
        if best is not None:
            least = best["gain"]["gain"] - best["gain"]["standard_error"]
            recommended = next(candidate["method"] for candidate in proven if candidate["gain"]["gain"] >= least)
        options = {"scale": self.scale} if self.scale != "identity" and kind != "normal" else {}
        bounded = any(end is not None for end in self.support)
        return {
            "recommended": recommended,
            "n": len(rows),
            "z": z,
            "candidates": candidates,
            "options": options | ({"support": list(self.support)} if bounded else {}),
            "by": rows.by is not None,
            "clusters": rows.clusters is not None,
        }


def widening(rows: MeasuredForecasts) -> dict[str, Any] | None:
    """Return the level of the central intervals and the ``factor`` that makes them cover as often as promised.

    The factor multiplies the distance of each end from the median, or from the middle of an interval. Also the share of
    outcomes ``above`` the median. None if no two levels are symmetric.
    """
    forecasts, y = rows.forecasts, rows.y
    try:
        level = scores.level_of(forecasts)
        low, high = scores.central(forecasts, level)
    except CalibrationError:
        return None
    has_median = forecasts.kind != "interval"
    middle = forecasts.quantile(np.array([0.5]))[:, 0] if has_median else 0.5 * (low + high)
    w = np.ones(len(y)) if rows.w is None else rows.w
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(y >= middle, (y - middle) / (high - middle), (middle - y) / (middle - low))
    ratio = np.where(y == middle, 0.0, ratio)
    order = np.argsort(ratio, kind="stable")
    at = int(np.searchsorted(np.cumsum(w[order]), level * w.sum() * (1.0 - 1e-12)))
    factor = float(ratio[order][min(at, len(y) - 1)])
    above = float(w @ ((y > middle) + 0.5 * (y == middle)) / w.sum()) if has_median else None
    return {"level": level, "factor": factor if np.isfinite(factor) and factor > 0.0 else None, "above": above}


# --- The verdict in words


def verdict(side: Mapping[str, Any], *, in_sample: bool = False) -> Verdict:
    """Return the verdict on one side of a report; ``in_sample`` if a map was fitted to these rows."""
    n, intervals = side["n"], side["intervals"]
    test = side["measures"]["quantile-calibration-error"]
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


def report_options(kind: str, columns: Sequence[str], seed: int) -> dict[str, Any]:
    """Return the options of a ``ReportSubject`` of rows with these ``columns``."""
    return {
        "prediction_kind": "regression",
        "kind": kind,
        "columns": [name for name in ("weights", "groups", "clusters", "by") if name in columns],
        "measures": measures_of(kind, by="by" in columns),
        "interval": LEVEL,
        "seed": seed,
    }


_FILE = {"weights": "rows.weights", "groups": "rows.groups", "clusters": "rows.clusters", "by": "rows.by"}


def _arguments(about: ReportSubject) -> list[str]:
    """Return the forecasts, and the other columns that the report used, as arguments."""
    fields = FIELDS[about.options["kind"]]
    own = [f"{name}=rows.forecasts.{name}" if about.loading else f"{name}={name}" for name in fields]
    used = [name for name in _FILE if name in about.options["columns"]]
    kind = [] if about.weights is None else [f"weights_kind={about.weights!r}"]
    return [*own, *(f"{name}={_FILE[name] if about.loading else name}" for name in used), *kind]


def _python(about: ReportSubject) -> list[str]:
    lines = list(about.loading) or ["import calibrant", ""]
    observed = "rows.observed" if about.loading else "observed"
    arguments = _arguments(about)
    measures = about.options["measures"]
    call = [
        "report = calibrant.evaluate_distribution(",
        f"    {observed},",
        *(f"    {argument}," for argument in arguments),
    ]
    options = [f"    measures={measures!r},", f"    interval={LEVEL},", f"    seed={about.options['seed']},", ")"]
    after = []
    if about.applying is not None:
        own = [
            argument
            for argument in _arguments(about)
            if argument.split("=")[0] in (*FIELDS[about.options["kind"]], "by")
        ]
        after = [f"fitted = {about.applying}", f"after = fitted.apply({', '.join(own)})"]
    return [*lines, "", *call, *options, *after] if about.loading else [*lines, *call, *options, *after]


def _fitting(report: Mapping[str, Any], about: ReportSubject) -> list[str]:
    recommendation = report.get("recommendation")
    if recommendation is None or recommendation["recommended"] == "identity":
        return []
    observed = "rows.observed" if about.loading else "observed"
    unused = ("groups=",) if recommendation["by"] else ("groups=", "by=")
    used = [argument for argument in _arguments(about) if not argument.startswith(unused)]
    options = [
        f"{name}={tuple(value) if name == 'support' else value!r}" for name, value in recommendation["options"].items()
    ]
    call = [f'fitted = calibrant.fit_distribution("{recommendation["recommended"]}", {observed},']
    return [*about.loading, *([""] if about.loading else []), *call, f"    {', '.join([*used, *options])})"]


# --- HTML


def shown(report: Mapping[str, Any], about: ReportSubject) -> dict[str, Any]:
    """Return the values of the templates that differ from those of classes."""
    after = report.get("after")
    options = {name: value for name, value in about.options.items() if name != "columns"}
    command = [] if about.command is None else [about.command]
    return {
        "verdict": verdict(report),
        "verdict_after": None if after is None else verdict(after, in_sample=report["in_sample"]),
        "improved": _improved(report),
        "advice": advice(report),
        "fitting": _fitting(report, about),
        "figures": figures(report, about, CAPTIONS, _title),
        "measures": measured(report, DISTRIBUTION_MEASURES),
        "groups": grouped(report, DISTRIBUTION_MEASURES, (*_scores(report), _ERROR), _ERROR, _of_groups),
        "coverage_by": _coverage_by(report),
        "facts": _facts(report, about),
        "reproduction": Reproduction(in_words(options), command, [], [], _python(about)),
    }


def _title(report: Mapping[str, Any], side: Mapping[str, Any], _: ReportSubject, name: str | None) -> Caption:
    return Caption(report["n"], side["kind"], name)


#: The measure by which groups are ranked.
_ERROR = "quantile-calibration-error"


def _scores(report: Mapping[str, Any]) -> list[str]:
    """Return the measures of groups beside their calibration error."""
    return [key for key in MEASURES[report["kind"]] if key in (*_PROPER, "coverage")]


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
    kinds = {
        "normal": "means and variances of normal distributions",
        "quantiles": "quantiles",
        "samples": "samples",
        "interval": "central intervals",
    }
    facts = [("Rows", numbers.count(report["n"])), ("Forecasts", kinds[report["kind"]])]
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
