"""Reports that hold one picture alone: of measures by size, or of the costs of two models' decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calibrant.batch import Batch
from calibrant.by_size import BySize
from calibrant.costs import Costs, Rows
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.selective import ABSTENTION, COST_RATIOS
from calibrant.progress import Progress
from calibrant.reductions import Event
from calibrant.reports.document import by_size_document, plane_document
from schemas.evaluate import BySizePicture, CostPlanePicture

BY_SIZE, COST_PLANE = "by-size", "cost-plane"


def read_pictured(asked: BySizePicture | CostPlanePicture, reduction: str | None, seed: int) -> BySize | Costs:
    """What a picture is made of; raises ``UnknownMeasure`` and ``InvalidOption`` at ``/measures``."""
    if isinstance(asked, BySizePicture):
        requests = read_requests(asked.measures)
        return BySize(requests, reduction, asked.start, asked.start_repetitions, Resampling.read(None, seed=seed))
    rates = ABSTENTION if asked.abstention is None else asked.abstention
    ratios = COST_RATIOS if asked.cost_ratios is None else asked.cost_ratios
    return Costs(rates, ratios, reduction)


def by_size_report(task: BySize, batch: Batch, progress: Progress | None) -> dict[str, Any]:
    """The report of measures on subsamples of one batch."""
    found = task.run(batch, progress)
    measures = [{"as": each.key, "name": each.measure.name, **each.options} for each in task.measures]
    definition = {
        "name": BY_SIZE,
        "measures": measures,
        "start": task.start,
        "start_repetitions": task.start_repetitions,
        "seed": task.resampling.seed,
    }
    valueless = all(mean is None for curve in found.curves.values() for mean in curve.mean)
    problem = "no picture: no measure has a value at any size" if valueless else None
    return _report(len(batch), found.reduction, definition, by_size_document(found), problem)


def plane_report(task: Costs, batches: Iterable[tuple[str, Batch]], progress: Progress | None) -> dict[str, Any]:
    """The report of two models' batches of the same rows; one is held at a time."""
    first: Rows | None = None
    reduction, ids, events = "", list[str](), list[Event]()
    for i, (batch_id, batch) in enumerate(batches):
        if progress is not None:
            progress(i, 2, f"model {i + 1}")
        rows = Rows.of(batch)
        if first is not None:
            rows.match(first, f"/batches/{i}")
        first, reduction = first or rows, task.check(batch)
        ids.append(batch_id)
        events.append(task.event(batch))
    plane = task.run(events[0], events[1])
    definition = {
        "name": COST_PLANE,
        "abstention": list(task.abstention),
        "cost_ratios": list(task.cost_ratios),
        "batches": ids,
    }
    return _report(len(events[0]), reduction, definition, plane_document(plane), None)


def _report(
    n: int, reduction: str, definition: dict[str, Any], data: dict[str, Any], problem: str | None
) -> dict[str, Any]:
    shown = {"data": data, "definition": definition, "problem": problem}
    return {"n": n, "reduction": reduction, "diagrams": {definition["name"]: shown}}
