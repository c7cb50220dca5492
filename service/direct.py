"""Calls that are answered past FastAPI: their paths have no parameters, and their work is shorter than the way to it.

Matching the route, solving its dependencies and the stacks of contexts around it take half of the time of a
``POST /calibrate`` of ten scores. Such a route is still FastAPI's in the OpenAPI document, and for other methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.store.errors import StorageError
from backend.store.server.connection import UNAVAILABLE
from calibrant.errors import CalibrationError
from service.idempotency import Handler, Idempotent
from service.problems import away, refused


class Direct(Idempotent):
    """A route whose endpoint takes the request alone."""

    def own_handler(self) -> Handler:
        """The endpoint itself."""
        return cast(Handler, self.endpoint)


class Shortcut:
    """ASGI middleware that calls the handlers of ``Direct`` routes itself."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        direct = [route for route in routes if isinstance(route, Direct)]
        self._handlers: dict[tuple[str, str], tuple[Handler, APIRoute]] = {
            (method, route.path): (route.get_route_handler(), route)
            for route in direct
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call of a direct route; pass on every other."""
        found = self._handlers.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        handle, scope["route"] = found
        try:
            response = await handle(Request(scope, receive))
        except (CalibrationError, StorageError) as error:
            response = refused(error)
        except UNAVAILABLE as error:
            response = away(error)
        await response(scope, receive, send)
