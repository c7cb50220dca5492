"""``POST /segments`` and ``POST /multicalibration``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Document, Seed
from schemas.batches import ArraysOrBatch, RowsOrBatch

Fraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


class SegmentsOptions(RowsOrBatch):
    """All options of the search except the arrays; ``batch`` may replace the arrays."""

    max_order: Annotated[int, Field(ge=0, le=3)] = Field(
        2, description="the most features of a segment; the prediction counts as one"
    )
    n_bins: Annotated[int, Field(ge=2, le=100)] = Field(10, description="bins of numbers and of the prediction")
    min_rows: Annotated[int, Field(ge=10)] | None = Field(
        None, description="rows that a segment needs; default: 50, and of many rows a thousandth"
    )
    n_segments: Annotated[int, Field(ge=1, le=1000)] = Field(20, description="the most segments in the answer")
    confidence: Fraction = Field(0.95, description="confidence that no segment is listed without a gap")
    held_out: Fraction | None = Field(
        None, description="share of the rows, drawn at random, that test segments found in the others; default: none"
    )
    reduction: str | None = None
    seed: Seed = Field(0, description="seed of the random numbers")


class SegmentsBody(SegmentsOptions, ArraysOrBatch):
    """The body of ``POST /segments``."""


class SegmentCondition(Document):
    """A category, or a range of numbers; neither if the value is missing."""

    feature: str | None = Field(description="name of the feature; null for the prediction")
    category: str | None = Field(description="the category; null for numbers")
    above: float | None = Field(description="numbers are above this; null without a lower end")
    up_to: float | None = Field(description="numbers are at most this; null without an upper end")


class SegmentAnswer(Document):
    """A segment with a gap."""

    conditions: list[SegmentCondition] = Field(description="all of them hold; none for all rows")
    n: int
    share: float = Field(description="share of all rows")
    mean_prediction: float = Field(description="mean prediction of its rows")
    mean_label: float = Field(description="mean label of its rows")
    gap: float = Field(description="mean label minus mean prediction")
    interval: list[float] = Field(min_length=2, max_length=2, description="simultaneous interval of the gap")
    p_value: float = Field(description="p-value, adjusted for all segments that were tested")


class SegmentsAnswer(Document):
    """The response of ``POST /segments``."""

    segments: list[SegmentAnswer] = Field(description="segments with a gap, the clearest first")
    n: int
    tested: int = Field(description="number of segments that were tested")
    significant: int = Field(description="number of segments with a gap, also of those that listed ones explain")
    confidence: float = Field(description="confidence that no segment is listed without a gap")
    critical: float = Field(description="critical value of the statistic, which is normal under calibration")
    p_value: float = Field(description="smallest adjusted p-value")
    held_out: float | None = Field(description="share of the rows that tested the segments; null if all rows did")
    notes: list[str] = Field(description="what was left out")


class MulticalibrationOptions(RowsOrBatch):
    """All options of the multicalibration error except the arrays; ``batch`` may replace the arrays."""

    max_depth: Annotated[int, Field(ge=0, le=10)] = Field(3, description="the most features of a segment")
    max_values: Annotated[int, Field(ge=1, le=1000)] = Field(3, description="the most values, or bins, of a feature")
    min_rows: Count = Field(10, description="rows that a segment needs")
    n_segments: Annotated[int, Field(ge=1, le=100_000)] = Field(1000, description="the most segments, in parts of 50")
    ties: Literal["merged", "rows"] = Field(
        "merged", description="whether equal predictions are one step of the cumulative difference, or each row is"
    )
    resamples: Annotated[int, Field(ge=100, le=100_000)] | None = Field(
        1000, description="sets of labels that are drawn for the p-value; null for none"
    )
    reduction: str | None = None
    seed: Seed = Field(0, description="seed of the labels that are drawn")


class MulticalibrationBody(MulticalibrationOptions, ArraysOrBatch):
    """The body of ``POST /multicalibration``."""


class MulticalibrationAnswer(Document):
    """The response of ``POST /multicalibration``."""

    value: float | None = Field(
        description="largest Kuiper error of a segment, in its deviations; null if that is 0 and labels are wrong"
    )
    segment: dict[str, str] = Field(description="values of the features in that segment; empty for all rows")
    p_value: float | None = Field(description="p-value from drawn labels; null without resamples")
    uncorrected_p_value: float = Field(description="p-value as if there were no other segment, which is too small")
    absolute: float | None = Field(description="value times the deviation of all rows")
    relative: float | None = Field(description="absolute in percent of the rate of the rarer outcome")
    all_rows: float | None = Field(description="Kuiper error of all rows, in units of its deviation")
    detectable: float = Field(description="5 deviations of all rows")
    n_segments: int = Field(description="number of segments")
