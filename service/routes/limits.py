"""The limits of the service, so that a client need not find them by trial."""

from __future__ import annotations

from fastapi import APIRouter, Response

from schemas.limits import LimitsAnswer
from service.context import Here, answer
from service.settings import all_settings

router = APIRouter(tags=["limits"])


@router.get("/limits", response_model=LimitsAnswer)
async def limits(here: Here) -> Response:
    """What a request, a key and a tenant may take: each limit's value and its meaning."""
    told = {s.name: {"value": getattr(here.settings, s.name), "meaning": s.meaning} for s in all_settings() if s.limit}
    return answer({"limits": told})
