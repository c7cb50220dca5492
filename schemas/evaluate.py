"""``POST /evaluate``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.base import Document, Reference, Seed
from schemas.batches import Arrays, Scale, WeightsKind


class EvaluateOptions(Document):
    """Everything of an evaluation but its arrays. ``batch`` stands in their place."""

    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    scale: Scale | None = Field(None, description="default: probability, or the batch's own")
    weights_kind: WeightsKind | None = None
    measures: list[str | dict[str, Any]] | None = Field(
        None, examples=[["ece", {"name": "ece", "norm": 2, "as": "l2"}]]
    )
    diagrams: list[str | dict[str, Any]] | None = Field(
        None, description="diagrams to draw as data", examples=[["reliability", {"name": "corp", "level": 0.95}]]
    )
    reduction: str | None = Field(None, examples=["confidence"])
    classes: list[int] | None = Field(None, description="of (n, K), the classes to which predictions are restricted")
    map: Reference | None = Field(None, description="id, name or name:version of a map to apply first")
    interval: float | None = Field(None, gt=0, lt=1, examples=[0.95])
    resamples: int = Field(1000, ge=100, le=100_000)
    seed: Seed = 0


class EvaluateSpec(Document):
    """An evaluation as a job keeps it: ids and options, never arrays; ``map`` is an id."""

    batch: str
    measures: list[str | dict[str, Any]] | None
    diagrams: list[str | dict[str, Any]] | None = None
    reduction: str | None
    classes: list[int] | None = None
    map: str | None
    interval: float | None
    resamples: int
    seed: int


class EvaluateBody(EvaluateOptions, Arrays):
    """The body of ``POST /evaluate``."""

    predictions: list[float] | list[list[float]] | None = None  # type: ignore[assignment]


class MeasureAnswer(Document):
    """One measure's answer; what is not defined is null."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    parts: dict[str, Any] = Field(default_factory=dict, description="what does not fit one number")
    definition: dict[str, Any]
    problem: str | None = None


Measures = dict[str, MeasureAnswer]


class GapAnswer(Document):
    """The largest difference of a measure between two groups, those of its smallest and its largest value."""

    between: tuple[str, str] | None
    value: float | None
    of: Literal["value", "debiased"]
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    problem: str | None = None


class DiagramAnswer(Document):
    """One diagram's numbers; ``GET /diagrams`` says what each of its data is."""

    data: dict[str, Any] | None
    definition: dict[str, Any]
    problem: str | None = None


class After(Document):
    """The measures and diagrams after the map."""

    measures: Measures
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


class GroupAnswer(Document):
    """The measures of one group's rows."""

    n: int
    measures: Measures
    after: After | None = None


class ReportAnswer(Document):
    """The answer of ``POST /evaluate``."""

    n: int
    reduction: str
    left_out: int = Field(0, description="rows of other classes than those chosen")
    clipped: int
    renormalised: int
    measures: Measures
    map: str | None = None
    after: After | None = None
    in_sample: bool | None = Field(None, description="whether the map was fitted to these rows; null: not known")
    improvement: Measures | None = Field(
        None, description="brier and log-loss before less after the map; in sample, of out-of-fold predictions"
    )
    groups: dict[str, GroupAnswer] | None = None
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None
