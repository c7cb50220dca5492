"""The rows that are sent to a monitor, as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from schemas.base import Document

#: Seconds since 1970, or RFC 3339.
Moment = float | str
Prediction = float | list[float]

_ID = Field(description="at most 200 bytes; the same id is the same row, however often it is sent")
_OPTIONAL_ID = Field(None, description="at most 200 bytes; a row without one is counted each time it is sent")
_PREDICTION = Field(description="P(Y=1), or [p_1..p_K] of a monitor of K classes; logits where it is on their scale")
_LABEL = Field(description="0 or 1, or the class from 0 to K - 1")
_TIME = Field(None, description="when it was predicted: seconds since 1970, or RFC 3339; default: now")


class LabelledRow(Document):
    """A prediction and its label."""

    id: str | int | None = _OPTIONAL_ID
    prediction: Prediction = _PREDICTION
    label: int = _LABEL
    timestamp: Moment | None = _TIME
    group: str | None = None


class PredictionRow(Document):
    """A prediction that waits for its label."""

    id: str | int = _ID
    prediction: Prediction = _PREDICTION
    timestamp: Moment | None = _TIME
    group: str | None = None


class LabelRow(Document):
    """A label, by the id of its prediction."""

    id: str | int = _ID
    label: int = _LABEL
    timestamp: Moment | None = Field(None, description="when it became known; default: now")


class LabelledBody(Document):
    """The body of ``POST /monitors/{name}/rows``."""

    rows: list[LabelledRow]


class PredictionsBody(Document):
    """The body of ``POST /monitors/{name}/predictions``."""

    rows: list[PredictionRow]


class LabelsBody(Document):
    """The body of ``POST /monitors/{name}/labels``."""

    rows: list[LabelRow]


class EventBody(Document):
    """A CloudEvent in structured mode."""

    model_config = ConfigDict(extra="allow", frozen=True)

    specversion: str = Field(examples=["1.0"])
    id: str
    source: str
    type: str = Field(examples=["com.calibrant.rows"])
    time: str | None = None
    data: Any = Field(None, description="of our own types: a row, or an object with ``rows``")
