"""The application: pure wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

import calibrant
from service import openapi, problems
from service.access import Access, read_keys
from service.assets import Assets
from service.context import Context
from service.head import HeadAsGet
from service.routes import batches, calibrate, catalogue, evaluate, health, jobs, maps, pages
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
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=openapi.operation_id,
    )
    app.state.context = Context(settings, Store.of(redis))
    app.add_middleware(HeadAsGet)
    app.add_middleware(Access, keys=keys)
    problems.install(app)
    openapi.install(app)
    for routes in (pages, health, catalogue, batches, evaluate, maps, calibrate, jobs):
        app.include_router(routes.router)
    app.mount("/assets", Assets())
    return app
