"""A whole report from rows: what is asked of them in all, and the evaluations that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from calibrant.batch import Batch
from calibrant.progress import Progress, report, reporting, step
from calibrant.reports.advice import MOST_NUMBERS, MOST_ROWS, recommend
from calibrant.reports.panel import by_group, full, group_diagrams, joined
from schemas.evaluate import EvaluateSpec

#: Estimated seconds of a recommendation: of any, of a row, of a number (rows by classes).
_ONCE, _ROW, _NUMBER = 0.05, 8e-6, 4e-6


class Evaluate(Protocol):
    """One evaluation of the rows, as plain JSON."""

    def __call__(self, spec: EvaluateSpec, groups: Sequence[str] | None) -> dict[str, Any]:
        """Evaluate as ``spec`` says; by group where there are ``groups``."""


def whole(spec: EvaluateSpec, n: int, n_classes: int | None, reduction: str) -> EvaluateSpec:
    """``spec`` with the panel's measures, diagrams and intervals where it names none; ``reduction`` in full.

    Of the panel's measures groups have few, so that they are evaluated apart.
    """
    panel = full(n, n_classes, reduction, seed=spec.seed)
    given: dict[str, Any] = {"report": True}
    if spec.measures is None:
        given |= {"measures": panel["measures"], "by_group": False}
    if spec.diagrams is None:
        given["diagrams"] = panel.get("diagrams")
    if spec.interval is None:
        given |= {"interval": panel["interval"], "resamples": panel["resamples"]}
    return spec.model_copy(update=given)


def apart(spec: EvaluateSpec, reduction: str, n_classes: int | None) -> EvaluateSpec | None:
    """The evaluation by group that a whole report needs beside the first; None where the first tells of groups."""
    if spec.by_group:
        return None
    options = by_group(reduction, n_classes, seed=spec.seed)
    return (
        None
        if options is None
        else spec.model_copy(update=options | {"diagrams": None, "maps": None, "by_group": True})
    )


def make(
    spec: EvaluateSpec,
    batch: Batch,
    groups: Sequence[str] | None,
    evaluate: Evaluate,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report of ``whole``: everything measured, the groups, and the ``recommendation``."""
    with reporting(progress):
        with step(0, 3):
            found = evaluate(spec, groups if spec.by_group else None)
        again = None if groups is None else apart(spec, found["reduction"], batch.predictions.n_classes)
        if again is not None:
            with step(1, 3):
                found = joined(found, evaluate(again, groups))
        if spec.classes is None:  # a map is of all classes, and groups are of all rows
            if groups is not None:
                drawn = group_diagrams(batch, groups, found["reduction"])
                found |= {} if drawn is None else {"group_diagrams": drawn}
            report(2, 3, "recommendation")
            found["recommendation"] = recommend(batch, found["reduction"], seed=spec.seed).to_document()
        report(1, 1, "done")
    return found


def seconds_to_recommend(batch: Batch) -> float:
    """Estimated seconds of a recommendation for these rows."""
    n, numbers = len(batch), len(batch) * (batch.predictions.n_classes or 1)
    return _ONCE + _ROW * min(n, MOST_ROWS) + _NUMBER * min(numbers, MOST_NUMBERS)
