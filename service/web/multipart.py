"""A form with a file: read as it comes, the file spooled to disk, all of it within the limit of bodies."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from service.errors import RequestError, TooLarge, UnsupportedMediaType
from service.guard import Places

#: A form has no more fields, none of them longer, than a person who confirms the labels of a thousand classes sends.
_MOST_FIELDS, _FIELD_BYTES = 4096, 64 * 1024
#: A request with a larger file is heavy, and takes one of few places.
_LIGHT_BYTES = 1024 * 1024


@contextlib.asynccontextmanager
async def multipart(request: Request, limit: int) -> AsyncIterator[FormData]:
    """The fields of a form and its one file, which is forgotten on the way out.

    Raises ``TooLarge`` for more than ``limit`` bytes, ``UnsupportedMediaType`` for another form of body, and ``Busy``.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise UnsupportedMediaType("a file is sent by a form, as multipart/form-data")
    chunks = _bounded(request, limit)
    parser = MultiPartParser(request.headers, chunks, max_files=1, max_fields=_MOST_FIELDS, max_part_size=_FIELD_BYTES)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise RequestError("the form cannot be read: it is cut off, or has more fields than it may") from error
    finally:
        await chunks.aclose()
    try:
        yield form
    finally:
        await form.close()


def file_of(form: FormData, name: str) -> UploadFile | None:
    """The file of a field; None where none was chosen."""
    file = form.get(name)
    return file if isinstance(file, UploadFile) and (file.filename or file.size) else None


async def _bounded(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    read = 0
    async for chunk in request.stream():
        read += len(chunk)
        if read > limit:
            raise TooLarge(f"the file may have at most {limit:,} bytes, which is the limit of this service")
        if read > _LIGHT_BYTES:
            Places.take_for(request.scope)
        yield chunk
