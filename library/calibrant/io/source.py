"""A path or a stream as a file that can be read again from its beginning."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from calibrant.io.bounds import Bounds
from calibrant.io.errors import FileTooLarge, NoRoom, UnreadableFile

_BLOCK = 1 << 20
#: What a stream that cannot seek may keep in memory; beyond it is kept in a file without a name.
_IN_MEMORY = 32 << 20


class Kept(io.RawIOBase):
    """A file that stays open when what reads it is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def opened(source: Path | BinaryIO, bounds: Bounds) -> Iterator[BinaryIO]:
    """A source as a seekable file of bounded size; a stream of the caller's stays open.

    Raises ``UnreadableFile`` or ``FileTooLarge``. A stream that can seek is read from its beginning.
    """
    try:
        if isinstance(source, Path):
            with source.open("rb") as file:
                yield _checked(file, bounds)
        elif source.seekable():
            yield _checked(source, bounds)
        else:
            with spooled() as file:
                copy(source, file, bounds)
                yield file
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it cannot be read"
        raise UnreadableFile(f"the file cannot be read: {reason}") from error


def is_full(error: OSError) -> bool:
    """Whether nothing more can be written: the volume, a quota or the largest size of a file is reached."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def spooled() -> BinaryIO:
    """An empty file for what is read but once: in memory while it is small."""
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))


def copy(source: BinaryIO, target: BinaryIO, bounds: Bounds) -> None:
    """Copy what is left of a stream, and no more than the limit, into a ``spooled`` file; raises ``NoRoom``."""
    size = 0
    while block := source.read(_BLOCK):
        size += len(block)
        bounds.check_bytes(size)
        if size > _IN_MEMORY and bounds.spool is not None:
            bounds.spool(size)
        _write(block, target)
    target.seek(0)


def _write(block: bytes, target: BinaryIO) -> None:
    try:
        target.write(block)
    except OSError as error:
        if not is_full(error):
            raise
        raise NoRoom(f"the folder of temporary files is full: {tempfile.gettempdir()}") from error


def _checked(file: BinaryIO, bounds: Bounds) -> BinaryIO:
    try:
        bounds.check_bytes(file.seek(0, io.SEEK_END))
    except FileTooLarge:
        file.seek(0)
        raise
    file.seek(0)
    return file
