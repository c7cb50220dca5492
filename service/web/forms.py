"""Forms of the web page, with and without files: limited, and accepted only from the page itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from calibrant.io.limits import LIGHT_BYTES
from calibrant.io.source import is_full
from schemas.keys import Scope
from service.calls import Access, Calls
from service.errors import RequestError, SpoolFull, TooLarge, UnsupportedMediaType
from service.formats.body import INLINE_BYTES, bounded
from service.guard import LightBodies, RequestMemory, Slots
from service.shares import Spool, Spools
from service.web.visit import Visiting
from service.web.visitor import HEADER, check_origin, check_token

# --- Forms without files

#: The field with the CSRF token, for forms without scripts.
FIELD = "csrf_token"
FIELDS = "application/x-www-form-urlencoded"
#: Maximum number of fields of a form, and of their bytes.
_MOST_FIELDS = 200
_MOST_BYTES = 64 * 1024
_READING = ("GET", "HEAD", "OPTIONS")


async def form_of(request: Request) -> FormData:
    """Read the fields of a form without files; empty for a request without a body.

    Raises ``TooLarge``, ``UnsupportedMediaType`` and ``RequestError`` for an unreadable form.
    """
    return FormData() if request.method in _READING else await _read(request)


Form = Annotated[FormData, Depends(form_of)]


async def own_form(request: Request, visit: Visiting, form: Form) -> None:
    """Reject a form that did not come from a page of this service; raises ``ForgedRequest``.

    A form that opens a session has no token yet, so only its origin is checked.
    """
    if request.method in _READING:
        return
    check_origin(request.scope)
    if visit.visitor.token is not None:
        sent = request.headers.get(HEADER) or form.get(FIELD)
        check_token(sent if isinstance(sent, str) else None, visit.visitor.token)


def page_calls(*, reads: Access = "maps:read", writes: Scope = "maps:write") -> Calls:
    """Calls of pages, which are restricted to forms of the page itself."""
    return Calls(reads=reads, writes=writes, dependencies=[Depends(own_form)])


def text_of(form: FormData, name: str) -> str:
    """A field of a form without surrounding whitespace; empty if missing or a file."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts_of(form: FormData, name: str) -> list[str]:
    """All non-empty values of a field."""
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


# --- Forms with a file: read as a stream, with the file spooled to disk, within the limit of bodies

#: Maximum fields of a form and their bytes, enough to confirm the labels of a thousand classes.
_MOST_PARTS, _FIELD_BYTES = 4096, 64 * 1024
#: Bytes of a file that are kept in memory; larger files go to disk.
_IN_MEMORY: Final = 1024 * 1024


@contextlib.asynccontextmanager
async def multipart(request: Request, limit: int, token: str | None, spools: Spools) -> AsyncIterator[FormData]:
    """Read the fields of a form and its one file, which is deleted at the end of the context.

    A form without the ``token`` is rejected before its file is read: the token must be in a header, or in a field
    before the file. With None no token is needed. Raises ``ForgedRequest``, ``TooLarge`` for more than ``limit`` bytes,
    ``RequestError`` for a truncated form, ``UnsupportedMediaType`` for another content type, ``SpoolFull``, and
    ``Busy``.
    """
    if token is not None and (sent := request.headers.get(HEADER)):
        check_token(sent, token)
        token = None
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise UnsupportedMediaType("the content type must be multipart/form-data")
    with spools.spool(request.scope["state"]["caller"]) as spool:
        chunks = _bounded(request, limit, spool)
        parser = _Parser(request.headers, chunks, token)
        try:
            form = await parser.parse()
        except MultiPartException as error:
            raise RequestError("the form cannot be read: it is truncated or has too many fields") from error
        except OSError as error:
            if not is_full(error):
                raise
            raise SpoolFull("the volume of temporary files is full") from error
        finally:
            await chunks.aclose()
        try:
            parser.check_whole()
            size = sum(part.size or 0 for part in form.values() if isinstance(part, UploadFile))
            if INLINE_BYTES < size <= LIGHT_BYTES:
                await LightBodies.take_for(request.scope, size)
            yield form
        finally:
            await form.close()


def file_of(form: FormData, name: str) -> UploadFile | None:
    """The file of a field; None if no file was chosen."""
    file = form.get(name)
    return file if isinstance(file, UploadFile) and (file.filename or file.size) else None


class _Parser(MultiPartParser):
    """A parser that checks for the token, and for the end of the form."""

    spool_max_size = _IN_MEMORY

    def __init__(self, headers: Headers, chunks: AsyncGenerator[bytes, None], token: str | None) -> None:
        super().__init__(headers, chunks, max_files=1, max_fields=_MOST_PARTS, max_part_size=_FIELD_BYTES)
        self._unchecked = token
        self._ended = False

    def on_headers_finished(self) -> None:
        """Reject a file that precedes the token."""
        super().on_headers_finished()
        if self._current_part.file is not None:
            self._refuse_unchecked()

    def on_part_end(self) -> None:
        """Check the token."""
        super().on_part_end()
        name, value = self.items[-1]
        if name == FIELD and self._unchecked is not None and isinstance(value, str):
            check_token(value.strip(), self._unchecked)
            self._unchecked = None

    def on_end(self) -> None:
        """Note that the final boundary was received."""
        self._ended = True

    def check_whole(self) -> None:
        """Raise ``RequestError`` for a truncated form, or ``ForgedRequest`` for a form without its token."""
        if not self._ended:
            for file in self._files_to_close_on_error:  # a truncated file is not in the form
                file.close()
            raise RequestError("the form is incomplete: part of the file is missing; send it again")
        self._refuse_unchecked()

    def _refuse_unchecked(self) -> None:
        if self._unchecked is not None:
            check_token(None, self._unchecked)


async def _bounded(request: Request, limit: int, spool: Spool) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a body while there is space; a large file takes a slot for heavy work once complete."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and _IN_MEMORY < int(stated) <= limit:
        spool.reserve(int(stated))
    read = 0
    async for chunk in request.stream():
        read += len(chunk)
        if read > limit:
            raise TooLarge(f"the file may have at most {limit:,} bytes, the limit of this service")
        RequestMemory.hold_for(request.scope, min(read, _IN_MEMORY))
        if read > _IN_MEMORY:
            spool.grow(read)
        yield chunk
    if read > LIGHT_BYTES:  # a request with a large file counts as heavy
        await Slots.wait_for(request.scope)
