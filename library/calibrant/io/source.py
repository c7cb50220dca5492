"""Files, streams and bodies as seekable files or as buffers without a copy, and decompressed in bounded pieces."""

from __future__ import annotations

import bz2
import contextlib
import errno
import io
import lzma
import mmap
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from calibrant.core.errors import requires
from calibrant.io.errors import DamagedFile, FileTooLarge, NoRoom, UnreadableFile
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


# --- Decompression of gzip, deflate, bzip2, xz and Zstandard: the bounds are a defence against decompression bombs

#: Input and output bytes of one step of all but zstd.
_PIECE, _OUT = 64 * 1024, 1024 * 1024
#: Input bytes of one step of zstd, which decompresses all of it: a byte can become 32 KiB, so 512 bytes at most 16 MiB.
_ZSTD_PIECE = 512
#: Starting a member is expensive: on top of the free ones, one is allowed for each KiB of input.
_BYTES_A_MEMBER = 1024
#: How the errors of xz and zstd end if the window is larger than allowed.
_LARGE_WINDOWS = ("Memory usage limit exceeded", "Frame requires too much memory for decoding")


class Allowance(NamedTuple):
    """Limits of compressed data: the window of a zstd or xz stream in bytes, and the number of free members.

    ``padding`` allows zeros between and after members, which the gzip command ignores.
    """

    window: int
    free_members: int
    padding: bool


#: For an HTTP body: the window that decoders must support; they may refuse larger ones (RFC 9659).
HTTP = Allowance(8 << 20, 64, padding=False)
#: For a file: the window of the zstd command, and many concatenated small files.
FILE = Allowance(1 << 27, 65_536, padding=True)


def unpacked(data: memoryview, encoding: str, allowance: Allowance) -> Iterator[bytes]:
    """Decompress the members of ``encoding`` (gzip, deflate, bzip2, xz or zstd) in pieces.

    Raises ``DamagedFile`` if the data is damaged, truncated or followed by other data, ``FileTooLarge`` for a window
    beyond the allowance, and ``MissingExtra``.
    """
    begin, feed, size, broken = _decoder(encoding, allowance)
    member, members = begin(), 0
    try:
        for start in range(0, len(data), size):
            piece: bytes | memoryview = data[start : start + size]
            while len(piece):
                if member.eof:
                    if allowance.padding and not (piece := bytes(piece).lstrip(b"\0")):
                        break
                    member, members = begin(), members + 1
                    if members > allowance.free_members + len(data) // _BYTES_A_MEMBER:
                        raise DamagedFile(f"the {encoding} data has too many members for its size")
                yield from feed(member, piece)
                piece = member.unused_data if member.eof else b""
    except broken as error:
        if str(error).endswith(_LARGE_WINDOWS):
            window = allowance.window >> 20
            raise FileTooLarge(f"the {encoding} data has a dictionary or window of more than {window} MiB") from error
        raise DamagedFile(f"the data is not {encoding}, or it is damaged") from error
    if not member.eof:
        raise DamagedFile(f"the {encoding} data is truncated")


_Feed = Callable[[Any, bytes | memoryview], Iterator[bytes]]


def _decoder(encoding: str, allowance: Allowance) -> tuple[Callable[[], Any], _Feed, int, type[Exception]]:
    """Return the functions that start and feed a member, the input bytes of a step, and the error of damaged data."""
    if encoding == "zstd":
        with requires("files", "a Zstandard file", instead="or compress it with gzip"):
            import zstandard

        def begin() -> Any:
            return zstandard.ZstdDecompressor(max_window_size=allowance.window).decompressobj()

        return begin, _feed_zstd, _ZSTD_PIECE, zstandard.ZstdError
    if encoding == "bzip2":
        return bz2.BZ2Decompressor, _feed_bounded, _PIECE, OSError
    if encoding == "xz":
        # Its window is a part of the memory; the rest is less than a mebibyte.
        memory = allowance.window + (1 << 20)
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memory), _feed_bounded, _PIECE, lzma.LZMAError
    # In RFC 9110, "deflate" is the zlib format; a few clients send raw deflate data instead, which is refused.
    bits = 31 if encoding == "gzip" else 15
    return lambda: zlib.decompressobj(wbits=bits), _feed_zlib, _PIECE, zlib.error


def _feed_zlib(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    while len(piece) and not member.eof:
        yield member.decompress(piece, _OUT)
        piece = member.unconsumed_tail


def _feed_bounded(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    """Feed a member of bzip2 or xz, which keeps the input that it has not decompressed."""
    yield member.decompress(piece, _OUT)
    while not member.eof and not member.needs_input:
        yield member.decompress(b"", _OUT)


def _feed_zstd(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    yield member.decompress(piece)
