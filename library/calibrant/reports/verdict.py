"""The verdict of a report: its tests, what its numbers prove, and what that means for decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

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
    shift_of,
)


def decisions(
    side: Mapping[str, Any], reduction: str, tone: str, regions: Sequence[Region], hidden: float | None, *, few: bool
) -> tuple[str, ...]:
    """What a verdict means for decisions, in a few sentences.

    ``hidden`` is the largest error that the rows do not exclude; ``few`` says that there are too few rows to judge.
    """
    sentences = []
    if regions:
        worst = max(regions, key=lambda region: abs(region.gap) * region.share)
        sentences.append(_hundred(worst, reduction))
    if tone == "rejected" or regions:
        sentences.append(
            "Thresholds and expected costs that are computed from these numbers are off by as much. "
            "A decision by rank alone does not depend on calibration."
        )
    elif tone == "not-rejected" and few:
        sentences.append("Gather more labelled rows before these predictions are trusted, or changed.")
    elif tone == "not-rejected" and hidden is not None:
        sentences.append(
            f"A decision that bears a mean error of {numbers.bound(hidden)} may use the predictions as they are; "
            "four times the rows would about halve what could hide."
        )
    elif tone == "unknown":
        sentences.append(
            "Take it as a description: before acting on it evaluate rows that the model and the map have not seen."
        )
    auroc = lookup.value(side, "auroc")
    judged = tone == "rejected" or (tone == "not-rejected" and not few)
    if auroc is not None and abs(auroc - 0.5) < 0.05 and judged:
        sentences.append("The predictions hardly tell events apart: no recalibration mends that.")
    elif auroc is not None and judged and _backwards(lookup.measure(side, "auroc")):
        sentences.append("The predictions rank events below the rest: labels may be the wrong way round.")
    return tuple(sentences)


def _backwards(auroc: Mapping[str, Any] | None) -> bool:
    """Whether events are surely ranked below the rest."""
    if auroc is None or auroc["value"] is None:
        return False
    ends = auroc.get("interval")
    return float(auroc["value"] if ends is None else ends[1]) < 0.45


def _hundred(region: Region, reduction: str) -> str:
    """A range in cases out of a hundred, or of as many as make one case of difference."""
    cases = 100
    while cases < 100_000 and abs(region.gap) * cases < 1.0:
        cases *= 10
    promised, came = (round(share * cases) for share in (region.mean_prediction, region.observed_frequency))
    where = "" if region.lowest and region.highest else f" {place(region)}"
    what = "decisions like those are right" if lookup.of_claims(reduction) else "such cases are positive"
    return (
        f"Of {numbers.count(cases)} rows{where} the predictions promise about {numbers.count(promised)}; "
        f"in truth about {numbers.count(came)} {what}."
    )


# --- The tests behind a verdict: overall, by range and by class

#: Calibration is rejected below this p-value.
ALPHA = 0.05
#: If the variance of the number of events is below this, KS decides: the smooth test rejects too often there.
LEAST_VARIANCE = 10.0

_TITLES = {
    "smooth-test": "The smooth test",
    "ks": "The Kolmogorov-Smirnov test",
    "confidence-gap": "The test of mean confidence against accuracy",
    "ks-end": "The test of mean prediction against label share",
}


@dataclass(frozen=True)
class Tested:
    """The test that decides, its p-value, and the p-values of the single classes if there are any."""

    name: str
    p_value: float
    of_classes: tuple[float, ...] | None = None

    @property
    def sentence(self) -> str:
        """Its result."""
        verb = "rejects" if self.p_value < ALPHA else "does not reject"
        corrected = "" if self.of_classes is None else ", corrected for the number of classes"
        return f"{_TITLES[self.name]} {verb} calibration ({numbers.p_value(self.p_value)}{corrected})."


def tested(side: Mapping[str, Any]) -> Tested | None:
    """The test of one side of a report: the best of those made whose size holds on these rows; None without any."""
    order = ["smooth-test", "ks", "confidence-gap", "ks-end"]
    if _few_events(side):
        order = ["ks", *order]
    for name in order:
        answer = lookup.measure(side, name)
        if answer is not None and answer.get("p_value") is not None:
            of_classes = answer.get("parts", {}).get("classes_p_value")
            # A class on which nothing can be tested is not rejected.
            p_values = None if of_classes is None else tuple(1.0 if p is None else float(p) for p in of_classes)
            return Tested(name, float(answer["p_value"]), p_values)
    return None


def _few_events(side: Mapping[str, Any]) -> bool:
    """Whether so few events are expected that the normal law of the smooth test does not hold."""
    shown = lookup.diagram(side, "reliability")
    if shown is None:
        return False
    rows, p = np.asarray(shown["rows"]), np.asarray(shown["mean_prediction"])
    # Within a bin predictions vary, so that this is a little more than the variance.
    return float(rows @ (p * (1.0 - p))) < LEAST_VARIANCE


def clear_regions(side: Mapping[str, Any]) -> tuple[Region, ...]:
    """The ranges of predictions that chance does not explain; none where rows hang together."""
    shown = lookup.diagram(side, "reliability")
    return () if shown is None or shown["low"] is None else find_regions(shown)


def worst_classes(side: Mapping[str, Any], names: Sequence[str] | None) -> list[tuple[str, float | None]]:
    """The classes whose calibration is rejected, and the error of each, from the largest; corrected by Holm's method.

    Classes without a name are called by their number.
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
    named = [(_named(k, names), None if errors is None else max(errors[k], 0.0)) for k in chosen]
    return sorted(named, key=lambda item: -(item[1] or 0.0))


def _named(k: int, names: Sequence[str] | None) -> str:
    return f"class {k}" if names is None or k >= len(names) else f"class {names[k]}"


# --- The verdict

Tone = Literal["rejected", "not-rejected", "unknown"]

#: Below this an error is called small, if it is proven at all: one point.
SMALL = 0.01
#: There are too few rows to judge below this number, or if a larger error than this could hide.
FEW_ROWS, COULD_HIDE = 100, 0.1
#: The most ranges in the headline; the reasons below it name all.
_IN_HEADLINE = 2
#: Ranges that add less than this share of the largest one's error are left to the reasons.
_LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Verdict:
    """``headline``, the ``reasons`` for it and what it means for ``decisions``, sentences each; ``tone`` in a word."""

    headline: str
    tone: Tone
    reasons: tuple[str, ...]
    decisions: tuple[str, ...]


def verdict(report: Mapping[str, Any], *, after: bool = False, classes: Sequence[str] | None = None) -> Verdict:
    """The verdict of a report's predictions as they came, or of those ``after`` its map.

    Calibration is rejected where the p-value of the smooth test is below 0.05, or that of KS where few events are
    expected; under ``canonical`` that of mean confidence less accuracy. Ranges are named if they differ even after a
    correction for all ranges (``find_regions``), the temperature if its interval excludes 1. ``classes`` are names.
    """
    side = report["after"] if after else report
    seen = after and bool(report.get("in_sample"))
    # Where the map has seen the labels no law of chance holds.
    test, regions = (None, ()) if seen else (tested(side), clear_regions(side))
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
    """Whether there are too few rows to judge."""
    hidden = could_hide(side)
    return n < FEW_ROWS or (hidden is not None and hidden > COULD_HIDE)


def _rejected(
    side: Mapping[str, Any], reduction: str, test: Tested, regions: Sequence[Region], classes: Sequence[str] | None
) -> str:
    parts = [_size(side, reduction, test, regions, classes)]
    temperature = _temperature(side)
    if temperature is not None and not _shifted(regions, reduction):
        parts.append(f"temperature {numbers.temperature(temperature)}")
    parts.append(f"calibration rejected, {numbers.p_value(test.p_value)}")
    return "; ".join(parts)


def _size(
    side: Mapping[str, Any], reduction: str, test: Tested, regions: Sequence[Region], classes: Sequence[str] | None
) -> str:
    """How far off, in which direction and where, as far as that is proven."""
    if regions:
        return direction(_largest(regions), reduction)
    worst = worst_classes(side, classes)
    if worst:
        of = len(test.of_classes or ())
        names = numbers.listed([name for name, _ in worst])
        verb = "is" if len(worst) == 1 else "are"
        return f"{len(worst)} of {of} classes {verb} miscalibrated: {names}"
    gap = lookup.measure(side, "confidence-gap")
    if gap is not None and gap.get("p_value") is not None and gap["p_value"] < ALPHA:
        sure = "Overconfident" if gap["value"] > 0.0 else "Underconfident"
        return f"{sure} by {numbers.points(gap['value'])} on average"
    error = lookup.error(side)
    return "Miscalibrated" if error is None else f"Off by {numbers.points(error)} on average, no range standing out"


def _largest(regions: Sequence[Region]) -> list[Region]:
    """The ranges that add most to the error, in their order on the axis from the top."""
    ranked = sorted(regions, key=lambda region: -abs(region.gap) * region.share)
    least = _LEAST_SHARE * abs(ranked[0].gap) * ranked[0].share
    kept = [region for region in ranked[:_IN_HEADLINE] if abs(region.gap) * region.share >= least]
    return sorted(kept, key=lambda region: -region.start)


def _shifted(regions: Sequence[Region], reduction: str) -> bool:
    """Whether predictions are shifted up or down, which no temperature repairs."""
    return bool(regions) and is_shift(_largest(regions), reduction)


def _temperature(side: Mapping[str, Any]) -> float | None:
    """The optimal temperature, where it is proven not to be 1."""
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
            return f"Too few rows to tell, {rows}"
        return f"Too few rows to tell: an error of up to {numbers.bound(hidden)} could hide in {rows}"
    if hidden is None:
        return f"No evidence of miscalibration in {rows}, {numbers.p_value(test.p_value)}"
    return f"No evidence of miscalibration in {rows}: an error below {numbers.bound(hidden)} could hide"


def _untested(side: Mapping[str, Any], report: Mapping[str, Any], after: bool) -> str:
    error = lookup.error(side)
    why = "the map has seen these rows" if after and report.get("in_sample") else "no test of calibration was made"
    if error is None:
        return f"No verdict: {why}"
    return f"Off by {numbers.points(error)} on average; {why}"


def _estimate(side: Mapping[str, Any], n: int, test: Tested | None) -> list[str]:
    """The size of the error, and what its interval leaves open."""
    error, answer = lookup.error(side), lookup.measure(side, "ece", norm=1)
    if error is None or answer is None:
        return []
    ends, level = error_interval(side), numbers.level(lookup.level(side))
    between = "" if ends is None else f" ({level} interval {numbers.points_between(*ends)})"
    if ends is None and answer.get("interval") is not None:
        between = "; the rows are too alike for an interval"
    chance = " once what chance alone adds is left out" if error == 0.0 and answer["value"] > 0.0 else ""
    size = "0" if error == 0.0 else numbers.points(error)
    sentences = [f"The mean calibration error is estimated at {size}{chance}{between}."]
    rejected, shift = test is not None and test.p_value < ALPHA, shift_of(side)
    if rejected and ends is not None and max(ends[1], shift or 0.0) < SMALL:
        sentences.append(f"The error is proven but small: {numbers.count(n)} rows show even less than a point.")
    if test is not None and not rejected and ends is not None and shift is not None and shift > ends[1]:
        sentences.append(f"A shift of all predictions by up to {numbers.bound(shift)} is not excluded either.")
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
    if temperature is not None and test is not None and test.p_value < ALPHA and not _shifted(regions, reduction):
        way = "softer: they are too extreme" if temperature > 1.0 else "sharper: they are too timid"
        least = numbers.temperature(temperature)
        sentences.append(f"Of all temperatures {least} has the least log loss, which makes predictions {way}.")
    return sentences
