"""Jobs: long work, its progress and its result; and the workers that do it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.base import Document
from schemas.pages import PageQuery
from schemas.problems import Problem

# --- Jobs: long work, its progress and its result

Kind = Literal["fit", "evaluate"]
Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]
#: The statuses that never change again.
FINAL: frozenset[Status] = frozenset({"succeeded", "failed", "cancelled"})


class Progress(Document):
    """How far a job is."""

    done: int = 0
    total: int = 0
    stage: str = ""


class JobSummary(Document):
    """A job without its result, as lists and events tell it."""

    id: str
    kind: Kind
    status: Status
    progress: Progress = Progress()
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    problem: Problem | None = None


class JobAnswer(JobSummary):
    """A job, as ``GET /jobs/{id}`` answers it."""

    result: dict[str, Any] | None = None


class JobsQuery(PageQuery):
    """The query of ``GET /jobs``."""

    status: Status | None = None
    kind: Kind | None = None
    batch: str | None = Field(None, description="of this batch")


class JobsAnswer(Document):
    """A page of jobs, newest first."""

    items: list[JobSummary]
    next: str | None = Field(description="cursor of the page that follows")


class JobRecord(JobAnswer):
    """A job as it is stored: with what it has to do and what became of its runs.

    ``ttl`` is how many seconds it is known once it has ended, ``timeout`` how many one run may take. ``run`` numbers
    its last run, from 1 on: what a run writes counts while it has that number. ``losses`` are the runs that were lost
    with their process, ``kills`` those of them that may have ended it. ``carried`` is what its request leaves for its
    traces. A job of several ``parts`` counts how many are ``left``; a part names its ``parent`` and its own number.
    """

    format: int = 2
    ttl: int
    spec: dict[str, Any]
    queue: str = "fits"
    timeout: int = 3600
    run: int = 0
    losses: int = 0
    kills: int = 0
    carried: dict[str, str] = Field(default_factory=dict)
    parts: int = 1
    left: int = 0
    parent: str | None = None
    part: int | None = None

    def answer(self) -> JobAnswer:
        """What the caller sees."""
        return JobAnswer.model_validate(self.model_dump(include=set(JobAnswer.model_fields)))

    def summary(self) -> JobSummary:
        """What lists and events tell."""
        return JobSummary.model_validate(self.model_dump(include=set(JobSummary.model_fields)))


# --- The record that a supervisor keeps of its workers


class WorkersRecord(Document):
    """One supervisor: where it runs, and how many workers it keeps for which queues on which device."""

    format: int = 1
    id: str
    host: str
    pid: int
    device: str
    queues: list[str]
    processes: int


# --- Idempotency keys as they are stored


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
