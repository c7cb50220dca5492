"""``GET /limits``."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class Limit(Document):
    """One limit; a value of 0 where the meaning says so is none."""

    value: float = Field(examples=[268435456])
    meaning: str


class LimitsAnswer(Document):
    """The limits by the names of their settings."""

    limits: dict[str, Limit]
    used: dict[str, int] = Field(description="what the caller's tenant has taken of its quotas")
