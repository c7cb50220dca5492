"""Routes of the home page, the API reference and the problem pages; they need no key."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from schemas.catalogue import ProblemEntry
from schemas.problem_table import TABLE
from service import pages
from service.context import answer
from service.descriptions import DescribedRoute
from service.errors import NotFound
from service.formats.answers import choose
from service.formats.media import JSON
from service.headers import read_header
from service.openapi import raises
from service.web.upload import UploadForm
from service.web.visit import Visiting

router = APIRouter(tags=["pages"], route_class=DescribedRoute)

_HTML = "text/html"
_PAGE: dict[str, Any] = {_HTML: {"schema": {"type": "string"}}}


@router.get("/", response_class=HTMLResponse)
async def index(visit: Visiting) -> Response:
    """The home page: links, and a form to upload a file."""
    return visit.page("home.html", form=UploadForm(visit.here.settings.max_body_bytes), links=pages.LINKS)


@router.get("/docs", response_class=HTMLResponse)
async def docs() -> Response:
    """The API reference (Swagger UI); all its files are served by this service."""
    return pages.docs()


@router.get(
    "/problems", response_model=list[ProblemEntry], responses={200: {"content": _PAGE}, **raises("not-acceptable")}
)
async def problems(request: Request) -> Response:
    """List all problems as an HTML page or as JSON, depending on ``Accept``."""
    if _wants_json(request):
        return answer([pages.entry(code).model_dump() for code in TABLE], headers={"Vary": "Accept"})
    return pages.problem_index()


@router.get(
    "/problems/{code}",
    response_model=ProblemEntry,
    responses={200: {"content": _PAGE}, **raises("not-found", "not-acceptable")},
)
async def problem(code: str, request: Request) -> Response:
    """Describe a problem, its cause and its remedy; the ``type`` of a problem document leads here.

    HTML or JSON, depending on ``Accept``.
    """
    if code not in TABLE:
        raise NotFound("there is no problem with this code")
    if _wants_json(request):
        return answer(pages.entry(code).model_dump(), headers={"Vary": "Accept"})
    return pages.problem_page(code)


def _wants_json(request: Request) -> bool:
    return choose(read_header(request, b"accept"), (_HTML, JSON)) == JSON
