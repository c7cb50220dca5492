"""The recommended map in words, and the table of what was compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.methods import METHODS
from reports import found as reading
from reports import numbers
from reports.recommendation import ONE_OUTCOME
from reports.testing import ALPHA, tested


@dataclass(frozen=True)
class Compared:
    """A row of the comparison: texts; ``recommended`` says so in words."""

    method: str
    title: str
    parameters: str
    log_loss: str
    gain: str
    gain_interval: str
    brier_gain: str
    brier_interval: str
    note: str


@dataclass(frozen=True)
class Advice:
    """The ``headline``, ``reasons`` and ``rows`` of a recommendation, and the ``python`` that fits its map."""

    headline: str
    reasons: tuple[str, ...]
    rows: tuple[Compared, ...]
    level: str
    python: str | None


def advice(report: Mapping[str, Any]) -> Advice | None:
    """What a report's ``recommendation`` says; None where it has none."""
    found = report.get("recommendation")
    if not found:
        return None
    best = next((c for c in found["candidates"] if c["method"] == found["recommended"]), None)
    rows = tuple(_compared(candidate, candidate is best) for candidate in found["candidates"])
    return Advice(
        _headline(found, best, report), _reasons(found, best, report), rows, numbers.level(found["level"]), _fit(best)
    )


def improved(report: Mapping[str, Any]) -> tuple[str, ...]:
    """What the map that was applied gains, and how far that can be trusted."""
    gains = report.get("improvement")
    if not gains:
        return ()
    told = [_gained(score, gains.get(key)) for key, score in (("log-loss", "log loss"), ("brier", "Brier score"))]
    if report.get("in_sample"):
        told.append(
            "The map was fitted to these very rows: it looks better here than it is. Gains are those of maps fitted "
            "without each fifth of the rows, and there are no p-values."
        )
    elif report.get("in_sample") is None:
        told.append("Whether the map was fitted to these rows is not known; if it was, it looks better than it is.")
    return tuple(sentence for sentence in told if sentence)


def _gained(score: str, gain: Mapping[str, Any] | None) -> str:
    if gain is None or gain["value"] is None:
        return ""
    ends = reading.interval(gain)
    between = "" if ends is None else f" ({numbers.level(gain['definition']['interval'])} interval {_ends(ends)})"
    verb = "lowers" if gain["value"] >= 0.0 else "raises"
    return f"The map {verb} the {score} by {numbers.number(abs(gain['value']))}{_turned(between, gain)}."


def _turned(between: str, gain: Mapping[str, Any]) -> str:
    """The interval of a loss, with its sign told."""
    return between if gain["value"] >= 0.0 else between.replace("interval", "interval of what it lowers it by:")


def _ends(ends: tuple[float, float]) -> str:
    return numbers.interval(ends)


def _headline(found: Mapping[str, Any], best: Mapping[str, Any] | None, report: Mapping[str, Any]) -> str:
    if best is not None:
        gain = best["gains"]["log-loss"]
        return f"Fit {_named(best)}: it would lower the log loss by {numbers.number(gain['value'])} nats"
    if not _fitted(found):
        return f"No map can be recommended: {_hindrance(found)}"
    if _rejected(report):
        return "No map can be recommended: calibration is rejected, but no quick map is proven to be better"
    return "Keep the predictions as they are: no quick map is proven to be better"


def _rejected(report: Mapping[str, Any]) -> bool:
    test = tested(report)
    return test is not None and test.p_value < ALPHA


def _fitted(found: Mapping[str, Any]) -> int:
    """How many maps could be compared."""
    return sum(bool(candidate["gains"]) for candidate in found["candidates"])


def _hindrance(found: Mapping[str, Any]) -> str:
    """Why no map could be fitted."""
    if found["n"] < found["folds"]:
        return f"fewer than {found['folds']} rows are too few to compare any"
    if all(candidate["problem"] == ONE_OUTCOME for candidate in found["candidates"]):
        return "the labels show one outcome only, and from one no map can be learned"
    return "none of the quick maps can be fitted to these rows"


def _named(candidate: Mapping[str, Any]) -> str:
    by_class = " class by class" if candidate["reduction"] == "classwise" else ""
    return f"{candidate['method']}{by_class}"


def _reasons(found: Mapping[str, Any], best: Mapping[str, Any] | None, report: Mapping[str, Any]) -> tuple[str, ...]:
    level, compared = numbers.level(found["level"]), len(found["candidates"])
    if not _fitted(found):
        return _told_hindrances(found)
    told = []
    if best is not None:
        for key, score in (("log-loss", "Log loss"), ("brier", "Brier score")):
            gain = best["gains"][key]
            before, after = (numbers.number(gain["parts"][side]) for side in ("before", "after"))
            ends = reading.interval(gain)
            between = "" if ends is None else f", a gain of {_ends(ends)}"
            told.append(f"{score} {before} before, {after} after{between}.")
        if best["reduction"] in ("canonical", "classwise") and report["reduction"] != "canonical":
            told.append(
                f"These are scores of the whole vector of probabilities, the measures above of {report['reduction']}."
            )
        told.append("Of the maps that are proven to gain it is the simplest within one standard error of the best.")
    else:
        told.append("For no map does the interval of its gain in log loss lie above 0.")
        if _rejected(report):
            told.append("Calibration is rejected all the same: more rows could prove which map to fit.")
    told.append(
        f"Scores are of rows that each map has not seen ({found['folds']} folds); intervals hold for all {compared} "
        f"maps at once, at {level}."
    )
    if found["n"] < report["n"]:
        told.append(f"{numbers.count(found['n'])} of the rows were compared, drawn at random (seed {found['seed']}).")
    return (*told, *_job(found))


def _told_hindrances(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Each reason for which maps could not be compared, with their names."""
    named: dict[str, list[str]] = {}
    for candidate in found["candidates"]:
        why = (candidate["problem"] or "not compared").removeprefix("cannot be fitted: ")
        named.setdefault(why, []).append(_named(candidate))
    return tuple(f"Why not {numbers.listed(names, most=10)}: {why}." for why, names in named.items())


def _job(found: Mapping[str, Any]) -> tuple[str, ...]:
    """What a slower fit could add."""
    by_class = " class by class" if any(c["reduction"] == "classwise" for c in found["candidates"]) else ""
    return (f"A job can fit {found['job']}{by_class}, which averages many maps and could add to it.",)


def _compared(candidate: Mapping[str, Any], best: bool) -> Compared:
    log_loss, brier = (candidate["gains"].get(score) for score in ("log-loss", "brier"))
    entry = METHODS.get(candidate["method"])
    count = candidate["parameters"]
    return Compared(
        _named(candidate),
        "" if entry is None else entry.title,
        "as the rows ask for" if count is None else numbers.count(count),
        "" if log_loss is None else numbers.number(log_loss["parts"]["after"]),
        "" if log_loss is None else numbers.number(log_loss["value"]),
        "" if log_loss is None else numbers.interval(reading.interval(log_loss)),
        "" if brier is None else numbers.number(brier["value"]),
        "" if brier is None else numbers.interval(reading.interval(brier)),
        "recommended" if best else candidate["problem"] or "",
    )


def _fit(best: Mapping[str, Any] | None) -> str | None:
    if best is None:
        return None
    return f'calibrant.fit("{best["method"]}", predictions, labels, reduction="{best["reduction"]}")'
