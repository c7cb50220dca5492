"""Generated from schemas/catalogue.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calibrant.client.answers.document import Document

Runs = Literal["inline", "job"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]
PredictionKind = Literal["classification", "regression"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Document):
    """The health of the service."""

    status: Literal["ok", "degraded"]  # degraded: writes may be refused
    #: why it is degraded; store-full: the store has reached its budget or its memory limit; store-cannot-save: its
    #: last attempt to save to disk failed
    reason: Literal["store-full", "store-cannot-save"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEntry(Document):
    """One option of a measure, diagram or method."""

    default: Any  # None: no default, or chosen from the data
    allowed: str | None  # description of the accepted values


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureEntry(Document):
    """One measure in the catalogue."""

    prediction_kind: Literal["classification"] = "classification"
    name: str
    title: str
    definition: str
    range: tuple[float | None, float | None]  # None: unbounded
    better: str
    family: str
    needs: str
    cost: str
    of: list[Literal["event", "vector"]]
    source: str
    runs: Runs
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMeasureEntry(Document):
    """One measure of predictive distributions in the catalogue."""

    prediction_kind: Literal["regression"] = "regression"
    name: str
    definition: str
    range: str
    kinds: list[ForecastKind]  # kinds of forecasts for which it is defined
    source: str
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramEntry(Document):
    """One diagram in the catalogue."""

    prediction_kind: PredictionKind = "classification"
    name: str
    title: str
    definition: str
    data: dict[str, str]  # description of each data field
    cost: str
    source: str
    runs: Runs
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry(Document):
    """One calibration method in the catalogue, with descriptions of the properties of its maps."""

    prediction_kind: Literal["classification"] = "classification"
    name: str
    title: str
    source: str
    runs: Runs
    of: list[Literal["event", "vector"]]
    definition: str
    takes: str
    parameters: str
    outside: str
    monotone: str
    keeps_top_label: str
    differentiable: str
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMethodEntry(Document):
    """One calibration method of predictive distributions in the catalogue."""

    prediction_kind: Literal["regression"] = "regression"
    name: str
    title: str
    definition: str
    source: str
    kinds: list[ForecastKind]  # kinds of forecasts that it accepts
    returns: str
    options: dict[str, OptionEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Document):
    """One limit; for some limits a value of 0 means no limit, as the meaning explains."""

    value: float
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsAnswer(Document):
    """The limits by the name of their setting."""

    limits: dict[str, Limit]
    used: dict[str, int]  # current usage of the tenant's quotas
