"""Batches: predictions and labels stored once, used many times."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Document
from schemas.pages import PageQuery

# --- Batches: predictions and labels stored once, used many times

Scale = Literal["probability", "logit"]
WeightsKind = Literal["frequency", "importance"]
Predictions = list[float] | list[list[float]]


class Arrays(Document):
    """The arrays of a batch as JSON; a binary body carries them under the same names."""

    predictions: Predictions = Field(description="[p] = P(Y=1), or [[p_1..p_K]]", examples=[[0.1, 0.4, 0.6, 0.9]])
    labels: list[int] | None = Field(None, description="0/1, or 0..K-1", examples=[[0, 0, 1, 1]])
    weights: list[float] | None = Field(None, description="at least 0")
    groups: list[str] | None = Field(None, description="a group's name per row")


class RowsOptions(Document):
    """How arrays that are appended to a batch are to be read: as the batch's own."""

    scale: Scale | None = Field(None, description="default: the batch's own; another one is refused")
    weights_kind: WeightsKind | None = Field(None, description="default: the batch's own; another one is refused")


class RowsBody(RowsOptions, Arrays):
    """The body of ``POST /batches/{id}/rows``."""


class BatchOptions(Document):
    """How the arrays are to be read, and how long they are kept."""

    scale: Scale = "probability"
    weights_kind: WeightsKind = "frequency"
    ttl: int | None = Field(None, ge=1, description="seconds that it is kept; default and most: the setting batch_ttl")


class BatchBody(BatchOptions, Arrays):
    """The body of ``POST /batches``."""


class BatchRecord(Document):
    """What is known of a stored batch."""

    format: int = 2
    id: str
    n: int
    n_classes: int | None
    scale: Scale
    weights_kind: WeightsKind
    arrays: list[str]
    parts: int = Field(1, description="1, and one more for each time that rows were appended")
    label_counts: list[int] | None = Field(None, description="rows of each label, of at most 1,000 classes")
    positive_rate: float | None = Field(None, description="the share of rows of label 1, of a binary batch")
    bytes: int | None = Field(None, description="of the arrays")
    clipped: int
    renormalised: int
    created_at: str
    expires_at: str | None = Field(description="null while a job that has not ended needs it: then it does not expire")


class BatchesQuery(PageQuery):
    """The query of ``GET /batches``."""


class BatchesAnswer(Document):
    """A page of batches, newest first."""

    items: list[BatchRecord]
    next: str | None = Field(description="cursor of the page that follows")


# --- The records that the web page keeps beside a batch


class UploadRecord(Document):
    """What a file that became a batch was called, and how it was read."""

    format: int = 1
    file: str | None = Field(None, description="null where the rows came in another way")
    said: list[str] = Field([], description="each guess, and each reading that is not plain")
    classes: list[str] | None = Field(None, description="names of the classes in order, where the file tells them")
