"""Whole reports over HTTP: evaluated here or by a job, and written as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from fastapi import Response

import calibrant
from backend.evaluations import read_asked
from backend.reports import apart, make, seconds_to_recommend, whole
from backend.store.errors import UnknownBatch
from backend.store.registry.maps import MapStore
from calibrant.batch import Batch, Scale
from calibrant.progress import Progress
from calibrant.reports.html import standalone
from calibrant.reports.panel import Subject
from schemas.evaluate import EvaluateSpec
from schemas.jobs import JobRecord
from service.context import Context
from service.formats.media import HTML
from service.html import SEALED

#: The options of an evaluation that are told for whoever makes the report again.
_OPTIONS = ("batch", "reduction", "classes", "map", "measures", "diagrams", "interval", "resamples", "seed")


class Whole(NamedTuple):
    """A whole report, and what it is of."""

    report: dict[str, Any]
    subject: Subject


@dataclass(frozen=True)
class Plan:
    """The evaluations that a whole report of these rows takes, checked; ``inline`` where none is a long fit."""

    spec: EvaluateSpec
    batch: Batch
    groups: Sequence[str] | None
    maps: MapStore
    seconds: float
    inline: bool

    @classmethod
    def of(cls, spec: EvaluateSpec, batch: Batch, groups: Sequence[str] | None, maps: MapStore) -> Plan:
        """Fill in the panel where nothing is named; raises what the evaluations would."""
        asked = read_asked(spec, maps)
        reduction = asked.reduction(batch)
        n_classes = batch.predictions.n_classes if spec.classes is None else len(spec.classes)
        spec = whole(spec, len(batch), n_classes, reduction)
        again = None if groups is None else apart(spec, reduction, n_classes)
        parts = [read_asked(each, maps) for each in (spec, again) if each is not None]
        seconds = sum(part.seconds(batch, groups) for part in parts) + seconds_to_recommend(batch)
        return cls(spec, batch, groups, maps, seconds, all(part.task.inline for part in parts))

    def run(self) -> dict[str, Any]:
        """The report."""

        def evaluate(spec: EvaluateSpec, groups: Sequence[str] | None, progress: Progress | None) -> dict[str, Any]:
            return read_asked(spec, self.maps).document(self.batch, groups, progress=progress)

        return make(self.spec, self.batch, self.groups, evaluate)


def subject_of(
    spec: EvaluateSpec, *, weights: str | None, scale: Scale = "probability", when: datetime | None = None
) -> Subject:
    """What the report of an evaluation is of, and how it is made again."""
    options = {name: getattr(spec, name) for name in _OPTIONS}
    options["maps"] = None if spec.maps is None else [contestant.name for contestant in spec.maps]
    return Subject(
        name="the rows sent" if spec.batch is None else spec.batch,
        version=calibrant.__version__,
        when=when or datetime.now(UTC),
        options={name: value for name, value in options.items() if value is not None},
        weights=weights,
        map=spec.map,
        scale=scale,
        origin="those of the request" if spec.batch is None else f"those of the batch {spec.batch}",
    )


def has_report(record: JobRecord) -> bool:
    """Whether a job has come to the report of one batch."""
    return "measures" in (record.result or {}).get("report", {})


def whole_of(here: Context, record: JobRecord) -> Whole:
    """The report of a job that evaluated one batch."""
    spec = EvaluateSpec.model_validate(record.spec)
    when = None if record.finished_at is None else datetime.fromisoformat(record.finished_at)
    weights, scale = _reading(here, spec.batch)
    subject = subject_of(spec, weights=weights, scale=scale, when=when)
    return Whole((record.result or {})["report"], subject)


async def report_page(here: Context, made: Whole) -> Response:
    """The report as one HTML file, its diagrams drawn when it is their turn."""
    text = await here.draw(partial(standalone, *made))
    return Response(text, headers={**SEALED, "Vary": "Accept"}, media_type=HTML)


def _reading(here: Context, batch_id: str | None) -> tuple[str | None, Scale]:
    """What the weights of a batch count, and its scale, as far as it is still there."""
    try:
        record = here.store.batches.record(batch_id or "")
    except UnknownBatch:
        return None, "probability"
    return record.weights_kind if "weights" in record.arrays else None, record.scale
