"""The measures, diagrams and methods of a server, its limits and its health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calibrant.client.answers.document import Document
from calibrant.client.answers.maps import ForecastKind, PredictionKind

Runs = Literal["inline", "job"]
AppliesTo = list[Literal["event", "vector"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Document):
    """The server is up."""

    status: Literal["ok", "degraded"]  # degraded: requests that store something may be refused
    reason: Literal["store-full", "store-cannot-save"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEntry(Document):
    """An option of a measure, diagram or method."""

    default: Any  # None: none, or chosen by the rows
    allowed: str | None  # description of the accepted values


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureEntry(Document):
    """A measure of the catalogue."""

    prediction_kind: Literal["classification"] = "classification"
    name: str
    title: str
    definition: str
    range: tuple[float | None, float | None]  # None: unbounded
    better: str
    family: str
    needs: str
    cost: str
    of: AppliesTo
    source: str
    runs: Runs
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramEntry(Document):
    """A diagram of the catalogue."""

    prediction_kind: PredictionKind = "classification"
    name: str
    title: str
    definition: str
    data: dict[str, str]  # description of each field of its data
    cost: str
    source: str
    runs: Runs
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry(Document):
    """A calibration method of the catalogue, with a description of its maps."""

    prediction_kind: Literal["classification"] = "classification"
    name: str
    title: str
    source: str
    runs: Runs
    of: AppliesTo
    definition: str
    takes: str
    parameters: str
    outside: str
    monotone: str
    keeps_top_label: str
    differentiable: str
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMeasureEntry(Document):
    """A measure of predictive distributions."""

    prediction_kind: Literal["regression"] = "regression"
    name: str
    definition: str
    range: str
    kinds: list[ForecastKind]  # of forecasts for which it is defined
    source: str
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMethodEntry(Document):
    """A calibration method of predictive distributions."""

    prediction_kind: Literal["regression"] = "regression"
    name: str
    title: str
    definition: str
    source: str
    kinds: list[ForecastKind]  # of forecasts that it accepts
    returns: str
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Document):
    """A limit; ``meaning`` also says whether 0 means no limit."""

    value: float
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsAnswer(Document):
    """The limits by the names of their settings."""

    limits: dict[str, Limit]
    used: dict[str, int]  # of the tenant's quotas
