"""Generated from schemas/segments.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.client.answers.document import WireAnswer


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
    share: float  # share of all rows
    mean_prediction: float  # mean prediction of its rows
    mean_label: float  # mean label of its rows
    gap: float  # mean label minus mean prediction
    interval: list[float]  # simultaneous interval of the gap
    p_value: float  # p-value, adjusted for all segments that were tested


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsAnswer(WireAnswer):
    """The response of ``POST /segments``."""

    segments: list[SegmentAnswer]  # segments with a gap, the clearest first
    n: int  # number of rows
    tested: int  # number of segments that were tested
    significant: int  # number of segments with a gap, also of those that listed ones explain
    confidence: float  # confidence that no segment is listed without a gap
    critical: float  # critical value of the statistic, which is normal under calibration
    p_value: float  # smallest adjusted p-value
    held_out: float | None  # share of the rows that tested the segments; None if all rows did
    notes: list[str]  # what was left out


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticalibrationAnswer(WireAnswer):
    """The response of ``POST /multicalibration``."""

    value: float | None  # largest Kuiper error of a segment, in its deviations; None if that is 0 and labels are wrong
    segment: dict[str, str]  # values of the features in that segment; empty for all rows
    p_value: float | None  # p-value from drawn labels; None without resamples
    uncorrected_p_value: float  # p-value as if there were no other segment, which is too small
    absolute: float | None  # value times the deviation of all rows
    relative: float | None  # absolute in percent of the rate of the rarer outcome
    all_rows: float | None  # Kuiper error of all rows, in units of its deviation
    detectable: float  # 5 deviations of all rows
    n_segments: int  # number of segments
