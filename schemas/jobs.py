"""Jobs: long-running work, its progress and its result; and the workers that run it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from calibrant.core.choices import FINAL as FINAL
from calibrant.core.choices import JobKind as JobKind
from calibrant.core.choices import JobStatus as JobStatus
from schemas.audit import Author
from schemas.base import Document, Timestamp
from schemas.batches import BatchRecord
from schemas.pages import PageQuery
from schemas.problems import Problem

# --- Jobs

#: What pages call a job of each kind.
KIND_NAMES: dict[JobKind, str] = {
    "fit": "fit",
    "evaluate": "evaluation",
    "recommend": "comparison of methods",
    "score": "batch scoring",
    "backfill": "backfill",
}


class Progress(Document):
    """The progress of a job."""

    done: int = Field(0, description="completed steps")
    total: int = Field(0, description="all steps of the stage; 0 if unknown")
    stage: str = Field("", description="what the job is doing")


class JobState(Document):
    """What a job does, for whom, and how far it is."""

    id: str = Field(description="id of the job")
    kind: JobKind = Field(description="what the job does")
    status: JobStatus = Field(description="status of the job")
    progress: Progress = Progress()
    created_at: Timestamp
    created_by: str | None = None
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    problem: Problem | None = Field(None, description="why the job failed; null otherwise")


class JobSummary(JobState):
    """A job without its result, as in lists and events."""

    method: str | None = Field(None, description="name of the method of a fit; null for an evaluation")
    map: str | None = Field(
        None, description="name of the map that a fit stores, or id of the map that an evaluation applies; null: none"
    )
    batch: str | None = Field(
        None,
        description="id of the batch; null for an evaluation of several batches, and for rows of the request that are "
        "deleted when the job ends",
    )
    batches: list[str] | None = Field(None, description="ids of the batches of an evaluation of several; null for one")
    expires_at: Timestamp | None = Field(None, description="when the ended job is deleted; null before its end")


class JobAnswer(JobSummary):
    """A job, as ``GET /jobs/{id}`` returns it."""

    result: dict[str, Any] | None = Field(
        None,
        description="the map of a fit, the report of an evaluation, the recommendation, the target of scored rows, "
        "or the counts of a backfill; null until the job has succeeded",
    )


class JobsQuery(PageQuery):
    """The query of ``GET /jobs``."""

    status: JobStatus | None = Field(None, description="only jobs with this status")
    kind: JobKind | None = Field(None, description="only jobs of this kind")
    batch: str | None = Field(None, description="only jobs of this batch")


class JobsAnswer(Document):
    """A page of jobs, newest first."""

    items: list[JobSummary]
    next: str | None


class JobRecord(JobState):
    """A job as stored: with its task and the state of its runs.

    ``ttl`` is the number of seconds that the job is kept after its end, ``timeout`` the limit of one run, and
    ``seconds`` the estimated duration. ``run`` is the number of the latest run, counted from 1; only this run may write
    results. ``losses`` counts the runs whose process was lost, and ``kills`` those of them that may have caused the
    loss. ``carried`` is the trace context of the request. A job with several ``parts`` counts how many are ``left``; a
    part refers to its ``parent`` and has its own number. ``temporary_batch`` stores rows of the request, those of
    several models ``temporary_batches``; they are deleted when the job ends. ``rows`` describes the rows of an
    evaluation of one batch, which may be gone before the report. ``author`` is that of its entries in the audit log.
    """

    format: int = 3
    result: dict[str, Any] | None = None
    ttl: int
    spec: dict[str, Any]
    queue: str = "fits"
    timeout: int = 3600
    seconds: float = 0.0
    run: int = 0
    losses: int = 0
    kills: int = 0
    carried: dict[str, str] = Field(default_factory=dict)
    parts: int = 1
    left: int = 0
    parent: str | None = None
    part: int | None = None
    temporary_batch: str | None = None
    temporary_batches: list[str] = Field(default_factory=list)
    rows: BatchRecord | None = None
    author: Author | None = None

    @property
    def own_batches(self) -> list[str]:
        """The batches that are deleted when the job ends."""
        return [*self.temporary_batches, *([] if self.temporary_batch is None else [self.temporary_batch])]

    @property
    def is_join(self) -> bool:
        """Whether a part is the join of all others."""
        return self.part == self.parts

    def answer(self) -> JobAnswer:
        """The fields that the caller sees."""
        return JobAnswer.with_fields_of(self, **self._of_task())

    def summary(self) -> JobSummary:
        """The fields in lists and events."""
        return JobSummary.with_fields_of(self, **self._of_task())

    def _of_task(self) -> dict[str, Any]:
        """The fields that follow from the task."""
        fields = {name: self.spec.get(name) for name in ("method", "batch", "batches")}
        if self.own_batches:
            fields |= {"batch": None, "batches": None}
        if self.finished_at is not None:
            end = datetime.fromisoformat(self.finished_at) + timedelta(seconds=self.ttl)
            fields["expires_at"] = end.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return fields | {"map": self.spec.get("name" if self.kind == "fit" else "map")}


# --- The record that a supervisor keeps about its workers


class WorkersRecord(Document):
    """One supervisor: its host, and the number, queues and device of its workers."""

    format: int = 1
    id: str
    host: str
    pid: int
    device: str
    queues: list[str]
    processes: int


# --- Idempotency keys as stored


class StoredAnswer(Document):
    """The stored response to a request."""

    status: int
    headers: dict[str, str]
    body: str = Field(description="zlib, base64")


class IdempotencyRecord(Document):
    """The request of an idempotency key: its fingerprint, the seed of its ids, and its response once complete."""

    format: int = 1
    fingerprint: str
    seed: str
    answer: StoredAnswer | None = None
