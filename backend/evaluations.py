"""Evaluations as the service and its workers both run them: from options and stored maps to the answer's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backend.store.registry.maps import MapStore
from calibrant.batch import Batch
from calibrant.by_size import BySize
from calibrant.calibrators import Fitting
from calibrant.comparison import LEAST_BATCHES, Comparison, PowerLaws, read_contestants
from calibrant.costs import Costs, Rows
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.errors import CalibrationError
from calibrant.evaluation import Evaluation
from calibrant.maps.calibration_map import load
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import Training
from calibrant.measures.intervals import Resampling
from calibrant.measures.selective import ABSTENTION, COST_RATIOS
from calibrant.progress import Progress, Rising
from calibrant.reports.document import comparison_document, law_document, report_document
from calibrant.reports.pictures import by_size_report, plane_report, read_by_size
from schemas.evaluate import BySizePicture, EvaluateSpec
from schemas.maps import MapRecord

#: The level of the intervals of a comparison and of power laws where none is asked for.
LEVEL = 0.95


@dataclass(frozen=True)
class Asked:
    """An evaluation, a comparison or what a picture shows, checked; the ids of its maps by name.

    ``by_group`` where groups matter.
    """

    task: Evaluation | Comparison | BySize | Costs
    map_id: str | None
    ids: dict[str, str]
    by_group: bool = True

    def check(self, batch: Batch, groups: Sequence[str] | None) -> None:
        """Raise what ``document`` would, without measuring."""
        if isinstance(self.task, BySize | Costs):
            self.task.check(batch)
        else:
            self.task.check(batch, groups if self.by_group else None)

    def matched(self, batch: Batch, first: Rows | None, where: str) -> Rows | None:
        """What the next of several batches must have like the first, where it must; raises at ``where`` if it has not.

        The models of a cost plane predict the same rows.
        """
        if not isinstance(self.task, Costs):
            return None
        rows = Rows.of(batch)
        if first is not None:
            rows.match(first, where)
        return first or rows

    def reduction(self, batch: Batch) -> str:
        """The reduction of a batch in full; raises what ``document`` would."""
        checked = self.task.check(batch)
        return checked if isinstance(checked, str) else checked[0]

    def seconds(self, batch: Batch, groups: Sequence[str] | None) -> float:
        """Estimated seconds of ``document``; raises what it would."""
        if isinstance(self.task, BySize | Costs):
            return self.task.seconds(batch)
        return self.task.seconds(batch, groups if self.by_group else None)

    def document(
        self, batch: Batch, groups: Sequence[str] | None, *, device: str = "cpu", progress: Progress | None = None
    ) -> dict[str, Any]:
        """The report of one batch as plain JSON."""
        if isinstance(self.task, BySize):
            return by_size_report(self.task, batch, progress)
        if isinstance(self.task, Costs):
            raise TypeError("a cost plane is of two batches")
        groups = groups if self.by_group else None
        if isinstance(self.task, Comparison):
            return comparison_document(self.task.run(batch, groups, device=device, progress=progress), self.ids)
        return report_document(self.task.run(batch, groups, device=device, progress=progress), self.map_id)


def read_asked(spec: EvaluateSpec, maps: MapStore) -> Asked:
    """Check what an evaluation asks for and load its maps; raises ``UnknownMap`` and ``CalibrationError``."""
    if spec.picture is not None:
        return Asked(_picture(spec), None, {}, by_group=False)
    level = LEVEL if spec.interval is None and (spec.maps or spec.batches) else spec.interval
    resampling = Resampling.read(level, spec.resamples, spec.seed)
    measures, diagrams = read_requests(spec.measures), read_diagrams(spec.diagrams)
    record = None if spec.map is None else maps.get(spec.map)
    fitted, training = (None, Training()) if record is None else (load(record.document), training_of(record))
    evaluation = Evaluation(measures, spec.reduction, fitted, resampling, spec.classes, diagrams, training)
    if spec.maps is None:
        return Asked(evaluation, None if record is None else record.id, {}, spec.by_group)
    records = {contestant.name: maps.get(contestant.map) for contestant in spec.maps}
    loaded = {name: load(found.document) for name, found in records.items()}
    contestants = read_contestants(loaded, {name: training_of(found) for name, found in records.items()})
    comparison = Comparison(evaluation, contestants, spec.correction)
    return Asked(comparison, None, {name: found.id for name, found in records.items()}, spec.by_group)


def _picture(spec: EvaluateSpec) -> BySize | Costs:
    """What a picture is made of; raises ``UnknownMeasure`` or ``InvalidOption`` below ``/diagram``."""
    picture = spec.picture
    if picture is None:
        raise TypeError("the request has no picture")
    if isinstance(picture, BySizePicture):
        return read_by_size(picture.model_dump(), spec.reduction, spec.seed)
    rates = ABSTENTION if picture.abstention is None else picture.abstention
    ratios = COST_RATIOS if picture.cost_ratios is None else picture.cost_ratios
    return Costs(rates, ratios, spec.reduction)


def training_of(record: MapRecord) -> Training:
    """How a stored map was fitted, as far as its record tells; an imported one cannot be fitted again."""
    if record.seed is None:
        return Training(record.digest, None)
    try:
        return Training(record.digest, Fitting.read(record.method, record.options, record.reduction), record.seed)
    except CalibrationError:
        return Training(record.digest, None, record.seed)


def several_document(
    asked: Asked,
    batches: Iterable[tuple[str, Batch, Sequence[str] | None]],
    number: int,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The reports of ``number`` batches and, of five or more, the power laws over them. One batch is held at a time.

    Of two models' batches the cost plane, where that was asked for.
    """
    if isinstance(asked.task, Costs):
        return plane_report(asked.task, ((batch_id, batch) for batch_id, batch, _ in batches), progress)
    if isinstance(asked.task, BySize):
        raise TypeError("measures by size are of one batch")
    laws, reports, told = PowerLaws(asked.task), [], Rising(progress, 2 * number)
    for i, (batch_id, batch, groups) in enumerate(batches):
        told.begin(2 * i)
        reports.append({"batch": batch_id, "report": asked.document(batch, groups, device=device, progress=told)})
        told.begin(2 * i + 1)
        laws.add(batch, told)
    if len(reports) >= LEAST_BATCHES:
        return {"batches": reports, "power_law": law_document(laws.laws()), "problem": None}
    problem = f"no power law: it takes {LEAST_BATCHES} batches"
    return {"batches": reports, "power_law": None, "problem": problem}
