"""What a form of the page sends: bounded, and answered only where it came from the page itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import FormData
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from service.errors import RequestError, TooLarge, UnsupportedMediaType
from service.head import HEAD_ONLY
from service.web.forgery import HEADER, check_origin, check_token
from service.web.visit import Visiting

#: The field in which a form without scripts sends its token.
FIELD = "csrf_token"
FILES, FIELDS = "multipart/form-data", "application/x-www-form-urlencoded"
#: Fields of a form, their bytes in all where it has no file, and those of one field.
_MOST_FIELDS = 200
_MOST_BYTES = 64 * 1024
_READING = ("GET", "HEAD", "OPTIONS")


class _TooMuch(MultiPartException):
    """More bytes than a form may have: one that the parser knows, so that it closes the files that it opened."""


async def form_of(request: Request) -> AsyncIterator[FormData]:
    """The fields of a form; nothing of a request that reads. A file may be as large as any body, the rest is small.

    Raises ``TooLarge``, ``UnsupportedMediaType`` and ``RequestError`` for a form that cannot be read.
    """
    if request.method in _READING or HEAD_ONLY in request.scope:
        yield FormData()
        return
    form = await _read(request)
    try:
        yield form
    finally:
        await form.close()


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
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == FILES:
            most = request.app.state.process.settings.max_body_bytes
            parser = MultiPartParser(request.headers, _bounded(request, most), max_files=1, max_fields=_MOST_FIELDS)
            return await parser.parse()
        if kind == FIELDS:
            return await FormParser(request.headers, _bounded(request, _MOST_BYTES), max_fields=_MOST_FIELDS).parse()
    except _TooMuch as error:
        raise TooLarge(error.message) from None
    except MultiPartException:
        raise RequestError("the form cannot be read") from None
    raise UnsupportedMediaType(f"the content type must be one of: {FIELDS}, {FILES}")


async def _bounded(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body, part by part, up to so many bytes."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > most:
        raise _TooMuch(f"the body may have at most {most} bytes")
    got, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        got += len(chunk)
        if got > most:
            raise _TooMuch(f"the body may have at most {most} bytes")
        yield chunk
    yield b""
