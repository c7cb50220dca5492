"""Routes of batches: predictions and labels that are stored once and used many times."""

from __future__ import annotations

from fastapi import Request, Response

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
from service.calls import OF_FORECASTS, OF_ROWS, Call, Calls, ClientMethod, rows
from service.context import Here, answer
from service.formats.body import read_payload
from service.formats.options import read_options_of_kind
from service.paging import page_answer, page_request, read_query
from service.threads import run_in_thread

calls = Calls("batches", writes="batches:write")


@calls.add(
    Call(
        "POST",
        "/batches",
        body=rows(BatchBody, DistributionBatchBody),
        answer=BatchRecord,
        status=201,
        located="batch",
        problems=(*OF_ROWS, *OF_FORECASTS, "batch-full", "quota-exceeded"),
        client=(
            ClientMethod("upload", rows=BatchOptions, summary="Store a batch of predictions."),
            ClientMethod(
                "upload_distribution",
                rows=DistributionBatchOptions,
                summary="Store a batch of forecasts.",
            ),
        ),
    )
)
async def post_batch(request: Request, here: Here) -> Response:
    """Store a batch: predictions, and optionally labels, weights and groups; or forecasts and outcomes of a number.

    The batch is kept for a day unless the service is configured otherwise. Other calls refer to it by its id.

    Examples
    --------
    >>> client.upload([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]).positive_rate
    0.5

    >>> client.upload_distribution([0.5], quantiles=[[0.0, 1.0]], levels=[0.1, 0.9]).forecasts.kind
    'quantiles'
    """
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, BatchOptions, DistributionBatchOptions)
    record = await run_in_thread(store_batch, here, payload.arrays, options)
    return answer(record.model_dump(), 201, {"Location": f"/batches/{record.id}"})


@calls.add(Call("GET", "/batches", query=BatchesQuery, answer=BatchesAnswer, client="batches"))
async def get_batches(request: Request, here: Here) -> Response:
    """List the batches that have not expired, newest first.

    Examples
    --------
    >>> stored = client.upload([0.1, 0.9])
    >>> stored.id in [batch.id for batch in client.batches()]
    True
    """
    page = await run_in_thread(here.store.batches.page, page_request(read_query(request, BatchesQuery)))
    return page_answer(request, page.items, page.next)


@calls.add(
    Call(
        "POST",
        "/batches/{batch}/rows",
        body=rows(RowsBody, DistributionRowsBody),
        answer=BatchRecord,
        problems=(*OF_ROWS, *OF_FORECASTS, "unknown-batch", "batch-full", "quota-exceeded"),
        client=(
            ClientMethod("append", rows=RowsOptions, summary="Append rows to a stored batch; retries are idempotent."),
            ClientMethod(
                "append_distribution",
                rows=DistributionRowsOptions,
                summary="Append predictive distributions to a stored batch; retries are idempotent.",
            ),
        ),
    )
)
async def post_rows(batch: str, request: Request, here: Here) -> Response:
    """Append rows to a batch: either all of them or none.

    The rows need the same arrays as the batch. With an ``Idempotency-Key``, a repeated request appends them only once.
    Appending does not extend the lifetime of the batch.

    Examples
    --------
    >>> stored = client.upload([0.1, 0.9], [0, 1])
    >>> client.append(stored.id, [0.4], [0]).n
    3

    >>> stored = client.upload_distribution([0.5], mean=[0.0], variance=[1.0])
    >>> client.append_distribution(stored.id, [0.2], mean=[0.0], variance=[1.0]).n
    2
    """
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, RowsOptions, DistributionRowsOptions)
    record = await run_in_thread(append_rows, here, batch, payload.arrays, options)
    return answer(record.model_dump())


@calls.add(Call("GET", "/batches/{batch}", answer=BatchRecord, problems=("unknown-batch",), client="batch"))
async def get_batch(batch: str, here: Here) -> Response:
    """Get the record of a batch.

    Examples
    --------
    >>> client.batch(client.upload([0.1, 0.9]).id).arrays
    ['predictions']
    """
    record = await run_in_thread(here.store.batches.record, batch)
    return answer(record.model_dump())


@calls.add(
    Call("DELETE", "/batches/{batch}", status=204, problems=("unknown-batch", "batch-in-use"), client="delete_batch")
)
async def delete_batch(batch: str, here: Here) -> Response:
    """Delete a batch; fails while a queued or running job needs it.

    Examples
    --------
    >>> client.delete_batch(client.upload([0.1, 0.9]).id)
    """
    await run_in_thread(here.store.batches.delete, batch)
    return Response(status_code=204)
