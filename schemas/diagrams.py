"""``POST /diagrams``, and the pictures of what is stored."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.base import Document, Reference, Seed
from schemas.batches import Arrays, Scale, WeightsKind
from schemas.evaluate import DiagramAnswer, EvaluateOptions, Pictured

Theme = Literal["auto", "light", "dark"]


class PictureQuery(Document):
    """How a picture is to look."""

    theme: Theme = Field("auto", description="auto follows the reader's own preference, in SVG alone; a PNG is light")
    width: int = Field(560, ge=320, le=2000, description="pixels; of a PNG there are twice as many")


class ReportPictureQuery(PictureQuery):
    """Which diagram of a report is drawn, and how."""

    key: str | None = Field(None, max_length=64, description="the diagram's key in the report; default: the first")


class DiagramOptions(PictureQuery):
    """Everything of a picture but its arrays. ``batch`` or ``batches`` stand in their place."""

    diagram: str | dict[str, Any] = Field(
        "reliability",
        description="a diagram's name, or an object of name and options; also by-size and, of two batches, cost-plane",
        examples=[
            "reliability",
            {"name": "by-size", "measures": ["ece", "ks"]},
            {"name": "cost-plane", "cost_ratios": [2, 10]},
        ],
    )
    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    batches: list[str] | None = Field(
        None, min_length=2, max_length=12, description="ids of stored batches, instead of the arrays: a picture of each"
    )
    scale: Scale | None = Field(None, description="default: probability, or the batch's own")
    weights_kind: WeightsKind | None = None
    reduction: str | None = Field(None, examples=["confidence"])
    classes: list[int] | None = Field(None, description="of (n, K), the classes to which predictions are restricted")
    map: Reference | None = Field(None, description="of a map: before and after it, one over the other")
    interval: float | None = Field(0.95, gt=0, lt=1, description="level of the error's interval in the title")
    resamples: int = Field(1000, ge=100, le=100_000)
    seed: Seed = 0


class DiagramBody(DiagramOptions, Arrays):
    """The body of ``POST /diagrams``."""

    predictions: list[float] | list[list[float]] | None = None  # type: ignore[assignment]


class OneEvaluated(EvaluateOptions):
    """The evaluation behind a picture: of all rows alone, whatever groups they have."""

    by_group: bool = False
    picture: Pictured | None = None


class PictureAnswer(DiagramAnswer):
    """The numbers of a picture, and what it says in words: null where there is nothing to draw."""

    after: DiagramAnswer | None = Field(None, description="after the map")
    alt: str | None


class PictureReport(Document):
    """The report of a job that draws ``by-size`` or ``cost-plane``."""

    n: int
    reduction: str
    diagrams: dict[str, DiagramAnswer]


class BatchPicture(DiagramAnswer):
    """The numbers of one of several batches."""

    batch: str


class PicturesAnswer(Document):
    """The numbers of a picture of several batches, and what it says in words."""

    batches: list[BatchPicture]
    alt: str | None
