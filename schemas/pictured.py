"""Pictures of other rows than one event's: measures on subsamples of them, and two models' decisions on the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Document

Share = Annotated[float, Field(ge=0, le=1)]
Ratio = Annotated[float, Field(gt=0, le=1e9)]


class BySizePicture(Document):
    """Measures on random subsamples of growing size: what is not biased stays level."""

    name: Literal["by-size"]
    measures: list[str | dict[str, Any]] = Field(
        ["ece", "ks"], min_length=1, max_length=4, description="names, or objects of a name, options and as"
    )
    start: int = Field(100, ge=1, description="the smallest size, below the number of rows of weight above 0")
    start_repetitions: int = Field(100, ge=1, le=100_000, description="subsamples of the smallest size")


class CostPlanePicture(Document):
    """Which of two models' decisions cost less, where the least confident may be left to another at a price."""

    name: Literal["cost-plane"]
    abstention: list[Share] | None = Field(
        None, min_length=1, max_length=100, description="shares left to another; default: 0, 0.05, ..., 0.95"
    )
    cost_ratios: list[Ratio] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="costs of an error, in costs of leaving it; default: 1, 2, 5, 10, 20, 50, 100",
    )


Pictured = Annotated[BySizePicture | CostPlanePicture, Field(discriminator="name")]
