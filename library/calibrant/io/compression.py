"""Decompression of gzip, deflate and Zstandard, in pieces of bounded size so that no bomb fits into memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from calibrant.errors import requires
from calibrant.io.errors import DamagedFile

#: Bytes of gzip or deflate that are read at once, and the most that is unpacked of them at once.
_ZLIB_PIECE, _ZLIB_OUT = 64 * 1024, 1024 * 1024
#: Each byte of zstd can become 32 KiB, and a piece is unpacked whole: 512 bytes are at most 16 MiB.
_ZSTD_PIECE = 512
#: Beginning a member costs more than reading one: some are free, and one more for each KiB.
_BYTES_A_MEMBER = 1024


class Allowance(NamedTuple):
    """What packed data may ask of the decoder: the window of a zstd frame in bytes, and members that are free.

    ``padding`` allows zeros between and after members, which gzip itself ignores.
    """

    window: int
    free_members: int
    padding: bool


#: Of an HTTP body: the window that decoders must have and need not exceed (RFC 9659).
HTTP = Allowance(8 << 20, 64, padding=False)
#: Of a file: the window of zstd's own command, and small files that were concatenated.
FILE = Allowance(1 << 27, 65_536, padding=True)


def unpacked(data: memoryview, encoding: str, allowance: Allowance) -> Iterator[bytes]:
    """What gzip members, zlib streams or zstd frames unpack to, in pieces; ``encoding`` is gzip, deflate or zstd.

    Raises ``DamagedFile`` for data that are damaged, cut off or followed by something else, and ``MissingExtra``.
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
                        raise DamagedFile(f"{encoding} data with too many members for their size")
                yield from feed(member, piece)
                piece = member.unused_data if member.eof else b""
    except broken as error:
        raise DamagedFile(f"not {encoding} data, or damaged") from error
    if not member.eof:
        raise DamagedFile(f"{encoding} data that are cut off")


_Feed = Callable[[Any, bytes | memoryview], Iterator[bytes]]


def _decoder(encoding: str, allowance: Allowance) -> tuple[Callable[[], Any], _Feed, int, type[Exception]]:
    """What begins a member and what feeds it, the bytes to feed at once, and the error of damaged data."""
    if encoding == "zstd":
        with requires("files", "a file packed by Zstandard", instead="or pack it by gzip"):
            import zstandard

        def begin() -> Any:
            return zstandard.ZstdDecompressor(max_window_size=allowance.window).decompressobj()

        return begin, _feed_zstd, _ZSTD_PIECE, zstandard.ZstdError
    # RFC 9110 means the zlib format by deflate; a few clients send raw deflate data.
    bits = 31 if encoding == "gzip" else 15
    return lambda: zlib.decompressobj(wbits=bits), _feed_zlib, _ZLIB_PIECE, zlib.error


def _feed_zlib(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    while len(piece) and not member.eof:
        yield member.decompress(piece, _ZLIB_OUT)
        piece = member.unconsumed_tail


def _feed_zstd(member: Any, piece: bytes | memoryview) -> Iterator[bytes]:
    yield member.decompress(piece)
