"""Is the service up, and can it work."""

from __future__ import annotations

from fastapi import APIRouter, Response

from schemas.catalogue import Health
from service.context import Here, answer
from service.openapi import raises

router = APIRouter(tags=["health"])


@router.get("/health/live", response_model=Health)
async def live() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/health/ready", response_model=Health, responses=raises("store-unavailable"))
async def ready(here: Here) -> Response:
    """The store answers too. `degraded`: requests are answered, but those that store something may be refused."""
    await here.process.reach()
    reason = here.process.budget.reason
    return answer({"status": "ok"} if reason is None else {"status": "degraded", "reason": reason})
