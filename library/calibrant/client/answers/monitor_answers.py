"""Generated from schemas/monitor_answers.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.conveniences import ReadingConveniences, SeriesConveniences
from calibrant.client.answers.document import Document
from calibrant.client.answers.monitor_online import OnlineReading
from calibrant.client.answers.monitor_rules import DriftRule, EvidenceRule, RuleState, ThresholdRule
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorAnswer(Document):
    """A monitor as callers see it; a hook has its secret only in the response that generated it."""

    description: str | None = None
    windows: list[WindowSpec] = field(default_factory=lambda: [WindowSpec(name="day", seconds=86_400)])
    measures: list[str | dict[str, Any]] = field(default_factory=lambda: ["ece", "ks", "log-loss"])
    interval: float | None = 0.95
    rules: list[EvidenceRule | ThresholdRule | DriftRule] = field(
        default_factory=lambda: [EvidenceRule(kind="evidence")]
    )
    reference: ReferenceSpec | None = None
    hooks: list[HookSpec] = field(default_factory=list)
    recalibration: RecalibrationSpec = field(default_factory=RecalibrationSpec)
    #: seconds that buckets are kept; at least the horizon and the longest window, at most 10,000 buckets; default: 90
    #: days, or 10,000 buckets if that is shorter
    retention: int = 7_776_000
    name: str
    #: `regression`: rows have forecasts of a number, and observed outcomes
    prediction_kind: PredictionKind = "classification"
    forecast: MonitorForecast | None = None  # for `regression`: form of the forecasts
    reduction: str | None = None  # binary (default for one column), confidence (default for several), class:k or top:r
    n_classes: int | None = None  # K, for predictions of several columns
    scale: Scale = "probability"
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
    uid: str  # unique id; a new monitor with the same name has another
    created_at: str
    created_by: str | None = None
    started_at: float  # seconds since 1970; rows predicted earlier are not counted as evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorsAnswer(Document):
    """A page of monitors, newest first."""

    items: list[MonitorAnswer]
    next: str | None  # cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReading(Document):
    """One measure of a window; undefined values are None."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None  # p-value of calibration for a single, planned check; for repeated checks use rules
    parts: PlainFields = field(default_factory=dict)  # results beyond a single number
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReading(Document):
    """Quantiles of the time from prediction to label in seconds, each with an error of up to a third; 0 if below 1."""

    labels: int
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramReading(Document):
    """The distribution of the predictions."""

    edges: list[float]
    count: list[float]
    share: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityReading(Document):
    """The reliability diagram of a window, as in ``POST /diagrams``; every list has one value per bin."""

    start: list[float]
    end: list[float]
    count: list[float]
    rows: list[float]
    share: list[float]
    mean_prediction: list[float]
    observed_frequency: list[float]
    gap: list[float]
    low: list[float] | None
    high: list[float] | None
    roof_start: list[float]
    roof_end: list[float]
    ece: float
    ece_debiased: float | None
    histogram: HistogramReading


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsReading(Document):
    """The labelled rows of a window, or of one of its groups."""

    rows: int  # number of labelled rows
    mean_prediction: float | None
    label_rate: float | None  # event rate of the rows
    measures: dict[str, MeasureReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Document):
    """Two values of independent rows, and the first minus the second."""

    value: float | None  # value of the window
    reference: float | None
    difference: float | None
    interval: tuple[float, float] | None = None  # interval of the difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Document):
    """The Kolmogorov-Smirnov distance between the distributions of the window's and the reference's predictions."""

    distance: float
    p_value: float  # p-value of equal distributions; conservative, because rows are grouped in cells


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedReading(Document):
    """A figure of a window, estimated without labels, with an interval for the realised figure; None if unknown."""

    estimated: float | None = None
    interval: tuple[float, float] | None = None  # prediction interval for the realised figure
    realised: float | None = None  # from the rows that have a label


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatesReading(Document):
    """Performance of a window, estimated from its predictions and the reference; it does not see a change of P(y | p).

    Rows of a confusion matrix are the true classes, and columns the predicted ones.
    """

    status: Literal["estimated", "withheld", "not-applicable"]
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
    confusion_low: list[list[float]] | None = None
    confusion_high: list[list[float]] | None = None
    confusion_realised: list[list[float]] | None = None
    #: figures that this monitor cannot have, with the reason
    not_applicable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReading(Document):
    """Evidence that a window's predictions, labelled or not, are distributed differently than in the reference."""

    reason: str | None = None  # why there is no evidence
    rows: int = 0
    log_e: float | None = None  # natural logarithm of the e-value
    level: float | None = None  # p-value of the hypothesis that there is no drift, min(1, 1 / e)
    low: float | None = None  # predictions from here to `high` changed most clearly
    high: float | None = None
    reference_share: float | None = None  # share of the predictions in this range
    window_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShiftReading(Document):
    """Class frequencies of a window, estimated without labels; lists are by class.

    The estimate assumes that nothing but the class frequencies differs from the reference.
    """

    status: Literal["estimated", "withheld", "not-applicable"]
    reason: str | None = None  # why there is no estimate
    rows: int = 0  # number of predictions that the estimate is for, or is a sample of
    sampled: int | None = None  # with a reservoir: number of rows that the estimate is from
    estimated_at: float | None = None  # with a reservoir: seconds since 1970; a worker repeats it
    level: float  # level of the intervals
    reference: list[float] | None = None  # class frequencies of the reference
    estimated: list[float] | None = None  # estimated class frequencies of the window
    low: list[float] | None = None  # lower ends of the intervals of the frequencies
    high: list[float] | None = None
    weights: list[float] | None = None  # estimated frequencies divided by those of the reference
    weights_low: list[float] | None = None
    weights_high: list[float] | None = None
    bbse: list[float] | None = None  # frequencies from mean calibrated predictions, as a check
    #: p-value of the hypothesis that only the class frequencies changed; small: no estimate is given
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReading(Document):
    """A window compared with the reference; ``problem`` explains why the comparison is missing."""

    start: float | None = None  # for a span of time
    end: float | None = None
    batch: str | None = None
    rows: int
    measures: dict[str, Difference] = field(default_factory=dict)
    label_rate: Difference | None = None
    mean_prediction: Difference | None = None
    shift: Shift | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReading(Document):
    """The share of outcomes in central intervals of a level, with its 95 % interval."""

    level: float
    share: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PitReading(Document):
    """The outcomes of forecasts between levels, as in the diagram ``pit``; every list but ``edges`` has one value per
    bin. Of calibrated forecasts, all densities lie between ``low`` and ``high`` with a probability of 95 %.
    """

    edges: list[float]
    count: list[int]
    density: list[float]
    low: list[float]
    high: list[float]
    distance: float  # largest difference of the share of outcomes at most a level from the level
    intervals: list[CoverageReading]  # coverage of central intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReading(RowsReading):
    """The current state of a window."""

    name: str
    seconds: int | None  # for a window of time
    at_least: int | None = None  # for a window of rows: its number of rows, if there are as many
    start: float | None  # seconds since 1970; None for a window of rows
    end: float | None = None
    predictions: int | None  # number of predictions, labelled or not; None for a window of rows
    coverage: float | None  # fraction of predictions with a label
    delay: DelayReading | None
    diagram: ReliabilityReading | None
    groups: dict[str, RowsReading]  # measures of each group by name; without intervals
    reference: ReferenceReading | None
    estimates: EstimatesReading | None = None
    drift: DriftReading | None = None
    pit: PitReading | None = None  # for regression: the PIT histogram; None without outcomes
    label_shift: LabelShiftReading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorReading(ReadingConveniences, Document):
    """The response of ``GET /monitors/{name}``."""

    monitor: MonitorAnswer
    counts: Counts
    definitions: dict[str, PlainFields]  # full definition of each measure
    windows: list[WindowReading]
    rules: list[RuleState]  # state of each rule at the last check, if there was one
    online: OnlineReading | None = None  # for the policy `online`, once it has started
    read_at: float  # seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint(RowsReading):
    """The rows predicted in one span of time."""

    start: float
    end: float
    predictions: int | None  # number of predictions, labelled or not; None for one group
    coverage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnswer(SeriesConveniences, Document):
    """The values of measures over time; spans without predictions are left out."""

    name: str
    group: str | None
    span: int  # seconds per point
    points: list[SeriesPoint]
