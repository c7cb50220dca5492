"""Pages: the index, the calls, the problems. They need no key."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from schemas.catalogue import ProblemEntry
from schemas.problem_table import TABLE
from service import pages
from service.context import answer
from service.errors import NotFound
from service.formats.answers import choose
from service.formats.media import JSON
from service.headers import read_header
from service.openapi import raises
from service.web.upload import UploadForm
from service.web.visit import Visiting

router = APIRouter(tags=["pages"])

_HTML = "text/html"
_PAGE: dict[str, Any] = {_HTML: {"schema": {"type": "string"}}}


@router.get("/", response_class=HTMLResponse)
async def index(visit: Visiting) -> Response:
    """What this service is, and where everything stands."""
    return visit.page("home.html", form=UploadForm(visit.here.settings.max_body_bytes), links=pages.LINKS)


@router.get("/docs", response_class=HTMLResponse)
async def docs() -> Response:
    """The OpenAPI document, to read and to try; nothing is loaded from elsewhere."""
    return pages.docs()


@router.get(
    "/problems", response_model=list[ProblemEntry], responses={200: {"content": _PAGE}, **raises("not-acceptable")}
)
async def problems(request: Request) -> Response:
    """Every kind of problem: a page, or JSON if that is preferred."""
    if _wants_json(request):
        return answer([pages.entry(code).model_dump() for code in TABLE], headers={"Vary": "Accept"})
    return pages.problem_index()


@router.get(
    "/problems/{code}",
    response_model=ProblemEntry,
    responses={200: {"content": _PAGE}, **raises("not-found", "not-acceptable")},
)
async def problem(code: str, request: Request) -> Response:
    """What causes one kind of problem and how to mend it: where the ``type`` of a problem document leads.

    A page, or JSON if that is preferred.
    """
    if code not in TABLE:
        raise NotFound("there is no problem of this code")
    if _wants_json(request):
        return answer(pages.entry(code).model_dump(), headers={"Vary": "Accept"})
    return pages.problem_page(code)


def _wants_json(request: Request) -> bool:
    return choose(read_header(request, b"accept"), (_HTML, JSON)) == JSON
