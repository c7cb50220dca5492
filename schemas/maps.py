"""``POST /maps``, ``POST /calibrate`` and the stored maps."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from schemas.base import Document, Name, Reference, Seed
from schemas.batches import Arrays, Predictions, Scale, WeightsKind


class FitOptions(Document):
    """Everything of a fit but its arrays. ``batch`` stands in their place."""

    method: str = Field("averaged", examples=["pl3"])
    name: Name | None = Field(None, description="a name; an existing one gets its next version")
    options: dict[str, Any] = Field({}, description="the method's own options", examples=[{"folds": 10}])
    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    scale: Scale | None = Field(None, description="default: probability, or the batch's own")
    weights_kind: WeightsKind | None = None
    reduction: str | None = None
    seed: Seed = 0


class FitBody(FitOptions, Arrays):
    """The body of ``POST /maps``."""

    predictions: Predictions | None = None  # type: ignore[assignment]


class FitSpec(Document):
    """A fit as a job keeps it: ids and options, never arrays."""

    method: str
    name: str | None
    options: dict[str, Any]
    batch: str
    parts: int | None = Field(None, description="the first parts of the batch alone; None: all")
    reduction: str | None
    seed: int


class MapRecord(Document):
    """A stored map: what it is called, how it was fitted, and its document."""

    format: int = 1
    id: str
    name: str | None
    version: int | None
    method: str
    options: dict[str, Any]
    reduction: str
    scale: Scale
    n_classes: int | None
    n: int = Field(description="rows of the fit")
    seed: int
    created_at: str
    document: dict[str, Any]


class CalibrateOptions(Document):
    """Everything of an application but its predictions."""

    map: Reference
    batch: str | None = Field(None, description="id of a stored batch, instead of the predictions")
    scale: Scale | None = Field(None, description="default: the map's own; another one is refused")
    bounds: bool = Field(False, description="with p0 and p1, which a Venn-Abers map merges")


class CalibrateBody(CalibrateOptions):
    """The body of ``POST /calibrate``."""

    predictions: Predictions | None = None


class CalibrateAnswer(Document):
    """Calibrated probabilities: of the map's event, or by class."""

    map: str
    predictions: list[float] | list[list[float]]
    p0: list[float] | None = Field(None, description="where bounds were asked for")
    p1: list[float] | None = None
