"""Generated from schemas/batches.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.client.answers.distributions import ForecastShape
from calibrant.client.answers.document import WireAnswer

PredictionKind = Literal["classification", "regression"]
Scale = Literal["probability", "logit"]
WeightsKind = Literal["importance", "frequency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord(WireAnswer):
    """The record of a stored batch."""

    format: int = 2  # version of the format of this document
    id: str  # id
    prediction_kind: PredictionKind = "classification"  # what is predicted: classes, or a number (regression)
    n: int  # number of rows
    n_classes: int | None  # number of classes; None for one event
    scale: Scale | None  # None for regression
    weights_kind: WeightsKind  # kind of weights
    class_names: list[str] | None = None  # labels of the classes in the order of the columns
    arrays: list[str]  # names of the stored arrays
    parts: int = 1  # 1, plus one for each time that rows were appended
    label_counts: list[int] | None = None  # number of rows of each label, for up to 1,000 classes
    positive_rate: float | None = None  # fraction of rows with label 1, for a binary batch
    bytes: int | None = None  # size of the arrays
    clipped: int  # number of rows whose probabilities were clipped to [0, 1] within rounding
    renormalised: int  # number of rows whose probabilities were divided by their sum, 1 within rounding
    forecasts: ForecastShape | None = None  # of regression: what the forecasts are given as
    #: of regression: rows whose quantiles cross by at most 1e-6 relative, which are repaired
    n_repaired: int | None = None
    created_at: str  # when it was created
    expires_at: str | None  # None while a queued or running job needs the batch, which then does not expire


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesAnswer(WireAnswer):
    """A page of batches, newest first."""

    items: list[BatchRecord]  # entries of this page
    next: str | None  # cursor of the next page
