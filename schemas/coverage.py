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


class StratumAnswer(Document):
    """The coverage of the sets of some rows: those of a class, of sets of one size, or of a group."""

    name: str = Field(description="name of the class or group, or the size")
    n: int = Field(description="number of rows, or the sum of frequency weights")
    coverage: float = Field(description="share of the sets that have the label of their row")
    low: float = Field(description="lower end of the interval of Clopper and Pearson")
    high: float
    mean_size: float


class CoverageAnswer(Document):
    """The response of ``POST /coverage``."""

    n: int = Field(description="number of rows, or the sum of frequency weights")
    alpha: float | None = Field(description="error level; null if it is unknown")
    level: float
    coverage: float = Field(description="share of the sets that have the label of their row")
    low: float = Field(description="lower end of the interval of Clopper and Pearson")
    high: float
    mean_size: float
    singletons: float = Field(description="share of the sets with one class")
    empty: float = Field(description="share of the sets without a class")
    size_violation: float | None = Field(
        description="largest distance of the coverage of a stratum of sizes from 1 - alpha; null without alpha"
    )
    violating_sizes: str | None = Field(description="the sizes of this stratum")
    class_gap: float | None = Field(
        description="mean distance of the coverage of a class from 1 - alpha; null without alpha"
    )
    class_gap_by_chance: float | None = Field(
        description="its expected value if every class had this coverage; null without alpha or with importance weights"
    )
    by_class: list[StratumAnswer] = Field(description="coverage of the rows of each class")
    by_size: list[StratumAnswer] = Field(description="coverage of the sets of each size")
    by_group: list[StratumAnswer] = Field(description="coverage of each group; empty without groups")
    in_sample: bool | None = Field(
        None, description="in a report: whether the set map was fitted to these rows; null: unknown"
    )
