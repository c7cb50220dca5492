"""Content-Encoding: gzip, deflate and zstd, unpacked piece by piece so that no bomb fits into memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol

import zstandard

from service.errors import MalformedEncoding, UnsupportedMediaType
from service.formats.limits import Limits
from service.formats.payload import Body

ACCEPTED = ("gzip", "zstd", "deflate")
#: A piece of gzip or deflate, and the most that is unpacked of it at once.
_ZLIB_PIECE, _ZLIB_OUT = 64 * 1024, 1024 * 1024
#: Each byte of zstd can become 32 KiB, and a piece is unpacked whole: 512 bytes are at most 16 MiB.
_ZSTD_PIECE = 512
#: The window that decoders of HTTP bodies must have, and need not exceed (RFC 9659).
_ZSTD_WINDOW = 8 * 1024 * 1024
#: Beginning a member costs more than reading one: so many are free, and one more for each KiB.
_FREE_MEMBERS, _BYTES_A_MEMBER = 64, 1024


class _Member(Protocol):
    """One gzip member, zlib stream or zstd frame while it is unpacked."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


@lru_cache(maxsize=64)
def read_encoding(header: str) -> str | None:
    """The encoding that a Content-Encoding header names; None for none.

    Raises ``UnsupportedMediaType`` for any other, and for several one upon another.
    """
    encoding = header.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding == "x-gzip":  # the same, as RFC 9110 has it
        return "gzip"
    if encoding not in ACCEPTED:
        error = UnsupportedMediaType(f"the content encoding must be one of: {', '.join(ACCEPTED)}, once")
        raise error.with_headers({"Accept-Encoding": ", ".join(ACCEPTED)})
    return encoding


def unpack(body: Body, encoding: str, limits: Limits) -> Body:
    """Unpack every member of a body, holding at most one piece more than ``max_unpacked_bytes``.

    Raises ``TooLarge``, or ``MalformedEncoding`` for what is damaged, cut off or has bytes after its end.
    """
    out = bytearray()
    try:
        for piece in _pieces(body, encoding):
            out += piece
            limits.check_bytes(len(out))
    except (zlib.error, zstandard.ZstdError) as error:
        raise MalformedEncoding(f"the body is not {encoding}, or is damaged") from error
    return out


def _pieces(body: Body, encoding: str) -> Iterator[bytes]:
    """What the members of the body unpack to, in pieces of bounded size."""
    begin, feed, size = _READERS[encoding]
    view, members = memoryview(body), 0
    member = begin()
    for start in range(0, len(body), size):
        piece: bytes | memoryview = view[start : start + size]
        while len(piece):
            if member.eof:
                member, members = begin(), members + 1
                if members > _FREE_MEMBERS + len(body) // _BYTES_A_MEMBER:
                    raise MalformedEncoding("the body has too many members for its size")
            yield from feed(member, piece)
            piece = member.unused_data if member.eof else b""
    if not member.eof:
        raise MalformedEncoding("the body ends before its encoding does")


def _feed_zlib(member: _Member, piece: bytes | memoryview) -> Iterator[bytes]:
    left = piece
    while len(left) and not member.eof:
        yield member.decompress(left, _ZLIB_OUT)  # type: ignore[attr-defined]
        left = member.unconsumed_tail  # type: ignore[attr-defined]


def _feed_zstd(member: _Member, piece: bytes | memoryview) -> Iterator[bytes]:
    yield member.decompress(piece)  # type: ignore[attr-defined]


def _begin_gzip() -> _Member:
    return zlib.decompressobj(wbits=31)


def _begin_deflate() -> _Member:
    return zlib.decompressobj(wbits=15)  # RFC 9110 means the zlib format; a few clients send raw deflate data


def _begin_zstd() -> _Member:
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()


_Feed = Callable[[_Member, bytes | memoryview], Iterator[bytes]]
_READERS: dict[str, tuple[Callable[[], _Member], _Feed, int]] = {
    "gzip": (_begin_gzip, _feed_zlib, _ZLIB_PIECE),
    "deflate": (_begin_deflate, _feed_zlib, _ZLIB_PIECE),
    "zstd": (_begin_zstd, _feed_zstd, _ZSTD_PIECE),
}
