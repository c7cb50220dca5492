"""The application: pure wiring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

import calibrant
from schemas.problems import Problem
from service import problems
from service.access import Access, read_keys
from service.context import Context, Slots
from service.routes import batches, calibrate, catalogue, evaluate, health, jobs, maps
from service.settings import Settings
from storage.connection import check_durability, connect, connect_async
from storage.store import Store
from storage.watch import Watcher


def create_app(settings: Settings) -> FastAPI:
    """Build the application on the store that the settings name.

    Raises ``KeysFileError`` for a file of API keys without keys, and at start-up
    ``UnsuitableStore`` for a Redis that evicts.
    """
    keys = frozenset[bytes]() if settings.api_keys_file is None else read_keys(settings.api_keys_file)
    redis = connect(settings.redis_url)
    told = connect_async(settings.redis_url)
    watcher = Watcher(told)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(check_durability, redis)
        listening = asyncio.create_task(watcher.run())
        yield
        watcher.close()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await told.aclose()
        redis.close()

    app = FastAPI(
        title="Calibrant",
        version=calibrant.__version__,
        description="Is a classifier calibrated, and if not, what would make it so.",
        lifespan=lifespan,
        responses={"default": {"model": Problem, "description": "A problem document (RFC 9457)"}},
    )
    app.state.context = Context(settings, Store.of(redis), watcher, Slots(settings.max_event_streams))
    app.add_middleware(Access, keys=keys)
    problems.install(app)
    for routes in (health, catalogue, batches, evaluate, maps, calibrate, jobs):
        app.include_router(routes.router)
    return app
