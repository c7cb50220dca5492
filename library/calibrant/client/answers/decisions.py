"""Generated from schemas/decisions.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.evaluations import MeasureAnswer

Criterion = Literal["costs", "capacity", "precision", "recall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveAnswer(WireAnswer):
    """A curve over the thresholds, with its pointwise interval."""

    value: list[float]  # value at each threshold
    low: list[float]  # lower end
    high: list[float]  # upper end


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCurveAnswer(WireAnswer):
    """A decision curve: curves of each model, or of ``model``, and of the strategies treat all and treat none."""

    n: int  # number of rows
    prevalence: float  # rate of events
    level: float  # level of the intervals
    thresholds: list[float]  # thresholds, ascending
    net_benefit: dict[str, CurveAnswer]  # net benefit, by model or strategy
    standardised: dict[str, CurveAnswer]  # net benefit divided by the prevalence; empty without events
    over_treat_all: dict[str, CurveAnswer]  # net benefit minus that of treating all rows
    interventions_avoided: dict[str, CurveAnswer]  # interventions avoided per row, compared with treating all rows
    differences: dict[str, CurveAnswer]  # of pairs of models; empty for one model


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionThresholdAnswer(WireAnswer):
    """A threshold: positive decisions are those with a prediction of at least this."""

    criterion: Criterion  # what determined the threshold
    threshold: float  # the threshold, a probability
    level: float  # level of the intervals
    n: int  # number of rows
    measures: dict[str, MeasureAnswer]  # results of the measures by their key
