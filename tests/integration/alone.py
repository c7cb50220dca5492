"""A service of a test's own, in the test's process: for settings and stores that no other test should meet."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from service.app import create_app
from service.settings import Settings

Call = tuple[str, str, dict[str, Any]]


def ask(settings: Settings, *calls: Call, started: bool = True) -> list[httpx.Response]:
    """Answers to calls, each a method, a path and options of the request.

    A service that is not ``started`` has no link to its store, as where the store went away.
    """

    async def answers() -> list[httpx.Response]:
        app = create_app(settings)
        if not started:
            return await _asked(app, calls)
        async with app.router.lifespan_context(app):
            return await _asked(app, calls)

    return asyncio.run(answers())


async def _asked(app: Any, calls: tuple[Call, ...]) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
        return [await client.request(method, path, **options) for method, path, options in calls]
