"""``POST /recommendations``: the map that a report recommends."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document, Seed
from schemas.batches import ArraysOrBatch, KeepBatch, RowsOrBatch


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
