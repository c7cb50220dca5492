"""``POST /evaluate``, and diagrams that need more than one event."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Document, Reference, Seed
from schemas.batches import Arrays, Scale, WeightsKind

# --- Diagrams that need more than one event: measures by number of rows, and the costs of two models' decisions

Share = Annotated[float, Field(ge=0, le=1)]
Ratio = Annotated[float, Field(gt=0, le=1e9)]


class BySizePicture(Document):
    """Measures on random subsamples of growing size: what is not biased stays level."""

    name: Literal["by-size"]
    measures: list[str | dict[str, Any]] = Field(
        ["ece", "ks"], min_length=1, max_length=4, description="names, or objects of a name, options and as"
    )
    start: int = Field(100, ge=1, description="the smallest size, below the number of rows of weight above 0")
    start_repetitions: int = Field(100, ge=1, le=100_000, description="subsamples of the smallest size")


class CostPlanePicture(Document):
    """Which of two models' decisions cost less, where the least confident may be left to another at a price."""

    name: Literal["cost-plane"]
    abstention: list[Share] | None = Field(
        None, min_length=1, max_length=100, description="shares left to another; default: 0, 0.05, ..., 0.95"
    )
    cost_ratios: list[Ratio] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="costs of an error, in costs of leaving it; default: 1, 2, 5, 10, 20, 50, 100",
    )


Pictured = Annotated[BySizePicture | CostPlanePicture, Field(discriminator="name")]


# --- ``POST /evaluate``

Correction = Literal["max-t", "holm"]
Of = Literal["value", "debiased"]


class EvaluateOptions(Document):
    """Everything of an evaluation but its arrays. ``batch`` or ``batches`` stand in their place."""

    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    batches: list[str] | None = Field(
        None,
        min_length=2,
        max_length=100,
        description="ids of stored batches, instead of the arrays: a report of each, and of five or more the power law",
    )
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
    maps: list[Reference] | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="maps to compare with each other and with the predictions as they came, uncalibrated",
        examples=[["spam:1", "spam:2"]],
    )
    correction: Correction = Field("max-t", description="of a comparison, over all pairs of a measure")
    interval: float | None = Field(
        None, gt=0, lt=1, description="default: none; 0.95 of maps and batches", examples=[0.95]
    )
    resamples: int = Field(1000, ge=100, le=100_000)
    seed: Seed = 0


class ContestantSpec(Document):
    """A map to compare: the name that the caller gave it, and its id."""

    name: str
    map: str


class EvaluateSpec(Document):
    """An evaluation as a job keeps it: ids and options, never arrays; ``map`` is an id.

    ``batch`` is None where ``batches`` are evaluated.
    """

    batch: str | None
    parts: int | None = Field(None, description="the first parts of the batch alone; None: all")
    batches: list[str] | None = None
    parts_of: list[int] | None = Field(None, description="of ``batches``, the first parts of each alone; None: all")
    by_group: bool = Field(True, description="whether groups, if the rows have them, are reported separately")
    report: bool = Field(False, description="a whole report, with groups apart and a recommendation")
    picture: Pictured | None = Field(None, description="makes this alone, in the place of measures and diagrams")
    maps: list[ContestantSpec] | None = None
    correction: Correction = "max-t"
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


class ContestantAnswer(Document):
    """One contestant; the first is ``uncalibrated``, the predictions as they came, without a map."""

    name: str = Field(description="the reference that was given, or uncalibrated")
    map: str | None
    in_sample: bool | None = Field(None, description="whether the map was fitted to these rows; null: not known")
    measures: Measures
    classification_error: float | None
    brier: float | None
    improvement: Measures | None = None


class PairAnswer(Document):
    """The difference of two contestants, first less second; null where ``problem`` says why."""

    between: tuple[str, str]
    difference: float
    interval: tuple[float, float] | None = Field(None, description="all pairs of the measure hold at once")
    p_value: float | None = Field(None, description="adjusted over all pairs of the measure")
    unadjusted: float | None = Field(None, description="the p-value of this pair alone")
    problem: str | None = None


class MeasureComparisonAnswer(Document):
    """All contestants by one measure."""

    of: Of = Field(description="which values rank: debiased ones where every contestant has one")
    ranking: list[str] | None = Field(description="from the best; null where neither direction is better")
    indistinguishable: list[str] | None = Field(
        description="the best out of sample, and those whose difference from it chance explains"
    )
    pairs: list[PairAnswer]
    fronts: dict[Literal["classification-error", "brier"], list[str]] = Field(
        description="of a calibration error against each error, those that none beats in both"
    )
    problem: str | None = None


class ComparisonAnswer(Document):
    """Several maps side by side on the same rows."""

    correction: Correction
    level: float
    contestants: list[ContestantAnswer]
    measures: dict[str, MeasureComparisonAnswer]


class GroupDiagrams(Document):
    """The diagrams of one group's rows."""

    n: int
    diagrams: dict[str, DiagramAnswer]


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
    comparison: ComparisonAnswer | None = Field(None, description="if maps were requested")
    group_diagrams: dict[str, GroupDiagrams] | None = Field(
        None, description="of a whole report, the reliability diagram of each of two to nine groups"
    )
    recommendation: dict[str, Any] | None = Field(
        None, description="of a report that was requested as HTML: the map to fit, and what each would gain"
    )


class BatchReport(Document):
    """The report of one of several batches."""

    batch: str
    report: ReportAnswer


class PowerLawAnswer(Document):
    """calibration error = factor x classification error ^ exponent, over batches."""

    exponent: float | None
    factor: float | None
    interval: tuple[float, float] | None = Field(description="of the exponent")
    used: list[int] = Field(description="places of the batches whose errors are both above 0")
    of: Of = Field(description="debiased values where every batch has one above 0")
    problem: str | None = None


class ReportsAnswer(Document):
    """The answer of ``POST /evaluate`` with ``batches``; power laws by contestant and measure, null below five."""

    batches: list[BatchReport]
    power_law: dict[str, dict[str, PowerLawAnswer]] | None
    problem: str | None = None
