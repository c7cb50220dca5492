"""The application: pure wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

import calibrant
from schemas.problems import Problem
from service import problems
from service.access import Access
from service.guard import Guard
from service.process import Process
from service.routes import batches, calibrate, catalogue, evaluate, health, jobs, limits, maps
from service.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """Build the application on the store that the settings name.

    Raises ``UnsuitableStore`` at its start for a Redis that evicts.
    """
    process = Process(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with process.running():
            yield

    app = FastAPI(
        title="Calibrant",
        version=calibrant.__version__,
        description="Is a classifier calibrated, and if not, what would make it so.",
        lifespan=lifespan,
        responses={"default": {"model": Problem, "description": "A problem document (RFC 9457)"}},
    )
    app.state.process = process
    # The last added is the first to see a request.
    app.add_middleware(Guard, seconds=settings.request_timeout, places=process.places)
    app.add_middleware(
        Access,
        keyring=process.keyring,
        link=process.link,
        rates=process.rates,
        rate_limit=settings.rate_limit,
        origins=settings.origins,
    )
    if settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=["*"], max_age=600
        )
    problems.install(app)
    for routes in (health, catalogue, limits, batches, evaluate, maps, calibrate, jobs):
        app.include_router(routes.router)
    return app
