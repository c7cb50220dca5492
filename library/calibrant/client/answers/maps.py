"""Generated from schemas/maps.py by `make reference`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from calibrant.client.answers.conveniences import MapConveniences
from calibrant.client.answers.distributions import ForecastShape, HeldOutGain
from calibrant.client.answers.document import WireAnswer

PredictionKind = Literal["classification", "regression"]
Scale = Literal["probability", "logit"]


class About(TypedDict, total=False):
    """What callers say about a map, and may change later."""

    description: str | None  # free text
    tags: Mapping[str, str]  # up to 32 short strings by name


@dataclass(frozen=True, slots=True, kw_only=True)
class InSample(WireAnswer):
    """In-sample scores before and after the map; they overestimate its gain because it was fitted to these rows."""

    #: scores before the map: `log-loss` in nats and `brier` of its event or of the whole vector, and `ece` with 15
    #: bins of equal mass of the event or of the confidence, not debiased
    before: dict[str, float]
    #: scores after the map: `log-loss` in nats and `brier` of its event or of the whole vector, and `ece` with 15 bins
    #: of equal mass of the event or of the confidence, not debiased
    after: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins(WireAnswer):
    """At most 100 bins of equal mass of the rows of the fit, in ascending order; each list has one value per bin."""

    start: list[float]  # smallest prediction in the bin
    count: list[int]  # number of rows
    rows: list[float]  # effective number of rows, from their weights
    share: list[float]  # fraction of the total weight
    mean_prediction: list[float]  # weighted mean of the predictions
    observed_frequency: list[float]  # weighted fraction of positive labels


@dataclass(frozen=True, slots=True, kw_only=True)
class FitBins(WireAnswer):
    """The bins before and after the map, and the event that they describe."""

    of: str  # the event, as a reduction
    before: Bins  # bins of the predictions
    after: Bins  # bins of the calibrated probabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSummary(WireAnswer):
    """The metadata of a stored map: name, how and to what it was fitted, by whom and when; without its parameters."""

    format: int = 1  # version of the format of this document
    id: str  # id
    prediction_kind: PredictionKind = "classification"  # what is predicted: classes, or a number (regression)
    name: str | None  # name, as in requests
    version: int | None  # version of the map; None without a name
    description: str | None = None  # free text
    tags: dict[str, str] = field(default_factory=dict)  # up to 32 short strings by name
    method: str  # name of the method of the fit
    options: dict[str, Any]  # options by name
    reduction: str | None  # None for regression
    scale: Scale | None  # None for regression
    n_classes: int | None  # number of classes; None for one event
    class_names: list[str] | None = None  # names of the classes in the order of the columns
    n: int | None  # number of rows of the fit; None for an imported map
    seed: int | None  # random seed
    created_at: str  # when it was created
    created_by: str | None = None  # name of the API key
    updated_at: str | None = None  # when what callers say about the map last changed
    imported: bool = False  # whether the map was imported instead of fitted here
    digest: str | None = None  # digest of the rows of the fit, independent of their order
    label_rate: float | None = None  # event rate in the rows of the fit
    in_sample: InSample | None = None  # scores on the rows of the fit; None for an imported map
    accepts: ForecastShape | None = None  # of regression: the forecasts that the map accepts
    returns: ForecastShape | None = None  # of regression: the forecasts that it returns
    held_out_gain: HeldOutGain | None = None  # the cross-fitted decrease of the score; None if it is not known
    warning: str | None = None  # warning of the fit, such as that the map does not improve


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MapRecord(MapConveniences, MapSummary):
    """A stored map: its summary, the bins of its fit, and its document."""

    label_counts: list[int] | None = None  # number of rows of each label, for (n, K) with K up to 1,000
    bins: FitBins | None = None  # bins of the rows of the fit, before and after the map
    document: dict[str, Any]  # the map document: all that is needed to apply it


class MapChanges(TypedDict, total=False):
    """The body of ``PATCH /maps/{map}``, a JSON merge patch (RFC 7396): None removes, omitted fields are kept."""

    description: str | None  # free text
    tags: Mapping[str, str | None] | None  # tags to set; None removes a tag
