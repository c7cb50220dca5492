"""Paths, streams and bodies as seekable files or as buffers without a copy."""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from calibrant.io.errors import FileTooLarge, NoRoom, UnreadableFile
from calibrant.io.limits import FileLimits

#: Bytes per write; files larger than this are memory-mapped.
_BLOCK = 1 << 20
#: Bytes of a stream without seek that are kept in memory; more go to an unnamed temporary file.
_IN_MEMORY = 32 << 20


class OpenFile(io.RawIOBase):
    """A file that stays open when the wrapper that reads it is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class View(io.RawIOBase):
    """A readable, seekable file over bytes in memory, without a copy."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the current position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; raises ``ValueError`` for a negative one."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        if base + offset < 0:
            raise ValueError("negative position")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self._view[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def bytes_of(file: BinaryIO) -> memoryview:
    """Return the bytes of a file: memory-mapped if it is large and on a disk, else read into memory."""
    if file.seek(0, io.SEEK_END) > _BLOCK:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    file.seek(0)
    return memoryview(file.read())


@contextlib.contextmanager
def opened(source: Path | BinaryIO, limits: FileLimits) -> Iterator[BinaryIO]:
    """Open a source as a seekable file of bounded size; a stream of the caller stays open.

    A seekable stream is read from its beginning. Raises ``UnreadableFile`` or ``FileTooLarge``.
    """
    try:
        if isinstance(source, Path):
            with source.open("rb") as file:
                yield _checked(file, limits)
        elif source.seekable():
            yield _checked(source, limits)
        else:
            with spooled() as file:
                write_blocks(blocks_of(source), file, limits)
                yield file
    except OSError as error:
        reason = f": {os.strerror(error.errno)}" if error.errno else ""
        raise UnreadableFile(f"the file cannot be read{reason}") from error


def is_full(error: OSError) -> bool:
    """Whether a write failed for lack of space: the volume, a quota or the maximum file size is reached."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def spooled() -> BinaryIO:
    """Create an empty temporary file, in memory while it is small."""
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))


def blocks_of(source: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a stream in blocks."""
    while block := source.read(_BLOCK):
        yield block


def write_blocks(blocks: Iterable[bytes], target: BinaryIO, limits: FileLimits) -> None:
    """Write blocks of bytes to a ``spooled`` file; raises ``NoRoom``, or ``FileTooLarge`` above the limit."""
    size, waiting = 0, bytearray()
    for block in blocks:
        size += len(block)
        limits.check_bytes(size)
        if size <= _IN_MEMORY:
            limits.reserve(len(block))
        waiting += block
        if len(waiting) >= _BLOCK:
            _flush(waiting, size, target, limits)
    _flush(waiting, size, target, limits)
    target.seek(0)


def _flush(waiting: bytearray, size: int, target: BinaryIO, limits: FileLimits) -> None:
    if waiting and size > _IN_MEMORY and limits.spool is not None:
        limits.spool(size)
    try:
        target.write(waiting)
    except OSError as error:
        if not is_full(error):
            raise
        raise NoRoom(f"no space left for temporary files in {tempfile.gettempdir()}") from error
    waiting.clear()


def _checked(file: BinaryIO, limits: FileLimits) -> BinaryIO:
    try:
        limits.check_bytes(file.seek(0, io.SEEK_END))
    except FileTooLarge:
        file.seek(0)
        raise
    file.seek(0)
    return file
