"""Routes of the home page, the API reference and the problem pages; they need no key."""

from __future__ import annotations

from fastapi import Request, Response

from schemas.catalogue import ProblemEntry, ProblemsAnswer
from schemas.problem_table import TABLE
from service import pages
from service.calls import Call, Calls, Sample
from service.context import answer
from service.errors import NotFound
from service.formats.media import HTML, JSON
from service.headers import choose, read_header
from service.paging import whole_list
from service.web.upload import UploadForm
from service.web.visit import Visiting

calls = Calls("pages")


@calls.add(Call("GET", "/", access="personal", media=(HTML,)))
async def index(visit: Visiting) -> Response:
    """The home page: links, and a form to upload a file."""
    return visit.page("home.html", form=UploadForm(visit.here.settings.max_body_bytes), links=pages.LINKS)


@calls.add(Call("GET", "/docs", access="open", media=(HTML,)))
async def docs() -> Response:
    """The API reference (Swagger UI); all its files are served by this service."""
    return pages.docs()


@calls.add(
    Call(
        "GET",
        "/problems",
        access="open",
        answer=ProblemsAnswer,
        media=(HTML,),
        problems=("not-acceptable",),
        samples=(Sample("problems", "The first of the problems", headers={"Accept": "application/json"}),),
    )
)
async def problems(request: Request) -> Response:
    """List all problems as an HTML page or as JSON, depending on ``Accept``."""
    if _wants_json(request):
        return whole_list([pages.entry(code).model_dump() for code in TABLE], {"Vary": "Accept"})
    return pages.problem_index()


@calls.add(
    Call(
        "GET",
        "/problems/{code}",
        access="open",
        answer=ProblemEntry,
        media=(HTML,),
        problems=("not-found", "not-acceptable"),
        samples=(
            Sample(
                "out-of-range", "One problem", path={"code": "out-of-range"}, headers={"Accept": "application/json"}
            ),
        ),
    )
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
    return choose(read_header(request, b"accept"), (HTML, JSON)) == JSON
