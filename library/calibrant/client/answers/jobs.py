"""Generated from schemas/jobs.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.problems import Problem

JobKind = Literal["fit", "evaluate", "recommend", "score", "backfill"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(WireAnswer):
    """The progress of a job."""

    done: int = 0  # completed steps
    total: int = 0  # all steps of the stage; 0 if unknown
    stage: str = ""  # what the job is doing


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary(WireAnswer):
    """A job without its result, as in lists and events."""

    id: str  # id of the job
    kind: JobKind  # what the job does
    status: JobStatus  # status of the job
    progress: Progress = field(default_factory=Progress)  # progress of the running job
    created_at: str  # when it was created
    #: name of the API key that created it, or oidc: and the subject of its token; None without keys
    created_by: str | None = None
    started_at: str | None = None  # when a worker started the job; None before
    finished_at: str | None = None  # when the job ended; None before
    problem: Problem | None = None  # why the job failed; None otherwise
    method: str | None = None  # name of the method of a fit; None for an evaluation
    map: str | None = None  # name of the map that a fit stores, or id of the map that an evaluation applies; None: none
    #: id of the batch; None for an evaluation of several batches, and for rows of the request that are deleted when
    #: the job ends
    batch: str | None = None
    batches: list[str] | None = None  # ids of the batches of an evaluation of several; None for one
    expires_at: str | None = None  # when the ended job is deleted; None before its end


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer(JobSummary):
    """A job, as ``GET /jobs/{id}`` returns it."""

    #: the map of a fit, the report of an evaluation, the recommendation, the target of scored rows, or the counts of a
    #: backfill; None until the job has succeeded
    result: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAnswer(WireAnswer):
    """A page of jobs, newest first."""

    items: list[JobSummary]  # entries of this page
    next: str | None  # cursor of the next page
