"""Generated from schemas/results.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.conveniences import (
    DistributionReportConveniences,
    GroupConveniences,
    MeasuresByName,
    ReportConveniences,
)
from calibrant.client.answers.document import WireAnswer
from calibrant.core.results import Measured

Light = Literal["green", "yellow", "red"]
Criterion = Literal["costs", "capacity", "precision", "recall"]
Of = Literal["value", "debiased"]
Correction = Literal["max-t", "holm"]
PoolingScale = Literal["identity", "log", "logit"]
Engine = Literal["local", "dask"]
WeightsKind = Literal["importance", "frequency"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]
ForecastScore = Literal[
    "crps", "log-score", "dawid-sebastiani", "quantile-score", "interval-score", "squared-error", "absolute-error"
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasureAnswer(Measured, WireAnswer):
    """The result of one measure; undefined values are None."""

    value: float | None  # value; None if it could not be computed; `problem` then gives the reason
    #: estimate from which a part of the bias of finite samples is removed; None if not defined for the measure. Only
    #: that of `squared-ece` is 0 on average for calibrated predictions
    debiased: float | None = None
    #: lower and upper end of the confidence interval; None if no level was given or there is none
    interval: tuple[float, float] | None = None
    p_value: float | None = None  # p-value of the hypothesis of calibration; None if not defined
    #: further results, such as the values of the classes or the terms of a decomposition
    parts: dict[str, Any] = field(default_factory=dict)
    definition: dict[str, Any]  # exact definition: the name of the measure and all options
    problem: str | None = None  # why a part of the result is missing or unreliable


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramAnswer(WireAnswer):
    """The data of one diagram; ``GET /diagrams`` describes each field."""

    data: dict[str, Any] | None  # data of the diagram
    definition: dict[str, Any]  # full definition: the name and every option
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizeAnswer(WireAnswer):
    """The response of ``GET /sample-size``."""

    n: int  # rows for every precision that was requested
    events: int  # events expected among them, rounded up
    measures: dict[str, int]  # rows for each measure
    prevalence: float  # expected fraction of events


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumAnswer(WireAnswer):
    """The coverage of the sets of some rows: those of a class, of sets of one size, or of a group."""

    name: str  # name of the class or group, or the size
    n: int  # number of rows, or the sum of frequency weights
    coverage: float  # share of the sets that have the label of their row
    low: float  # lower and upper end of the interval of Clopper & Pearson (1934)
    high: float  # lower and upper end of the interval of Clopper & Pearson (1934)
    mean_size: float  # mean number of classes in a set


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageAnswer(WireAnswer):
    """The response of ``POST /coverage``."""

    n: int  # number of rows, or the sum of frequency weights
    alpha: float | None  # error level: the nominal coverage is 1 - alpha; None if it is unknown
    level: float  # level of the intervals
    coverage: float  # share of the sets that have the label of their row
    low: float  # lower and upper end of its interval (Clopper & Pearson 1934)
    high: float  # lower and upper end of its interval (Clopper & Pearson 1934)
    mean_size: float  # mean number of classes in a set
    singletons: float  # share of the sets with one class
    empty: float  # share of the sets without a class
    #: largest |coverage - (1 - alpha)| of sizes 0-1, 2-3, 4-10, 11-100 and above (Angelopoulos et al. 2021); None
    #: without alpha. It is large also by chance if a stratum has few rows
    size_violation: float | None
    violating_sizes: str | None  # the sizes for which it is largest
    #: mean over the classes of |coverage - (1 - alpha)| (Ding et al. 2023), which other libraries give in percentage
    #: points; None without alpha
    class_gap: float | None
    #: its expected value if every class had the nominal coverage; None without alpha, and for importance weights
    class_gap_by_chance: float | None
    by_class: list[StratumAnswer]  # coverage of the rows of each class
    by_size: list[StratumAnswer]  # coverage of the sets of each size
    by_group: list[StratumAnswer]  # coverage of each group; empty without groups
    #: whether the sets are those of a map that was fitted to these rows, so that their coverage says nothing about new
    #: ones; None if it is unknown
    in_sample: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeAnswer(WireAnswer):
    """The tests of a grade; p-values are small if the PD is too low."""

    grade: str  # name of the grade; of all grades as one: (all)
    n: int  # number of obligors
    defaults: int  # number of defaults
    pd: float  # mean PD of the obligors
    rate: float  # observed rate of defaults
    jeffreys_p: float  # p-value of Jeffreys' test
    jeffreys_holm: float | None  # the same, corrected for all grades; None for (all)
    binomial_p: float  # p-value of the binomial test
    binomial_holm: float | None  # the same, corrected for all grades; None for (all)
    light: Light  # traffic light of the test: yellow for p-values up to 0.05, red up to 0.001
    one_factor_p: float | None  # p-value of the one-factor model; None without correlation
    one_factor_holm: float | None  # the same, corrected for all grades; None for (all)
    one_factor_light: Light | None  # traffic light of the test: yellow for p-values up to 0.05, red up to 0.001
    #: upper bound of the PD; None without confidence, for (all), and of the one-factor model without correlation
    prudent_pd: float | None
    #: upper bound of the PD; None without confidence, for (all), and of the one-factor model without correlation
    one_factor_prudent_pd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HosmerLemeshowAnswer(WireAnswer):
    """The Hosmer-Lemeshow test over the grades."""

    statistic: float  # sum over the grades of (D - n PD)^2 / (n PD (1 - PD))
    degrees_of_freedom: int  # number of grades
    p_value: float  # p-value of the test of the measure; None if it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class GradesAnswer(WireAnswer):
    """The response of ``POST /grades``."""

    #: from the lowest PD to the highest: `grade`, `n` obligors, `defaults`, mean `pd` and `rate` of defaults;
    #: p-values, small if the PD is too low, `jeffreys_p`, `binomial_p` and with a correlation `one_factor_p`; Holm's
    #: `jeffreys_holm` and so on; `light` and `one_factor_light`; with a confidence `prudent_pd` and
    #: `one_factor_prudent_pd`. What was not requested is None
    grades: list[GradeAnswer]
    total: GradeAnswer  # the tests of all grades as one, with their mean PD
    hosmer_lemeshow: HosmerLemeshowAnswer | None  # None if a PD is 1, or 0 or below 1e-150
    #: grades with several PDs, of which the mean is tested, and grades without obligors, which are left out
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCondition(WireAnswer):
    """A category, or a range of numbers; neither if the value is missing."""

    feature: str | None  # name of the feature; None for the prediction
    category: str | None  # the category; None for numbers
    above: float | None  # numbers are above this; None without a lower end
    up_to: float | None  # numbers are at most this; None without an upper end


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAnswer(WireAnswer):
    """A segment with a gap."""

    conditions: list[SegmentCondition]  # all of them hold; none for all rows
    n: int  # number of rows
    share: float  # share of all rows; with `held_out`, like `n`, of the rows held out
    mean_prediction: float  # mean prediction of its rows
    mean_label: float  # mean label of its rows
    gap: float  # mean label minus mean prediction
    interval: list[float]  # simultaneous interval of the gap
    p_value: float  # p-value, adjusted for all segments that were tested


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsAnswer(WireAnswer):
    """The response of ``POST /segments``."""

    #: segments with a gap, the clearest first. Each has its `conditions`, `n` rows, their `share` of all,
    #: `mean_prediction`, `mean_label`, `gap`, `interval` and `p_value`
    segments: list[SegmentAnswer]
    n: int  # number of rows
    tested: int  # number of segments that were tested
    significant: int  # number of segments with a significant gap, also of those that the listed ones explain
    confidence: float  # confidence that no segment is listed in which the predictions are calibrated
    critical: float  # critical value of the statistic, which is normal under calibration
    p_value: float  # smallest adjusted p-value: of the hypothesis that the predictions are calibrated in every segment
    #: share of the rows that tested the segments, which the others found; None if all rows did both
    held_out: float | None
    notes: list[str]  # what was left out


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticalibrationAnswer(WireAnswer):
    """The response of ``POST /multicalibration``."""

    #: largest Kuiper error of a segment, divided by its standard deviation under calibration; None if that is 0 in a
    #: segment whose predictions are exactly 0 or 1 and not all right
    value: float | None
    segment: dict[str, str]  # values of the features in that segment; empty for all rows
    #: p-value of `value` from labels drawn from the predictions, over all segments together; None without resamples
    p_value: float | None
    #: asymptotic p-value as if that segment were the only one. It is too small: the largest of many values is large
    uncorrected_p_value: float
    absolute: float | None  # `value` times the standard deviation of all rows, on the scale of probabilities
    relative: float | None  # `absolute` in percent of the rate of the rarer outcome; None for a single outcome
    all_rows: float | None  # the Kuiper error of all rows, divided by its standard deviation under calibration
    detectable: float  # 5 standard deviations of all rows, the smallest detectable error by the convention of MCGrad
    n_segments: int  # number of segments


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveAnswer(WireAnswer):
    """A curve over the thresholds, with its pointwise interval."""

    value: list[float]  # value at each threshold
    low: list[float]  # lower and upper end of its confidence interval
    high: list[float]  # lower and upper end of its confidence interval


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCurveAnswer(WireAnswer):
    """A decision curve: curves of each model, or of ``model``, and of the strategies treat all and treat none."""

    n: int  # number of rows
    prevalence: float  # rate of events
    level: float  # level of the intervals
    thresholds: list[float]  # thresholds, ascending. A row is treated if its prediction is at least the threshold
    #: true positives per row, less the false positives at the odds of the threshold: of each model, of `treat all` and
    #: of `treat none`. Larger is better
    net_benefit: dict[str, CurveAnswer]
    standardised: dict[str, CurveAnswer]  # the same divided by the prevalence; empty without events
    over_treat_all: dict[str, CurveAnswer]  # net benefit of each model minus that of treating all rows
    #: interventions avoided per row, compared with treating all rows, at the same number of true positives
    interventions_avoided: dict[str, CurveAnswer]
    #: net benefit of one model minus that of another, by `"first - second"`, on the same rows
    differences: dict[str, CurveAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionThresholdAnswer(WireAnswer):
    """A threshold: positive decisions are those with a prediction of at least this."""

    criterion: Criterion  # what determined the threshold
    threshold: float  # the threshold. Rows whose prediction is at least this are decided positively
    level: float  # level of the intervals, and of the guarantee of a bound
    n: int  # number of rows
    #: `positive`, the fraction of positive decisions; `precision` and `recall`; for costs also `cost`, the expected
    #: cost per row, and `excess-cost`, the part of it that recalibrated predictions avoid. A negative excess means
    #: that recalibration with these rows does harm
    measures: dict[str, MeasureAnswer]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantAnswer(WireAnswer):
    """One contestant: a model; or a map, of which the first is ``uncalibrated``, the predictions without a map."""

    name: str  # the name of the model; or the reference in the request, or uncalibrated
    measures: dict[str, MeasureAnswer]  # results by key
    classification_error: float | None  # fraction of wrong predicted classes: 1 - accuracy
    brier: float | None  # the Brier score; smaller is better
    #: whether the map was fitted to these rows; None if unknown and for the uncalibrated predictions. If true there
    #: are no p-values, `improvement` is cross-fitted, and the parts of the measures have `cross_fitted` values
    in_sample: bool | None = None
    #: `brier` and `log-loss` of the uncalibrated predictions minus those of the map; above 0 the map is better
    improvement: dict[str, MeasureAnswer] | None = None
    map: str | None  # id of the map; None for models and for the uncalibrated predictions


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer(WireAnswer):
    """The difference of two contestants, first minus second; if ``problem`` is set, some fields are None."""

    between: tuple[str, str]  # names of the two contestants
    difference: float | None  # value of the first minus that of the second
    interval: tuple[float, float] | None = None  # simultaneous confidence interval over all pairs of the measure
    p_value: float | None = None  # p-value adjusted for all pairs of the measure
    unadjusted: float | None = None  # p-value of this pair alone
    problem: str | None = None  # why there are no interval and no p-values


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparisonAnswer(WireAnswer):
    """All contestants compared by one measure."""

    of: Of  # which values are compared: debiased ones if every contestant with a value has one and `of` is not `plain`
    #: names, best first, without maps fitted to these rows; None if neither small nor large values are better. Models
    #: are ranked by the log loss and the Brier score alone
    ranking: list[str] | None
    indistinguishable: list[str] | None  # the best contestant, and those that do not differ from it significantly
    pairs: list[PairAnswer]  # differences of all pairs, with simultaneous intervals and adjusted p-values
    #: Pareto front of the calibration error and each other error
    fronts: dict[Literal["classification-error", "brier"], list[str]]
    problem: str | None = None  # why there are no intervals
    #: simultaneous interval of the rank of each contestant, 1 for the best; None without a ranking or intervals
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
class CandidateAnswer(WireAnswer):
    """A compared method."""

    method: str  # name of the method
    reduction: str  # what it is fitted to
    parameters: int | None  # number of parameters of the map; None if it depends on the data
    #: improvement over the uncalibrated predictions by score: `value`, a simultaneous `interval`, and in `parts` the
    #: scores `before` and `after`. Empty if the method could not be fitted
    gains: dict[str, MeasureAnswer]
    problem: str | None  # why the method could not be fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationAnswer(WireAnswer):
    """The response of ``POST /recommendations``."""

    method: str  # method of the recommended map, for `fit`; `identity` if the predictions should stay as they are
    reduction: str  # reduction of the fit
    n: int  # number of rows on which methods were compared
    verdict: str  # headline of the report: whether, how and by how much the predictions are miscalibrated
    headline: str  # the recommendation as a sentence
    reasons: list[str]  # why the map is recommended, or none
    python: str | None  # the call that fits the map; None without one
    candidates: list[CandidateAnswer]  # the compared methods


@dataclass(frozen=True, slots=True, kw_only=True)
class GapAnswer(WireAnswer):
    """The largest difference of a measure between two groups: those with its smallest and its largest value."""

    #: groups with the smallest and the largest value; None if fewer than two groups have a value
    between: tuple[str, str] | None
    value: float | None  # difference of the two values, at least 0
    of: Of  # which values were compared: debiased ones if every group has one
    #: confidence interval; None if no level was given or no interval is defined
    interval: tuple[float, float] | None = None
    #: p-value of the hypothesis that the groups do not differ; None if no level was given or there is none
    p_value: float | None = None
    problem: str | None = None  # why a part of the result is missing


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledAnswer(WireAnswer):
    """A measure pooled over groups, such as centres, by a random-effects model."""

    value: float | None  # mean over groups
    interval: tuple[float, float] | None = None  # confidence interval of the mean
    #: interval of the true value of another group; None for fewer than three
    prediction_interval: tuple[float, float] | None = None
    between: float | None  # standard deviation of true values between groups, on `scale`
    i_squared: float | None  # share of the variance of estimates that is between groups, in [0, 1]
    groups: int  # number of groups with a value
    scale: PoolingScale  # scale on which values are pooled
    problem: str | None = None  # why there is no value, or how many groups were left out


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisAnswer(WireAnswer):
    """What the results for a source were computed from."""

    #: all rows; counts of distinct predictions, which are exact for one event; or a tally of 2,048 cells
    form: Literal["rows", "distinct", "tally"]
    rows: int  # rows that meet the conditions
    bytes: int  # size of the files
    files: int  # number of files
    #: of a tally: the most by which a prediction differs from the one that stands for it; otherwise None
    tolerance: float | None
    engine: Engine = "local"  # what read the files: this process or the worker of the job, or a cluster of Dask


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReportAnswer(ReportConveniences, WireAnswer):
    """The response of ``POST /evaluate``."""

    n: int  # number of rows measured
    reduction: str  # reduction under which they were measured
    clipped: int  # rows with probabilities slightly outside [0, 1] that were clipped
    renormalised: int  # rows whose probabilities were divided by their sum, 1 within rounding
    measures: dict[str, MeasureAnswer]  # results by key, for the predictions as given
    after: After | None = None  # results after applying the map
    groups: dict[str, GroupAnswer] | None = None  # results of each group by its name
    gaps: dict[str, GapAnswer] | None = None  # largest difference of each measure between two groups
    #: slopes, intercepts, O/E and AUROC before the map, pooled over the groups; None without intervals
    pooled: dict[str, PooledAnswer] | None = None
    left_out: int = 0  # rows left out because their label is not among `classes`
    diagrams: dict[str, DiagramAnswer] | None = None  # data of each diagram by its key
    #: `brier` and `log-loss` before the map minus after it; above 0 the map improves the score. Scores of a map of the
    #: whole vector are of the whole vector; if `reduction` is another, their definition names it
    improvement: dict[str, MeasureAnswer] | None = None
    #: whether the map was fitted to these rows, or a quarter of them or more; None if unknown or without a map. If
    #: true, results after it have no p-value, but `cross_fitted` and `cross_fitted_debiased` parts, from maps fitted
    #: without the fold of each row, as `improvement` is
    in_sample: bool | None = None
    warning: str | None = None  # warning of the map's fit, such as that its cross-fitted gain was not positive
    weights_kind: WeightsKind | None = None  # `importance` or `frequency`; None without weights
    clusters: int | None = None  # number of clusters, for whose dependent rows intervals allow; None without clusters
    #: what the results were computed from, if the rows were read from a source; None for rows in memory
    basis: BasisAnswer | None = None
    map: str | None = None  # id of the map that was applied; None without one
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

    exponent: float | None  # exponent of the classification error; None if there is no law
    factor: float | None  # factor of the power law
    interval: tuple[float, float] | None  # confidence interval of the exponent
    used: list[int]  # indices of the batches with both errors above 0
    problem: str | None = None  # why there is no law or no interval


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

    n: int  # number of rows with weight
    score: ForecastScore  # name of the score that is compared
    level: float  # simultaneous level of the intervals
    lags: int  # number of lags of the autocovariances that are used
    #: mean score of `forecasts`, the rows of the request; of `calibrated`, with a map; and of each batch; None if
    #: infinite
    means: dict[str, float | None]
    ranking: list[str]  # names, best first
    pairs: list[PairAnswer]  # the difference for each pair, first minus second, with an interval and a p-value


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
