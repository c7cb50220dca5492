"""Forms of the page, with files or without: bounded, and answered only if they come from the page itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from calibrant.io.limits import LIGHT_BYTES
from calibrant.io.source import is_full
from service.errors import RequestError, SpoolFull, TooLarge, UnsupportedMediaType
from service.formats.body import bounded
from service.guard import Bodies, Slots
from service.shares import Spool, Spools
from service.web.visit import Visiting
from service.web.visitor import HEADER, check_origin, check_token

# --- What a form of the page sends: bounded, and answered only where it came from the page itself

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


# --- A form with a file: read as it comes, the file spooled to disk, all of it within the limit of bodies

#: A form has no more fields, none of them longer, than a person who confirms the labels of a thousand classes sends.
_MOST_PARTS, _FIELD_BYTES = 4096, 64 * 1024
#: Bytes of a file that are kept in memory; a larger file is on the disk.
_IN_MEMORY: Final = 1024 * 1024


@contextlib.asynccontextmanager
async def multipart(request: Request, limit: int, token: str | None, spools: Spools) -> AsyncIterator[FormData]:
    """The fields of a form and its one file, which is forgotten on the way out.

    A form without the ``token`` is refused before its file is read: it goes with the headers, or as a field before
    the file. None is none. Raises ``ForgedRequest``, ``TooLarge`` for more than ``limit`` bytes, ``RequestError`` for a
    form that is cut off, ``UnsupportedMediaType`` for another form of body, ``SpoolFull``, and ``Busy``.
    """
    if token is not None and (sent := request.headers.get(HEADER)):
        check_token(sent, token)
        token = None
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise UnsupportedMediaType("a file is sent by a form, as multipart/form-data")
    with spools.spool(request.scope["state"]["caller"]) as spool:
        chunks = _bounded(request, limit, spool)
        parser = _Parser(request.headers, chunks, token)
        try:
            form = await parser.parse()
        except MultiPartException as error:
            raise RequestError("the form cannot be read: it is cut off, or has more fields than it may") from error
        except OSError as error:
            if not is_full(error):
                raise
            raise SpoolFull("the volume of temporary files is full") from error
        finally:
            await chunks.aclose()
        try:
            parser.check_whole()
            yield form
        finally:
            await form.close()


def file_of(form: FormData, name: str) -> UploadFile | None:
    """The file of a field; None where none was chosen."""
    file = form.get(name)
    return file if isinstance(file, UploadFile) and (file.filename or file.size) else None


class _Parser(MultiPartParser):
    """A parser that knows whether it has seen the token, and the end."""

    spool_max_size = _IN_MEMORY

    def __init__(self, headers: Headers, chunks: AsyncGenerator[bytes, None], token: str | None) -> None:
        super().__init__(headers, chunks, max_files=1, max_fields=_MOST_PARTS, max_part_size=_FIELD_BYTES)
        self._unseen = token
        self._ended = False

    def on_headers_finished(self) -> None:
        """Refuse a file that comes before the token."""
        super().on_headers_finished()
        if self._current_part.file is not None:
            self._refuse_unseen()

    def on_part_end(self) -> None:
        """Look at the token."""
        super().on_part_end()
        name, value = self.items[-1]
        if name == FIELD and self._unseen is not None and isinstance(value, str):
            check_token(value.strip(), self._unseen)
            self._unseen = None

    def on_end(self) -> None:
        """Note that the last boundary was there."""
        self._ended = True

    def check_whole(self) -> None:
        """Raise ``RequestError`` for a form that is cut off, or ``ForgedRequest`` for one without its token."""
        if not self._ended:
            for file in self._files_to_close_on_error:  # one that is cut off is not in the form
                file.close()
            raise RequestError("the form is cut off: not all of the file arrived; send it again")
        self._refuse_unseen()

    def _refuse_unseen(self) -> None:
        if self._unseen is not None:
            check_token(None, self._unseen)


async def _bounded(request: Request, limit: int, spool: Spool) -> AsyncGenerator[bytes, None]:
    """The parts of a body, for which there is room; a large one takes its place once all of it is there."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and _IN_MEMORY < int(stated) <= limit:
        spool.reserve(int(stated))
    read = 0
    async for chunk in request.stream():
        read += len(chunk)
        if read > limit:
            raise TooLarge(f"the file may have at most {limit:,} bytes, which is the limit of this service")
        Bodies.hold_for(request.scope, min(read, _IN_MEMORY))
        if read > _IN_MEMORY:
            spool.grow(read)
        yield chunk
    if read > LIGHT_BYTES:  # a request with a larger file is heavy, and takes one of few slots
        Slots.take_for(request.scope)
