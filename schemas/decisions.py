"""``POST /decisions``: decision curves, and the threshold for decisions."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Seed
from schemas.batches import RowsOrBatch
from schemas.evaluations import ArraysOrModels, Fraction, ThresholdCriteria


class DecideOptions(RowsOrBatch, ThresholdCriteria):
    """All options of decisions except the arrays; without a criterion the answer is a decision curve."""

    thresholds: list[Fraction] | None = Field(
        None, min_length=1, max_length=1000, description="of a decision curve; default: 0.01, 0.02, ..., 0.99"
    )
    reduction: str | None = None
    interval: Fraction = Field(0.95, description="level of the intervals, and of the guarantee of a bound")
    seed: Seed = Field(0, description="seed of the folds of the recalibration, for costs")


class DecideBody(DecideOptions, ArraysOrModels):
    """The body of ``POST /decisions``."""
