"""Jobs, their progress, and problem documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.document import Document

Kind = Literal["fit", "evaluate"]
Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]
#: The statuses that never change again.
FINAL: frozenset[Status] = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemError(Document):
    """One place that is wrong in the request."""

    pointer: str  # JSON Pointer into the request; of a binary body, into its arrays and options
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Document):
    """An RFC 9457 problem document: what is wrong and where, without the data."""

    type: str  # such as /problems/out-of-range
    title: str
    status: int
    detail: str
    errors: list[ProblemError] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Document):
    """How much of a job is done."""

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
    """A job with its result."""

    result: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAnswer(Document):
    """A page of jobs, newest first."""

    items: list[JobSummary]
    next: str | None
