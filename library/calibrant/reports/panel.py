"""The measures and diagrams of a full report, the diagrams of groups, and the subject of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from calibrant.core.batch import Batch
from calibrant.core.inputs import reduction_with_name
from calibrant.core.reductions import Event, resolve, subject
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import CheckedBatch
from calibrant.measures.catalogue import LEVEL, PANEL

# --- Options of the evaluations of a full report

#: Resamples of an interval; for classwise measures; and of many rows with groups (the allowed minimum).
RESAMPLES, OF_CLASSES, OF_GROUPS = 1000, 200, 100
#: With more numbers than this (rows, times classes if each is measured), fewer resamples are used.
MANY = 200_000
#: The same for groups, whose resamples are measured row by row: 1,000 of so many numbers take about 3 s.
MANY_IN_GROUPS = 50_000
#: Resamples of rows with weights take this many times longer.
_WEIGHTED = 6

#: The decomposition whose interval needs few resamples.
_BINNED = {"name": "decomposition", "method": "binned"}
_EVENT: tuple[str | dict[str, Any], ...] = (
    *PANEL,
    "ks",
    "ks-end",
    "smooth-ece",
    "ece-isotonic",
    "confidence-gap",
    "optimal-temperature",
    _BINNED,
    "accuracy",
)
#: Measures without a meaning or an interval under classwise.
_NOT_OF_CLASSES = ("ks-end", "ece-isotonic", "optimal-temperature", "confidence-gap", "accuracy")
_VECTOR = ("confidence-gap", "optimal-temperature", "log-loss", "brier", _BINNED, "accuracy", "auroc")
_DIAGRAMS = ("reliability", "fit-on-test", "corp", "logit-logit", "ks-graphs")
_BY_GROUP = ("ece", "ks-end")


def full(n: int, n_classes: int | None, reduction: str | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Return the options of ``POST /evaluate`` for a full report of ``n`` rows.

    The evaluation of 10,000 rows of one event takes about half a second. Reductions other than one event have no
    diagrams. Raises ``UnknownReduction``.

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


def by_group(
    n: int, n_classes: int | None, reduction: str | None = None, *, weighted: bool = False, seed: int = 0
) -> dict[str, Any]:
    """Return the options of a second evaluation of ``n`` rows by group, for few measures.

    Each measure needs permutations of all rows, so a full report would be slow. ``joined`` merges the two reports.
    Resamples are as many as in ``evaluate``, or 100 if they would take more than about 3 s.
    """
    name = resolve(reduction, n_classes)
    events = (n_classes or 2) if name in ("classwise", "canonical", "pooled") else 1
    resamples = OF_GROUPS if n * events * (_WEIGHTED if weighted else 1) > MANY_IN_GROUPS else RESAMPLES
    # Under classwise, ks-end is uninformative: the differences of the classes sum to 0.
    measures = {"canonical": ["confidence-gap"], "classwise": ["ece"]}.get(name, list(_BY_GROUP))
    return {"measures": measures, "interval": LEVEL, "resamples": resamples, "seed": seed}


def joined(report: Mapping[str, Any], grouped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report with the groups, and the gaps between them, of the second report."""
    whole = dict(report) | {key: grouped[key] for key in ("groups", "gaps") if grouped.get(key) is not None}
    gaps = (grouped.get("after") or {}).get("gaps")
    if gaps is not None and report.get("after") is not None:
        whole["after"] = {**report["after"], "gaps": gaps}
    return whole


# --- Reliability diagrams of groups

#: With more groups, a report has only their table.
MOST = 9


def group_diagrams(rows: CheckedBatch) -> dict[str, Any] | None:
    """Return the reliability diagram of each group by name: the ``group_diagrams`` of a report.

    Each entry has ``n`` and ``diagrams``. Returns None without groups, for a single one, for more than nine, and if the
    reduction is not one event. O(n log n).
    """
    measured, members = subject(rows.batch, rows.reduction), rows.members or {}
    if not isinstance(measured, Event) or not 2 <= len(members) <= MOST:
        return None
    return event_diagrams({name: measured.rows(own) for name, own in members.items()}, ("reliability",))


#: The diagrams of each model of a comparison.
OF_MODELS = ("reliability", "murphy")


def model_diagrams(models: Mapping[str, Batch], reduction: str) -> dict[str, Any] | None:
    """Return the diagrams of each model by name: the ``model_diagrams`` of a report, like those of groups.

    Returns None if the reduction is not one event. O(models n log n).
    """
    subjects = {name: subject(batch, reduction) for name, batch in models.items()}
    return event_diagrams({name: of for name, of in subjects.items() if isinstance(of, Event)}, OF_MODELS) or None


def event_diagrams(events: Mapping[str, Event], diagrams: Sequence[str]) -> dict[str, Any]:
    """Return the number of rows and the diagrams of each event by name."""
    requests = read_diagrams(diagrams)
    return {
        name: {"n": len(event), "diagrams": {request.key: request.drawn(event) for request in requests}}
        for name, event in events.items()
    }


@dataclass(frozen=True)
class ReportSubject:
    """The subject of a report and how it was made.

    Attributes
    ----------
    name : str
        Name of the file or batch.
    version : str
        Version of Calibrant.
    when : datetime or None
        Time of the report; None to omit it.
    inferred : tuple of str
        Notes on what was inferred from the file.
    options : mapping
        Options of ``POST /evaluate``, never an API key.
    classes : tuple of str or None
        Names of the classes in order.
    weights : str or None
        Kind of weights; None without weights.
    map : str or None
        Name of the map that was applied.
    scale : str
        Scale of the predictions.
    command : str or None
        Command line that made the report, without an API key.
    loading : tuple of str
        Lines of Python that read ``rows`` from a file.
    applying : str or None
        Python expression that loads the map.
    origin : str or None
        Description of the origin of the rows if ``loading`` is empty.
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

    def named(self, reduction: str) -> str:
        """Return a reduction with the name of its class, to be shown."""
        return reduction_with_name(reduction, self.classes, self.options.get("classes"))
