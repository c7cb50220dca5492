"""The application: pure wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

import calibrant
from schemas.problems import Problem
from service import problems
from service.access import Access, read_keys
from service.context import Context
from service.routes import aliases, batches, calibrate, catalogue, evaluate, health, jobs, maps, registry
from service.settings import Settings
from storage.connection import check_durability, connect
from storage.store import Store


def create_app(settings: Settings) -> FastAPI:
    """Build the application on the store that the settings name.

    Raises ``KeysFileError`` for a file of API keys without keys, and at start-up
    ``UnsuitableStore`` for a Redis that evicts.
    """
    keys = frozenset[bytes]() if settings.api_keys_file is None else read_keys(settings.api_keys_file)
    redis = connect(settings.redis_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(check_durability, redis)
        yield
        redis.close()

    app = FastAPI(
        title="Calibrant",
        version=calibrant.__version__,
        description="Is a classifier calibrated, and if not, what would make it so.",
        lifespan=lifespan,
        # A path with a slash too many is unknown: its redirect would lead wherever the Host header says.
        redirect_slashes=False,
        responses={"default": {"model": Problem, "description": "A problem document (RFC 9457)"}},
    )
    app.state.context = Context(settings, Store.of(redis))
    app.add_middleware(Access, keys=keys)
    problems.install(app)
    for routes in (health, catalogue, batches, evaluate, maps, registry, aliases, calibrate, jobs):
        app.include_router(routes.router)
    return app
