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
    ForecastsOrBatch,
    InputScale,
    KeepBatch,
    Predictions,
    RowsOrBatch,
    WeightsKind,
)
from schemas.distributions import DistributionArrays
from schemas.sources import RowsByReference, SourceRows

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


# --- ``POST /evaluate`` with ``prediction_kind: "regression"``


class EvaluateDistributionOptions(ForecastsOrBatch):
    """All options of an evaluation of forecasts except their arrays; ``batch`` may replace the arrays."""

    keep_batch: KeepBatch = False
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
