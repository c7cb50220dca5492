"""The limits of the service, so that a client need not find them by trial."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from backend.store.budget import Charges
from schemas.catalogue import LimitsAnswer
from service.context import Here, answer
from service.settings import all_settings

router = APIRouter(tags=["limits"])


@router.get("/limits", response_model=LimitsAnswer)
async def limits(here: Here) -> Response:
    """What a request, a key and a tenant may take, each with its meaning, and what the tenant has taken."""
    told = {s.name: {"value": getattr(here.settings, s.name), "meaning": s.meaning} for s in all_settings() if s.limit}
    return answer({"limits": told, "used": await run_in_threadpool(_used, here.store.charges)})


def _used(charges: Charges) -> dict[str, int]:
    return {
        "quota_bytes": charges.stored_bytes(),
        "quota_maps": charges.maps(),
        "quota_jobs": charges.queued_jobs(),
        "max_monitors": charges.monitors(),
    }
