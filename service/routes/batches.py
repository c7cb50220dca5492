"""Routes of batches: predictions and labels that are stored once and used many times."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from backend.batches import append_rows, store_batch
from schemas.batches import (
    BatchBody,
    BatchesAnswer,
    BatchesQuery,
    BatchOptions,
    BatchRecord,
    DistributionBatchBody,
    DistributionBatchOptions,
    DistributionRowsBody,
    DistributionRowsOptions,
    RowsBody,
    RowsOptions,
)
from service.context import Here, answer, body_of
from service.formats.body import read_payload
from service.formats.options import read_options_of_kind
from service.openapi import OF_FORECASTS, OF_ROWS, located, raises
from service.paging import page_answer, page_request, query_of, read_query
from service.routing import Idempotent
from service.threads import run_in_thread

router = APIRouter(prefix="/batches", tags=["batches"], route_class=Idempotent)


@router.post(
    "",
    status_code=201,
    response_model=BatchRecord,
    responses={201: {"headers": located("batch")}, **raises(*OF_ROWS, *OF_FORECASTS, "batch-full", "quota-exceeded")},
    openapi_extra=body_of(BatchBody, DistributionBatchBody),
)
async def post_batch(request: Request, here: Here) -> Response:
    """Store a batch: predictions, and optionally labels, weights and groups; or forecasts and outcomes of a number.

    The batch is kept for a day unless the service is configured otherwise. Other calls refer to it by its id.
    """
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, BatchOptions, DistributionBatchOptions)
    record = await run_in_thread(store_batch, here, payload.arrays, options)
    return answer(record.model_dump(), 201, {"Location": f"/batches/{record.id}"})


@router.get(
    "",
    response_model=BatchesAnswer,
    responses=raises("invalid-field", "invalid-cursor"),
    openapi_extra=query_of(BatchesQuery),
)
async def get_batches(request: Request, here: Here) -> Response:
    """List the batches that have not expired, newest first."""
    page = await run_in_thread(here.store.batches.page, page_request(read_query(request, BatchesQuery)))
    return page_answer(request, page.items, page.next)


@router.post(
    "/{batch_id}/rows",
    response_model=BatchRecord,
    responses=raises(*OF_ROWS, *OF_FORECASTS, "unknown-batch", "batch-full", "quota-exceeded"),
    openapi_extra=body_of(RowsBody, DistributionRowsBody),
)
async def post_rows(batch_id: str, request: Request, here: Here) -> Response:
    """Append rows to a batch: either all of them or none.

    The rows need the same arrays as the batch. With an ``Idempotency-Key``, a repeated request appends them only once.
    Appending does not extend the lifetime of the batch.
    """
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, RowsOptions, DistributionRowsOptions)
    record = await run_in_thread(append_rows, here, batch_id, payload.arrays, options)
    return answer(record.model_dump())


@router.get("/{batch_id}", response_model=BatchRecord, responses=raises("unknown-batch"))
async def get_batch(batch_id: str, here: Here) -> Response:
    """Get the record of a batch."""
    record = await run_in_thread(here.store.batches.record, batch_id)
    return answer(record.model_dump())


@router.delete("/{batch_id}", status_code=204, responses=raises("unknown-batch", "batch-in-use"))
async def delete_batch(batch_id: str, here: Here) -> Response:
    """Delete a batch; fails while a queued or running job needs it."""
    await run_in_thread(here.store.batches.delete, batch_id)
    return Response(status_code=204)
