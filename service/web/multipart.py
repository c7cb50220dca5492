"""A form with a file: read as it comes, the file spooled to disk, all of it within the limit of bodies."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from fastapi import Request
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from service.errors import RequestError, SpoolFull, TooLarge, UnsupportedMediaType
from service.guard import Bodies, Places
from service.spools import Spool, Spools
from service.web.forgery import HEADER, check_token
from service.web.forms import FIELD
from tabular.bounds import LIGHT_BYTES
from tabular.source import is_full

#: A form has no more fields, none of them longer, than a person who confirms the labels of a thousand classes sends.
_MOST_FIELDS, _FIELD_BYTES = 4096, 64 * 1024
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
        super().__init__(headers, chunks, max_files=1, max_fields=_MOST_FIELDS, max_part_size=_FIELD_BYTES)
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
    if read > LIGHT_BYTES:  # a request with a larger file is heavy, and takes one of few places
        Places.take_for(request.scope)
