"""What a verdict means for whoever acts on the predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reports import found, numbers
from reports.found import of_claims
from reports.regions import Region
from reports.wording import place


def decisions(
    side: Mapping[str, Any], reduction: str, tone: str, regions: Sequence[Region], hidden: float | None, *, few: bool
) -> tuple[str, ...]:
    """A few sentences; ``hidden`` is the largest error that the rows do not exclude, ``few``: they tell little."""
    told = []
    if regions:
        worst = max(regions, key=lambda region: abs(region.gap) * region.share)
        told.append(_hundred(worst, reduction))
    if tone == "rejected" or regions:
        told.append(
            "Thresholds and expected costs that are computed from these numbers are off by as much. "
            "A decision by rank alone does not depend on calibration."
        )
    elif tone == "not-rejected" and few:
        told.append("Gather more labelled rows before these predictions are trusted, or changed.")
    elif tone == "not-rejected" and hidden is not None:
        told.append(
            f"A decision that bears a mean error of {numbers.bound(hidden)} may use the predictions as they are; "
            "four times the rows would about halve what could hide."
        )
    elif tone == "unknown":
        told.append(
            "Take it as a description: before acting on it evaluate rows that the model and the map have not seen."
        )
    auroc = found.value(side, "auroc")
    judged = tone == "rejected" or (tone == "not-rejected" and not few)
    if auroc is not None and abs(auroc - 0.5) < 0.05 and judged:
        told.append("The predictions hardly tell events apart: no recalibration mends that.")
    elif auroc is not None and judged and _backwards(found.measure(side, "auroc")):
        told.append("The predictions rank events below the rest: labels may be the wrong way round.")
    return tuple(told)


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
    promised, came = (round(share * cases) for share in (region.mean_prediction, region.label_share))
    where = "" if region.lowest and region.highest else f" {place(region)}"
    what = "decisions like those are right" if of_claims(reduction) else "such cases are positive"
    return (
        f"Of {numbers.count(cases)} rows{where} the predictions promise about {numbers.count(promised)}; "
        f"in truth about {numbers.count(came)} {what}."
    )
