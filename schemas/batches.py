"""Batches: predictions and labels stored once, used many times."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Document

Scale = Literal["probability", "logit"]
WeightsKind = Literal["frequency", "importance"]
Predictions = list[float] | list[list[float]]


class Arrays(Document):
    """The arrays of a batch as JSON; a binary body carries them under the same names."""

    predictions: Predictions = Field(description="[p] = P(Y=1), or [[p_1..p_K]]", examples=[[0.1, 0.4, 0.6, 0.9]])
    labels: list[int] | None = Field(None, description="0/1, or 0..K-1", examples=[[0, 0, 1, 1]])
    weights: list[float] | None = Field(None, description="at least 0")
    groups: list[str] | None = Field(None, description="a group's name per row")


class BatchOptions(Document):
    """How the arrays are to be read."""

    scale: Scale = "probability"
    weights_kind: WeightsKind = "frequency"


class BatchBody(BatchOptions, Arrays):
    """The body of ``POST /batches``."""


class BatchRecord(Document):
    """What is known of a stored batch."""

    id: str
    n: int
    n_classes: int | None
    scale: Scale
    weights_kind: WeightsKind
    arrays: list[str]
    clipped: int
    renormalised: int
    created_at: str
    expires_at: str
