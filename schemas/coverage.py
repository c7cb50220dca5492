"""``POST /coverage``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Document
from schemas.batches import WEIGHTS_KIND, Arrays, ClassNames, WeightsKind

Level = Annotated[float, Field(gt=0, lt=1)]
#: The most sets that are listed; arrays have no such limit.
MAX_LISTED_SETS = 10_000


class CoverageOptions(Document):
    """All options of the evaluation of prediction sets except the arrays."""

    prediction_kind: Literal["classification"] = "classification"
    sets: list[list[int | str]] | None = Field(
        None,
        max_length=MAX_LISTED_SETS,
        description="the classes of each set, by number or by name in class_names; or ``predictions``",
        examples=[[["cat"], ["cat", "dog"], []]],
    )
    alpha: Level | None = Field(None, description="error level of the sets: their nominal coverage is 1 - alpha")
    interval: Level = Field(0.95, description="level of the intervals")
    class_names: ClassNames | None = None
    weights_kind: WeightsKind = Field("importance", description=WEIGHTS_KIND)


class CoverageBody(CoverageOptions, Arrays):
    """The body of ``POST /coverage``."""

    predictions: list[list[float]] | None = Field(  # type: ignore[assignment]
        None, description="for each row K numbers, 1 if the set has the class and 0 if not; or ``sets``"
    )
    clusters: None = Field(None, description="not supported: intervals assume independent rows")
    features: None = Field(None, description="not supported: no map is applied")
