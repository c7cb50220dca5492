"""The catalogues of measures, diagrams, methods, problems and limits, and the health of the service."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from calibrant.core.choices import Runs as Runs
from schemas.base import Document
from schemas.distributions import ForecastKind, PredictionKind
from schemas.pages import WholeList

# --- Measures, diagrams, methods and problems, and the health of the service

Of = list[Literal["event", "vector"]]


class Health(Document):
    """The health of the service."""

    status: Literal["ok", "degraded"] = Field(description="degraded: writes may be refused")
    reason: Literal["store-full", "store-disk-full", "store-cannot-save", "store-unavailable"] | None = Field(
        default=None,
        description="why it is degraded; store-full: the store has reached its budget or its memory limit; "
        "store-disk-full: the volume of the store is nearly full; "
        "store-cannot-save: its last attempt to save to disk failed; store-unavailable: only maps in memory are "
        "applied",
    )


class OptionEntry(Document):
    """One option of a measure, diagram or method."""

    default: Any = Field(description="null: no default, or chosen from the data")
    allowed: str | None = Field(description="description of the accepted values")


class CatalogueEntry(Document):
    """What all catalogues state about an entry."""

    name: str
    definition: str
    source: str
    options: dict[str, OptionEntry]


class CatalogueQuery(Document):
    """The query of ``GET /measures`` and ``GET /methods``."""

    prediction_kind: PredictionKind = "classification"


class MethodsQuery(CatalogueQuery):
    """The query of ``GET /methods``."""

    output: Literal["probabilities", "sets"] = Field("probabilities", description="sets: methods of prediction sets")


class MeasureEntry(CatalogueEntry):
    """One measure in the catalogue."""

    prediction_kind: Literal["classification"] = "classification"
    title: str
    range: tuple[float | None, float | None] = Field(description="null: unbounded")
    better: str = Field(description="which values are better, such as `lower`")
    family: str = Field(description="group of related measures")
    needs: str = Field(description="what rows the measure needs")
    cost: str
    of: Of = Field(description="whether it measures events or whole vectors")
    runs: Runs


class MeasureEntries(WholeList):
    """The measures of classes."""

    items: list[MeasureEntry]


class DistributionMeasureEntry(CatalogueEntry):
    """One measure of predictive distributions in the catalogue."""

    prediction_kind: Literal["regression"] = "regression"
    range: str = Field(description="range of the values")
    kinds: list[ForecastKind] = Field(description="kinds of forecasts for which it is defined")


class DistributionMeasureEntries(WholeList):
    """The measures of predictive distributions."""

    items: list[DistributionMeasureEntry]


class MeasuresAnswer(WholeList):
    """The response of ``GET /measures``."""

    items: list[MeasureEntry | DistributionMeasureEntry]


class DiagramEntry(CatalogueEntry):
    """One diagram in the catalogue."""

    prediction_kind: PredictionKind = "classification"
    title: str
    data: dict[str, str] = Field(description="description of each data field")
    cost: str
    runs: Runs


class DiagramsAnswer(WholeList):
    """The response of ``GET /diagrams``."""

    items: list[DiagramEntry]


class MethodEntry(CatalogueEntry):
    """One calibration method in the catalogue, with descriptions of the properties of its maps."""

    prediction_kind: Literal["classification"] = "classification"
    title: str
    runs: Runs
    of: Of = Field(description="whether it calibrates events or whole vectors")
    takes: str = Field(description="what predictions the map accepts")
    parameters: str = Field(description="what parameters the map has")
    outside: str = Field(description="values outside the range of the rows of the fit")
    monotone: str = Field(description="whether a higher prediction gives a higher probability")
    keeps_top_label: str = Field(description="whether the predicted class stays the same")
    differentiable: str = Field(description="whether the map is differentiable")


class MethodEntries(WholeList):
    """The methods of classes."""

    items: list[MethodEntry]


class DistributionMethodEntry(CatalogueEntry):
    """One calibration method of predictive distributions in the catalogue."""

    prediction_kind: Literal["regression"] = "regression"
    title: str
    kinds: list[ForecastKind] = Field(description="kinds of forecasts that it accepts")
    returns: str = Field(description="kind of forecasts that the map returns")


class DistributionMethodEntries(WholeList):
    """The methods of predictive distributions."""

    items: list[DistributionMethodEntry]


class SetMethodEntry(CatalogueEntry):
    """One method of prediction sets in the catalogue."""

    output: Literal["sets"] = Field("sets", description="what the maps give")
    title: str
    guarantee: str = Field(description="what holds for new rows that are exchangeable with those of the fit")


class SetMethodEntries(WholeList):
    """The methods of prediction sets."""

    items: list[SetMethodEntry]


class MethodsAnswer(WholeList):
    """The response of ``GET /methods``."""

    items: list[MethodEntry | DistributionMethodEntry | SetMethodEntry]


class ProblemEntry(Document):
    """One kind of problem: its cause and its remedy."""

    type: str = Field(examples=["/problems/out-of-range"], description="path of this entry")
    code: str
    status: int = Field(description="HTTP status")
    title: str
    cause: str = Field(description="what causes the problem")
    remedy: str = Field(description="how to correct the request")


class ProblemsAnswer(WholeList):
    """The response of ``GET /problems``."""

    items: list[ProblemEntry]


# --- ``GET /limits``


class Limit(Document):
    """One limit; for some limits a value of 0 means no limit, as the meaning explains."""

    value: float = Field(examples=[268435456], description="value of the limit")
    meaning: str = Field(description="what is limited")


class LimitsAnswer(Document):
    """The limits by the name of their setting."""

    limits: dict[str, Limit] = Field(description="limits by the name of their setting")
    used: dict[str, int] = Field(description="current usage of the tenant's quotas")
