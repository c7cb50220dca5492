"""Generated from schemas/evaluations.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.conveniences import (
    DistributionReportConveniences,
    GroupConveniences,
    MeasuresByName,
    ReportConveniences,
)
from calibrant.client.answers.coverage import CoverageAnswer
from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.grades import GradesAnswer
from calibrant.client.answers.segments import SegmentsAnswer
from calibrant.client.answers.sources import BasisAnswer
from calibrant.core.results import Measured

Of = Literal["value", "debiased"]
PoolingScale = Literal["identity", "log", "logit"]
Correction = Literal["max-t", "holm"]
Criterion = Literal["costs", "capacity", "precision", "recall"]
WeightsKind = Literal["importance", "frequency"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]
ForecastScore = Literal[
    "crps", "log-score", "dawid-sebastiani", "quantile-score", "interval-score", "squared-error", "absolute-error"
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasureAnswer(Measured, WireAnswer):
    """The result of one measure; undefined values are None."""

    value: float | None  # value; None if it is undefined
    #: value from which a part of its bias is removed; None if the measure has no correction
    debiased: float | None = None
    interval: tuple[float, float] | None = None  # confidence interval; None if none was requested or it is unknown
    p_value: float | None = None  # p-value of the test of the measure; None if it has none
    parts: dict[str, Any] = field(default_factory=dict)  # results beyond a single number
    definition: dict[str, Any]  # full definition: the name and every option
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class GapAnswer(WireAnswer):
    """The largest difference of a measure between two groups: those with its smallest and its largest value."""

    between: tuple[str, str] | None  # names of the groups with the smallest and the largest value
    value: float | None  # difference of the two groups
    of: Of  # which values differ most: plain or debiased ones
    interval: tuple[float, float] | None = None  # confidence interval; None if none was requested or it is unknown
    p_value: float | None = None  # p-value of equal values in both groups
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledAnswer(WireAnswer):
    """A measure pooled over groups, such as centres, by a random-effects model."""

    value: float | None  # mean over the groups
    interval: tuple[float, float] | None = None  # confidence interval; None if none was requested or it is unknown
    #: interval of the true value of another group; None for fewer than three
    prediction_interval: tuple[float, float] | None = None
    between: float | None  # standard deviation of true values between groups, on the scale
    i_squared: float | None  # share of the variance of estimates that is between groups
    groups: int  # number of groups with a value
    scale: PoolingScale  # scale on which values are pooled
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramAnswer(WireAnswer):
    """The data of one diagram; ``GET /diagrams`` describes each field."""

    data: dict[str, Any] | None  # data of the diagram
    definition: dict[str, Any]  # full definition: the name and every option
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class After(WireAnswer):
    """The measures and diagrams after applying the map."""

    measures: dict[str, MeasureAnswer]  # results of the measures by their key
    gaps: dict[str, GapAnswer] | None = None  # largest difference of each measure between two groups
    diagrams: dict[str, DiagramAnswer] | None = None  # data of each diagram by its key


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupAnswer(GroupConveniences, WireAnswer):
    """The measures of one group's rows."""

    n: int  # number of rows
    measures: dict[str, MeasureAnswer]  # results of the measures by their key
    after: After | None = None  # results after applying the map


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantAnswer(WireAnswer):
    """One contestant: a model; or a map, of which the first is ``uncalibrated``, the predictions without a map."""

    name: str  # the name of the model; or the reference in the request, or uncalibrated
    map: str | None  # id of the map; None for models and for the uncalibrated predictions
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: unknown
    measures: dict[str, MeasureAnswer]  # results of the measures by their key
    classification_error: float | None  # fraction of wrong predicted classes
    brier: float | None  # Brier score
    improvement: dict[str, MeasureAnswer] | None = None  # brier and log-loss before minus after the map


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer(WireAnswer):
    """The difference of two contestants, first minus second; if ``problem`` is set, some fields are None."""

    between: tuple[str, str]  # names of the two contestants
    difference: float | None  # value of the first minus that of the second
    interval: tuple[float, float] | None = None  # simultaneous interval for all pairs of the measure
    p_value: float | None = None  # adjusted for all pairs of the measure
    unadjusted: float | None = None  # p-value of this pair alone, unadjusted
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparisonAnswer(WireAnswer):
    """All contestants compared by one measure."""

    of: Of  # which values are ranked: debiased ones if every contestant has one
    ranking: list[str] | None  # best first; None if neither direction is better
    #: the best out-of-sample contestant, and those that do not differ from it significantly
    indistinguishable: list[str] | None
    pairs: list[PairAnswer]  # all pairs of contestants
    #: Pareto front of the calibration error and each other error
    fronts: dict[Literal["classification-error", "brier"], list[str]]
    problem: str | None = None  # why a value is missing; None if none is
    #: simultaneous interval of the rank of each contestant, 1 for the best; None if not ranked
    ranks: dict[str, tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparisonAnswer(WireAnswer):
    """The comparison on the rows of one group."""

    contestants: list[ContestantAnswer]  # each model; or the uncalibrated predictions and each map
    measures: dict[str, MeasureComparisonAnswer]  # comparison by each measure
    n: int  # number of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer(WireAnswer):
    """Several models or maps compared on the same rows, and on those of each group."""

    contestants: list[ContestantAnswer]  # each model; or the uncalibrated predictions and each map
    measures: dict[str, MeasureComparisonAnswer]  # comparison by each measure
    correction: Correction  # correction for multiple comparisons
    level: float  # level of the intervals
    rank_by: str | None = None  # key of the score that ranks the contestants; None without one
    groups: dict[str, GroupComparisonAnswer] | None = None  # comparison on the rows of each group


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDiagrams(WireAnswer):
    """The diagrams of one group's rows, or of one model."""

    n: int  # number of rows
    diagrams: dict[str, DiagramAnswer]  # data of each diagram by its key


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDifference(WireAnswer):
    """What compares the decisions of one model minus that of another, on the same rows."""

    value: float  # value; None if it is undefined
    interval: tuple[float, float]  # confidence interval; None if none was requested or it is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDecisions(WireAnswer):
    """Decisions of a model at its threshold; if ``problem`` is set, there is none."""

    threshold: float | None  # decisions are positive from this probability up
    measures: dict[str, MeasureAnswer]  # what the decisions are like
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDecisions(WireAnswer):
    """Decisions of models at the threshold that a criterion determines."""

    criterion: Criterion  # what determined the thresholds
    value: float | tuple[float, float]  # its value: both costs, the capacity or the bound
    level: float  # of the intervals, and of the guarantee of a bound for each model
    models: dict[str, ModelDecisions]  # by model; or by `model`
    #: what `differences` are of: the cost per row for costs, the recall for a capacity, and nothing for a bound, whose
    #: threshold labels choose
    compared: Literal["cost", "recall"] | None
    differences: dict[str, DecisionDifference]  # of pairs of models; empty for one model
    diagrams: dict[str, GroupDiagrams]  # decision curves by model


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReportAnswer(ReportConveniences, WireAnswer):
    """The response of ``POST /evaluate``."""

    n: int  # number of rows
    #: what is measured or calibrated, such as binary, confidence, classwise or class:2; requests may name the class,
    #: as in class:dog
    reduction: str
    left_out: int = 0  # rows of classes that were not selected
    clipped: int  # number of rows whose probabilities were clipped to [0, 1] within rounding
    renormalised: int  # number of rows whose probabilities were divided by their sum, 1 within rounding
    weights_kind: WeightsKind | None = None  # None without weights
    clusters: int | None = None  # number of clusters; None without clusters
    basis: BasisAnswer | None = None  # of a source: what the results were computed from
    measures: dict[str, MeasureAnswer]  # results of the measures by their key
    map: str | None = None  # id of the map that was applied; None without one
    after: After | None = None  # results after applying the map
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: unknown
    warning: str | None = None  # warning of the map's fit, such as that it does not improve
    #: brier and log-loss before minus after the map; in-sample: of out-of-fold predictions
    improvement: dict[str, MeasureAnswer] | None = None
    groups: dict[str, GroupAnswer] | None = None  # results of each group by its name
    gaps: dict[str, GapAnswer] | None = None  # largest difference of each measure between two groups
    #: slopes, intercepts, O/E and AUROC before the map, pooled over the groups; needs intervals
    pooled: dict[str, PooledAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None  # data of each diagram by its key
    comparison: ComparisonAnswer | None = None  # if models or maps were compared
    #: in a full report: the reliability diagram of each group, for two to nine groups
    group_diagrams: dict[str, GroupDiagrams] | None = None
    #: in a comparison of models requested as HTML: the diagrams of each model by name
    model_diagrams: dict[str, GroupDiagrams] | None = None
    #: in a report requested as HTML: the recommended map, and the gain of each candidate
    recommendation: dict[str, Any] | None = None
    sets: CoverageAnswer | None = None  # in a report requested as HTML with `sets`: their coverage
    grades: GradesAnswer | None = None  # in a report requested as HTML with `grades`: the tests of the grades
    #: in a report requested as HTML with a criterion: the decisions at its threshold
    decisions: ReportedDecisions | None = None
    #: in a report requested as HTML of rows with features: segments with a gap before the map
    segments: SegmentsAnswer | None = None
    #: in such a report: why no segments were searched, such as that rows are in clusters
    segments_problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport(WireAnswer):
    """The report of one of several batches."""

    batch: str  # id of the batch
    report: ReportAnswer  # report of the batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLawNumbers(WireAnswer):
    """calibration error = factor x classification error ^ exponent, over batches."""

    exponent: float | None  # exponent of the classification error
    factor: float | None  # factor of the power law
    interval: tuple[float, float] | None  # interval of the exponent
    used: list[int]  # indices of the batches with both errors above 0
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLawAnswer(PowerLawNumbers):
    """A power law, and the one of plain values."""

    of: Of  # debiased values if every batch has one above 0
    plain: PowerLawNumbers | None = None  # the power law of the values that are not debiased


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsAnswer(WireAnswer):
    """The response of ``POST /evaluate`` with ``batches``; power laws by contestant and measure, None below five."""

    batches: list[BatchReport]  # report of each batch, in the order of the request
    #: power law by contestant and measure; None for fewer than five batches
    power_law: dict[str, dict[str, PowerLawAnswer]] | None
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionGroupAnswer(MeasuresByName, WireAnswer):
    """The measures of one group's rows."""

    n: int  # number of rows
    measures: dict[str, MeasureAnswer]  # results of the measures by their key


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionAfter(MeasuresByName, WireAnswer):
    """The measures after applying the map; ``kind`` is that of the calibrated forecasts."""

    kind: ForecastKind  # kind of the forecasts that the map returns
    measures: dict[str, MeasureAnswer]  # results of the measures by their key
    groups: dict[str, DistributionGroupAnswer] | None = None  # results of each group by its name
    diagrams: dict[str, DiagramAnswer] | None = None  # data of each diagram by its key


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastComparisonAnswer(WireAnswer):
    """Forecasts of the same outcomes, compared by a proper score."""

    n: int  # number of rows
    score: ForecastScore  # name of the score that is compared
    level: float  # level of the intervals
    lags: int  # number of lags of the comparison of rows in time order
    #: mean score of `forecasts`, the rows of the request; of `calibrated`, with a map; and of each batch; None if
    #: infinite
    means: dict[str, float | None]
    ranking: list[str]  # best first
    pairs: list[PairAnswer]  # all pairs of contestants


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DistributionReportAnswer(DistributionReportConveniences, WireAnswer):
    """The response of ``POST /evaluate`` for predictive distributions of a number."""

    prediction_kind: Literal["regression"] = "regression"  # what is predicted: classes, or a number (regression)
    n: int  # number of rows
    kind: ForecastKind  # what the forecasts are given as
    n_repaired: int  # rows whose quantiles crossed by at most 1e-6 relative, and were repaired
    weights_kind: WeightsKind | None = None  # None without weights
    measures: dict[str, MeasureAnswer]  # results of the measures by their key
    groups: dict[str, DistributionGroupAnswer] | None = None  # results of each group by its name
    map: str | None = None  # id of the map
    after: DistributionAfter | None = None  # results after applying the map
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: unknown
    diagrams: dict[str, DiagramAnswer] | None = None  # if diagrams were requested
    comparison: ForecastComparisonAnswer | None = None  # if other forecasts were sent as `against`
