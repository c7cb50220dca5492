"""``POST /diagrams``, and pictures of stored results."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from calibrant.core.choices import Theme as Theme
from schemas.base import Document, Reference, Seed
from schemas.batches import ArraysOrBatch, ForecastsOrBatch, RowsOrBatch
from schemas.distributions import DistributionArrays
from schemas.evaluations import EvaluateOptions, Pictured
from schemas.sources import RowsByReference


class PictureQuery(Document):
    """The appearance of a picture."""

    theme: Theme = Field(
        "auto", description="auto follows the reader's system preference, in SVG only; a PNG is then light"
    )
    width: int = Field(
        560, ge=320, le=2000, description="width in pixels; a PNG has twice this width and height, for sharp displays"
    )


class ReportPictureQuery(PictureQuery):
    """Which diagram of a report to draw, and its appearance."""

    key: str | None = Field(None, max_length=64, description="the diagram's key in the report; default: the first")


class DiagramOptions(PictureQuery, RowsOrBatch):
    """All options of a picture except its arrays; ``batch`` or ``batches`` may replace the arrays."""

    diagram: str | dict[str, Any] = Field(
        "reliability",
        description="name of a diagram, or an object with name and options; also by-size and, for two batches, "
        "cost-plane",
        examples=[
            "reliability",
            {"name": "by-size", "measures": ["ece", "ks"]},
            {"name": "cost-plane", "cost_ratios": [2, 10]},
        ],
    )
    batches: list[str] | None = Field(
        None, min_length=2, max_length=12, description="ids of stored batches, instead of the arrays: one panel each"
    )
    source: RowsByReference = None
    reduction: str | None = Field(None, examples=["confidence"])
    classes: list[int] | None = Field(None, description="for (n, K): the classes to restrict predictions to")
    map: Reference | None = Field(None, description="draw the diagram before and after this map, overlaid")
    interval: float | None = Field(0.95, gt=0, lt=1, description="confidence level of the interval in the title")
    resamples: int = Field(1000, ge=100, le=100_000)
    seed: Seed = 0


class DiagramBody(DiagramOptions, ArraysOrBatch):
    """The body of ``POST /diagrams``."""


class DistributionDiagramOptions(ForecastsOrBatch, PictureQuery):
    """All options of a picture of forecasts except their arrays; ``batch`` may replace the arrays."""

    diagram: str | dict[str, Any] = Field(
        "coverage",
        description="name of a diagram, or an object with name and options",
        examples=["pit", {"name": "mean-variance", "n_bins": 20}],
    )
    map: Reference | None = Field(None, description="draw the diagram before and after this map, overlaid")
    seed: Seed = 0


class DistributionDiagramBody(DistributionDiagramOptions, DistributionArrays):
    """The body of ``POST /diagrams`` for predictive distributions of a number."""


class OneEvaluated(EvaluateOptions):
    """The evaluation behind a picture: all rows, without a breakdown by group."""

    by_group: bool = False
    picture: Pictured | None = None
