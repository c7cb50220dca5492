"""Ranges of predictions in words: too sure, not sure enough, too high, too low."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.reports import numbers
from calibrant.reports.found import of_claims
from calibrant.reports.regions import Region

#: A range lies on one side of 1/2 if it goes beyond it by no more than this, and its mean is at least as far from it.
_BEYOND = 0.05
#: So near to 1 nobody reads a prediction: the share of rows below it is told.
_NEXT_TO_1 = 1e-4


def direction(regions: Sequence[Region], reduction: str) -> str:
    """How far off and where, one phrase: ``Overconfident by 4.1 points above 0.7``.

    Of a claim too high is overconfident. Of a probability overconfident is what lies too far from 1/2, and
    underconfident what lies too near, where all ranges lie on one side of 1/2 each and not all are too high, or all too
    low, on both sides: that is a shift, and called too high or too low.
    """
    words = _words(regions, reduction)
    told = words[0][:1].upper() + words[0][1:]
    phrases = [f"{told} by {numbers.points(regions[0].gap)} {place(regions[0])}"]
    for i, region in enumerate(regions[1:], 1):
        word = "" if words[i] == words[i - 1] else f"{words[i]} "
        phrases.append(f"{word}by {numbers.points(region.gap)} {place(region)}")
    return " and ".join(phrases)


def _words(regions: Sequence[Region], reduction: str) -> list[str]:
    if of_claims(reduction):
        return ["overconfident" if region.gap < 0.0 else "underconfident" for region in regions]
    sides = [_side(region) for region in regions]
    signs = {region.gap < 0.0 for region in regions}
    if 0 in sides or (len(signs) == 1 and len(set(sides)) > 1):
        return ["too high" if region.gap < 0.0 else "too low" for region in regions]
    outwards = [(region.gap < 0.0) == (side > 0) for region, side in zip(regions, sides, strict=True)]
    return ["overconfident" if beyond else "underconfident" for beyond in outwards]


def _side(region: Region) -> int:
    """1 above 1/2, -1 below it, 0 on both sides or about it."""
    if region.least >= 0.5 - _BEYOND and region.mean_prediction >= 0.5 + _BEYOND:
        return 1
    return -1 if region.most <= 0.5 + _BEYOND and region.mean_prediction <= 0.5 - _BEYOND else 0


def place(region: Region) -> str:
    """Where: ``above 0.70``, ``below 0.30``, ``between 0.40 and 0.60``, ``throughout``, ``at 0``; next to 1 in rows."""
    if region.lowest and region.highest:
        return "throughout"
    if region.highest:
        return "at 1" if region.start == 1.0 else f"above {numbers.prediction(region.start)}"
    if region.lowest and region.most == 0.0:
        return "at 0"
    if region.lowest and region.end > 1.0 - _NEXT_TO_1:
        return f"in the lower {numbers.percent(region.share)} of rows"
    if region.lowest:
        return f"below {numbers.prediction(region.end)}"
    return "between {} and {}".format(*numbers.places(region.start, region.end))


def region_sentence(region: Region, reduction: str) -> str:
    """The figures of a range in a sentence."""
    where = "In the whole range" if region.lowest and region.highest else f"{place(region).capitalize()}"
    happened = "decisions were right" if of_claims(reduction) else "the event happened"
    low, high = sorted((abs(region.low), abs(region.high)))
    way = "high" if region.gap < 0.0 else "low"
    average = numbers.percent(region.mean_prediction)
    rows = (
        ""
        if "rows" in where or (region.lowest and region.highest)
        else f" ({numbers.percent(region.share)} of the rows)"
    )
    return (
        f"{where}{rows} predictions average {average} "
        f"and {happened} in {numbers.percent(region.label_share)} of cases: {numbers.points(region.gap)} too {way} "
        f"({numbers.points_between(low, high)}, an interval that holds for all ranges at once)."
    )
