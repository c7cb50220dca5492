"""Responses of monitors: windows, values over time, and definitions without secrets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from calibrant.core.choices import AxesScale
from calibrant.diagrams.reliability import Histogram, Reliability
from schemas.base import Document, Instant, Label
from schemas.diagrams import PictureQuery
from schemas.monitor_online import AdaptiveReading, OnlineReading
from schemas.monitor_rules import RuleState
from schemas.monitors import Counts, MonitorRecord
from schemas.of_results import of_result
from schemas.pages import PageQuery

#: Options and parts of measures: numbers, strings, and lists of them.
Plain = float | int | str | bool | None
PlainFields = dict[str, Plain | list[Plain] | list[list[Plain]]]
EstimateStatus = Literal["estimated", "withheld", "not-applicable"]


class MonitorAnswer(MonitorRecord):
    """A monitor as callers see it; a hook has its secret only in the response that generated it."""


class MonitorsQuery(PageQuery):
    """The query of ``GET /monitors``."""


class MonitorsAnswer(Document):
    """A page of monitors, newest first."""

    items: list[MonitorAnswer]
    next: str | None


class MeasureReading(Document):
    """One measure of a window; undefined values are null."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = Field(
        None, description="p-value of calibration for a single, planned check; for repeated checks use rules"
    )
    parts: PlainFields = Field({}, description="results beyond a single number")
    problem: str | None = None


Readings = dict[str, MeasureReading]


class DelayReading(Document):
    """Quantiles of the time from prediction to label in seconds, each with an error of up to a third; 0 if below 1."""

    labels: int = Field(description="number of labels")
    p50: float = Field(description="median delay in seconds")
    p90: float = Field(description="90th percentile in seconds")
    p99: float = Field(description="99th percentile in seconds")


@of_result(Histogram, without=("problem",))
class HistogramReading(Document):
    """The distribution of the predictions."""


@of_result(Reliability, without=("problem",))
class ReliabilityReading(Document):
    """The reliability diagram of a window, as in ``POST /diagrams``; every list has one value per bin."""

    axes: AxesScale = Field("linear", description="axes of the diagram; of a rare event logit")


class RowsReading(Document):
    """The labelled rows of a window, or of one of its groups."""

    rows: int = Field(description="number of labelled rows")
    mean_prediction: float | None
    label_rate: float | None = Field(description="event rate of the rows")
    measures: Readings


class Difference(Document):
    """Two values of independent rows, and the first minus the second."""

    value: float | None = Field(description="value of the window")
    reference: float | None = Field(description="value of the reference")
    difference: float | None = Field(description="value of the window minus that of the reference")
    interval: tuple[float, float] | None = Field(None, description="interval of the difference")


class Shift(Document):
    """The Kolmogorov-Smirnov distance between the distributions of the window's and the reference's predictions."""

    distance: float = Field(ge=0, le=1, description="Kolmogorov-Smirnov distance")
    p_value: float = Field(
        description="p-value of equal distributions; conservative, because rows are grouped in cells"
    )


class EstimatedReading(Document):
    """A figure of a window, estimated without labels, with an interval for the realised figure; null if unknown."""

    estimated: float | None = Field(None, description="estimate without labels")
    interval: tuple[float, float] | None = Field(None, description="prediction interval for the realised figure")
    realised: float | None = Field(None, description="from the rows that have a label")


class EstimatesReading(Document):
    """Performance of a window, estimated from its predictions and the reference; it does not see a change of P(y | p).

    Rows of a confusion matrix are the true classes, and columns the predicted ones.
    """

    status: EstimateStatus = Field(description="whether there is an estimate")
    reason: str | None = Field(None, description="why there is no estimate")
    reference: str | None = Field(None, description="id of the batch that was used in place of the reference, if any")
    effective: float | None = Field(None, description="effective number of its rows, (sum w)^2 / sum w^2")
    rows: int = Field(description="number of predictions that the estimate is for")
    labelled: int = Field(description="number of labelled rows, which the realised figures are from")
    threshold: float = Field(description="predictions of at least this value count as positive")
    level: float
    figures: dict[str, EstimatedReading] = Field(
        {}, description="accuracy, auroc, brier, log-loss, precision, recall and f1"
    )
    confusion: list[list[float]] | None = Field(None, description="expected numbers of rows")
    confusion_low: list[list[float]] | None = Field(None, description="lower ends of the intervals of these numbers")
    confusion_high: list[list[float]] | None = Field(None, description="upper ends of the intervals of these numbers")
    confusion_realised: list[list[float]] | None = Field(None, description="numbers of labelled rows")
    not_applicable: dict[str, str] = Field({}, description="figures that this monitor cannot have, with the reason")


class DriftReading(Document):
    """Evidence that a window's predictions, labelled or not, are distributed differently than in the reference."""

    reason: str | None = Field(None, description="why there is no evidence")
    rows: int = 0
    log_e: float | None = Field(None, description="natural logarithm of the e-value")
    level: float | None = Field(None, description="p-value of the hypothesis that there is no drift, min(1, 1 / e)")
    low: float | None = Field(None, description="predictions from here to ``high`` changed most clearly")
    high: float | None = Field(None, description="upper end of this range")
    reference_share: float | None = Field(None, description="share of the predictions in this range")
    window_share: float | None = Field(None, description="share of the predictions of the window in this range")


class LabelShiftReading(Document):
    """Class frequencies of a window, estimated without labels; lists are by class.

    The estimate assumes that nothing but the class frequencies differs from the reference.
    """

    status: EstimateStatus = Field(description="whether there is an estimate")
    reason: str | None = Field(None, description="why there is no estimate")
    rows: int = Field(0, description="number of predictions that the estimate is for, or is a sample of")
    sampled: int | None = Field(None, description="with a reservoir: number of rows that the estimate is from")
    estimated_at: Instant | None = Field(None, description="with a reservoir: when it was made; a worker repeats it")
    level: float
    reference: list[float] | None = Field(None, description="class frequencies of the reference")
    estimated: list[float] | None = Field(None, description="estimated class frequencies of the window")
    low: list[float] | None = Field(None, description="lower ends of the intervals of the frequencies")
    high: list[float] | None = Field(None, description="upper ends of the intervals of the frequencies")
    weights: list[float] | None = Field(None, description="estimated frequencies divided by those of the reference")
    weights_low: list[float] | None = Field(None, description="lower ends of the intervals of the weights")
    weights_high: list[float] | None = Field(None, description="upper ends of the intervals of the weights")
    bbse: list[float] | None = Field(None, description="frequencies from mean calibrated predictions, as a check")
    p_value: float | None = Field(
        None,
        description="p-value of the hypothesis that only the class frequencies changed; small: no estimate is given",
    )


class StoredLabelShifts(Document):
    """The label shift of every time window from the reservoir, as a worker has estimated it.

    ``predictions`` is the number of predictions of the monitor at that time.
    """

    format: int = 2
    at: Instant
    seconds: float
    predictions: int
    windows: dict[str, LabelShiftReading]


class ReferenceReading(Document):
    """A window compared with the reference; ``problem`` explains why the comparison is missing."""

    start: Instant | None = Field(None, description="for a span of time")
    end: Instant | None = Field(None, description="for a span of time")
    batch: str | None = Field(None, description="for a batch: its id")
    rows: int
    measures: dict[str, Difference] = Field({}, description="difference of each measure")
    label_rate: Difference | None = Field(None, description="difference of the label rates")
    mean_prediction: Difference | None = Field(None, description="difference of the mean predictions")
    shift: Shift | None = Field(None, description="distance between the predictions")
    problem: str | None = None


class CoverageReading(Document):
    """The share of outcomes in central intervals of a level, with its 95 % interval."""

    level: float = Field(description="level of the central intervals")
    share: float = Field(description="share of the outcomes in them")
    interval: tuple[float, float] = Field(description="95 % interval of the share")


class PitReading(Document):
    """The outcomes of forecasts between levels, as in the diagram ``pit``; every list but ``edges`` has one value per
    bin. Of calibrated forecasts, all densities lie between ``low`` and ``high`` with a probability of 95 %.
    """

    edges: list[float] = Field(description="levels, one more than bins")
    count: list[int] = Field(description="number of outcomes")
    density: list[float] = Field(description="share of the outcomes divided by the width of the bin")
    low: list[float] = Field(description="lower end of the band of calibrated forecasts")
    high: list[float] = Field(description="upper end of the band of calibrated forecasts")
    distance: float = Field(description="largest difference of the share of outcomes at most a level from the level")
    intervals: list[CoverageReading] = Field(description="coverage of central intervals")


class WindowReading(RowsReading):
    """The current state of a window."""

    name: str = Field(description="name of the window")
    seconds: int | None = Field(description="for a window of time")
    at_least: int | None = Field(None, description="for a window of rows: its number of rows, if there are as many")
    start: Instant | None = Field(description="null for a window of rows")
    end: Instant | None = None
    predictions: int | None = Field(description="number of predictions, labelled or not; null for a window of rows")
    coverage: float | None = Field(description="fraction of predictions with a label")
    delay: DelayReading | None = Field(description="delay of the labels; null without labels")
    diagram: ReliabilityReading | None = Field(description="reliability diagram; null without labels")
    groups: dict[str, RowsReading] = Field(description="measures of each group by name; without intervals")
    reference: ReferenceReading | None = Field(description="comparison with the reference; null without one")
    estimates: EstimatesReading | None = Field(None, description="performance, estimated without labels")
    drift: DriftReading | None = Field(None, description="drift of the predictions since the reference")
    pit: PitReading | None = Field(None, description="for regression: the PIT histogram; null without outcomes")
    label_shift: LabelShiftReading | None = Field(None, description="class frequencies, estimated without labels")


class MonitorReading(Document):
    """The response of ``GET /monitors/{name}``."""

    monitor: MonitorAnswer = Field(description="the definition of the monitor")
    counts: Counts = Field(description="counts of all rows")
    definitions: dict[str, PlainFields] = Field(description="full definition of each measure")
    windows: list[WindowReading] = Field(description="state of each window")
    rules: list[RuleState] = Field(description="state of each rule at the last check, if there was one")
    online: OnlineReading | None = Field(None, description="for the policy ``online``, once it has started")
    adaptive: AdaptiveReading | None = Field(None, description="for the policy ``adaptive``, once it has started")
    read_at: Instant = Field(description="when it was read")


class ReadingQuery(Document):
    """The query of ``GET /monitors/{name}``."""

    windows: str | None = Field(None, max_length=400, description="names of windows, separated by commas; default: all")
    groups: int = Field(
        20, ge=0, le=1000, description="number of groups in the response, those with the most labelled rows first"
    )
    threshold: float = Field(
        0.5, gt=0, lt=1, description="predictions of at least this value count as positive in the estimates"
    )
    reference: str | None = Field(
        None,
        max_length=64,
        description="id of a batch of labelled rows with covariate-shift weights for one window, which the estimates "
        "use in place of the monitor's reference; at most 200,000 rows",
    )


class SeriesQuery(Document):
    """The query of ``GET /monitors/{name}/series``."""

    window: Label | None = Field(None, description="a window of time: the series covers this window, up to now")
    measure: str | None = Field(None, max_length=64, description="key of one of the monitor's measures; default: all")
    group: str | None = Field(None, max_length=200, description="only this group")
    start: Instant | None = Field(None, description="default: the oldest stored rows")
    end: Instant | None = Field(None, description="default: now")
    points: int = Field(100, ge=1, le=1000, description="maximum number of time spans, each of whole buckets")
    intervals: bool = Field(False, description="whether to compute the interval of each value, which takes longer")


class SeriesPoint(RowsReading):
    """The rows predicted in one span of time."""

    start: Instant
    end: Instant
    predictions: int | None = Field(description="number of predictions, labelled or not; null for one group")
    coverage: float | None = Field(description="fraction of predictions with a label")


class SeriesAnswer(Document):
    """The values of measures over time; spans without predictions are left out."""

    name: str = Field(description="name of the monitor")
    group: str | None
    span: int = Field(description="seconds per point")
    points: list[SeriesPoint] = Field(description="spans of time with predictions, in order")


class SeriesPictureQuery(SeriesQuery, PictureQuery):
    """Which values to draw over time: one measure (by default the first) with its intervals; and the appearance."""

    points: int = Field(60, ge=1, le=200, description="maximum number of time spans, each of whole buckets")
    intervals: bool = Field(True, description="whether to draw the interval of each value")


class WindowPictureQuery(PictureQuery):
    """The window whose reliability diagram is drawn, and the appearance."""

    window: Label | None = Field(None, description="default: the first")
    group: str | None = Field(None, max_length=200, description="only this group")


def answer_of(record: MonitorRecord, fresh: frozenset[str] = frozenset()) -> MonitorAnswer:
    """A monitor without the secrets of its hooks, except for the hooks named in ``fresh``."""
    hooks = [hook.shown(secret=hook.name in fresh) for hook in record.hooks]
    return MonitorAnswer.model_validate(record.model_copy(update={"hooks": hooks}).model_dump())
