"""Jobs: long work, its progress and its result."""

from __future__ import annotations

from typing import Any, Literal

from schemas.base import Document
from schemas.problems import Problem

Kind = Literal["fit", "evaluate"]
Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]
#: The statuses that never change again.
FINAL: frozenset[Status] = frozenset({"succeeded", "failed", "cancelled"})


class Progress(Document):
    """How far a job is."""

    done: int = 0
    total: int = 0
    stage: str = ""


class JobAnswer(Document):
    """A job, as ``GET /jobs/{id}`` answers it."""

    id: str
    kind: Kind
    status: Status
    progress: Progress = Progress()
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    result: dict[str, Any] | None = None
    problem: Problem | None = None


class JobRecord(JobAnswer):
    """A job as it is stored: with what it has to do, and how many seconds it is known once it is finished."""

    format: int = 1
    ttl: int
    spec: dict[str, Any]

    def answer(self) -> JobAnswer:
        """What the caller sees."""
        return JobAnswer.model_validate(self.model_dump(exclude={"format", "ttl", "spec"}))
