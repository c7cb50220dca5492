"""``POST /segments`` and ``POST /multicalibration``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Seed
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
