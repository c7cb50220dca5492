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


class GradeAnswer(Document):
    """The tests of a grade; p-values are small if the PD is too low."""

    grade: str = Field(description="name of the grade; of all grades as one: (all)")
    n: int = Field(description="number of obligors")
    defaults: int = Field(description="number of defaults")
    pd: float = Field(description="mean PD of the obligors")
    rate: float = Field(description="observed rate of defaults")
    jeffreys_p: float = Field(description="p-value of Jeffreys' test")
    jeffreys_holm: float | None = Field(description="the same, corrected for all grades; null for (all)")
    binomial_p: float = Field(description="p-value of the binomial test")
    binomial_holm: float | None = Field(description="the same, corrected for all grades; null for (all)")
    light: Light = Field(description="traffic light of the binomial test: yellow up to 0.05, red up to 0.001")
    one_factor_p: float | None = Field(description="p-value of the one-factor model; null without correlation")
    one_factor_holm: float | None = Field(description="the same, corrected for all grades; null for (all)")
    one_factor_light: Light | None = Field(description="traffic light of the one-factor model")
    prudent_pd: float | None = Field(description="upper bound of the PD; null without confidence, and for (all)")
    one_factor_prudent_pd: float | None = Field(description="upper bound of the PD in the one-factor model")


class HosmerLemeshowAnswer(Document):
    """The Hosmer-Lemeshow test over the grades."""

    statistic: float = Field(description="sum over the grades of (D - n PD)^2 / (n PD (1 - PD))")
    degrees_of_freedom: int = Field(description="number of grades")
    p_value: float


class GradesAnswer(Document):
    """The response of ``POST /grades``."""

    grades: list[GradeAnswer] = Field(description="from the lowest PD to the highest")
    total: GradeAnswer = Field(description="the tests of all grades as one, with their mean PD")
    hosmer_lemeshow: HosmerLemeshowAnswer | None = Field(description="null if a PD is 1, or 0 or below 1e-150")
    notes: list[str] = Field(description="grades with several PDs, and grades that were left out")
