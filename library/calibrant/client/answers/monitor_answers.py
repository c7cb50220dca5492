"""Generated from schemas/monitor_answers.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.conveniences import ReadingConveniences, SeriesConveniences
from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.monitor_online import AdaptiveReading, OnlineReading
from calibrant.client.answers.monitor_rules import CoverageRule, DriftRule, EvidenceRule, RuleState, ThresholdRule
from calibrant.client.answers.monitors import (
    Counts,
    HookSpec,
    MonitorForecast,
    RecalibrationSpec,
    ReferenceSpec,
    WindowSpec,
)

PredictionKind = Literal["classification", "regression"]
Scale = Literal["probability", "logit"]
PlainFields = dict[
    str,
    float
    | int
    | str
    | bool
    | list[float | int | str | bool | None]
    | list[list[float | int | str | bool | None]]
    | None,
]
AxesScale = Literal["linear", "logit"]
EstimateStatus = Literal["estimated", "withheld", "not-applicable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorAnswer(WireAnswer):
    """A monitor as callers see it; a hook has its secret only in the response that generated it."""

    description: str | None = None  # free text
    #: windows of the monitor
    windows: list[WindowSpec] = field(default_factory=lambda: [WindowSpec(name="day", seconds=86_400)])
    #: names of measures, or objects with a name, options and `as`
    measures: list[str | dict[str, Any]] = field(default_factory=lambda: ["ece", "ks", "log-loss"])
    interval: float | None = 0.95  # level of the intervals
    #: alarm rules
    rules: list[EvidenceRule | ThresholdRule | DriftRule | CoverageRule] = field(
        default_factory=lambda: [EvidenceRule(kind="evidence")]
    )
    reference: ReferenceSpec | None = None  # rows that windows are compared with
    hooks: list[HookSpec] = field(default_factory=list)  # webhooks to which alarms are delivered
    recalibration: RecalibrationSpec = field(default_factory=RecalibrationSpec)  # what follows an alarm
    #: seconds that buckets are kept; at least the horizon and the longest window, at most 10,000 buckets; default of a
    #: new monitor: 90 days, or 10,000 buckets if that is shorter
    retention: int = 7_776_000
    name: str  # name of the monitor
    #: `regression`: rows have forecasts of a number, and observed outcomes
    prediction_kind: PredictionKind = "classification"
    forecast: MonitorForecast | None = None  # for `regression`: form of the forecasts
    reduction: str | None = None  # binary (default for one column), confidence (default for several), class:k or top:r
    n_classes: int | None = None  # K, for predictions of several columns
    #: nominal coverage of prediction sets of `n_classes` classes; the prediction of a row is then K numbers, 1 if its
    #: set has the class and 0 if not, and the counted event is that the set has the label
    coverage: float | None = None
    scale: Scale = "probability"  # scale of the predictions
    map: str | None = None  # map that is applied to rows on arrival, in its state at that time
    bucket: int | None = None  # length of a time bucket in seconds; default: 1/24 of the shortest window
    #: seconds that predictions wait for labels; ids are kept for `skew` seconds more; default: 30 days, or the
    #: retention if that is shorter
    horizon: int = 2_592_000
    skew: int = 300  # seconds that the time of a row may lie in the future
    max_groups: int = 100  # maximum number of groups; further groups are counted as `(other)`
    max_ids: int = 10_000_000  # maximum number of ids stored at a time
    #: for K classes: number of rows of each time window, and of the reference, whose vectors are kept as a uniform
    #: sample, from which the label shift of all classes is estimated; at most 1,000,000 / K
    reservoir: int | None = None
    id: str  # unique id; a new monitor with the same name has another
    created_at: str  # when it was created
    #: name of the API key that created it, or oidc: and the subject of its token; None without keys
    created_by: str | None = None
    configured_by: str | None = None  # id of the API key that created or last changed it; None if it is not known
    started_at: str  # rows predicted earlier are not counted as evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorsAnswer(WireAnswer):
    """A page of monitors, newest first."""

    items: list[MonitorAnswer]  # entries of this page
    next: str | None  # cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReading(WireAnswer):
    """One measure of a window; undefined values are None."""

    value: float | None  # value; None if it is undefined
    #: value from which a part of its bias is removed; None if the measure has no correction
    debiased: float | None = None
    interval: tuple[float, float] | None = None  # confidence interval; None if none was requested or it is unknown
    p_value: float | None = None  # p-value of calibration for a single, planned check; for repeated checks use rules
    parts: PlainFields = field(default_factory=dict)  # results beyond a single number
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReading(WireAnswer):
    """Quantiles of the time from prediction to label in seconds, each with an error of up to a third; 0 if below 1."""

    labels: int  # number of labels
    p50: float  # median delay in seconds
    p90: float  # 90th percentile in seconds
    p99: float  # 99th percentile in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramReading(WireAnswer):
    """The distribution of the predictions."""

    edges: list[float]  # ends of the bins, one more than bins
    count: list[float]  # number of rows in each bin
    share: list[float]  # fraction of the rows in each bin


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityReading(WireAnswer):
    """The reliability diagram of a window, as in ``POST /diagrams``; every list has one value per bin."""

    start: list[float]  # smallest and largest prediction of each bin
    end: list[float]  # smallest and largest prediction of each bin
    count: list[float]  # number of rows in each bin
    rows: list[float]  # effective number of rows in each bin
    share: list[float]  # fraction of the rows in each bin
    mean_prediction: list[float]  # weighted mean of the predictions
    observed_frequency: list[float]  # weighted fraction of positive labels
    gap: list[float]  # observed frequency minus mean prediction
    #: ends of the interval of Wilson for the observed frequency; None if the rows of a bin are dependent
    low: list[float] | None
    #: ends of the interval of Wilson for the observed frequency; None if the rows of a bin are dependent
    high: list[float] | None
    roof_start: list[float]  # values of the line of slope 1 at the ends of the bin
    roof_end: list[float]  # values of the line of slope 1 at the ends of the bin
    ece: float  # expected calibration error of the bins
    ece_debiased: float | None  # its debiased value
    histogram: HistogramReading  # histogram of the predictions
    axes: AxesScale = "linear"  # axes of the diagram; of a rare event logit


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsReading(WireAnswer):
    """The labelled rows of a window, or of one of its groups."""

    rows: int  # number of labelled rows
    mean_prediction: float | None  # weighted mean of the predictions
    label_rate: float | None  # event rate of the rows
    measures: dict[str, MeasureReading]  # results of the measures by their key


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(WireAnswer):
    """Two values of independent rows, and the first minus the second."""

    value: float | None  # value of the window
    reference: float | None  # value of the reference
    difference: float | None  # value of the window minus that of the reference
    interval: tuple[float, float] | None = None  # interval of the difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(WireAnswer):
    """The Kolmogorov-Smirnov distance between the distributions of the window's and the reference's predictions."""

    distance: float  # Kolmogorov-Smirnov distance
    p_value: float  # p-value of equal distributions; conservative, because rows are grouped in cells


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedReading(WireAnswer):
    """A figure of a window, estimated without labels, with an interval for the realised figure; None if unknown."""

    estimated: float | None = None  # estimate without labels
    interval: tuple[float, float] | None = None  # prediction interval for the realised figure
    realised: float | None = None  # from the rows that have a label


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatesReading(WireAnswer):
    """Performance of a window, estimated from its predictions and the reference; it does not see a change of P(y | p).

    Rows of a confusion matrix are the true classes, and columns the predicted ones.
    """

    status: EstimateStatus  # whether there is an estimate
    reason: str | None = None  # why there is no estimate
    reference: str | None = None  # id of the batch that was used in place of the reference, if any
    effective: float | None = None  # effective number of its rows, (sum w)^2 / sum w^2
    rows: int  # number of predictions that the estimate is for
    labelled: int  # number of labelled rows, which the realised figures are from
    threshold: float  # predictions of at least this value count as positive
    level: float  # level of the intervals
    #: accuracy, auroc, brier, log-loss, precision, recall and f1
    figures: dict[str, EstimatedReading] = field(default_factory=dict)
    confusion: list[list[float]] | None = None  # expected numbers of rows
    confusion_low: list[list[float]] | None = None  # lower ends of the intervals of these numbers
    confusion_high: list[list[float]] | None = None  # upper ends of the intervals of these numbers
    confusion_realised: list[list[float]] | None = None  # numbers of labelled rows
    #: figures that this monitor cannot have, with the reason
    not_applicable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReading(WireAnswer):
    """Evidence that a window's predictions, labelled or not, are distributed differently than in the reference."""

    reason: str | None = None  # why there is no evidence
    rows: int = 0  # number of rows
    log_e: float | None = None  # natural logarithm of the e-value
    level: float | None = None  # p-value of the hypothesis that there is no drift, min(1, 1 / e)
    low: float | None = None  # predictions from here to `high` changed most clearly
    high: float | None = None  # upper end of this range
    reference_share: float | None = None  # share of the predictions in this range
    window_share: float | None = None  # share of the predictions of the window in this range


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShiftReading(WireAnswer):
    """Class frequencies of a window, estimated without labels; lists are by class.

    The estimate assumes that nothing but the class frequencies differs from the reference.
    """

    status: EstimateStatus  # whether there is an estimate
    reason: str | None = None  # why there is no estimate
    rows: int = 0  # number of predictions that the estimate is for, or is a sample of
    sampled: int | None = None  # with a reservoir: number of rows that the estimate is from
    estimated_at: str | None = None  # with a reservoir: when it was made; a worker repeats it
    level: float  # level of the intervals
    reference: list[float] | None = None  # class frequencies of the reference
    estimated: list[float] | None = None  # estimated class frequencies of the window
    low: list[float] | None = None  # lower ends of the intervals of the frequencies
    high: list[float] | None = None  # upper ends of the intervals of the frequencies
    weights: list[float] | None = None  # estimated frequencies divided by those of the reference
    weights_low: list[float] | None = None  # lower ends of the intervals of the weights
    weights_high: list[float] | None = None  # upper ends of the intervals of the weights
    bbse: list[float] | None = None  # frequencies from mean calibrated predictions, as a check
    #: p-value of the hypothesis that only the class frequencies changed; small: no estimate is given
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReading(WireAnswer):
    """A window compared with the reference; ``problem`` explains why the comparison is missing."""

    start: str | None = None  # for a span of time
    end: str | None = None  # for a span of time
    batch: str | None = None  # for a batch: its id
    rows: int  # number of rows
    measures: dict[str, Difference] = field(default_factory=dict)  # difference of each measure
    label_rate: Difference | None = None  # difference of the label rates
    mean_prediction: Difference | None = None  # difference of the mean predictions
    shift: Shift | None = None  # distance between the predictions
    problem: str | None = None  # why a value is missing; None if none is


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReading(WireAnswer):
    """The share of outcomes in central intervals of a level, with its 95 % interval."""

    level: float  # level of the central intervals
    share: float  # share of the outcomes in them
    interval: tuple[float, float]  # 95 % interval of the share


@dataclass(frozen=True, slots=True, kw_only=True)
class PitReading(WireAnswer):
    """The outcomes of forecasts between levels, as in the diagram ``pit``; every list but ``edges`` has one value per
    bin. Of calibrated forecasts, all densities lie between ``low`` and ``high`` with a probability of 95 %.
    """

    edges: list[float]  # levels, one more than bins
    count: list[int]  # number of outcomes
    density: list[float]  # share of the outcomes divided by the width of the bin
    low: list[float]  # lower end of the band of calibrated forecasts
    high: list[float]  # upper end of the band of calibrated forecasts
    distance: float  # largest difference of the share of outcomes at most a level from the level
    intervals: list[CoverageReading]  # coverage of central intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReading(RowsReading):
    """The current state of a window."""

    name: str  # name of the window
    seconds: int | None  # for a window of time
    at_least: int | None = None  # for a window of rows: its number of rows, if there are as many
    start: str | None  # None for a window of rows
    end: str | None = None  # end
    predictions: int | None  # number of predictions, labelled or not; None for a window of rows
    coverage: float | None  # fraction of predictions with a label
    delay: DelayReading | None  # delay of the labels; None without labels
    diagram: ReliabilityReading | None  # reliability diagram; None without labels
    groups: dict[str, RowsReading]  # measures of each group by name; without intervals
    reference: ReferenceReading | None  # comparison with the reference; None without one
    estimates: EstimatesReading | None = None  # performance, estimated without labels
    drift: DriftReading | None = None  # drift of the predictions since the reference
    pit: PitReading | None = None  # for regression: the PIT histogram; None without outcomes
    label_shift: LabelShiftReading | None = None  # class frequencies, estimated without labels


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorReading(ReadingConveniences, WireAnswer):
    """The response of ``GET /monitors/{name}``."""

    monitor: MonitorAnswer  # the definition of the monitor
    counts: Counts  # counts of all rows
    definitions: dict[str, PlainFields]  # full definition of each measure
    windows: list[WindowReading]  # state of each window
    rules: list[RuleState]  # state of each rule at the last check, if there was one
    online: OnlineReading | None = None  # for the policy `online`, once it has started
    adaptive: AdaptiveReading | None = None  # for the policy `adaptive`, once it has started
    read_at: str  # when it was read


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint(RowsReading):
    """The rows predicted in one span of time."""

    start: str  # start
    end: str  # end
    predictions: int | None  # number of predictions, labelled or not; None for one group
    coverage: float | None  # fraction of predictions with a label


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnswer(SeriesConveniences, WireAnswer):
    """The values of measures over time; spans without predictions are left out."""

    name: str  # name of the monitor
    group: str | None  # name of the group; None for all rows or none
    span: int  # seconds per point
    points: list[SeriesPoint]  # spans of time with predictions, in order
