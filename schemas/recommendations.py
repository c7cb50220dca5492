"""``POST /recommendations``: the map that a report recommends."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document, Seed
from schemas.batches import ArraysOrBatch, KeepBatch, RowsOrBatch
from schemas.evaluations import Measures


class RecommendOptions(RowsOrBatch):
    """All options of a recommendation except the arrays; ``batch`` may replace the arrays."""

    keep_batch: KeepBatch = False
    reduction: str | None = Field(None, examples=["confidence"])
    seed: Seed = Field(0, description="seed of resamples, folds and, from 20,000 rows on, of the sample of rows")


class RecommendBody(RecommendOptions, ArraysOrBatch):
    """The body of ``POST /recommendations``."""


class RecommendSpec(Document):
    """A recommendation as stored with a job."""

    batch: str | None = None
    parts: int | None = Field(None, description="only the first parts of the batch; None: all")
    reduction: str | None
    class_names: list[str] | None
    seed: int


class CandidateAnswer(Document):
    """A compared method."""

    method: str
    reduction: str = Field(description="what it is fitted to")
    parameters: int | None = Field(description="number of parameters of the map; null if it depends on the data")
    gains: Measures = Field(
        description="by how much it improves the log loss and the Brier score of held-out rows, with simultaneous "
        "intervals; empty if it could not be fitted"
    )
    problem: str | None = Field(description="why the method could not be fitted")


class RecommendationAnswer(Document):
    """The response of ``POST /recommendations``."""

    method: str = Field(
        description="method for ``POST /maps``; ``identity`` if the predictions should stay as they are"
    )
    reduction: str = Field(description="reduction of the fit")
    n: int = Field(description="number of rows on which methods were compared")
    verdict: str = Field(description="whether, how and by how much the predictions are miscalibrated")
    headline: str = Field(description="the recommendation as a sentence")
    reasons: list[str] = Field(description="why the map is recommended, or none")
    python: str | None = Field(description="the call of Python that fits the map; null without one")
    candidates: list[CandidateAnswer] = Field(description="the compared methods")
