"""Metrics, in the text format of Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.concurrency import run_in_threadpool

from service.metrics import METRICS_PATH, Metrics

router = APIRouter(tags=["metrics"])


@router.get(
    METRICS_PATH,
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Every metric"}},
)
async def metrics(request: Request) -> Response:
    """Counts and durations of this process's requests, and what the whole store holds; also while it is away."""
    counted: Metrics = request.app.state.process.metrics
    return Response(await run_in_threadpool(counted.text), media_type=CONTENT_TYPE_PLAIN_0_0_4)
