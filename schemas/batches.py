"""Batches: predictions and labels that are stored once and used many times."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from calibrant.core.choices import InputScale as InputScale
from calibrant.core.choices import Scale as Scale
from calibrant.core.choices import WeightsKind as WeightsKind
from schemas.base import Document, Timestamp
from schemas.distributions import DistributionArrays, ForecastShape, Level, PredictionKind
from schemas.pages import PageQuery

# --- Batches

#: What the two kinds mean.
WEIGHTS_KIND = (
    "`importance`: only ratios matter, as of inverse sampling probabilities; `frequency`: whole numbers, how often "
    "each row occurred"
)
#: The kind of the weights of a request, or of the batch that it names.
RequestWeightsKind = Annotated[
    WeightsKind | None, Field(description=f"default: that of the batch, otherwise importance; {WEIGHTS_KIND}")
]
#: Of requests that may become a job.
KeepBatch = Annotated[
    bool,
    Field(
        description="if rows in the request become a job: keep them as a batch, which the job names, for the setting "
        "batch_ttl; by default they are deleted when the job ends"
    ),
]
Predictions = list[float] | list[list[float]]
_PREDICTIONS = "P(Y=1) of each row, or a row of K class probabilities each"


#: The features of rows, by name, and what they are.
FeatureArrays = dict[str, list[float | None] | list[str | None] | list[bool | None]]
FEATURES = (
    "features of the rows, by which `segments` tells them apart: numbers, or strings or booleans for categories; null "
    "is missing. Other formats have a column `features/NAME` for each"
)


class Arrays(Document):
    """The arrays of a batch as JSON; binary bodies use the same names."""

    predictions: Predictions = Field(description=_PREDICTIONS, examples=[[0.1, 0.4, 0.6, 0.9]])
    labels: list[int] | list[bool] | list[str] | None = Field(
        None,
        description="0 or 1, or false or true; or the class from 0 to K - 1; or strings of class_names",
        examples=[[0, 0, 1, 1]],
    )
    weights: list[float] | None = Field(None, description="non-negative weights")
    groups: list[str] | None = Field(None, description="name of the group of each row")
    clusters: list[str] | None = Field(
        None,
        description="rows of a cluster, such as a patient, may depend on each other: intervals use the variance "
        "between clusters, and they are in one fold of a fit",
    )
    features: FeatureArrays | None = Field(
        None, description=FEATURES, examples=[{"country": ["DE", "FR", "DE", None], "age": [31, 58, 44, 27]}]
    )


#: The labels of the classes in the order of the columns; for (n,), of the negative and the positive class.
ClassNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=256)]],
    Field(
        min_length=2,
        description="labels of the classes in the order of the columns; for (n,), of the negative and positive class",
        examples=[["ham", "spam"]],
    ),
]


class RowsOrBatch(Document):
    """The options about the rows of a call, or the batch that has its rows."""

    prediction_kind: Literal["classification"] = "classification"
    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    scale: InputScale | None = Field(
        None, description="default: that of the batch, otherwise probability; percent: from 0 to 100"
    )
    weights_kind: RequestWeightsKind = None
    class_names: ClassNames | None = None


class ArraysOrBatch(Arrays):
    """The arrays of a call as JSON, unless its rows are those of a batch."""

    predictions: Predictions | None = Field(None, description=_PREDICTIONS)  # type: ignore[assignment]


class ForecastOptions(Document):
    """The options about forecasts that every call with their rows has."""

    prediction_kind: Literal["regression"]
    level: Level | None = Field(None, description="of intervals")


class ForecastsOrBatch(ForecastOptions):
    """The options about the forecasts of a call, or the batch that has them."""

    batch: str | None = Field(None, description="id of a stored batch, instead of the arrays")
    weights_kind: RequestWeightsKind = None


class RowsOptions(Document):
    """Options of appended arrays; they must equal those of the batch."""

    prediction_kind: Literal["classification"] = "classification"
    scale: Scale | None = Field(None, description="default: that of the batch; any other value is rejected")
    weights_kind: WeightsKind | None = Field(
        None, description="default: that of the batch; any other value is rejected"
    )


class RowsBody(RowsOptions, Arrays):
    """The body of ``POST /batches/{id}/rows``."""


class DistributionRowsOptions(ForecastOptions):
    """Options of appended forecasts; they must equal those of the batch."""

    weights_kind: WeightsKind | None = Field(
        None, description="default: that of the batch; any other value is rejected"
    )


class DistributionRowsBody(DistributionRowsOptions, DistributionArrays):
    """The body of ``POST /batches/{id}/rows`` for a batch of predictive distributions."""


class BatchOptions(Document):
    """How the arrays are interpreted, and how long they are kept."""

    prediction_kind: Literal["classification"] = "classification"
    scale: InputScale = Field("probability", description="percent: from 0 to 100, stored as probabilities")
    weights_kind: WeightsKind = Field("importance", description=WEIGHTS_KIND)
    class_names: ClassNames | None = None
    ttl: int | None = Field(None, ge=1)


class BatchBody(BatchOptions, Arrays):
    """The body of ``POST /batches``."""


class DistributionBatchOptions(ForecastOptions):
    """How forecasts are interpreted, and how long they are kept."""

    weights_kind: WeightsKind = Field("importance", description=WEIGHTS_KIND)
    ttl: int | None = Field(None, ge=1)


class DistributionBatchBody(DistributionBatchOptions, DistributionArrays):
    """The body of ``POST /batches`` for predictive distributions of a number."""


class BatchRecord(Document):
    """The record of a stored batch."""

    format: int = 2
    id: str
    prediction_kind: PredictionKind = "classification"
    n: int
    n_classes: int | None
    scale: Scale | None = Field(description="null for regression")
    weights_kind: WeightsKind
    class_names: list[str] | None = None
    arrays: list[str]
    parts: int = Field(1, description="1, plus one for each time that rows were appended")
    label_counts: list[int] | None = Field(None, description="number of rows of each label, for up to 1,000 classes")
    positive_rate: float | None = Field(None, description="fraction of rows with label 1, for a binary batch")
    bytes: int | None = Field(None, description="size of the arrays")
    clipped: int
    renormalised: int
    forecasts: ForecastShape | None = Field(None, description="of regression: what the forecasts are given as")
    n_repaired: int | None = Field(
        None, description="of regression: rows whose quantiles cross by at most 1e-6 relative, which are repaired"
    )
    created_at: Timestamp
    expires_at: Timestamp | None = Field(
        description="null while a queued or running job needs the batch, which then does not expire"
    )


class BatchesQuery(PageQuery):
    """The query of ``GET /batches``."""


class BatchesAnswer(Document):
    """A page of batches, newest first."""

    items: list[BatchRecord]
    next: str | None


# --- Records that the web page stores with a batch


class UploadRecord(Document):
    """The name of an uploaded file that became a batch, and how the file was interpreted."""

    format: int = 1
    file: str | None = Field(None, description="null if the rows were not uploaded as a file")
    said: list[str] = Field([], description="everything that was inferred or converted")
    model: str | None = Field(None, description="columns of the model, if the file has several models")
    classes: list[str] | None = Field(None, description="names of the classes in order, if the file contains them")
    reduction: str | None = Field(
        None, description="that of reports and maps, if the form has one, or if the file implies one: confidence"
    )

    @property
    def title(self) -> str | None:
        """The file, with the model if the file has several."""
        return self.file if self.model is None else f"{self.file}: {self.model}"
