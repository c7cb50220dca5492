"""Decompression of gzip, deflate, bzip2, xz and Zstandard in pieces of bounded size.

The bounds are a defence against decompression bombs.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from calibrant.core.errors import requires
from calibrant.io.errors import DamagedFile, FileTooLarge

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
