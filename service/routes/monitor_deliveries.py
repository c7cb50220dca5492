"""Routes of webhook deliveries: list, read and resend them, and test a hook."""

from __future__ import annotations

from fastapi import Request, Response

from backend.monitors.webhooks import request_test
from backend.store.monitors.deliveries import Deliveries
from backend.store.pages import Page
from schemas.monitor_alarms import DeliveriesAnswer, DeliveriesQuery, DeliveryRecord, DeliverySummary
from service.calls import Call, Calls
from service.context import Context, Here, answer
from service.formats.body import read_no_fields
from service.paging import page_answer, page_request, read_query
from service.threads import run_in_thread

calls = Calls("monitors", reads="monitors:read", writes="monitors:write")


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/deliveries",
        query=DeliveriesQuery,
        answer=DeliveriesAnswer,
        problems=("unknown-monitor",),
        client="deliveries",
    )
)
async def get_deliveries(name: str, request: Request, here: Here) -> Response:
    """List the deliveries of a monitor's events, newest first; the status ``dead`` marks the dead letters.

    Examples
    --------
    >>> list(client.deliveries("inbox", status="dead"))
    []
    """
    page = await run_in_thread(find, here, name, read_query(request, DeliveriesQuery))
    return page_answer(request, [DeliverySummary.of(record) for record in page.items], page.next)


@calls.add(
    Call(
        "GET",
        "/monitors/{name}/deliveries/{delivery}",
        answer=DeliveryRecord,
        problems=("unknown-monitor", "unknown-delivery"),
    )
)
async def get_delivery(name: str, delivery: str, here: Here) -> Response:
    """Get a delivery: its event, and the response status or error of each of its last attempts."""
    record = await run_in_thread(lambda: deliveries_of(here, name).get(delivery))
    return answer(record.model_dump())


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/deliveries/{delivery}/resend",
        answer=DeliveryRecord,
        status=202,
        problems=("unknown-monitor", "unknown-delivery"),
        client="resend",
    )
)
async def resend_delivery(name: str, delivery: str, request: Request, here: Here) -> Response:
    """Send a delivery again, whatever its status: the same event with the same ``webhook-id``."""
    await read_no_fields(request, here.settings)
    record = await run_in_thread(lambda: deliveries_of(here, name).resend(delivery))
    return answer(record.model_dump(), 202)


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/hooks/{hook}/test",
        answer=DeliveryRecord,
        status=202,
        problems=("unknown-monitor", "unknown-hook"),
    )
)
async def post_hook_test(name: str, hook: str, request: Request, here: Here) -> Response:
    """Send an event of type ``monitor.test`` to one hook."""
    await read_no_fields(request, here.settings)
    record = await run_in_thread(request_test, here, name, hook)
    return answer(record.model_dump(), 202)


def deliveries_of(here: Context, name: str) -> Deliveries:
    """The deliveries of a monitor; raises ``UnknownMonitor``."""
    return Deliveries(here.store.redis, here.store.keys, here.store.monitors.get(name).id)


def find(here: Context, name: str, query: DeliveriesQuery) -> Page[DeliveryRecord]:
    """Find the page of deliveries of a query."""
    return deliveries_of(here, name).page(page_request(query), status=query.status, hook=query.hook)
