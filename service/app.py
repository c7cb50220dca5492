"""The application factory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

import calibrant
from service import error_handlers, openapi
from service.access import Access
from service.assets import Assets
from service.compression import Compress
from service.guard import Guard
from service.observe import Observe
from service.process import Process
from service.root_path import RootPath
from service.route_table import RouteTable
from service.routing import HeadAsGet, Shortcut
from service.settings import Settings


class _Service(FastAPI):
    """An application around which ``Observe`` answers errors, without FastAPI's own middleware for them."""

    def build_middleware_stack(self) -> ASGIApp:
        """The stack from ``Observe``, or ``RootPath`` around it, inwards."""
        stack: Any = super().build_middleware_stack()
        while not isinstance(stack, Observe | RootPath):
            stack = stack.app
        return stack


def create_app(settings: Settings, *, needs_key: bool = False) -> FastAPI:
    """Create the application for the store that the settings name; the store may be unavailable at any time.

    With ``needs_key`` the application serves requests only once an API key exists. Raises ``MissingTelemetry`` if
    tracing is configured without the extra, ``UnreadableUrl`` for an invalid store URL, ``InvalidTargets`` for invalid
    webhook hosts or networks, and ``InvalidIssuer`` for the settings of an issuer.
    """
    process = Process(settings, needs_key=needs_key)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with process.running():
            yield

    app = _Service(
        title="Calibrant",
        version=calibrant.__version__,
        description="Measures, fixes and monitors the calibration of classifiers.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": settings.root_path or "/"}],
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # No redirect for a trailing slash: it would lead to whatever host the Host header names.
        redirect_slashes=False,
        # FastAPI's own telemetry would send paths, queries and error messages, which contain data of callers.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.process = process
    table = RouteTable(app.router.routes)
    # The middleware added last runs first.
    app.add_middleware(Shortcut, routes=app.router.routes)
    app.add_middleware(
        Guard,
        seconds=settings.request_timeout,
        slots=process.slots,
        memory=process.memory,
        light=process.light,
        rate=settings.min_upload_rate,
    )
    app.add_middleware(
        Access,
        table=table,
        keyring=process.keyring,
        link=process.link,
        last_known=process.last_known,
        rates=process.rates,
        sessions=process.sessions,
        budget=process.budget,
        issuer=process.issuer,
        rate_limit=settings.rate_limit,
        origins=settings.origins,
    )
    app.add_middleware(Compress)
    app.add_middleware(HeadAsGet)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=["*"], max_age=600
        )
    app.add_middleware(Observe, requests=process.metrics.requests, tracer=process.tracer)
    if settings.root_path:
        app.add_middleware(RootPath, root=settings.root_path)
    error_handlers.install(app)
    openapi.install(app, table)
    app.mount("/assets", Assets())
    return app
