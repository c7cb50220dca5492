"""Readings of monitors: measures of windows, diagrams and series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from calibrant.client.answers.alarms import OnlineReason, RuleState
from calibrant.client.answers.document import Document
from calibrant.client.answers.monitors import Counts, MonitorAnswer
from calibrant.results import frame_of

Plain: TypeAlias = float | int | str | bool | None
Parts: TypeAlias = dict[str, Plain | list[Plain] | list[list[Plain]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReading(Document):
    """A measure of a window; ``value`` is None if it is not defined."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None  # of calibration, valid at one look fixed in advance; rules are anytime-valid
    parts: Parts = field(default_factory=dict)  # results that are more than one number
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayReading(Document):
    """Quantiles of the delay of labels after their predictions, in seconds, with a relative error of up to a third."""

    labels: int
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramReading(Document):
    """Histogram of the predictions."""

    edges: list[float]
    count: list[float]
    share: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityReading(Document):
    """The reliability diagram of a window; its own lists have one number per bin."""

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

    rows: int
    mean_prediction: float | None
    label_rate: float | None  # observed frequency of the event
    measures: dict[str, MeasureReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Document):
    """A value of the window, the same value of the reference, and the difference: window minus reference."""

    value: float | None
    reference: float | None
    difference: float | None
    interval: tuple[float, float] | None = None  # of the difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift(Document):
    """The Kolmogorov-Smirnov distance between the predictions of the window and of the reference."""

    distance: float
    p_value: float  # an upper bound: predictions are counted in cells


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReading(Document):
    """A window compared with the reference; ``problem`` explains why values are missing."""

    start: float | None = None  # of a time span
    end: float | None = None
    batch: str | None = None
    rows: int
    measures: dict[str, Difference] = field(default_factory=dict)
    label_rate: Difference | None = None
    mean_prediction: Difference | None = None
    shift: Shift | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedReading(Document):
    """A figure of a window: estimated without labels, with an interval for the realised one; unknown ones are None."""

    estimated: float | None = None
    interval: tuple[float, float] | None = None  # prediction interval for the realised figure
    realised: float | None = None  # from the rows that have a label


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatesReading(Document):
    """Performance of a window, estimated without labels; rows of a confusion matrix are classes, columns decisions."""

    status: Literal["estimated", "withheld", "not-applicable"]
    reason: str | None = None  # why there is no estimate
    reference: str | None = None  # id of the batch that was used in place of the reference
    effective: float | None = None  # effective number of its rows
    rows: int  # predictions
    labelled: int  # rows of the realised figures
    threshold: float  # predictions from this value on are decided positive
    level: float  # of the intervals
    figures: dict[str, EstimatedReading] = field(default_factory=dict)
    confusion: list[list[float]] | None = None  # expected numbers of rows
    confusion_low: list[list[float]] | None = None
    confusion_high: list[list[float]] | None = None
    confusion_realised: list[list[float]] | None = None
    not_applicable: dict[str, str] = field(default_factory=dict)  # figures that this monitor cannot have


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReading(Document):
    """Evidence that a window's predictions are distributed differently than in the reference."""

    reason: str | None = None  # why there is no evidence
    rows: int = 0
    log_e: float | None = None
    level: float | None = None  # the smallest alpha at which drift is found
    low: float | None = None  # range of the clearest change
    high: float | None = None
    reference_share: float | None = None  # of the predictions in this range
    window_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReading(Document):
    """The share of outcomes in central intervals of a level, with its 95 % interval."""

    level: float
    share: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PitReading(Document):
    """The outcomes of forecasts between levels: the density and its band in each bin."""

    edges: list[float]
    count: list[int]
    density: list[float]
    low: list[float]  # of calibrated forecasts, all densities lie in the band with a probability of 95 %
    high: list[float]
    distance: float  # largest difference of the share of outcomes at most a level from the level
    intervals: list[CoverageReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShiftReading(Document):
    """Class frequencies of a window without labels, if only they differ from the reference; lists are by class."""

    status: Literal["estimated", "withheld", "not-applicable"]
    reason: str | None = None  # why there is no estimate
    rows: int = 0  # predictions
    sampled: int | None = None  # with a reservoir: rows that the estimate is from
    estimated_at: float | None = None  # with a reservoir: seconds since 1970
    level: float  # of the intervals
    reference: list[float] | None = None  # frequencies of the reference
    estimated: list[float] | None = None  # frequencies of the window
    low: list[float] | None = None  # of their intervals
    high: list[float] | None = None
    weights: list[float] | None = None  # frequencies divided by those of the reference
    weights_low: list[float] | None = None
    weights_high: list[float] | None = None
    bbse: list[float] | None = None  # frequencies from mean calibrated predictions, as a check
    p_value: float | None = None  # that the window is a mixture of the reference's classes; small: withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReading(RowsReading):
    """The present state of a window."""

    name: str
    seconds: int | None  # of a window of time
    at_least: int | None = None  # of a window of rows: its size, once there are as many rows
    start: float | None  # seconds since 1970; None for a window of rows
    end: float | None = None
    predictions: int | None  # labelled or not; None for a window of rows
    coverage: float | None  # labelled rows per prediction
    delay: DelayReading | None
    diagram: ReliabilityReading | None
    groups: dict[str, RowsReading]  # without intervals
    reference: ReferenceReading | None
    estimates: EstimatesReading | None = None
    drift: DriftReading | None = None
    pit: PitReading | None = None  # of regression
    label_shift: LabelShiftReading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineVersion(Document):
    """A version of an online map; it was applied to the rows that arrived from then on."""

    map: str  # id of the map
    version: int | None = None  # None if the alias could not be moved to it
    at: str  # when it was written
    reason: OnlineReason
    rounds: int  # time buckets that it was updated with
    rows: int  # their labelled rows


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineReading(Document):
    """The progress of a map that follows the stream of a monitor."""

    static: str | None = None  # id of the map that it corrects
    in_force: str | None = None  # id of the map that the alias points at
    started_at: str
    rounds: int = 0  # time buckets that it was updated with
    rows: int = 0  # their labelled rows
    unlabelled: int = 0  # their predictions that had no label in time
    weights: dict[str, float] = field(default_factory=dict)  # of the experts in the next version
    log_e: float = 0.0  # log loss of the map in force minus that of the online map, since the last version
    rows_since: int = 0  # labelled rows since the last version
    versions: list[OnlineVersion] = field(default_factory=list)  # the last ones, oldest first
    bound: float  # a version is written when ``log_e`` reaches it
    counted_until: float  # end of the last counted time bucket, seconds since 1970
    next_at: float  # when the next version is due if there are new rows, seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorReading(Document):
    """The present state of a monitor."""

    monitor: MonitorAnswer
    counts: Counts
    definitions: dict[str, Parts]  # of each measure
    windows: list[WindowReading]
    rules: list[RuleState]  # at the last look
    online: OnlineReading | None = None  # of the policy ``online``
    read_at: float  # seconds since 1970

    def to_frame(self) -> Any:
        """Return the measures as a frame, one row for each window and measure, and for each group of a window."""
        records = []
        for window in self.windows:
            records += _records({"window": window.name, "group": None}, window)
            for name, group in window.groups.items():
                records += _records({"window": window.name, "group": name}, group)
        return frame_of(records)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint(RowsReading):
    """The rows predicted in one time span."""

    start: float
    end: float
    predictions: int | None  # labelled or not; None for a single group
    coverage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAnswer(Document):
    """Measures over time; spans without predictions are left out."""

    name: str
    group: str | None
    span: int  # seconds of a point
    points: list[SeriesPoint]

    def to_frame(self) -> Any:
        """Return the measures as a frame, one row for each point and measure; times are in UTC."""
        records = []
        for point in self.points:
            start, end = (datetime.fromtimestamp(each, UTC) for each in (point.start, point.end))
            about = {"start": start, "end": end, "predictions": point.predictions, "coverage": point.coverage}
            records += _records(about, point)
        return frame_of(records)


def _records(about: Mapping[str, Any], rows: RowsReading) -> list[dict[str, Any]]:
    """Return a record of each measure of these rows."""
    records = []
    for key, one in rows.measures.items():
        low, high = one.interval or (None, None)
        found = {"value": one.value, "debiased": one.debiased, "low": low, "high": high, "p_value": one.p_value}
        records.append({**about, "rows": rows.rows, "measure": key, **found, "problem": one.problem})
    return records
