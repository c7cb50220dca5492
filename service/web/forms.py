"""What a form of the page sends: bounded, and answered only where it came from the page itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import FormData
from starlette.formparsers import FormParser, MultiPartException

from service.errors import RequestError, UnsupportedMediaType
from service.formats.body import bounded
from service.web.forgery import HEADER, check_origin, check_token
from service.web.visit import Visiting

#: The field in which a form without scripts sends its token.
FIELD = "csrf_token"
FIELDS = "application/x-www-form-urlencoded"
#: Fields of a form, and their bytes in all.
_MOST_FIELDS = 200
_MOST_BYTES = 64 * 1024
_READING = ("GET", "HEAD", "OPTIONS")


async def form_of(request: Request) -> FormData:
    """The fields of a form without files; nothing of a request that reads.

    Raises ``TooLarge``, ``UnsupportedMediaType`` and ``RequestError`` for a form that cannot be read.
    """
    return FormData() if request.method in _READING else await _read(request)


Form = Annotated[FormData, Depends(form_of)]


async def own_form(request: Request, visit: Visiting, form: Form) -> None:
    """Refuse what did not come from a page of this service; raises ``ForgedRequest``.

    A form that opens a session has no token yet: for it the origin alone is looked at.
    """
    if request.method in _READING:
        return
    check_origin(request.scope)
    if visit.visitor.token is not None:
        sent = request.headers.get(HEADER) or form.get(FIELD)
        check_token(sent if isinstance(sent, str) else None, visit.visitor.token)


def page_router() -> APIRouter:
    """A router of pages: not among the calls of the API, and answering the page's own forms alone."""
    return APIRouter(prefix="/ui", include_in_schema=False, dependencies=[Depends(own_form)])


def text_of(form: FormData, name: str) -> str:
    """A field of a form without the space around it; empty where it is missing or a file."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts_of(form: FormData, name: str) -> list[str]:
    """Every value of a field that is not empty."""
    return [value.strip() for value in form.getlist(name) if isinstance(value, str) and value.strip()]


async def _read(request: Request) -> FormData:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FIELDS:
        raise UnsupportedMediaType(f"the content type must be {FIELDS}")
    body = await bounded(request, _MOST_BYTES)

    async def chunks() -> AsyncGenerator[bytes, None]:
        yield bytes(body)

    try:
        return await FormParser(request.headers, chunks(), max_fields=_MOST_FIELDS).parse()
    except MultiPartException:
        raise RequestError("the form cannot be read") from None
