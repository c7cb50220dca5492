"""``POST /maps``, ``POST /calibrate`` and the stored maps."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, Field

from schemas.base import Document, Name, Reference, Seed
from schemas.batches import Arrays, Predictions, Scale, WeightsKind

TagName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$")]
TagValue = Annotated[str, Field(max_length=256)]
#: A map has at most so many.
MAX_TAGS = 32
Tags = Annotated[dict[TagName, TagValue], Field(max_length=MAX_TAGS, examples=[{"stage": "shadow"}])]
Description = Annotated[str, Field(max_length=2000)]


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
    tags: Tags = Field({}, description="at most 32 short strings by name")
    description: Description | None = None


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
    tags: dict[str, str] = Field({})
    description: str | None = None
    created_by: str | None = None


class Scores(Document):
    """Scores on the rows of the fit; smaller is better, and none is below 0."""

    log_loss: float = Field(description="nats, of the map's event or of the whole vector")
    brier: float
    ece: float = Field(description="15 bins of equal mass, of the event or of the vector's confidence; not debiased")


class InSample(Document):
    """The rows of the fit before and after its own map, which has seen their labels: no proof of what it gains."""

    before: Scores
    after: Scores


class Bins(Document):
    """Bins of equal mass of the rows of the fit, at most 100, in ascending order; each list has a number a bin."""

    start: list[float] = Field(description="the least prediction in the bin")
    count: list[int] = Field(description="rows")
    rows: list[float] = Field(description="effective rows, by weight")
    share: list[float] = Field(description="share of the mass")
    mean_prediction: list[float]
    # Earlier versions stored it as label_share.
    observed_frequency: list[float] = Field(validation_alias=AliasChoices("observed_frequency", "label_share"))


class FitBins(Document):
    """The bins before the map and after it, of which event."""

    of: str = Field(examples=["binary"])
    before: Bins
    after: Bins


class MapSummary(Document):
    """What a stored map is called, how and to what it was fitted, by whom and when; without its numbers."""

    format: int = 1
    id: str
    name: str | None
    version: int | None
    method: str
    options: dict[str, Any]
    reduction: str
    scale: Scale
    n_classes: int | None
    n: int | None = Field(description="rows of the fit; null where the map was imported")
    seed: int | None
    created_at: str
    created_by: str | None = Field(None, description="name of the API key")
    updated_at: str | None = Field(None, description="when tags or description last changed")
    tags: dict[str, str] = Field({})
    description: str | None = None
    imported: bool = False
    digest: str | None = Field(None, description="of the rows of the fit, whatever their order")
    label_rate: float | None = Field(None, description="share of the map's event among the rows of the fit")
    in_sample: InSample | None = None


class MapRecord(MapSummary):
    """A stored map: its summary, the bins of its fit, and its document."""

    label_counts: list[int] | None = Field(None, description="rows of each label, of (n, K) with K up to 1,000")
    bins: FitBins | None = None
    document: dict[str, Any]

    def summary(self) -> MapSummary:
        """The record without what is long."""
        return MapSummary(**{name: getattr(self, name) for name in MapSummary.model_fields})


class MapDocument(Document):
    """A map as one JSON object: it can be applied from its numbers alone, and imported again."""

    format: int = Field(examples=[1])
    method: str = Field(examples=["platt"])
    family: str = Field(description="what the parameters are", examples=["platt"])
    reduction: str = Field(examples=["binary"])
    scale: Scale
    n_classes: int | None
    parameters: dict[str, Any] = Field(examples=[{"slope": 0.8, "intercept": 0.1}])
    diagnostics: dict[str, Any]


class MapChanges(Document):
    """The body of ``PATCH /maps/{ref}``, a JSON merge patch (RFC 7396): null removes, what is left out stays."""

    tags: dict[TagName, TagValue | None] | None = Field(None, examples=[{"stage": "live", "ticket": None}])
    description: Description | None = None


class ImportOptions(Document):
    """The body of ``POST /maps/import``."""

    document: dict[str, Any] = Field(description="a map's document, as GET /maps/{ref}/document answers it")
    name: Name | None = Field(None, description="a name; an existing one gets its next version")
    tags: Tags = Field({})
    description: Description | None = None


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
    p0: list[float] | None = Field(None, description="if bounds were requested")
    p1: list[float] | None = None
