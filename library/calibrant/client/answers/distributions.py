"""Generated from schemas/distributions.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.client.answers.document import WireAnswer

ForecastKind = Literal["normal", "quantiles", "samples", "interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastShape(WireAnswer):
    """What forecasts are given as, without their rows."""

    kind: ForecastKind  # kind of the forecasts
    levels: list[float] | None = None  # of quantiles
    level: float | None = None  # of intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutGain(WireAnswer):
    """The decrease of a score by a map, estimated by cross-fitting; positive is better."""

    score: Literal["dss", "crps", "quantile-score", "log-loss"]  # the score that decreases
    gain: float  # mean decrease per row; of the log loss in nats
    standard_error: float  # between rows or clusters; approximate
    relative: float | None = None  # the gain over the score before; None for dss and log-loss
    folds: int | None = None  # number of folds
    rows: int | None = None  # number of rows
