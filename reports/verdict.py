"""The verdict: what the numbers of a report say, in words, and no more than they prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports import found, numbers
from reports.deciding import decisions
from reports.hiding import could_hide, error_interval, shift_of
from reports.regions import Region
from reports.testing import ALPHA, Tested, clear_regions, tested, worst_classes
from reports.wording import direction, region_sentence

Tone = Literal["rejected", "not-rejected", "unknown"]

#: Below this an error is called small, if it is proven at all: one point.
SMALL = 0.01
#: Fewer rows than this, or an error of more than this that could hide, tell too little.
FEW_ROWS, COULD_HIDE = 100, 0.1
#: So many ranges stand in the headline; the sentences below it tell of all.
_IN_HEADLINE = 2
#: Those that add less than this share of what the first one adds stand only there.
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
    expected; under ``canonical`` that of mean confidence less accuracy. Ranges are told where they differ even after a
    correction for all ranges (``find_regions``), the temperature where its interval excludes 1. ``classes`` are names.
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
    """Whether these rows tell too little, whatever they show."""
    hidden = could_hide(side)
    return n < FEW_ROWS or (hidden is not None and hidden > COULD_HIDE)


def _rejected(
    side: Mapping[str, Any],
    reduction: str,
    test: Tested,
    regions: Sequence[Region],
    classes: Sequence[str] | None,
) -> str:
    told = [_size(side, reduction, test, regions, classes)]
    temperature = _temperature(side)
    if temperature is not None and "oo high" not in told[0] and "oo low" not in told[0]:
        told.append(f"temperature {numbers.temperature(temperature)}")
    told.append(f"calibration rejected, {numbers.p_value(test.p_value)}")
    return "; ".join(told)


def _size(
    side: Mapping[str, Any],
    reduction: str,
    test: Tested,
    regions: Sequence[Region],
    classes: Sequence[str] | None,
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
    gap = found.measure(side, "confidence-gap")
    if gap is not None and gap.get("p_value") is not None and gap["p_value"] < ALPHA:
        sure = "Overconfident" if gap["value"] > 0.0 else "Underconfident"
        return f"{sure} by {numbers.points(gap['value'])} on average"
    error = found.error(side)
    return "Miscalibrated" if error is None else f"Off by {numbers.points(error)} on average, no range standing out"


def _largest(regions: Sequence[Region]) -> list[Region]:
    """The ranges that add most to the error, in their order on the axis from the top."""
    ranked = sorted(regions, key=lambda region: -abs(region.gap) * region.share)
    least = _LEAST_SHARE * abs(ranked[0].gap) * ranked[0].share
    told = [region for region in ranked[:_IN_HEADLINE] if abs(region.gap) * region.share >= least]
    return sorted(told, key=lambda region: -region.start)


def _temperature(side: Mapping[str, Any]) -> float | None:
    """The optimal temperature, where it is proven not to be 1."""
    answer = found.measure(side, "optimal-temperature")
    ends = found.interval(answer)
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
        told = "" if hidden is None else f": an error of up to {numbers.bound(hidden)} could hide in {rows}"
        return f"Too few rows to tell{told or f', {rows}'}"
    if hidden is None:
        return f"No evidence of miscalibration in {rows}, {numbers.p_value(test.p_value)}"
    return f"No evidence of miscalibration in {rows}: an error below {numbers.bound(hidden)} could hide"


def _untested(side: Mapping[str, Any], report: Mapping[str, Any], after: bool) -> str:
    error = found.error(side)
    why = "the map has seen these rows" if after and report.get("in_sample") else "no test of calibration was made"
    if error is None:
        return f"No verdict: {why}"
    return f"Off by {numbers.points(error)} on average; {why}"


def _estimate(side: Mapping[str, Any], n: int, test: Tested | None) -> list[str]:
    """The size of the error, and what its interval leaves open."""
    error, answer = found.error(side), found.measure(side, "ece", norm=1)
    if error is None or answer is None:
        return []
    ends, level = error_interval(side), numbers.level(found.level(side))
    between = "" if ends is None else f" ({level} interval {numbers.points_between(*ends)})"
    if ends is None and answer.get("interval") is not None:
        between = "; the rows are too alike for an interval"
    chance = " once what chance alone adds is left out" if error == 0.0 and answer["value"] > 0.0 else ""
    size = "0" if error == 0.0 else numbers.points(error)
    told = [f"The mean calibration error is estimated at {size}{chance}{between}."]
    rejected, shift = test is not None and test.p_value < ALPHA, shift_of(side)
    if rejected and ends is not None and max(ends[1], shift or 0.0) < SMALL:
        told.append(f"The error is proven but small: {numbers.count(n)} rows show even less than a point.")
    if test is not None and not rejected and ends is not None and shift is not None and shift > ends[1]:
        told.append(f"A shift of all predictions by up to {numbers.bound(shift)} is not excluded either.")
    return told


def _reasons(
    side: Mapping[str, Any],
    n: int,
    reduction: str,
    test: Tested | None,
    regions: Sequence[Region],
    classes: Sequence[str] | None,
) -> list[str]:
    told = [region_sentence(region, reduction) for region in reversed(regions)]
    told += [
        f"{name}: off by {numbers.points(error)} on average." if error is not None else f"{name}: calibration rejected."
        for name, error in worst_classes(side, classes)[:5]
    ]
    if test is not None:
        told.append(test.sentence)
    told += _estimate(side, n, test)
    temperature = _temperature(side)
    # No temperature mends a shift.
    shifted = bool(regions) and direction(_largest(regions), reduction).startswith("Too ")
    if temperature is not None and test is not None and test.p_value < ALPHA and not shifted:
        way = "softer: they are too extreme" if temperature > 1.0 else "sharper: they are too timid"
        least = numbers.temperature(temperature)
        told.append(f"Of all temperatures {least} has the least log loss, which makes predictions {way}.")
    return told
