"""The catalogues of measures, diagrams, methods, problems and limits, and whether the service is up."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.base import Document

# --- The catalogues of measures, diagrams, methods and problems, and whether the service is up

Runs = Literal["inline", "job"]
Of = list[Literal["event", "vector"]]


class Health(Document):
    """The service is up."""

    status: Literal["ok", "degraded"] = Field(description="degraded: requests that store something may be refused")
    reason: Literal["store-full", "store-cannot-save"] | None = Field(
        default=None,
        description="why it is degraded; store-full: the store has reached its budget or its memory's end; "
        "store-cannot-save: its last attempt to save to its disk failed",
    )


class OptionEntry(Document):
    """One option of a measure, diagram or method."""

    default: Any = Field(description="null: none, or chosen by the rows")
    allowed: str | None = Field(description="its values, in words")


class MeasureEntry(Document):
    """One measure of the catalogue."""

    name: str
    title: str
    definition: str
    range: tuple[float | None, float | None] = Field(description="null: no such end")
    better: str
    family: str
    needs: str
    cost: str
    of: Of
    source: str
    runs: Runs
    options: dict[str, OptionEntry]


class DiagramEntry(Document):
    """One diagram of the catalogue."""

    name: str
    title: str
    definition: str
    data: dict[str, str] = Field(description="what each of its data is")
    cost: str
    source: str
    runs: Runs
    options: dict[str, OptionEntry]


class MethodEntry(Document):
    """One calibrator of the catalogue, and what is known of its maps, in words."""

    name: str
    title: str
    source: str
    runs: Runs
    of: Of
    definition: str
    takes: str
    parameters: str
    outside: str
    monotone: str
    keeps_top_label: str
    differentiable: str
    options: dict[str, OptionEntry]


class ProblemEntry(Document):
    """One kind of problem: what causes it and how to mend it."""

    type: str = Field(examples=["/problems/out-of-range"])
    code: str
    status: int
    title: str
    cause: str
    mend: str


# --- ``GET /limits``


class Limit(Document):
    """One limit; a value of 0 where the meaning says so is none."""

    value: float = Field(examples=[268435456])
    meaning: str


class LimitsAnswer(Document):
    """The limits by the names of their settings."""

    limits: dict[str, Limit]
    used: dict[str, int] = Field(description="what the caller's tenant has taken of its quotas")
