"""The JSON bodies that send rows to a monitor."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from schemas.base import Document, Timestamp

Prediction = float | list[float]

_ID = Field(description="at most 200 bytes; rows with the same id are the same row")
#: What a row id is made of: the id of the event, or its source and its id.
By = Literal["id", "source"]
_OPTIONAL_ID = Field(None, description="at most 200 bytes; a row without an id is counted each time it is sent")
_PREDICTION = Field(
    description="P(Y=1), or [p_1..p_K] for a monitor of K classes; logits if the monitor's scale is logit"
)
_LABEL = Field(description="0 or 1, false or true, or the class from 0 to K - 1")
_TIME = Field(None, description="time of the prediction; default: now")


class LabelledRow(Document):
    """A prediction and its label."""

    id: str | int | None = _OPTIONAL_ID
    prediction: Prediction = _PREDICTION
    label: int | bool = _LABEL
    timestamp: Timestamp | None = _TIME
    group: str | None = Field(None, description="name of the row's group")


class PredictionRow(Document):
    """A prediction that will be joined with its label later."""

    id: str | int = _ID
    prediction: Prediction = _PREDICTION
    timestamp: Timestamp | None = _TIME
    group: str | None = Field(None, description="name of the row's group")


class LabelRow(Document):
    """A label, identified by the id of its prediction."""

    id: str | int = _ID
    label: int | bool = _LABEL
    timestamp: Timestamp | None = Field(None, description="time when the label became known; default: now")


class _Forecast(Document):
    """The fields of a forecast, of which a row has those of its kind."""

    mean: float | None = Field(None, description="mean of a normal distribution, with `variance` or `std`")
    variance: float | None = Field(None, description="variance of a normal distribution")
    std: float | None = Field(None, description="standard deviation of a normal distribution")
    quantiles: list[float] | None = Field(None, description="at the levels of the monitor")
    samples: list[float] | None = Field(None, description="as many as the monitor declares")
    lower: float | None = Field(None, description="lower end of an interval, with `upper`")
    upper: float | None = Field(None, description="upper end of an interval")
    timestamp: Timestamp | None = _TIME
    group: str | None = Field(None, description="name of the row's group")


class ForecastRow(_Forecast):
    """A forecast of a monitor of regression, in the fields of its kind, that will be joined with its outcome later."""

    id: str | int = _ID


class ObservedForecastRow(_Forecast):
    """A forecast of a monitor of regression, and its outcome."""

    id: str | int | None = _OPTIONAL_ID
    observed: float = Field(description="the outcome")


class OutcomeRow(Document):
    """The outcome of a forecast, identified by its id."""

    id: str | int = _ID
    observed: float = Field(description="the outcome")
    timestamp: Timestamp | None = Field(None, description="time when the outcome became known; default: now")


class LabelledBody(Document):
    """The body of ``POST /monitors/{name}/rows``."""

    rows: list[LabelledRow | ObservedForecastRow] = Field(description="the rows")


class PredictionsBody(Document):
    """The body of ``POST /monitors/{name}/predictions``."""

    rows: list[PredictionRow | ForecastRow] = Field(description="the rows")


class LabelsBody(Document):
    """The body of ``POST /monitors/{name}/labels``."""

    rows: list[LabelRow | OutcomeRow] = Field(description="the rows")


class EventBody(Document):
    """A CloudEvent in structured mode."""

    model_config = ConfigDict(extra="allow", frozen=True)

    specversion: str = Field(examples=["1.0"], description="version of CloudEvents")
    id: str = Field(description="id of the event; the same id is counted once")
    source: str = Field(description="what sent the event")
    type: str = Field(examples=["com.calibrant.rows"], description="type of the event")
    time: Timestamp | None = Field(None, description="when it happened; default: now")
    data: Any = Field(None, description="for Calibrant's own types: a row, or an object with ``rows``")


class EventsQuery(Document):
    """How events are read."""

    output: str | None = Field(
        None, description="inference protocol output with the predictions; default: the first output of floats"
    )
    by: By = Field(
        "id", description="what identifies an event: its id, or its source and id; row ids are then source/id"
    )
