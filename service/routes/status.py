"""Routes of the service's state: limits, health and metrics."""

from __future__ import annotations

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from backend.settings import settings_of
from backend.store.budget import Charges
from schemas.catalogue import Health, LimitsAnswer
from service.calls import Call, Calls, ClientMethod, Sample
from service.context import Here, answer
from service.formats.media import TEXT
from service.observe import METRICS_PATH, Metrics
from service.settings import Settings
from service.threads import run_in_thread

calls = Calls("health", reads="any")


@calls.add(
    Call(
        "GET",
        "/limits",
        answer=LimitsAnswer,
        tag="limits",
        client="limits",
        samples=(Sample("limits", "The limits of requests and tenants"),),
    )
)
async def limits(here: Here) -> Response:
    """List the limits of requests, keys and tenants with their descriptions, and the tenant's current usage.

    Examples
    --------
    >>> client.limits().limits["max_rows"].value > 0
    True
    """
    limits_by_name = {
        s.name: {"value": getattr(here.settings, s.name), "meaning": s.meaning}
        for s in settings_of(Settings)
        if s.limit
    }
    limits_by_name["quota_maps"]["value"] = here.process.quotas.most_maps
    return answer({"limits": limits_by_name, "used": await run_in_thread(_used, here.store.charges)})


def _used(charges: Charges) -> dict[str, int]:
    return {
        "quota_bytes": charges.stored_bytes(),
        "quota_maps": charges.maps(),
        "quota_jobs": charges.queued_jobs(),
        "max_monitors": charges.monitors(),
    }


@calls.add(
    Call(
        "GET",
        "/health/live",
        access="open",
        needs_store=False,
        answer=Health,
        client=(ClientMethod("live", returns=False),),
        samples=(Sample("up", "The process responds"),),
    )
)
async def live() -> Response:
    """Check that the process responds.

    Examples
    --------
    >>> client.live()
    """
    return answer({"status": "ok"})


@calls.add(
    Call(
        "GET",
        "/health/ready",
        access="open",
        answer=Health,
        problems=("store-unavailable", "stopping"),
        client=(ClientMethod("ready", returns=False),),
        samples=(Sample("ready", "The store responds too"),),
    )
)
async def ready(here: Here) -> Response:
    """Check that the process and the store respond; `degraded` means that writes may be refused.

    While the store is unavailable, a process that can apply maps in its memory is `degraded` too.

    Examples
    --------
    >>> client.ready()
    """
    here.process.check_ending()
    if here.process.is_stale:
        return answer({"status": "degraded", "reason": "store-unavailable"})
    await here.process.reach()
    reason = here.process.budget.reason
    return answer({"status": "ok"} if reason is None else {"status": "degraded", "reason": reason})


@calls.add(
    Call("GET", METRICS_PATH, access="admin", needs_store=False, media=(TEXT,), meaning="Every metric", tag="metrics")
)
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this process's requests and of the whole store; available while the store is down."""
    counted: Metrics = request.app.state.process.metrics
    return Response(await run_in_thread(counted.text), media_type=CONTENT_TYPE_PLAIN_0_0_4)
