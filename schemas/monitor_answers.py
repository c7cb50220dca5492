"""Answers of monitors: windows, values over time, and definitions without secrets."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document
from schemas.diagrams import PictureQuery
from schemas.monitor_alarms import RuleState
from schemas.monitors import Counts, Label, MonitorRecord
from schemas.pages import PageQuery

#: What options and parts of measures are: numbers, words, and lists of them.
Plain = float | int | str | bool | None
Told = dict[str, Plain | list[Plain] | list[list[Plain]]]


class MonitorAnswer(MonitorRecord):
    """A monitor as callers see it: a hook's secret stands here once, in the answer of the call that had it made."""


class MonitorsQuery(PageQuery):
    """The query of ``GET /monitors``."""


class MonitorsAnswer(Document):
    """A page of monitors, newest first."""

    items: list[MonitorAnswer]
    next: str | None = Field(description="cursor of the page that follows")


class MeasureReading(Document):
    """One measure of a window; what is not defined is null."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = Field(
        None, description="of calibration, at one look decided on beforehand; for any number of looks there are rules"
    )
    parts: Told = Field({}, description="what does not fit one number")
    problem: str | None = None


Readings = dict[str, MeasureReading]


class DelayReading(Document):
    """How long the labels of a window took after their predictions, in seconds: each to within a third, 0 below one."""

    labels: int
    p50: float
    p90: float
    p99: float


class HistogramReading(Document):
    """Where the predictions lie."""

    edges: list[float]
    count: list[float]
    share: list[float]


class ReliabilityReading(Document):
    """The reliability diagram of a window, as ``POST /diagrams`` has it; every list has a number a bin."""

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


class RowsReading(Document):
    """The labelled rows of a window, or of one of its groups."""

    rows: int = Field(description="labelled")
    mean_prediction: float | None
    label_rate: float | None = Field(description="the share of rows whose event came true")
    measures: Readings


class Difference(Document):
    """Two values of independent rows, and the first less the second."""

    value: float | None = Field(description="of the window")
    reference: float | None
    difference: float | None
    interval: tuple[float, float] | None = Field(None, description="of the difference")


class Shift(Document):
    """How far the labelled rows' predictions lie from the reference's: the largest gap of the distributions."""

    distance: float = Field(ge=0, le=1)
    p_value: float = Field(description="that predictions of one law lie so far apart; at most so, since cells tie rows")


class ReferenceReading(Document):
    """A window beside the reference; ``problem`` says why it is not, where nothing else does."""

    start: float | None = Field(None, description="of a span")
    end: float | None = None
    batch: str | None = None
    rows: int
    measures: dict[str, Difference] = Field({})
    label_rate: Difference | None = None
    mean_prediction: Difference | None = None
    shift: Shift | None = None
    problem: str | None = None


class WindowReading(RowsReading):
    """A window as it is now."""

    name: str
    seconds: int | None = Field(description="of a window of time")
    at_least: int | None = Field(None, description="of a window of rows: so many, where there are as many")
    start: float | None = Field(description="seconds since 1970; null of a window of rows")
    end: float | None = None
    predictions: int | None = Field(description="labelled or not; null of a window of rows")
    coverage: float | None = Field(description="labelled rows a prediction")
    delay: DelayReading | None
    diagram: ReliabilityReading | None
    groups: dict[str, RowsReading] = Field(description="by name, of the rows of each; without intervals")
    reference: ReferenceReading | None


class MonitorReading(Document):
    """The answer of ``GET /monitors/{name}``."""

    monitor: MonitorAnswer
    counts: Counts
    definitions: dict[str, Told] = Field(description="of each measure, in full")
    windows: list[WindowReading]
    rules: list[RuleState] = Field(description="the result of each rule at the last look, if there was one")
    read_at: float = Field(description="seconds since 1970")


class ReadingQuery(Document):
    """The query of ``GET /monitors/{name}``."""

    windows: str | None = Field(None, max_length=400, description="names, separated by commas; default: all")
    groups: int = Field(20, ge=0, le=1000, description="so many groups are listed, those of most labelled rows")


class SeriesQuery(Document):
    """The query of ``GET /monitors/{name}/series``."""

    window: Label | None = Field(None, description="of time: the series ends now and reaches back so far")
    measure: str | None = Field(None, max_length=64, description="the key of one of the monitor's; default: all")
    group: str | None = Field(None, max_length=200, description="of one group alone")
    start: float | None = Field(None, ge=0, le=1e11, description="seconds since 1970; default: what is kept")
    end: float | None = Field(None, ge=0, le=1e11, description="default: now")
    points: int = Field(100, ge=1, le=1000, description="at most so many spans of time, of whole buckets")
    intervals: bool = Field(False, description="whether each value has its interval, which takes longer")


class SeriesPoint(RowsReading):
    """The rows predicted in one span of time."""

    start: float
    end: float
    predictions: int | None = Field(description="labelled or not; null of one group")
    coverage: float | None


class SeriesAnswer(Document):
    """The values of measures over time; spans in which nothing was predicted are left out."""

    name: str
    group: str | None
    span: int = Field(description="seconds of a point")
    points: list[SeriesPoint]


class SeriesPictureQuery(SeriesQuery, PictureQuery):
    """Which values are drawn over time, and how: of one measure, by default the first, with its intervals."""

    points: int = Field(60, ge=1, le=200, description="at most so many spans of time, of whole buckets")
    intervals: bool = True


class WindowPictureQuery(PictureQuery):
    """Of which window the reliability diagram is drawn, and how."""

    window: Label | None = Field(None, description="default: the first")
    group: str | None = Field(None, max_length=200, description="of one group alone")


def answer_of(record: MonitorRecord, fresh: frozenset[str] = frozenset()) -> MonitorAnswer:
    """A monitor without its hooks' secrets, but for those of the hooks that are named ``fresh``."""
    hooks = [hook.shown(secret=hook.name in fresh) for hook in record.hooks]
    return MonitorAnswer.model_validate(record.model_copy(update={"hooks": hooks}).model_dump())
