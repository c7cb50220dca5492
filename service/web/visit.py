"""A request for a page: its context, and ways to respond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request, Response

from backend.store.sessions import page_token
from service.context import Context, context_of
from service.threads import run_in_thread
from service.web.visitor import Visitor, is_of_htmx, known, render, visitor_of

# --- A request for a page


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page: the visitor, the context of the route, and ways to respond."""

    request: Request
    here: Context
    visitor: Visitor

    @property
    def wants_part(self) -> bool:
        """Whether htmx requests a part of the page."""
        return is_of_htmx(self.request.headers)

    def page(
        self, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
    ) -> Response:
        """Render a template as a response."""
        return render(template, known(self.visitor) | values, root=self.visitor.root, status=status, headers=headers)


async def visit_of(request: Request) -> Visit:
    """Create the context of a page's route."""
    here = await context_of(request)
    here.process.visited.set()
    token = None if here.process.keyring else await run_in_thread(page_token, here.process.redis)
    return Visit(request, here, visitor_of(request.scope, token))


Visiting = Annotated[Visit, Depends(visit_of)]


# --- Redirects, with and without scripts


def redirect_to(visit: Visit, path: str) -> Response:
    """Redirect to a page of this service; htmx loads the whole page."""
    if visit.wants_part:
        return Response(status_code=204, headers={"HX-Redirect": path, "Cache-Control": "no-store"})
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})


# --- Paths


def report_path(ids: Sequence[str], job_id: str | None = None, grades: str | None = None) -> str:
    """The path of the report of a batch, or of the comparison of several; with ``grades``, that of its groups too."""
    query = [("job", job_id), *(("models", other) for other in ids[1:]), ("grades", grades)]
    return f"/ui/reports/{ids[0]}{query_of(query)}"


def query_of(fields: Sequence[tuple[str, str | None]]) -> str:
    """The query string of the fields that are not None, with its question mark; empty if all are None."""
    query = urlencode([(name, value) for name, value in fields if value is not None])
    return f"?{query}" if query else ""
