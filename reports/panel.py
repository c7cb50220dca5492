"""The panel of a full report: measures, diagrams and intervals, as options of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.reductions import resolve

#: Level of the intervals.
LEVEL = 0.95
#: Resamples of an interval; of the classes one by one; and permutations between groups, the fewest there may be.
RESAMPLES, OF_CLASSES, OF_GROUPS = 1000, 200, 100
#: With more numbers than this (rows times classes where each is measured) intervals come from fewer resamples.
MANY = 200_000

#: The decomposition that has an interval of few resamples.
_BINNED = {"name": "decomposition", "method": "binned"}
_EVENT: tuple[str | dict[str, Any], ...] = (
    "ece",
    "smooth-test",
    "ks",
    "ks-end",
    "smooth-ece",
    "ece-isotonic",
    "confidence-gap",
    "optimal-temperature",
    "log-loss",
    "brier",
    _BINNED,
    "accuracy",
    "auroc",
)
#: What has no meaning, or no interval, for the classes one by one.
_NOT_OF_CLASSES = ("ks-end", "ece-isotonic", "optimal-temperature", "confidence-gap", "accuracy")
_VECTOR = ("confidence-gap", "optimal-temperature", "log-loss", "brier", _BINNED, "accuracy", "auroc")
_DIAGRAMS = ("reliability", "fit-on-test", "corp", "logit-logit", "ks-graphs")
_BY_GROUP = ("ece", "ks-end")


def full(n: int, n_classes: int | None, reduction: str | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Options of ``POST /evaluate`` that make a full report of ``n`` rows; what else is asked stands beside them.

    About half a second for 10,000 rows of one event. Diagrams are of one event alone. Raises ``UnknownReduction``.

    >>> [*full(10_000, None)]
    ['measures', 'diagrams', 'interval', 'resamples', 'seed']
    """
    name = resolve(reduction, n_classes)
    measures: list[Any] = list(_VECTOR if name == "canonical" else _EVENT)
    size = n
    if name == "classwise":
        measures = [measure for measure in _EVENT if measure not in _NOT_OF_CLASSES]
        size = n * (n_classes or 2)
    elif name == "pooled":
        size = n * (n_classes or 2)
    resamples = OF_CLASSES if name == "classwise" or size > MANY else RESAMPLES
    drawn = {} if name in ("classwise", "canonical") else {"diagrams": list(_DIAGRAMS)}
    return {"measures": measures, **drawn, "interval": LEVEL, "resamples": resamples, "seed": seed}


def by_group(reduction: str | None, n_classes: int | None, *, seed: int = 0) -> dict[str, Any]:
    """Options of a second evaluation, of the same rows with their groups.

    Groups are compared by permutations of all rows, a hundred for each measure: so the whole panel is not measured by
    group. ``joined`` puts the two reports together.
    """
    name = resolve(reduction, n_classes)
    # Class by class mean labels less mean predictions add up to 0.
    measures = {"canonical": ["confidence-gap"], "classwise": ["ece"]}.get(name, list(_BY_GROUP))
    return {"measures": measures, "interval": LEVEL, "resamples": OF_GROUPS, "seed": seed}


def joined(report: Mapping[str, Any], grouped: Mapping[str, Any]) -> dict[str, Any]:
    """The report with the groups, and the gaps between them, of the second one."""
    whole = dict(report) | {key: grouped[key] for key in ("groups", "gaps") if grouped.get(key) is not None}
    gaps = (grouped.get("after") or {}).get("gaps")
    if gaps is not None and report.get("after") is not None:
        whole["after"] = {**report["after"], "gaps": gaps}
    return whole
