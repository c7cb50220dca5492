"""Stored batches, and calibration maps with their versions and aliases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.document import Document
from calibrant.results import n_rows

Scale = Literal["probability", "logit"]
WeightsKind = Literal["importance", "frequency"]


PredictionKind = Literal["classification", "regression"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastShape(Document):
    """What forecasts are given as, without their rows."""

    kind: ForecastKind
    levels: list[float] | None = None  # of quantiles
    level: float | None = None  # of intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutGain(Document):
    """The decrease of a score by a map, estimated by cross-fitting; positive is better."""

    score: Literal["dss", "crps", "quantile-score", "log-loss"]
    gain: float  # mean decrease per row; of the log loss in nats
    standard_error: float
    relative: float | None = None  # the gain over the score before; None for dss and log-loss
    folds: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord(Document):
    """A stored batch, without its rows."""

    format: int = 2
    id: str
    prediction_kind: PredictionKind = "classification"
    n: int
    n_classes: int | None
    scale: Scale | None  # None for regression
    weights_kind: WeightsKind
    class_names: list[str] | None = None  # in the order of the columns
    arrays: list[str]
    parts: int = 1  # the first upload, and one for each append
    label_counts: list[int] | None = None  # rows of each label, up to 1,000 classes
    positive_rate: float | None = None  # fraction of rows with label 1, of a binary batch
    bytes: int | None = None  # size of the arrays
    clipped: int  # rows whose predictions were clipped to [0, 1]
    renormalised: int  # rows whose predictions were rescaled to sum to 1
    forecasts: ForecastShape | None = None  # of regression
    n_repaired: int | None = None  # of regression: rows whose quantiles cross by rounding
    created_at: str
    expires_at: str | None  # None while a job that has not ended needs the batch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesAnswer(Document):
    """A page of batches, newest first."""

    items: list[BatchRecord]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores(Document):
    """Scores on the rows of the fit; smaller is better."""

    log_loss: float  # in nats
    brier: float
    ece: float  # 15 bins of equal mass, not debiased


@dataclass(frozen=True, slots=True, kw_only=True)
class InSample(Document):
    """In-sample scores before and after the map, which overestimate the improvement on other rows."""

    before: Scores
    after: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins(Document):
    """At most 100 bins of equal mass of the rows of the fit, in ascending order; each list has one number per bin."""

    start: list[float]  # smallest prediction in the bin
    count: list[int]
    rows: list[float]  # effective rows, by weight
    share: list[float]  # fraction of the mass
    mean_prediction: list[float]
    observed_frequency: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitBins(Document):
    """The bins before and after the map."""

    of: str  # the event, such as binary
    before: Bins
    after: Bins


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSummary(Document):
    """A stored map: its name, its fit and its description, without its parameters."""

    format: int = 1
    id: str
    prediction_kind: PredictionKind = "classification"
    name: str | None
    version: int | None
    method: str
    options: dict[str, Any]
    reduction: str | None  # None for regression
    scale: Scale | None  # None for regression
    n_classes: int | None
    class_names: list[str] | None = None  # in the order of the columns
    n: int | None  # rows of the fit; None if the map was imported
    seed: int | None
    created_at: str
    created_by: str | None = None  # name of the API key
    updated_at: str | None = None  # last change of tags or description
    tags: dict[str, str] = field(default_factory=dict)
    description: str | None = None
    imported: bool = False
    digest: str | None = None  # of the rows of the fit, in any order
    label_rate: float | None = None  # observed frequency of the map's event in the rows of the fit
    in_sample: InSample | None = None
    accepts: ForecastShape | None = None  # of regression: the forecasts that it accepts
    returns: ForecastShape | None = None  # of regression: the forecasts that it returns
    held_out_gain: HeldOutGain | None = None  # the cross-fitted improvement
    warning: str | None = None  # of the fit


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MapRecord(MapSummary):
    """A stored map with the bins of its fit and its document."""

    label_counts: list[int] | None = None  # rows of each label, up to 1,000 classes
    bins: FitBins | None = None
    document: dict[str, Any]

    def __repr__(self) -> str:
        named = "" if self.name is None else f"{self.name} {self.version}, "
        rows = "imported" if self.n is None else n_rows(self.n)
        event = "" if self.reduction is None else f", reduction {self.reduction}"
        return f"MapRecord: {named}{self.method}{event}, {rows}, id {self.id!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMap(MapSummary):
    """A map in a list, with the aliases that point at it."""

    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPage(Document):
    """A page of maps, newest first."""

    items: list[ListedMap]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRecord(Document):
    """An alias: the version that it points at, and who moved it there."""

    name: str
    alias: str
    version: int
    map: str  # id of that version
    revision: int  # number of times that the alias was set
    updated_at: str
    updated_by: str | None = None  # name of the API key


@dataclass(frozen=True, slots=True, kw_only=True)
class Aliases(Document):
    """The aliases of a name."""

    aliases: list[AliasRecord]
