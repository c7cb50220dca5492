"""``POST /evaluate``, and pictures that need more than one event."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from calibrant.core.choices import ClusterVariance as ClusterVariance
from calibrant.core.choices import Correction as Correction
from calibrant.core.choices import Criterion as Criterion
from calibrant.core.choices import ForecastScore as ForecastScore
from calibrant.core.choices import Of as Of
from calibrant.core.choices import PoolingScale as PoolingScale
from calibrant.core.choices import RankedValues as RankedValues
from calibrant.core.choices import RankingScore as RankingScore
from schemas.base import Document, Reference, Seed
from schemas.batches import (
    ArraysOrBatch,
    InputScale,
    KeepBatch,
    Predictions,
    RequestWeightsKind,
    RowsOrBatch,
    WeightsKind,
)
from schemas.coverage import CoverageAnswer
from schemas.distributions import DistributionArrays, ForecastKind, Level
from schemas.grades import GradesAnswer
from schemas.segments import SegmentsAnswer
from schemas.sources import BasisAnswer, RowsByReference, SourceRows

# --- Pictures that need more than one event: measures by sample size, and decision costs of two models

Share = Annotated[float, Field(ge=0, le=1)]
Ratio = Annotated[float, Field(gt=0, le=1e9)]


class BySizePicture(Document):
    """Measures on random subsamples of increasing size; an unbiased measure stays level.

    With a map, the improvement: each measure before the map minus that after it, negated if larger is better.
    """

    name: Literal["by-size"]
    measures: list[str | dict[str, Any]] = Field(
        ["ece", "ks"], min_length=1, max_length=8, description="names, or objects with name, options and ``as``"
    )
    start: int = Field(
        100, ge=1, description="the smallest size; must be less than the number of rows with positive weight"
    )
    start_repetitions: int = Field(100, ge=1, le=100_000, description="number of subsamples of the smallest size")
    repetitions: Literal["paper"] | None = Field(
        None, description="paper: 2 (100 - 11 k)^2 subsamples of size k = 0, ..., 9, as in Gruber & Buettner (2022)"
    )
    reductions: list[str] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="reductions, instead of the field reduction; at most eight curves in all",
    )
    squared: bool = Field(False, description="square the measures, before subtracting")


class CostPlanePicture(Document):
    """Compares the decision costs of two models that may abstain on their least confident predictions at a cost."""

    name: Literal["cost-plane"]
    abstention: list[Share] | None = Field(
        None, min_length=1, max_length=100, description="fractions of abstention; default: 0, 0.05, ..., 0.95"
    )
    cost_ratios: list[Ratio] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="cost of an error relative to that of an abstention; default: 1, 2, 5, 10, 20, 50, 100",
    )


Pictured = Annotated[BySizePicture | CostPlanePicture, Field(discriminator="name")]


# --- ``POST /evaluate``

#: The name of a model in a request.
ModelName = Annotated[str, Field(min_length=1, max_length=256)]


Fraction = Annotated[float, Field(gt=0, lt=1)]


class ThresholdCriteria(Document):
    """What determines a threshold for decisions; at most one is not null."""

    costs: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="criterion of the threshold: costs of a false positive and of a false negative",
        examples=[[1, 5]],
    )
    capacity: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="criterion of the threshold: the most positive decisions, as a number of rows from 2, or a "
        "fraction below 1",
    )
    precision: Fraction | None = Field(
        None, description="criterion of the threshold: lower bound of the precision, guaranteed"
    )
    recall: Fraction | None = Field(
        None, description="criterion of the threshold: lower bound of the recall, guaranteed"
    )


class MeasuredOptions(RowsOrBatch, ThresholdCriteria):
    """The options that evaluations and comparisons share."""

    keep_batch: KeepBatch = False
    source: RowsByReference = None
    measures: list[str | dict[str, Any]] | None = Field(
        None,
        description="names of `GET /measures`, or objects with name, options and ``as``, the key of the result",
        examples=[["ece", {"name": "ece", "norm": 2, "as": "l2"}]],
    )
    reduction: str | None = Field(None, examples=["confidence"])
    maps: list[Reference] | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="maps to compare with each other and with the uncalibrated predictions",
        examples=[["spam:1", "spam:2"]],
    )
    of: RankedValues = Field(
        "debiased", description="for a comparison: compare debiased values, if every contestant has one, or plain ones"
    )
    interval: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="confidence level; default: 0.95 for the default measures and comparisons, otherwise none",
        examples=[0.95],
    )
    resamples: int = Field(1000, ge=100, le=100_000)
    cluster_variance: ClusterVariance = Field(
        "cr2",
        description="variance of means and parameters from rows in clusters: cr2 with Satterthwaite's degrees of "
        "freedom, cr1 with one less than clusters, or cr0 with normal quantiles",
    )
    seed: Seed = 0


class EvaluateOptions(MeasuredOptions):
    """All options of an evaluation except its arrays; ``batch`` or ``batches`` may replace the arrays."""

    batches: list[str] | None = Field(
        None,
        min_length=2,
        max_length=100,
        description="ids of stored batches, instead of the arrays: one report each, and the power law for five or more",
    )
    diagrams: list[str | dict[str, Any]] | None = Field(
        None,
        description="diagrams to return as data: names of `GET /diagrams`, or objects with name, options and ``as``",
        examples=[["reliability", {"name": "corp", "level": 0.95}]],
    )
    classes: list[int] | None = Field(None, description="for (n, K): the classes to restrict predictions to")
    map: Reference | None = Field(None, description="id, name or name:version of a map to apply first")
    sets: Reference | None = Field(
        None,
        description="map to prediction sets, whose coverage and sizes are a section of a report requested as HTML; its "
        "random numbers have the seed",
    )
    grades: bool = Field(
        False,
        description="groups are rating grades, and predictions their PDs, whose tests are a section of a report "
        "requested as HTML",
    )
    correction: Correction = Field("max-t", description="for a comparison: correction for all pairs of a measure")


class CompareOptions(MeasuredOptions):
    """All options of a comparison except its arrays; there are ``models``, ``batches`` or ``maps``."""

    batches: dict[ModelName, str] | None = Field(
        None,
        min_length=2,
        max_length=20,
        description="ids of stored batches by the name of the model, instead of ``models``; they have the same labels "
        "and weights",
        examples=[{"forest": "batch_1", "boosting": "batch_2"}],
    )
    rank_by: RankingScore | None = Field(
        None,
        description="proper score that ranks; default for models: log-loss, or brier if a label had probability 0",
    )
    correction: Correction | None = Field(
        None, description="correction for all pairs of a measure; default: holm, but max-t for maps"
    )


class RankedMaps(EvaluateOptions):
    """The options of ``POST /compare`` with ``maps``, as those of an evaluation."""

    rank_by: RankingScore | None = None
    correction: Correction | None = None  # type: ignore[assignment]


class ContestantSpec(Document):
    """A map to compare: the reference that the caller gave, and its id."""

    name: str
    map: str


class EvaluateSpec(ThresholdCriteria):
    """An evaluation as stored with a job: ids and options, never arrays; ``map`` is an id.

    ``batch`` is None if ``batches`` or the rows of a ``source`` are evaluated.
    """

    batch: str | None
    parts: int | None = Field(None, description="only the first parts of the batch; None: all")
    source: SourceRows | None = None
    scale: InputScale | None = Field(None, description="of the rows of a source")
    weights_kind: WeightsKind | None = Field(None, description="of the rows of a source")
    class_names: list[str] | None = Field(None, description="of the rows of a source")
    batches: list[str] | None = None
    parts_of: list[int] | None = Field(None, description="for ``batches``: only the first parts of each; None: all")
    by_group: bool = Field(True, description="whether groups are reported separately, if there are any")
    report: bool = Field(False, description="a full report with groups and a recommendation")
    picture: Pictured | None = Field(None, description="draws this picture instead of computing measures and diagrams")
    maps: list[ContestantSpec] | None = None
    models: list[ModelName] | None = Field(None, description="names of the models that ``batches`` are the rows of")
    rank_by: RankingScore | None = None
    correction: Correction | None = None
    of: RankedValues = "debiased"
    measures: list[str | dict[str, Any]] | None
    diagrams: list[str | dict[str, Any]] | None = None
    reduction: str | None
    classes: list[int] | None = None
    map: str | None
    sets: str | None = Field(None, description="id of the set map of a full report")
    grades: bool = Field(False, description="whether a full report tests the groups as rating grades")
    interval: float | None
    resamples: int
    cluster_variance: ClusterVariance = "cr2"
    seed: int


class EvaluateBody(EvaluateOptions, ArraysOrBatch):
    """The body of ``POST /evaluate``."""


class ArraysOrModels(ArraysOrBatch):
    """The arrays of a call as JSON, or those of several models, unless its rows are those of a batch."""

    models: dict[ModelName, Predictions] | None = Field(
        None,
        min_length=2,
        max_length=20,
        description="predictions of the models by name; each P(Y=1) of each row, or K class probabilities each. In "
        "other formats than JSON, arrays or columns named `models/NAME`",
        examples=[{"forest": [0.2, 0.3, 0.7, 0.8], "boosting": [0.1, 0.4, 0.6, 0.9]}],
    )


class CompareBody(CompareOptions, ArraysOrModels):
    """The body of ``POST /compare``."""


class MeasureAnswer(Document):
    """The result of one measure; undefined values are null."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    parts: dict[str, Any] = Field(default_factory=dict, description="results beyond a single number")
    definition: dict[str, Any] = Field(description="full definition: the name and every option")
    problem: str | None = None


Measures = dict[str, MeasureAnswer]


class GapAnswer(Document):
    """The largest difference of a measure between two groups: those with its smallest and its largest value."""

    between: tuple[str, str] | None = Field(description="names of the groups with the smallest and the largest value")
    value: float | None = Field(description="difference of the two groups")
    of: Of = Field(description="which values differ most: plain or debiased ones")
    interval: tuple[float, float] | None = None
    p_value: float | None = Field(None, description="p-value of equal values in both groups")
    problem: str | None = None


class PooledAnswer(Document):
    """A measure pooled over groups, such as centres, by a random-effects model."""

    value: float | None = Field(description="mean over the groups")
    interval: tuple[float, float] | None = None
    prediction_interval: tuple[float, float] | None = Field(
        None, description="interval of the true value of another group; null for fewer than three"
    )
    between: float | None = Field(description="standard deviation of true values between groups, on the scale")
    i_squared: float | None = Field(description="share of the variance of estimates that is between groups")
    groups: int = Field(description="number of groups with a value")
    scale: PoolingScale = Field(description="scale on which values are pooled")
    problem: str | None = None


class DiagramAnswer(Document):
    """The data of one diagram; ``GET /diagrams`` describes each field."""

    data: dict[str, Any] | None
    definition: dict[str, Any] = Field(description="full definition: the name and every option")
    problem: str | None = None


class After(Document):
    """The measures and diagrams after applying the map."""

    measures: Measures
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


class GroupAnswer(Document):
    """The measures of one group's rows."""

    n: int
    measures: Measures
    after: After | None = None


class ContestantAnswer(Document):
    """One contestant: a model; or a map, of which the first is ``uncalibrated``, the predictions without a map."""

    name: str = Field(description="the name of the model; or the reference in the request, or uncalibrated")
    map: str | None = Field(description="id of the map; null for models and for the uncalibrated predictions")
    in_sample: bool | None = Field(None, description="whether the map was fitted to these rows; null: unknown")
    measures: Measures
    classification_error: float | None = Field(description="fraction of wrong predicted classes")
    brier: float | None
    improvement: Measures | None = Field(None, description="brier and log-loss before minus after the map")


class PairAnswer(Document):
    """The difference of two contestants, first minus second; if ``problem`` is set, some fields are null."""

    between: tuple[str, str] = Field(description="names of the two contestants")
    difference: float | None = Field(description="value of the first minus that of the second")
    interval: tuple[float, float] | None = Field(None, description="simultaneous interval for all pairs of the measure")
    p_value: float | None = Field(None, description="adjusted for all pairs of the measure")
    unadjusted: float | None = Field(None, description="p-value of this pair alone, unadjusted")
    problem: str | None = None


class MeasureComparisonAnswer(Document):
    """All contestants compared by one measure."""

    of: Of = Field(description="which values are ranked: debiased ones if every contestant has one")
    ranking: list[str] | None = Field(description="best first; null if neither direction is better")
    indistinguishable: list[str] | None = Field(
        description="the best out-of-sample contestant, and those that do not differ from it significantly"
    )
    pairs: list[PairAnswer]
    fronts: dict[Literal["classification-error", "brier"], list[str]] = Field(
        description="Pareto front of the calibration error and each other error"
    )
    problem: str | None = None
    ranks: dict[str, tuple[int, int]] | None = Field(
        None, description="simultaneous interval of the rank of each contestant, 1 for the best; null if not ranked"
    )


class ComparedAnswer(Document):
    """Several models or maps compared on the same rows."""

    contestants: list[ContestantAnswer] = Field(description="each model; or the uncalibrated predictions and each map")
    measures: dict[str, MeasureComparisonAnswer] = Field(description="comparison by each measure")


class GroupComparisonAnswer(ComparedAnswer):
    """The comparison on the rows of one group."""

    n: int


class ComparisonAnswer(ComparedAnswer):
    """Several models or maps compared on the same rows, and on those of each group."""

    correction: Correction
    level: float
    rank_by: str | None = Field(None, description="key of the score that ranks the contestants; null without one")
    groups: dict[str, GroupComparisonAnswer] | None = Field(None, description="comparison on the rows of each group")


class GroupDiagrams(Document):
    """The diagrams of one group's rows, or of one model."""

    n: int
    diagrams: dict[str, DiagramAnswer]


class DecisionDifference(Document):
    """What compares the decisions of one model minus that of another, on the same rows."""

    value: float
    interval: tuple[float, float]


class ModelDecisions(Document):
    """Decisions of a model at its threshold; if ``problem`` is set, there is none."""

    threshold: float | None = Field(description="decisions are positive from this probability up")
    measures: Measures = Field(description="what the decisions are like")
    problem: str | None = None


class ReportedDecisions(Document):
    """Decisions of models at the threshold that a criterion determines."""

    criterion: Criterion = Field(description="what determined the thresholds")
    value: float | tuple[float, float] = Field(description="its value: both costs, the capacity or the bound")
    level: float = Field(description="of the intervals, and of the guarantee of a bound for each model")
    models: dict[str, ModelDecisions] = Field(description="by model; or by ``model``")
    compared: Literal["cost", "recall"] | None = Field(
        description="what ``differences`` are of: the cost per row for "
        "costs, the recall for a capacity, and nothing for a bound, whose threshold labels choose"
    )
    differences: dict[str, DecisionDifference]
    diagrams: dict[str, GroupDiagrams] = Field(description="decision curves by model")


class ReportAnswer(Document):
    """The response of ``POST /evaluate``."""

    n: int
    reduction: str
    left_out: int = Field(0, description="rows of classes that were not selected")
    clipped: int
    renormalised: int
    weights_kind: WeightsKind | None = Field(None, description="null without weights")
    clusters: int | None = Field(None, description="number of clusters; null without clusters")
    basis: BasisAnswer | None = Field(None, description="of a source: what the results were computed from")
    measures: Measures
    map: str | None = Field(None, description="id of the map that was applied; null without one")
    after: After | None = None
    in_sample: bool | None = Field(None, description="whether the map was fitted to these rows; null: unknown")
    warning: str | None = Field(None, description="warning of the map's fit, such as that it does not improve")
    improvement: Measures | None = Field(
        None, description="brier and log-loss before minus after the map; in-sample: of out-of-fold predictions"
    )
    groups: dict[str, GroupAnswer] | None = None
    gaps: dict[str, GapAnswer] | None = None
    pooled: dict[str, PooledAnswer] | None = Field(
        None, description="slopes, intercepts, O/E and AUROC before the map, pooled over the groups; needs intervals"
    )
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ComparisonAnswer | None = Field(None, description="if models or maps were compared")
    group_diagrams: dict[str, GroupDiagrams] | None = Field(
        None, description="in a full report: the reliability diagram of each group, for two to nine groups"
    )
    model_diagrams: dict[str, GroupDiagrams] | None = Field(
        None, description="in a comparison of models requested as HTML: the diagrams of each model by name"
    )
    recommendation: dict[str, Any] | None = Field(
        None, description="in a report requested as HTML: the recommended map, and the gain of each candidate"
    )
    sets: CoverageAnswer | None = Field(None, description="in a report requested as HTML with ``sets``: their coverage")
    grades: GradesAnswer | None = Field(
        None, description="in a report requested as HTML with ``grades``: the tests of the grades"
    )
    decisions: ReportedDecisions | None = Field(
        None, description="in a report requested as HTML with a criterion: the decisions at its threshold"
    )
    segments: SegmentsAnswer | None = Field(
        None, description="in a report requested as HTML of rows with features: segments with a gap before the map"
    )
    segments_problem: str | None = Field(
        None, description="in such a report: why no segments were searched, such as that rows are in clusters"
    )


class BatchReport(Document):
    """The report of one of several batches."""

    batch: str
    report: ReportAnswer


class PowerLawNumbers(Document):
    """calibration error = factor x classification error ^ exponent, over batches."""

    exponent: float | None = Field(description="exponent of the classification error")
    factor: float | None = Field(description="factor of the power law")
    interval: tuple[float, float] | None = Field(description="interval of the exponent")
    used: list[int] = Field(description="indices of the batches with both errors above 0")
    problem: str | None = None


class PowerLawAnswer(PowerLawNumbers):
    """A power law, and the one of plain values."""

    of: Of = Field(description="debiased values if every batch has one above 0")
    plain: PowerLawNumbers | None = Field(None, description="the power law of the values that are not debiased")


class ReportsAnswer(Document):
    """The response of ``POST /evaluate`` with ``batches``; power laws by contestant and measure, null below five."""

    batches: list[BatchReport] = Field(description="report of each batch, in the order of the request")
    power_law: dict[str, dict[str, PowerLawAnswer]] | None = Field(
        description="power law by contestant and measure; null for fewer than five batches"
    )
    problem: str | None = None


# --- ``POST /evaluate`` with ``prediction_kind: "regression"``


class EvaluateDistributionOptions(Document):
    """All options of an evaluation of forecasts except their arrays; ``batch`` may replace the arrays."""

    prediction_kind: Literal["regression"]
    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    keep_batch: KeepBatch = False
    level: Level | None = Field(None, description="of intervals")
    weights_kind: RequestWeightsKind = None
    measures: list[str | dict[str, Any]] | None = Field(
        None,
        examples=[["crps", {"name": "coverage", "level": 0.5, "as": "half"}]],
        description="default: some that suit the kind of forecasts",
    )
    diagrams: list[str | dict[str, Any]] | None = Field(
        None, description="names, or objects with name, options and ``as``", examples=[["coverage", "pit"]]
    )
    map: Reference | None = Field(None, description="id, name or name:version of a map to apply first")
    against: list[str] | None = Field(
        None,
        min_length=1,
        max_length=18,
        description="ids of stored batches with other forecasts of the same outcomes, to compare",
    )
    score: ForecastScore | None = Field(None, description="of a comparison; default: one that all forecasts have")
    lags: int = Field(
        0, ge=0, le=1000, description="of a comparison of rows in time order: at least h - 1 for h steps ahead"
    )
    interval: float | None = Field(
        None, gt=0, lt=1, description="confidence level; default: none, but 0.95 of a comparison", examples=[0.95]
    )
    seed: Seed = 0


class EvaluateDistributionBody(EvaluateDistributionOptions, DistributionArrays):
    """The body of ``POST /evaluate`` for predictive distributions of a number."""


class EvaluateDistributionSpec(Document):
    """An evaluation of forecasts as stored with a job: ids and options, never arrays."""

    prediction_kind: Literal["regression"] = "regression"
    batch: str
    parts: int | None = Field(None, description="only the first parts of the batch; None: all")
    measures: list[str | dict[str, Any]] | None
    diagrams: list[str | dict[str, Any]] | None = None
    map: str | None
    against: list[str] | None = None
    parts_of: list[int] | None = Field(None, description="for ``against``: only the first parts of each; None: all")
    score: ForecastScore | None = None
    lags: int = 0
    interval: float | None
    seed: int
    report: bool = Field(False, description="a full report with diagrams and a recommendation")


class DistributionGroupAnswer(Document):
    """The measures of one group's rows."""

    n: int
    measures: Measures


class DistributionAfter(Document):
    """The measures after applying the map; ``kind`` is that of the calibrated forecasts."""

    kind: ForecastKind = Field(description="kind of the forecasts that the map returns")
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


class ForecastComparisonAnswer(Document):
    """Forecasts of the same outcomes, compared by a proper score."""

    n: int
    score: ForecastScore
    level: float
    lags: int
    means: dict[str, float | None] = Field(
        description="mean score of ``forecasts``, the rows of the request; of ``calibrated``, with a map; and of each "
        "batch; null if infinite"
    )
    ranking: list[str] = Field(description="best first")
    pairs: list[PairAnswer]


class DistributionReportAnswer(Document):
    """The response of ``POST /evaluate`` for predictive distributions of a number."""

    prediction_kind: Literal["regression"] = "regression"
    n: int
    kind: ForecastKind = Field(description="what the forecasts are given as")
    n_repaired: int = Field(description="rows whose quantiles crossed by at most 1e-6 relative, and were repaired")
    weights_kind: WeightsKind | None = Field(None, description="null without weights")
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    map: str | None = None
    after: DistributionAfter | None = None
    in_sample: bool | None = Field(None, description="whether the map was fitted to these rows; null: unknown")
    diagrams: dict[str, DiagramAnswer] | None = Field(None, description="if diagrams were requested")
    comparison: ForecastComparisonAnswer | None = Field(None, description="if other forecasts were sent as ``against``")
