"""Decompression of gzip, deflate and Zstandard in pieces of bounded size, as a defence against decompression bombs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from calibrant.errors import requires
from calibrant.io.errors import DamagedFile

#: Input and output bytes of one step of gzip or deflate.
_ZLIB_PIECE, _ZLIB_OUT = 64 * 1024, 1024 * 1024
#: Input bytes of one step of zstd, which decompresses all of it: a byte can become 32 KiB, so 512 bytes at most 16 MiB.
_ZSTD_PIECE = 512
#: Starting a member is expensive: on top of the free ones, one is allowed for each KiB of input.
_BYTES_A_MEMBER = 1024


class Allowance(NamedTuple):
    """Limits of compressed data: the window of a zstd frame in bytes, and the number of free members.

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
    """Decompress gzip members, zlib streams or zstd frames, in pieces; ``encoding`` is gzip, deflate or zstd.

    Raises ``DamagedFile`` if the data is damaged, truncated or followed by other data, and ``MissingExtra``.
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
    # In RFC 9110, "deflate" is the zlib format; a few clients send raw deflate data instead, which is refused.
    bits = 31 if encoding == "gzip" else 15
    return lambda: zlib.decompressobj(wbits=bits), _feed_zlib, _ZLIB_PIECE, zlib.error


def _feed_zlib(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    while len(piece) and not member.eof:
        yield member.decompress(piece, _ZLIB_OUT)
        piece = member.unconsumed_tail


def _feed_zstd(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    yield member.decompress(piece)
