"""Groups of routes that are imported when the first request for one of them arrives.

Most processes never serve all of them, and they are half of what a start would import.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from fastapi import APIRouter
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send


class RouteGroup(BaseRoute):
    """The routes whose paths match ``pattern``; ``routers`` imports them.

    The first matching request replaces the group by its routes and is then routed again, so it and all later requests
    are handled as if the routes had been there from the start.
    """

    def __init__(self, pattern: str, routers: Callable[[], Iterable[APIRouter]]) -> None:
        self._pattern = re.compile(pattern)
        self._routers = routers

    @cached_property
    def routes(self) -> list[BaseRoute]:
        """The routes, imported on first use."""
        return [route for router in self._routers() for route in router.routes]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match by the path alone."""
        full = scope["type"] == "http" and self._pattern.fullmatch(scope["path"])
        return (Match.FULL if full else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put the routes in place of the group, and route the request again."""
        router = scope["app"].router
        routes = await asyncio.to_thread(lambda: self.routes)
        if self in router.routes:  # no other request did so in the meantime
            place = router.routes.index(self)
            router.routes[place : place + 1] = routes
        await router(scope, receive, send)


def every_route(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield all routes, also those of groups, which it imports."""
    for route in routes:
        if isinstance(route, RouteGroup):
            yield from route.routes
        else:
            yield route


# --- The groups


def _diagrams() -> list[APIRouter]:
    from service.routes import diagrams

    return [diagrams.router]


def _monitors() -> list[APIRouter]:
    from service.routes import monitor_alarms, monitor_deliveries, monitor_rows, monitors

    return [monitor_rows.router, monitors.router, monitor_deliveries.router, monitor_alarms.router]


def _catalogue() -> list[APIRouter]:
    from service.routes import catalogue

    return [catalogue.router]


def _pages() -> list[APIRouter]:
    from service.routes import pages
    from service.web import calibrate, compare, jobs, maps, methods, monitors, reports, sign_in, upload

    return [
        pages.router,
        compare.router,
        maps.router,
        calibrate.router,
        methods.router,
        sign_in.router,
        upload.sample_router,
        upload.router,
        reports.router,
        jobs.router,
        monitors.router,
    ]


def diagrams() -> RouteGroup:
    """The diagrams and their pictures."""
    return RouteGroup(r"/diagrams|/(maps|jobs)/[^/]+/diagram\.(svg|png)", _diagrams)


def monitors() -> RouteGroup:
    """The monitors."""
    return RouteGroup(r"/monitors(/.*)?", _monitors)


def catalogue() -> RouteGroup:
    """The catalogues of measures, diagrams and methods."""
    return RouteGroup(r"/(measures|diagrams|methods)", _catalogue)


def pages() -> RouteGroup:
    """The web page, the API reference and the problems."""
    return RouteGroup(r"/|/docs|/problems(/.*)?|/ui(/.*)?", _pages)
