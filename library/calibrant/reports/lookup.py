"""Look up measures and diagrams of a report by name, under any key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from calibrant.measures.catalogue import MEASURES

Answer = Mapping[str, Any]

#: An interval with a smaller relative width is empty except for rounding.
_WIDTH = 1e-9

#: Reductions whose event is that a decision is right, so that too high means overconfident.
CLAIMS = ("confidence", "top:", "within-top:")


#: The options of measures that a report looks up with any value. Others, also new ones, must have their defaults.
_ANY: Mapping[str, tuple[str, ...]] = {
    "auroc": ("of",),
    "ece": ("binning", "n_bins", "closed"),
    "ece-isotonic": ("folds",),
    "ks": ("law",),
    "ks-end": ("law",),
    "smooth-test": ("n_terms",),
}


def measure(side: Mapping[str, Any], name: str, **options: Any) -> Answer | None:
    """Return the first result of this measure and these options with a value or a p-value, or None.

    ``side`` has ``measures``: a report, its ``after``, or a group. An option that is not given has its default, or any
    value if it is listed in ``_ANY``.
    """
    known = MEASURES[name].options if name in MEASURES else {}
    wanted = {option: about.default for option, about in known.items() if option not in _ANY.get(name, ())} | options
    for answer in side["measures"].values():
        definition = {option: about.default for option, about in known.items()} | dict(answer["definition"])
        fits = definition.get("name") == name and all(definition.get(k) == v for k, v in wanted.items())
        if fits and (answer["value"] is not None or answer.get("p_value") is not None):
            return answer  # type: ignore[no-any-return]
    return None


def value(side: Mapping[str, Any], name: str, **options: Any) -> float | None:
    """Return the value of a measure, debiased if that is defined."""
    answer = measure(side, name, **options)
    if answer is None:
        return None
    debiased = answer.get("debiased")
    number: float | None = answer["value"] if debiased is None else debiased
    return number


def unchanged(report: Mapping[str, Any]) -> bool:
    """Return whether the map leaves the predictions as they are: no measure and no score changes beyond rounding."""
    before, after = report["measures"], report["after"]["measures"]
    pairs = [
        (result["value"], after[key]["value"])
        for key, result in before.items()
        if result["definition"].get("name") != "optimal-temperature"  # that of whole vectors, before a map of the event
    ]
    if not report.get("in_sample"):  # otherwise, the improvement is that of maps fitted to fewer rows
        pairs += [(0.0, gain["value"]) for gain in (report.get("improvement") or {}).values()]
    known = [pair for pair in pairs if None not in pair]
    return bool(known) and all(math.isclose(was, now, rel_tol=1e-6, abs_tol=1e-9) for was, now in known)


def kind(answers: Iterable[Answer]) -> str | None:
    """Return which number a column of these results shows: the debiased one if each with a value has it, or the plain.

    Returns ``"debiased"``, ``"plain"`` if only some have a debiased value, or None if none has.
    """
    known = [answer for answer in answers if answer["value"] is not None]
    if any(answer.get("debiased") is not None for answer in known):
        return "debiased" if all(answer.get("debiased") is not None for answer in known) else "plain"
    return None


def gap_kind(gap: Mapping[str, Any], which: str | None) -> str | None:
    """Return the kind of the values that a gap compares, for a column of the kind ``which``."""
    if which is None:
        return None
    return "debiased" if gap.get("of") == "debiased" else "plain"


def shown(answer: Answer, which: str | None) -> float | None:
    """Return the number of a result in a column of this ``kind``."""
    number: float | None = (
        answer["debiased"] if which == "debiased" and answer["value"] is not None else answer["value"]
    )
    return number


def error(side: Mapping[str, Any]) -> float | None:
    """Return the mean calibration error, debiased if that is defined, and at least 0."""
    number = value(side, "ece", norm=1)
    return None if number is None else max(number, 0.0)


def interval(answer: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """Return the ends of an interval; None if there is none or it is invalid (``too_alike``)."""
    if answer is None or answer.get("interval") is None or too_alike(answer):
        return None
    low, high = answer["interval"]
    return float(low), float(high)


def too_alike(answer: Mapping[str, Any]) -> bool:
    """Whether the rows vary too little for an interval: it is empty or does not contain the value."""
    ends, observed = answer.get("interval"), answer.get("value")
    if ends is None:
        return False
    low, high = ends
    width = _WIDTH * max(abs(low), abs(high), _WIDTH)
    return bool(high - low <= width or (observed is not None and not low - width <= observed <= high + width))


def level(side: Mapping[str, Any]) -> float:
    """Return the level of the intervals; 0.95 if there are none."""
    levels = (answer["definition"].get("interval") for answer in side["measures"].values())
    return next((float(stated) for stated in levels if stated is not None), 0.95)


def resamples(sides: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the number of resamples of the intervals of these reports or groups; None if there are no intervals."""
    answers = [answer for side in sides for answer in side["measures"].values() if answer.get("interval") is not None]
    known = [answer["definition"].get("resamples") for answer in answers]
    return min((int(number) for number in known if number is not None), default=None)


class GroupSide(NamedTuple):
    """The measures of each group, and the gaps between groups, before or after a map; no ``name`` without a map."""

    name: str
    measures: dict[str, Mapping[str, Answer]]
    gaps: Mapping[str, Any]


def after_the_map(report: Mapping[str, Any]) -> str:
    """Return the title of values after the map, which says whether they are in-sample."""
    return "after the map (in-sample)" if report.get("in_sample") else "after the map"


def sides_of_groups(report: Mapping[str, Any]) -> list[GroupSide]:
    """Return the groups of a report, before and after the map if there is one."""
    groups, after = report.get("groups") or {}, report.get("after")
    measures = {name: group["measures"] for name, group in groups.items()}
    sides = [GroupSide("" if after is None else "before the map", measures, report.get("gaps") or {})]
    if after is not None and all(group.get("after") for group in groups.values()):
        later = {name: group["after"]["measures"] for name, group in groups.items()}
        sides.append(GroupSide(after_the_map(report), later, after.get("gaps") or {}))
    return sides


def diagram(side: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the data of the first diagram with this name that has data, or None."""
    shown = drawn(side, name)
    return None if shown is None else shown["data"]


def data_of(shown: Mapping[str, Any]) -> Any:
    """Return the data of a diagram; reports of earlier versions have ``label_share`` for ``observed_frequency``."""
    data = shown["data"]
    if data is None or "label_share" not in data:
        return data
    return {"observed_frequency" if name == "label_share" else name: part for name, part in data.items()}


def diagram_names(side: Mapping[str, Any]) -> list[str]:
    """Return the names of the diagrams of a report in its order, each once."""
    return list(dict.fromkeys(shown["definition"]["name"] for shown in (side.get("diagrams") or {}).values()))


def drawn(side: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the first diagram with this name that has data, or None."""
    for shown in (side.get("diagrams") or {}).values():
        if shown["definition"].get("name") == name and shown["data"] is not None:
            return {**shown, "data": data_of(shown)}
    return None


def of_claims(reduction: str) -> bool:
    """Whether the event of a reduction is that a decision is right."""
    return reduction.startswith(CLAIMS)


def of_decisions(reduction: str) -> bool:
    """Whether over- and underconfidence is that of decisions, and not of the probability of an event."""
    return reduction == "canonical" or of_claims(reduction)
