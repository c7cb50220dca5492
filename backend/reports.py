"""Full reports: the evaluations that make up a report, and its assembly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from calibrant.core.batch import Batch
from calibrant.core.progress import Progress, report, reporting, step
from calibrant.reports.panel import by_group, full, group_diagrams, joined
from schemas.evaluate import EvaluateSpec

#: Estimated seconds of a recommendation: fixed, per row, and per number (rows times classes).
_ONCE, _ROW, _NUMBER = 0.05, 8e-6, 4e-6


class Evaluate(Protocol):
    """Evaluate the rows, as plain JSON."""

    def __call__(self, spec: EvaluateSpec, groups: Sequence[str] | None) -> dict[str, Any]:
        """Evaluate ``spec``; by group if there are ``groups``."""


def whole(spec: EvaluateSpec, n: int, n_classes: int | None, reduction: str) -> EvaluateSpec:
    """Complete ``spec`` with the default measures, diagrams and intervals of a report; ``reduction`` is the full name.

    Groups use only a few of the default measures, so they are evaluated separately.
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


def apart(spec: EvaluateSpec, n: int, n_classes: int | None, reduction: str, *, weighted: bool) -> EvaluateSpec | None:
    """The additional evaluation by group of a full report; None if the first evaluation already covers groups.

    It has the level of ``spec``, and at most its resamples.
    """
    if spec.by_group:
        return None
    options = by_group(n, n_classes, reduction, weighted=weighted, seed=spec.seed)
    options |= {"interval": spec.interval, "resamples": min(spec.resamples, options["resamples"])}
    return spec.model_copy(update=options | {"diagrams": None, "maps": None, "by_group": True})


def make(
    spec: EvaluateSpec,
    batch: Batch,
    groups: Sequence[str] | None,
    evaluate: Evaluate,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Assemble the report: all results, the groups, and the ``recommendation``."""
    with reporting(progress):
        with step(0, 3):
            found = evaluate(spec, groups if spec.by_group else None)
        weighted = batch.weights is not None
        n_classes = batch.predictions.n_classes if spec.classes is None else len(spec.classes)
        again = None if groups is None else apart(spec, len(batch), n_classes, found["reduction"], weighted=weighted)
        if again is not None:
            with step(1, 3):
                found = joined(found, evaluate(again, groups))
        if spec.classes is None:  # a map covers all classes, and groups cover all rows
            if groups is not None:
                drawn = group_diagrams(batch, groups, found["reduction"])
                found |= {} if drawn is None else {"group_diagrams": drawn}
            from calibrant.reports.advice import recommend

            report(2, 3, "recommendation")
            found["recommendation"] = recommend(batch, found["reduction"], seed=spec.seed).to_document()
        report(1, 1, "done")
    return found


def seconds_to_recommend(batch: Batch) -> float:
    """Estimated seconds of a recommendation for these rows."""
    from calibrant.reports.advice import MOST_NUMBERS, MOST_ROWS

    n, numbers = len(batch), len(batch) * (batch.predictions.n_classes or 1)
    return _ONCE + _ROW * min(n, MOST_ROWS) + _NUMBER * min(numbers, MOST_NUMBERS)
