"""Generated from schemas/jobs.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.document import Document
from calibrant.client.answers.problems import Problem

Kind = Literal["fit", "evaluate"]
Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Document):
    """The progress of a job."""

    done: int = 0
    total: int = 0
    stage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary(Document):
    """A job without its result, as in lists and events."""

    id: str
    kind: Kind
    status: Status
    progress: Progress = field(default_factory=Progress)
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer(JobSummary):
    """A job, as ``GET /jobs/{id}`` returns it."""

    result: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAnswer(Document):
    """A page of jobs, newest first."""

    items: list[JobSummary]
    next: str | None  # cursor of the next page
