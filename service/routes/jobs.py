"""Jobs: what became of a long fit."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from schemas.jobs import FINAL, JobAnswer
from service.context import RETRY_AFTER, Here, answer
from service.openapi import raises

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.get("/{job_id}", response_model=JobAnswer, responses=raises("unknown-job"))
async def get_job(job_id: str, here: Here) -> Response:
    """State, progress and result of a job; 200 as long as the job is known."""
    record = await run_in_threadpool(here.store.jobs.get, job_id)
    headers = None if record.status in FINAL else {"Retry-After": RETRY_AFTER}
    return answer(record.answer().model_dump(), headers=headers)
