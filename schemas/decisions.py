"""``POST /decisions``: decision curves, and the threshold for decisions."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document, Seed
from schemas.batches import RowsOrBatch
from schemas.evaluations import ArraysOrModels, Criterion, Fraction, Measures, ThresholdCriteria


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


class CurveAnswer(Document):
    """A curve over the thresholds, with its pointwise interval."""

    value: list[float] = Field(description="value at each threshold")
    low: list[float]
    high: list[float]


class DecisionCurveAnswer(Document):
    """A decision curve: curves of each model, or of ``model``, and of the strategies treat all and treat none."""

    n: int
    prevalence: float = Field(description="rate of events")
    level: float
    thresholds: list[float] = Field(description="thresholds, ascending")
    net_benefit: dict[str, CurveAnswer] = Field(description="net benefit, by model or strategy")
    standardised: dict[str, CurveAnswer] = Field(
        description="net benefit divided by the prevalence; empty without events"
    )
    over_treat_all: dict[str, CurveAnswer] = Field(description="net benefit minus that of treating all rows")
    interventions_avoided: dict[str, CurveAnswer] = Field(
        description="interventions avoided per row, compared with treating all rows"
    )
    differences: dict[str, CurveAnswer]


class DecisionThresholdAnswer(Document):
    """A threshold: positive decisions are those with a prediction of at least this."""

    criterion: Criterion = Field(description="what determined the threshold")
    threshold: float = Field(description="the threshold, a probability")
    level: float
    n: int
    measures: Measures
