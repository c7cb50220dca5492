"""The panel of a full report, its subject, and the diagrams of a few groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from calibrant.batch import Batch
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.reductions import Event, resolve, subject

# --- Options of the evaluations of a full report

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
    """Options of ``POST /evaluate`` that make a full report of ``n`` rows; other options may be added.

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


# --- Reliability diagrams of groups

#: More groups than this are a table alone.
MOST = 9
#: Bins of each: groups are smaller than the whole.
_BINS = 10


def group_diagrams(batch: Batch, groups: Sequence[str], reduction: str | None = None) -> dict[str, Any] | None:
    """The reliability diagram of each group's rows, by name: the ``group_diagrams`` of a report.

    Each has ``n`` and ``diagrams``, as reports have them. None of one group or more than nine, and where the reduction
    is not one event. Raises ``UnknownReduction``. O(n log n).
    """
    measured = subject(batch, resolve(reduction, batch.predictions.n_classes))
    names, member = np.unique(np.asarray(groups, dtype=object), return_inverse=True)
    if not isinstance(measured, Event) or not 2 <= len(names) <= MOST:
        return None
    (request,) = read_diagrams([{"name": "reliability", "n_bins": _BINS}])
    rows = [np.flatnonzero(member == i) for i in range(len(names))]
    return {
        str(name): {"n": len(own), "diagrams": {"reliability": request.drawn(measured.rows(own))}}
        for name, own in zip(names, rows, strict=True)
    }


@dataclass(frozen=True)
class ReportSubject:
    """What a report is about, and how it was made.

    ``name`` is that of the file or batch; ``inferred`` what was inferred from the file, a sentence each; ``version``
    that of Calibrant; ``when`` the time, or None to leave it out; ``options`` those of ``POST /evaluate``, never a key;
    ``classes`` the names of the classes in order, if they have any; ``weights`` what weights count, None without;
    ``map`` the name of the map that was applied; ``scale`` that of the predictions. ``command`` is the command line
    that made the report, never with a key; ``loading`` are lines of Python that read the ``rows`` of a file, and
    ``applying`` the expression of the map; ``origin`` describes where the rows come from if there are no such lines.
    """

    name: str
    version: str
    when: datetime | None = None
    inferred: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    weights: str | None = None
    map: str | None = None
    scale: str = "probability"
    command: str | None = None
    loading: tuple[str, ...] = ()
    applying: str | None = None
    origin: str | None = None
