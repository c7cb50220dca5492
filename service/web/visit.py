"""A visit of the page: what a route needs, and the way to answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.sessions import page_token
from service.context import Context, context_of
from service.web.environment import render
from service.web.visitor import Visitor, is_of_htmx, known, visitor_of

# --- A visit of the page: what a route needs, and the way to answer


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a page: who looks, what a route needs, and the way to answer."""

    request: Request
    here: Context
    visitor: Visitor

    @property
    def wants_part(self) -> bool:
        """Whether htmx asks, for a part of the page."""
        return is_of_htmx(self.request.headers)

    def page(
        self, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
    ) -> Response:
        """The answer that a template gives."""
        return render(template, known(self.visitor) | values, status=status, headers=headers)


async def visit_of(request: Request) -> Visit:
    """What the route of a page needs."""
    here = await context_of(request)
    token = None if here.process.keyring else await run_in_threadpool(page_token, here.process.redis)
    return Visit(request, here, visitor_of(request.scope, token))


Visiting = Annotated[Visit, Depends(visit_of)]


# --- Leading a visitor on to another page, with scripts and without


def lead(visit: Visit, path: str) -> Response:
    """Lead on to a page of this service; htmx loads it whole."""
    if visit.wants_part:
        return Response(status_code=204, headers={"HX-Redirect": path, "Cache-Control": "no-store"})
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})
