"""Generated from schemas/catalogue.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calibrant.client.answers.document import WireAnswer

Runs = Literal["inline", "job"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]
PredictionKind = Literal["classification", "regression"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(WireAnswer):
    """The health of the service."""

    status: Literal["ok", "degraded"]  # degraded: writes may be refused
    #: why it is degraded; store-full: the store has reached its budget or its memory limit; store-disk-full: the
    #: volume of the store is nearly full; store-cannot-save: its last attempt to save to disk failed;
    #: store-unavailable: only maps in memory are applied
    reason: Literal["store-full", "store-disk-full", "store-cannot-save", "store-unavailable"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEntry(WireAnswer):
    """One option of a measure, diagram or method."""

    default: Any  # None: no default, or chosen from the data
    allowed: str | None  # description of the accepted values


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureEntry(WireAnswer):
    """One measure in the catalogue."""

    name: str  # name, as in requests
    definition: str  # definition
    source: str  # publication or origin
    options: dict[str, OptionEntry]  # options by name
    #: what is predicted: classes, or a number (regression)
    prediction_kind: Literal["classification"] = "classification"
    title: str  # short title
    range: tuple[float | None, float | None]  # None: unbounded
    better: str  # which values are better, such as `lower`
    family: str  # group of related measures
    needs: str  # what rows the measure needs
    cost: str  # what the computation costs
    of: list[Literal["event", "vector"]]  # whether it measures events or whole vectors
    runs: Runs  # whether a request is answered directly or by a job


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureEntries(WireAnswer):
    """The measures of classes."""

    next: str | None = None  # always None: the list has no further page
    items: list[MeasureEntry]  # entries of this page


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMeasureEntry(WireAnswer):
    """One measure of predictive distributions in the catalogue."""

    name: str  # name, as in requests
    definition: str  # definition
    source: str  # publication or origin
    options: dict[str, OptionEntry]  # options by name
    prediction_kind: Literal["regression"] = "regression"  # what is predicted: classes, or a number (regression)
    range: str  # range of the values
    kinds: list[ForecastKind]  # kinds of forecasts for which it is defined


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMeasureEntries(WireAnswer):
    """The measures of predictive distributions."""

    next: str | None = None  # always None: the list has no further page
    items: list[DistributionMeasureEntry]  # entries of this page


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramEntry(WireAnswer):
    """One diagram in the catalogue."""

    name: str  # name, as in requests
    definition: str  # definition
    source: str  # publication or origin
    options: dict[str, OptionEntry]  # options by name
    prediction_kind: PredictionKind = "classification"  # what is predicted: classes, or a number (regression)
    title: str  # short title
    data: dict[str, str]  # description of each data field
    cost: str  # what the computation costs
    runs: Runs  # whether a request is answered directly or by a job


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramsAnswer(WireAnswer):
    """The response of ``GET /diagrams``."""

    next: str | None = None  # always None: the list has no further page
    items: list[DiagramEntry]  # entries of this page


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry(WireAnswer):
    """One calibration method in the catalogue, with descriptions of the properties of its maps."""

    name: str  # name, as in requests
    definition: str  # definition
    source: str  # publication or origin
    options: dict[str, OptionEntry]  # options by name
    #: what is predicted: classes, or a number (regression)
    prediction_kind: Literal["classification"] = "classification"
    title: str  # short title
    runs: Runs  # whether a request is answered directly or by a job
    of: list[Literal["event", "vector"]]  # whether it calibrates events or whole vectors
    takes: str  # what predictions the map accepts
    parameters: str  # what parameters the map has
    outside: str  # values outside the range of the rows of the fit
    monotone: str  # whether a higher prediction gives a higher probability
    keeps_top_label: str  # whether the predicted class stays the same
    differentiable: str  # whether the map is differentiable


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntries(WireAnswer):
    """The methods of classes."""

    next: str | None = None  # always None: the list has no further page
    items: list[MethodEntry]  # entries of this page


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMethodEntry(WireAnswer):
    """One calibration method of predictive distributions in the catalogue."""

    name: str  # name, as in requests
    definition: str  # definition
    source: str  # publication or origin
    options: dict[str, OptionEntry]  # options by name
    prediction_kind: Literal["regression"] = "regression"  # what is predicted: classes, or a number (regression)
    title: str  # short title
    kinds: list[ForecastKind]  # kinds of forecasts that it accepts
    returns: str  # kind of forecasts that the map returns


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionMethodEntries(WireAnswer):
    """The methods of predictive distributions."""

    next: str | None = None  # always None: the list has no further page
    items: list[DistributionMethodEntry]  # entries of this page


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMethodEntry(WireAnswer):
    """One method of prediction sets in the catalogue."""

    name: str  # name, as in requests
    definition: str  # definition
    source: str  # publication or origin
    options: dict[str, OptionEntry]  # options by name
    output: Literal["sets"] = "sets"  # what the maps give
    title: str  # short title
    guarantee: str  # what holds for new rows that are exchangeable with those of the fit


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMethodEntries(WireAnswer):
    """The methods of prediction sets."""

    next: str | None = None  # always None: the list has no further page
    items: list[SetMethodEntry]  # entries of this page


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(WireAnswer):
    """One limit; for some limits a value of 0 means no limit, as the meaning explains."""

    value: float  # value of the limit
    meaning: str  # what is limited


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsAnswer(WireAnswer):
    """The limits by the name of their setting."""

    limits: dict[str, Limit]  # limits by the name of their setting
    used: dict[str, int]  # current usage of the tenant's quotas
