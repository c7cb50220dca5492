"""``POST /maps``, ``POST /calibrate`` and the stored maps."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from calibrant.maps.calibration_map import VECTORS
from calibrant.maps.documents import SETS
from schemas.base import Document, Name, Reference, Seed, Timestamp
from schemas.batches import (
    FEATURES,
    ArraysOrBatch,
    FeatureArrays,
    ForecastOptions,
    ForecastsOrBatch,
    InputScale,
    KeepBatch,
    Predictions,
    RowsOrBatch,
    Scale,
    WeightsKind,
)
from schemas.distributions import (
    DistributionArrays,
    ForecastFields,
    ForecastKind,
    ForecastScale,
    ForecastShape,
    HeldOutGain,
    Level,
    PredictionKind,
)
from schemas.sources import RowsByReference, SourceRows

TagName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$")]
TagValue = Annotated[str, Field(max_length=256)]
#: Maximum number of tags of a map.
MAX_TAGS = 32
Tags = Annotated[dict[TagName, TagValue], Field(max_length=MAX_TAGS, examples=[{"stage": "shadow"}])]
#: Maximum length of a text about a map.
MAX_TEXT = 2000
Description = Annotated[str, Field(max_length=MAX_TEXT)]
Support = Annotated[list[float | None], Field(min_length=2, max_length=2)]


class About(Document):
    """What callers say about a map, and may change later."""

    description: Description | None = None
    tags: Tags = Field({}, description="up to 32 short strings by name")

    def about(self) -> dict[str, Any]:
        """These fields alone, for another document about the same map."""
        return {name: getattr(self, name) for name in About.model_fields}


class Registration(About):
    """How a new map is stored."""

    name: Name | None = Field(None, description="name of the map; a name in use gets its next version")
    allow_shape_change: bool = Field(
        False, description="allow the shape of the output to differ from that of the newest map with this name"
    )


class FitOptions(Registration, RowsOrBatch):
    """All options of a fit except its arrays; ``batch`` may replace the arrays."""

    method: str = Field(
        "averaged",
        examples=["pl3"],
        description="method, from `GET /methods`, or of prediction sets, from `GET /methods?output=sets`",
    )
    options: dict[str, Any] = Field({}, description="options of the method", examples=[{"folds": 10}])
    keep_batch: KeepBatch = False
    source: RowsByReference = None
    reduction: str | None = None
    seed: Seed = 0


class FitBody(FitOptions, ArraysOrBatch):
    """The body of ``POST /maps``."""

    labels: list[int] | list[bool] | list[str] | list[list[int]] | None = Field(  # type: ignore[assignment]
        None,
        description="as for ``POST /evaluate``; with the method crc also 0 or 1 for each of K labels of a row, which "
        "need not exclude each other, with as many predictions of each row",
        examples=[[0, 0, 1, 1]],
    )


class FitDistributionOptions(Registration, ForecastsOrBatch):
    """All options of a fit to forecasts except their arrays; ``batch`` may replace the arrays."""

    method: str = Field(
        "averaged", examples=["variance-platt"], description="method, from `GET /methods?prediction_kind=regression`"
    )
    options: dict[str, Any] = Field({}, description="options of the method", examples=[{"shape": "pl"}])
    keep_batch: KeepBatch = False
    scale: ForecastScale = Field(
        "identity", description="scale on which forecasts are shifted, widened and interpolated; log1p is ln(1 + x)"
    )
    support: Support = Field(
        [None, None], description="lowest and highest possible outcome, such as [0, null] for counts"
    )
    output_levels: list[Level] | None = Field(
        None,
        max_length=1000,
        description="levels of the quantiles that quantile-recalibration and conformal return for normal forecasts and "
        "samples",
    )
    seed: Seed = 0


class FitDistributionBody(FitDistributionOptions, DistributionArrays):
    """The body of ``POST /maps`` for predictive distributions of a number."""


class StoredFit(Registration):
    """A fit as stored with a job: ids and options, never arrays."""

    method: str
    options: dict[str, Any]
    batch: str | None = Field(description="None for the rows of a source")
    parts: int | None = Field(None, description="only the first parts of the batch; None: all")
    seed: int
    created_by: str | None = None


class FitDistributionSpec(StoredFit):
    """A fit to forecasts as stored with a job."""

    prediction_kind: Literal["regression"] = "regression"
    scale: ForecastScale
    support: list[float | None]
    output_levels: list[float] | None


class FitSpec(StoredFit):
    """A fit to predictions of classes as stored with a job."""

    reduction: str | None
    source: SourceRows | None = None
    scale: InputScale | None = Field(None, description="of the rows of a source")
    weights_kind: WeightsKind | None = Field(None, description="of the rows of a source")
    class_names: list[str] | None = None
    n_labels: int = Field(1, ge=1, description="rows of the batch for each row of the request, one for each label")
    group_folds: bool = Field(False, description="whether groups are clusters, in jobs of earlier versions")


def _as_in_reports(scores: Any) -> Any:
    """Scores by the names that measures have in reports; documents of earlier versions have ``log_loss``."""
    return {"log-loss" if name == "log_loss" else name: score for name, score in dict(scores).items()}


#: Scores on the rows of a fit, by the name of the measure; all are non-negative, and smaller is better.
Scores = Annotated[dict[str, float], BeforeValidator(_as_in_reports)]
_SCORES = (
    "the map: `log-loss` in nats and `brier` of its event or of the whole vector, and `ece` with 15 bins of equal mass "
    "of the event or of the confidence, not debiased"
)


class InSample(Document):
    """In-sample scores before and after the map; they overestimate its gain because it was fitted to these rows."""

    before: Scores = Field(description=f"scores before {_SCORES}")
    after: Scores = Field(description=f"scores after {_SCORES}")


class Bins(Document):
    """At most 100 bins of equal mass of the rows of the fit, in ascending order; each list has one value per bin."""

    start: list[float] = Field(description="smallest prediction in the bin")
    count: list[int] = Field(description="number of rows")
    rows: list[float] = Field(description="effective number of rows, from their weights")
    share: list[float] = Field(description="fraction of the total weight")
    mean_prediction: list[float]
    # The name in documents of earlier versions is read too.
    observed_frequency: list[float] = Field(validation_alias=AliasChoices("observed_frequency", "label_share"))


class FitBins(Document):
    """The bins before and after the map, and the event that they describe."""

    of: str = Field(examples=["binary"], description="the event, as a reduction")
    before: Bins = Field(description="bins of the predictions")
    after: Bins = Field(description="bins of the calibrated probabilities")


class MapIdentity(Document):
    """Which map it is; the first fields of every answer about a stored map."""

    format: int = 1
    id: str
    prediction_kind: PredictionKind = "classification"
    name: str | None
    version: int | None


class MapSummary(About, MapIdentity):
    """The metadata of a stored map: name, how and to what it was fitted, by whom and when; without its parameters."""

    method: str
    options: dict[str, Any]
    reduction: str | None = Field(description="null for regression")
    scale: Scale | None = Field(description="null for regression")
    n_classes: int | None
    class_names: list[str] | None = Field(None, description="names of the classes in the order of the columns")
    n: int | None = Field(description="number of rows of the fit; null for an imported map")
    seed: int | None
    created_at: Timestamp
    created_by: str | None = Field(None, description="name of the API key")
    updated_at: Timestamp | None = Field(None, description="when what callers say about the map last changed")
    imported: bool = False
    digest: str | None = Field(None, description="digest of the rows of the fit, independent of their order")
    label_rate: float | None = Field(None, description="event rate in the rows of the fit")
    in_sample: InSample | None = None
    accepts: ForecastShape | None = Field(None, description="of regression: the forecasts that the map accepts")
    returns: ForecastShape | None = Field(None, description="of regression: the forecasts that it returns")
    held_out_gain: HeldOutGain | None = Field(
        None, description="the cross-fitted decrease of the score; null if it is not known"
    )
    warning: str | None = Field(None, description="warning of the fit, such as that the map does not improve")


def output_shape(reduction: str, n_classes: int | None) -> str:
    """The shape of the probabilities that a map with this reduction returns for n rows, or what its sets are of."""
    if reduction == SETS:
        return f"sets of {n_classes or 2} classes"
    return f"(n, {n_classes})" if reduction in VECTORS else "(n,)"


class MapRecord(MapSummary):
    """A stored map: its summary, the bins of its fit, and its document."""

    label_counts: list[int] | None = Field(
        None, description="number of rows of each label, for (n, K) with K up to 1,000"
    )
    bins: FitBins | None = Field(None, description="bins of the rows of the fit, before and after the map")
    document: dict[str, Any] = Field(description="the map document: all that is needed to apply it")

    @property
    def output_shape(self) -> str:
        """The shape of the calibrated probabilities of n rows, or the kind of the calibrated forecasts."""
        if self.reduction is None:
            return str(self.returns)
        return output_shape(self.reduction, self.n_classes)

    def summary(self) -> MapSummary:
        """The record without its long fields."""
        return MapSummary.with_fields_of(self)


class MapDocument(Document):
    """A map as one JSON object, sufficient to apply the map or to import it again."""

    format: int = Field(examples=[1])
    method: str = Field(examples=["platt"])
    family: str = Field(description="kind of the parameters", examples=["platt"])
    reduction: str = Field(examples=["binary"], description="what the map calibrates")
    scale: Scale
    n_classes: int | None
    parameters: dict[str, Any] = Field(examples=[{"slope": 0.8, "intercept": 0.1}])
    diagnostics: dict[str, Any]
    class_names: list[str] | None = Field(None, description="names of the classes in the order of the columns")
    training_digest: str | None = None


class DistributionMapDocument(Document):
    """A map of predictive distributions as one JSON object, sufficient to apply the map or to import it again."""

    format: int = Field(examples=[1])
    prediction_kind: Literal["regression"]
    method: str = Field(examples=["variance-platt"])
    family: str = Field(description="kind of the parameters", examples=["variance-line"])
    kind: ForecastKind = Field(description="kind of the forecasts that the map accepts")
    levels: list[float] | None = Field(description="levels of the accepted quantiles or interval")
    support: list[float | None]
    parameters: dict[str, Any] = Field(examples=[{"factor": 2.5, "offset": 0.0}])
    diagnostics: dict[str, Any]
    training_digest: str | None = None


class MapChanges(About):
    """The body of ``PATCH /maps/{map}``, a JSON merge patch (RFC 7396): null removes, omitted fields are kept."""

    tags: dict[TagName, TagValue | None] | None = Field(  # type: ignore[assignment]
        None, examples=[{"stage": "live", "ticket": None}], description="tags to set; null removes a tag"
    )


class ImportOptions(Registration):
    """The body of ``POST /maps/import``."""

    document: dict[str, Any] = Field(description="document of a map, as GET /maps/{map}/document returns it")


class CalibrateOptions(Document):
    """All options of applying a map except the predictions."""

    prediction_kind: Literal["classification"] = "classification"
    map: Reference = Field(description="id, name, `name:version` or `name@alias`")
    batch: str | None = Field(None, description="id of a stored batch, instead of the predictions")
    scale: InputScale | None = Field(
        None, description="default: that of the map; any other value is rejected, but percent of a map of probabilities"
    )
    bounds: bool = Field(False, description="also return p0 and p1, the two probabilities that a Venn-Abers map merges")
    seed: Seed | None = Field(
        None,
        description="of the random number of each row, for a randomised map to prediction sets; it needs another seed "
        "for each request",
    )
    alpha: float | None = Field(
        None,
        description="error level of the sets, for a map that was fitted with adjustable; default: that of the map. Up "
        "to 0 sets have all classes, and from 1 on none",
    )


class CalibrateBody(CalibrateOptions):
    """The body of ``POST /calibrate``."""

    predictions: Predictions | None = None
    groups: list[str] | None = Field(None, description="group of each row, for a map to prediction sets by group")
    features: FeatureArrays | None = Field(None, description=FEATURES)


class CalibrateAnswer(Document):
    """Calibrated probabilities of the map's event, or of all classes."""

    map: str = Field(description="id of the map that was applied")
    version: int | None = Field(None, description="version of this map; null if it has no name")
    fallbacks: int | None = Field(
        None,
        description="of a map with features: number of rows with a missing value, a category not in the fit, or a "
        "number outside its range",
    )
    predictions: list[float] | list[list[float]] = Field(description="calibrated probabilities")
    p0: list[float] | None = Field(None, description="if bounds were requested")
    p1: list[float] | None = Field(None, description="probability if the label were 1")


class PredictionSetsAnswer(Document):
    """The prediction set of each row, from a set map; binary formats have `members` (n, K) and `classes` instead."""

    map: str = Field(description="id of the map that was applied")
    version: int | None = Field(None, description="version of this map; null if it has no name")
    alpha: float | None = Field(description="error level of the sets; null of risk control, which promises no coverage")
    sets: list[list[str]] | list[list[int]] = Field(
        description="classes in the set of each row, in the order of the columns; their numbers if they have no names",
        examples=[[["cat"], ["cat", "dog"], []]],
    )


class InOrder(Document):
    """How forecasts are recalibrated in the order of time, each from the outcomes that were known when it was made."""

    half_life: float = Field(
        gt=0, allow_inf_nan=False, description="time after which an outcome counts half: in days for dates"
    )
    scale: ForecastScale = Field("identity", description="scale of errors and widths; log1p is ln(1 + x)")
    support: Support = Field(
        [None, None], description="lowest and highest possible outcome, such as [0, null] for counts"
    )
    shift: float = Field(0.7, ge=0, le=1, description="fraction of the median error by which forecasts are shifted")
    widen: float = Field(0.75, ge=0, le=2, description="exponent of the ratio of errors to widths, if above 1")
    narrow: float = Field(0.375, ge=0, le=2, description="exponent of this ratio if it is below 1")


class CalibrateDistributionOptions(ForecastOptions):
    """All options of applying a map to forecasts except the forecasts."""

    map: Reference = Field(description="id, name, `name:version` or `name@alias`")
    batch: str | None = Field(None, description="id of a stored batch, instead of the forecasts")
    seed: Seed = Field(0, description="of the bounds that a conformal map with ties at random excludes")


class CalibrateDistributionBody(CalibrateDistributionOptions, ForecastFields):
    """The body of ``POST /calibrate`` for predictive distributions of a number."""


class InOrderOptions(ForecastOptions):
    """All options of a recalibration in the order of time, which needs no map, except the rows."""

    in_order: InOrder = Field(examples=[{"half_life": 7.0}], description="how to recalibrate in the order of time")


class InOrderBody(InOrderOptions, ForecastFields):
    """The body of ``POST /calibrate`` for a recalibration in the order of time; `by` is the horizon, as text."""

    observed: list[float] = Field(description="outcomes")
    times: list[str] = Field(description="when each forecast was made: numbers, or dates in ISO 8601, as text")
    known: list[str] = Field(
        description="when each outcome became known; an empty string if it is not known yet, so that its number in "
        "`observed` is not used",
    )


class CalibratedForecastsAnswer(Document):
    """Forecasts that were calibrated: mean and variance, quantiles, or intervals."""

    n_repaired: int = Field(description="rows whose quantiles crossed by at most 1e-6 relative, and were repaired")
    mean: list[float] | None = None
    variance: list[float] | None = None
    quantiles: list[list[float | None]] | None = Field(None, description="null: an infinite bound")
    levels: list[float] | None = Field(None, description="levels of the quantiles")
    lower: list[float | None] | None = Field(None, description="null: an infinite bound")
    upper: list[float | None] | None = None
    level: float | None = None


class CalibrateDistributionAnswer(CalibratedForecastsAnswer):
    """Forecasts calibrated by a map: mean and variance, quantiles, or intervals."""

    map: str = Field(description="id of the map that was applied")
    version: int | None = Field(None, description="version of this map; null if it has no name")


class InOrderAnswer(CalibratedForecastsAnswer):
    """Forecasts recalibrated in the order of time, and the correction of each row."""

    shifts: list[float] = Field(description="shift of the median of each row")
    factors: list[float] = Field(description="factor of the width of each row")
    n_known: list[int] = Field(description="outcomes that each row was recalibrated from; with 0 it is unchanged")
