"""Idempotency keys as they are stored."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class StoredAnswer(Document):
    """What a request was answered."""

    status: int
    headers: dict[str, str]
    body: str = Field(description="zlib, base64")


class IdempotencyRecord(Document):
    """The request of a key: what it was, what its ids are made from, and its answer once there is one."""

    format: int = 1
    fingerprint: str
    seed: str
    answer: StoredAnswer | None = None
