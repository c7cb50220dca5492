"""``POST /grades``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from calibrant.core.choices import Light as Light
from schemas.base import Document
from schemas.batches import ArraysOrBatch, RowsOrBatch


class GradeRow(Document):
    """A row of a table of grades; several rows may be of one grade."""

    grade: Annotated[str, Field(min_length=1, max_length=256)] = Field(description="name of the grade")
    n: Annotated[int, Field(ge=1, le=10**9)] = Field(description="number of obligors")
    defaults: Annotated[int, Field(ge=0, le=10**9)] = Field(description="number of defaults, at most n")
    pd: Annotated[float, Field(ge=0, le=1)] = Field(description="default probability")


class GradesOptions(RowsOrBatch):
    """All options of the tests except the arrays; ``batch`` or ``table`` may replace the arrays."""

    table: list[GradeRow] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="a table of grades, instead of rows of obligors",
        examples=[[{"grade": "A", "n": 1000, "defaults": 16, "pd": 0.01}]],
    )
    correlation: float | None = Field(
        None, gt=0, lt=1, description="asset correlation of the one-factor model, beside independent defaults"
    )
    confidence: float | None = Field(None, gt=0, lt=1, description="confidence of prudent PDs; default: none")


class GradesBody(GradesOptions, ArraysOrBatch):
    """The body of ``POST /grades``: a table; or rows with PDs as predictions, defaults as labels, grades as groups."""
