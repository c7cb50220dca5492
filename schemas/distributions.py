"""Predictive distributions of a number: what the fields of requests, batches and maps share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from calibrant.core.choices import ForecastKind as ForecastKind
from calibrant.core.choices import ForecastScale as ForecastScale
from schemas.base import Document

PredictionKind = Literal["classification", "regression"]
#: A level of quantiles or of an interval.
Level = Annotated[float, Field(gt=0, lt=1)]


class ForecastFields(Document):
    """Forecasts as JSON, given as exactly one of the four kinds; binary bodies use the same names."""

    mean: list[float] | None = Field(None, description="means of normal distributions, with `variance` or `std`")
    variance: list[float] | None = Field(None, description="variances, above 0")
    std: list[float] | None = Field(None, description="standard deviations, instead of variances")
    quantiles: list[list[float]] | None = Field(None, description="a row of quantiles each, with `levels`")
    levels: list[float] | None = Field(None, description="ascending levels of the quantiles, in (0, 1)")
    samples: list[list[float]] | None = Field(None, description="a row of samples each")
    lower: list[float] | None = Field(None, description="lower ends of intervals, with `upper` and `level`")
    upper: list[float] | None = Field(None, description="upper ends")
    by: list[str] | None = Field(
        None,
        description="values such as the horizon, numbers as text: a fit with `by` makes a function for each, and its "
        "map needs `by` too; the measure `conditional-coverage` with `by: column` has bins of them",
    )


class DistributionArrays(ForecastFields):
    """Forecasts with their outcomes as JSON; binary bodies use the same names."""

    observed: list[float] | None = Field(None, description="outcomes")
    weights: list[float] | None = Field(None, description="non-negative weights")
    groups: list[str] | None = Field(None, description="name of the group of each row, which is evaluated separately")
    clusters: list[str] | None = Field(
        None,
        description="rows of a cluster may depend on each other: intervals use the variance between clusters, and they "
        "are in one fold of a fit",
    )
    times: list[str] | None = Field(
        None, description="distinct times for a fan chart: numbers, or dates in ISO 8601, as text"
    )


class ForecastShape(Document):
    """What forecasts are given as, without their rows."""

    kind: ForecastKind = Field(description="kind of the forecasts")
    levels: list[float] | None = Field(None, description="of quantiles")
    level: float | None = Field(None, description="of intervals")

    def __str__(self) -> str:
        if self.kind == "normal":
            return "mean and variance"
        if self.kind == "interval":
            return f"intervals of level {self.level:.6g}"
        return "samples" if self.levels is None else f"quantiles at {len(self.levels)} levels"


class HeldOutGain(Document):
    """The decrease of a score by a map, estimated by cross-fitting; positive is better."""

    score: Literal["dss", "crps", "quantile-score", "log-loss"] = Field(description="the score that decreases")
    gain: float = Field(description="mean decrease per row; of the log loss in nats")
    standard_error: float = Field(description="between rows or clusters; approximate")
    relative: float | None = Field(None, description="the gain over the score before; null for dss and log-loss")
    folds: int | None = Field(None, description="number of folds")
    rows: int | None = None
