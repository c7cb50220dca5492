"""Is the service up, and can it work."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from service.context import Here, answer

router = APIRouter(tags=["health"])


@router.get("/health/live")
async def live() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/health/ready")
async def ready(here: Here) -> Response:
    """The store answers too; 503 while it does not."""
    await run_in_threadpool(here.store.redis.ping)
    return answer({"status": "ok"})
