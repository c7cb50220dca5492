"""The application: pure wiring."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

import calibrant
from schemas.problems import Problem
from service import problems
from service.access import Access, read_keys
from service.context import Context
from service.metrics import Metrics
from service.observe import Observe
from service.routes import batches, calibrate, catalogue, evaluate, health, jobs, maps, metrics
from service.settings import Settings
from storage.census import take_census
from storage.connection import check_durability, connect
from storage.store import Store
from telemetry.tracing import open_tracer

#: Seconds that the store may take to answer when metrics are asked for.
_CENSUS_SECONDS = 1.0


def create_app(settings: Settings) -> FastAPI:
    """Build the application on the store that the settings name.

    Raises ``KeysFileError`` for a file of API keys without keys, and at start-up
    ``UnsuitableStore`` for a Redis that evicts; ``MissingTelemetry`` where traces are asked for without the extra.
    """
    keys = frozenset[bytes]() if settings.api_keys_file is None else read_keys(settings.api_keys_file)
    tracer = open_tracer("calibrant-api", settings.otlp_endpoint, os.environ)
    redis = connect(settings.redis_url, traced=tracer is not None)
    counting = connect(settings.redis_url, timeout=_CENSUS_SECONDS)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(check_durability, redis)
        yield
        redis.close()
        counting.close()
        if tracer is not None:
            await run_in_threadpool(tracer.close)

    app = FastAPI(
        title="Calibrant",
        version=calibrant.__version__,
        description="Is a classifier calibrated, and if not, what would make it so.",
        lifespan=lifespan,
        # Its own would send paths, queries and the words of errors, which hold what callers sent.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        responses={"default": {"model": Problem, "description": "A problem document (RFC 9457)"}},
    )
    app.state.context = Context(settings, Store.of(redis))
    app.state.metrics = Metrics(lambda: take_census(counting))
    app.add_middleware(Access, keys=keys)
    app.add_middleware(Observe, requests=app.state.metrics.requests, tracer=tracer)
    problems.install(app)
    for routes in (health, catalogue, batches, evaluate, maps, calibrate, jobs, metrics):
        app.include_router(routes.router)
    return app
