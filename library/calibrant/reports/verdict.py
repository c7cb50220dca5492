"""The verdict of a report: tests of calibration, headline, reasons, and consequences for decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibrant.measures.hypothesis_tests import LEAST_VARIANCE
from calibrant.measures.intervals import NO_WIDTH
from calibrant.reports import lookup, numbers
from calibrant.reports.regions import (
    Region,
    could_hide,
    direction,
    error_interval,
    find_regions,
    is_shift,
    place,
    region_sentence,
    risk,
    shift_of,
    size,
)


def decisions(
    side: Mapping[str, Any], reduction: str, tone: str, regions: Sequence[Region], hidden: float | None, *, few: bool
) -> tuple[str, ...]:
    """Return sentences on the consequences of a verdict for decisions.

    ``hidden`` is the largest error that the rows cannot exclude; ``few`` is whether there are too few rows for a
    verdict.
    """
    sentences = []
    if regions:
        worst = max(regions, key=lambda region: abs(region.gap) * region.share)
        sentences.append(_hundred(worst, reduction))
    if tone == "rejected" or regions:
        sentences.append(
            "Thresholds and expected costs computed from these probabilities are off by as much. "
            "Decisions that use only the ranking are not affected by miscalibration."
        )
    elif tone == "not-rejected" and few:
        sentences.append("Collect more labelled rows before you trust or recalibrate these predictions.")
    elif tone == "not-rejected" and hidden is not None:
        sentences.append(
            f"A decision that tolerates a mean error of {numbers.bound(hidden)} can use these predictions unchanged; "
            "four times as many rows would about halve this bound."
        )
    elif tone == "unknown":
        sentences.append(
            "Treat this as a description. Before you act on it, evaluate held-out rows, to which neither the model nor "
            "the map was fitted."
        )
    auroc = lookup.value(side, "auroc")
    conclusive = tone == "rejected" or (tone == "not-rejected" and not few)
    if auroc is not None and abs(auroc - 0.5) < 0.05 and conclusive:
        sentences.append(
            "The predictions hardly discriminate between events and non-events; recalibration cannot fix that."
        )
    elif auroc is not None and conclusive and _backwards(lookup.measure(side, "auroc")):
        sentences.append("The predictions rank events below non-events; the labels may be inverted.")
    return tuple(sentences)


def _backwards(auroc: Mapping[str, Any] | None) -> bool:
    """Whether events are clearly ranked below non-events."""
    if auroc is None or auroc["value"] is None:
        return False
    ends = auroc.get("interval")
    return float(auroc["value"] if ends is None else ends[1]) < 0.45


def _hundred(region: Region, reduction: str) -> str:
    """Describe a range by natural frequencies: of 100 rows, or of enough rows to make a difference of one."""
    cases = 100
    while cases < 100_000 and abs(region.gap) * cases < 1.0:
        cases *= 10
    predicted, observed = (round(share * cases) for share in (region.mean_prediction, region.observed_frequency))
    where = "" if region.lowest and region.highest else f" {place(region)}"
    what = "correct decisions" if lookup.of_claims(reduction) else "positives"
    return (
        f"Of {numbers.count(cases)} rows{where}, the predictions imply about {numbers.count(predicted)} {what}; "
        f"about {numbers.count(observed)} are observed."
    )


# --- The tests behind a verdict: overall, by range and by class

#: Calibration is rejected below this p-value.
ALPHA = 0.05

_TITLES = {
    "smooth-test": "The smooth test",
    "ks": "The Kolmogorov-Smirnov test",
    "confidence-gap": "The test of mean confidence against accuracy",
    "ks-end": "The test of mean prediction against observed frequency",
}


@dataclass(frozen=True)
class Tested:
    """The test of the verdict, its p-value, and the p-values of the classes if there are any."""

    name: str
    p_value: float
    of_classes: tuple[float, ...] | None = None

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        verb = "rejects" if self.p_value < ALPHA else "does not reject"
        corrected = "" if self.of_classes is None else ", corrected for the number of classes"
        return f"{_TITLES[self.name]} {verb} calibration ({numbers.p_value(self.p_value)}{corrected})."


def tested(side: Mapping[str, Any]) -> Tested | None:
    """Return the preferred valid test of one side of a report; None if no test was run."""
    order = ["smooth-test", "ks", "confidence-gap", "ks-end"]
    if _few_events(side):
        order = ["ks", *order]
    for name in order:
        answer = lookup.measure(side, name)
        if answer is not None and answer.get("p_value") is not None:
            of_classes = answer.get("parts", {}).get("classes_p_value")
            # A class that cannot be tested is not rejected.
            p_values = None if of_classes is None else tuple(1.0 if p is None else float(p) for p in of_classes)
            return Tested(name, float(answer["p_value"]), p_values)
    return None


def _few_events(side: Mapping[str, Any]) -> bool:
    """Whether too few events are expected for the normal approximation of the smooth test."""
    shown = lookup.diagram(side, "reliability")
    if shown is None:
        return False
    rows, p = np.asarray(shown["rows"]), np.asarray(shown["mean_prediction"])
    # Predictions vary within a bin, so this is slightly more than the variance.
    return float(rows @ (p * (1.0 - p))) < LEAST_VARIANCE


def clear_regions(side: Mapping[str, Any]) -> tuple[Region, ...]:
    """Return the ranges of predictions with significant miscalibration; none if the rows are dependent."""
    shown = lookup.diagram(side, "reliability")
    return () if shown is None or shown["low"] is None else find_regions(shown)


def worst_classes(side: Mapping[str, Any], names: Sequence[str] | None) -> list[tuple[str, float | None]]:
    """Return the classes whose calibration is rejected (Holm's correction), with their errors, the largest first.

    Classes without a name are called by their number. The error is None without a value above 0 after debiasing.
    """
    test = tested(side)
    if test is None or test.of_classes is None:
        return []
    p = np.asarray(test.of_classes)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    answer = lookup.measure(side, "ece", norm=1)
    parts = {} if answer is None else answer.get("parts", {})
    errors = parts.get("classes_debiased") or parts.get("classes")
    chosen = [int(k) for k in order[adjusted < ALPHA]]
    error_of = {k: None if errors is None or errors[k] is None or errors[k] <= 0.0 else errors[k] for k in chosen}
    named = [(_named(k, names), error_of[k]) for k in chosen]
    return sorted(named, key=lambda item: -(item[1] or 0.0))


def _named(k: int, names: Sequence[str] | None) -> str:
    return f"class {k}" if names is None or k >= len(names) else f"class {names[k]}"


# --- The verdict

Tone = Literal["rejected", "not-rejected", "unknown"]

#: Below this, a significant error is called small: one percentage point.
SMALL = 0.01
#: There is no verdict with fewer rows than this, or if an error larger than this cannot be excluded.
FEW_ROWS, COULD_HIDE = 100, 0.1
#: The most ranges in the headline; the reasons name all.
_IN_HEADLINE = 2
#: Ranges with less than this fraction of the error of the largest are only in the reasons.
_LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Verdict:
    """The headline, the tone, and sentences with the reasons and the consequences for decisions."""

    headline: str
    tone: Tone
    reasons: tuple[str, ...]
    decisions: tuple[str, ...]


def verdict(report: Mapping[str, Any], *, after: bool = False, classes: Sequence[str] | None = None) -> Verdict:
    """Return the verdict on the uncalibrated predictions, or on those ``after`` the map.

    Calibration is rejected if the p-value of the smooth test is below 0.05. With few expected events, the test is KS;
    under ``canonical``, mean confidence minus accuracy. Ranges are named if they are significant after correction for
    all ranges (``find_regions``), and the temperature if its interval excludes 1.

    Parameters
    ----------
    report : mapping
        Report as JSON.
    after : bool
        Whether the verdict is on the predictions after the map.
    classes : sequence of str, optional
        Names of the classes.

    Returns
    -------
    Verdict
        Headline, tone, reasons and consequences.
    """
    if after and lookup.unchanged(report):
        return verdict(report, classes=classes)
    side = report["after"] if after else report
    in_sample = after and bool(report.get("in_sample"))
    # On rows to which the map was fitted, no test is valid.
    test, regions = (None, ()) if in_sample else (tested(side), clear_regions(side))
    n, reduction = report["n"], report["reduction"]
    if test is None:
        tone: Tone = "unknown"
        headline = _untested(side, report, after)
    elif test.p_value < ALPHA:
        tone, headline = "rejected", _rejected(side, reduction, test, regions, classes)
    else:
        tone, headline = "not-rejected", _not_rejected(side, n, reduction, test, regions)
    reasons = tuple(_reasons(side, n, reduction, test, regions, classes))
    return Verdict(
        headline, tone, reasons, decisions(side, reduction, tone, regions, could_hide(side), few=_few(side, n))
    )


def _few(side: Mapping[str, Any], n: int) -> bool:
    """Whether there are too few rows for a verdict."""
    hidden = could_hide(side)
    return n < FEW_ROWS or (hidden is not None and hidden > COULD_HIDE)


def _rejected(
    side: Mapping[str, Any], reduction: str, test: Tested, regions: Sequence[Region], classes: Sequence[str] | None
) -> str:
    parts = [_size(side, reduction, test, regions, classes)]
    temperature = _temperature(side)
    if temperature is not None and not _shifted(side, regions, reduction):
        parts.append(f"temperature {numbers.ratio(temperature)}")
    parts.append(f"calibration rejected, {numbers.p_value(test.p_value)}")
    return "; ".join(parts)


def _size(
    side: Mapping[str, Any], reduction: str, test: Tested, regions: Sequence[Region], classes: Sequence[str] | None
) -> str:
    """Describe the size, direction and place of the error, as far as they are significant."""
    if regions:
        return direction(_largest(regions), reduction)
    worst = worst_classes(side, classes)
    if worst:
        of = len(test.of_classes or ())
        names = numbers.listed([name for name, _ in worst])
        verb = "is" if len(worst) == 1 else "are"
        return f"{len(worst)} of {of} classes {verb} miscalibrated: {names}"
    gap = _mean_gap(side, reduction)
    if gap is not None:
        return f"{gap.capitalize()} on average"
    error = lookup.error(side)
    return "Miscalibrated" if not error else f"Off by {numbers.points(error)} on average, in no particular range"


def _largest(regions: Sequence[Region]) -> list[Region]:
    """Return the ranges that add most to the error, from the highest predictions to the lowest."""
    ranked = sorted(regions, key=lambda region: -abs(region.gap) * region.share)
    least = _LEAST_SHARE * abs(ranked[0].gap) * ranked[0].share
    large = [region for region in ranked[:_IN_HEADLINE] if abs(region.gap) * region.share >= least]
    return sorted(large, key=lambda region: -region.start)


def _mean_gap(side: Mapping[str, Any], reduction: str) -> str | None:
    """Describe a significant difference of means, of confidence and accuracy or of the predictions and the labels."""
    of_decisions = lookup.of_decisions(reduction)
    gap = lookup.measure(side, "confidence-gap" if of_decisions else "ks-end")
    if gap is None or gap.get("p_value") is None or gap["p_value"] >= ALPHA:
        return None
    if of_decisions:
        return f"{'overconfident' if gap['value'] > 0.0 else 'underconfident'} by {numbers.points(gap['value'])}"
    shown = lookup.diagram(side, "reliability")
    predicted = 1.0 if shown is None else float(np.asarray(shown["share"]) @ np.asarray(shown["mean_prediction"]))
    return f"{risk(gap['value'])} by {size(predicted, predicted + gap['value'], reduction)}"


def _shifted(side: Mapping[str, Any], regions: Sequence[Region], reduction: str) -> bool:
    """Whether the error is a shift, which a temperature cannot correct."""
    if regions:
        return is_shift(_largest(regions), reduction)
    return not lookup.of_decisions(reduction) and _mean_gap(side, reduction) is not None


def _temperature(side: Mapping[str, Any]) -> float | None:
    """Return the optimal temperature if its interval excludes 1, else None."""
    answer = lookup.measure(side, "optimal-temperature")
    ends = lookup.interval(answer)
    if answer is None or answer["value"] is None or ends is None:
        return None
    low, high = ends
    return None if low <= 1.0 <= high else float(answer["value"])


def _not_rejected(side: Mapping[str, Any], n: int, reduction: str, test: Tested, regions: Sequence[Region]) -> str:
    hidden = could_hide(side)
    rows = f"{numbers.count(n)} row{'' if n == 1 else 's'}"
    if regions:
        chance = numbers.p_value(test.p_value)
        return f"{direction(_largest(regions), reduction)}; calibration not rejected overall, {chance}"
    if _few(side, n):
        if hidden is None:
            return f"Too few rows for a verdict: {rows}"
        return f"Too few rows for a verdict: {rows} cannot exclude an error of up to {numbers.bound(hidden)}"
    if hidden is None:
        return f"No evidence of miscalibration in {rows}, {numbers.p_value(test.p_value)}"
    return f"No evidence of miscalibration in {rows}; errors below {numbers.bound(hidden)} cannot be excluded"


def _untested(side: Mapping[str, Any], report: Mapping[str, Any], after: bool) -> str:
    error = lookup.error(side)
    why = "the map was fitted to these rows" if after and report.get("in_sample") else "no calibration test was run"
    if error is None:
        return f"No verdict: {why}"
    if error == 0.0:
        return f"The mean calibration error is estimated at 0; {why}"
    return f"Off by {numbers.points(error)} on average; {why}"


def _estimate(side: Mapping[str, Any], n: int, test: Tested | None) -> list[str]:
    """Describe the size of the error and what its interval cannot exclude."""
    error, answer = lookup.error(side), lookup.measure(side, "ece", norm=1)
    if error is None or answer is None:
        return []
    ends, level = error_interval(side), numbers.level(lookup.level(side))
    between = "" if ends is None else f" ({level} interval {numbers.points_between(*ends)})"
    if ends is None and answer.get("interval") is not None:
        between = f"; no interval: {NO_WIDTH}"
    elif (problem := answer.get("problem") or "").startswith("no interval"):
        between = f"; {problem.split(';')[0]}"
    debiased = " after debiasing" if error == 0.0 and answer["value"] > 0.0 else ""
    size = "0" if error == 0.0 else numbers.points(error)
    sentences = [f"The mean calibration error is estimated at {size}{debiased}{between}."]
    rejected, shift = test is not None and test.p_value < ALPHA, shift_of(side)
    if rejected and ends is not None and max(ends[1], shift or 0.0) < SMALL:
        sentences.append(
            f"The error is significant but small: {numbers.count(n)} rows reveal even errors below one point."
        )
    if test is not None and not rejected and ends is not None and shift is not None and shift > ends[1]:
        sentences.append(f"A shift of all predictions by up to {numbers.bound(shift)} cannot be excluded either.")
    return sentences


def _reasons(
    side: Mapping[str, Any],
    n: int,
    reduction: str,
    test: Tested | None,
    regions: Sequence[Region],
    classes: Sequence[str] | None,
) -> list[str]:
    sentences = [region_sentence(region, reduction) for region in reversed(regions)]
    sentences += [
        f"{name}: off by {numbers.points(error)} on average." if error is not None else f"{name}: calibration rejected."
        for name, error in worst_classes(side, classes)[:5]
    ]
    if test is not None:
        sentences.append(test.sentence)
    sentences += _estimate(side, n, test)
    temperature = _temperature(side)
    if temperature is not None and test is not None and test.p_value < ALPHA and not _shifted(side, regions, reduction):
        way = "too extreme" if temperature > 1.0 else "not extreme enough"
        sentences.append(f"The optimal temperature is {numbers.ratio(temperature)}: the predictions are {way}.")
    return sentences
