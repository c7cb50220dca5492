from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard

from calibrant.core.errors import CalibrationError
from service.errors import UnsupportedMediaType
from service.formats.body import read_encoding, unpack
from service.formats.format import BodyLimits
from tests.unit.io.refused import refused

TEXT = bytes(range(256)) * 3000
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "deflate": zlib.compress,
}
LIMITS = BodyLimits(max_unpacked_bytes=2 * len(TEXT), max_rows=1, max_classes=2, max_json_depth=3)


def _streamed(content: bytes) -> bytes:
    """A zstd frame that does not say how long it is."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(content) + packer.flush()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("GZIP ", "gzip"),
        ("x-gzip", "gzip"),
        ("zstd", "zstd"),
        ("deflate", "deflate"),
    ],
)
def test_an_encoding_is_read(header: str, expected: str | None) -> None:
    assert read_encoding(header) == expected


@pytest.mark.parametrize("header", ["br", "gzip, gzip", "gzip, zstd", "compress", "utf-8"])
def test_other_encodings_are_refused(header: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        read_encoding(header)


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize("n", [0, 1, 1000, len(TEXT)])
def test_compressed_bodies_are_unpacked(encoding: str, n: int) -> None:
    assert unpack(PACK[encoding](TEXT[:n]), encoding, LIMITS) == TEXT[:n]


@pytest.mark.parametrize("encoding", PACK)
def test_several_members_are_one_body(encoding: str) -> None:
    members = [PACK[encoding](part) for part in (TEXT[:10], b"", TEXT[10:70_000], TEXT[70_000:])]
    assert unpack(b"".join(members), encoding, LIMITS) == TEXT


def test_a_frame_that_does_not_say_its_length_is_read() -> None:
    assert unpack(_streamed(TEXT) + _streamed(b"a"), "zstd", LIMITS) == TEXT + b"a"


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize(
    "spoil", [lambda d: d[:-1], lambda d: d[: len(d) // 2], lambda d: d[:3], lambda d: b"", lambda d: d + b"x"]
)
def test_truncated_bodies_and_trailing_bytes_are_refused(encoding: str, spoil: Callable[[bytes], bytes]) -> None:
    assert refused(lambda: unpack(spoil(PACK[encoding](TEXT)), encoding, LIMITS))[0] == "malformed-encoding"


@pytest.mark.parametrize("encoding", PACK)
def test_bodies_of_another_encoding_than_named_are_refused(encoding: str) -> None:
    other = "zstd" if encoding == "gzip" else "gzip"
    for body in (TEXT, PACK[other](TEXT)):
        assert refused(lambda body=body: unpack(body, encoding, LIMITS))[0] == "malformed-encoding"  # type: ignore[misc]


@pytest.mark.parametrize("encoding", PACK)
def test_a_flood_of_empty_members_is_refused(encoding: str) -> None:
    assert refused(lambda: unpack(PACK[encoding](b"") * 5000, encoding, LIMITS))[0] == "malformed-encoding"


@pytest.mark.slow
@pytest.mark.parametrize(("encoding", "pack"), [*PACK.items(), ("zstd", _streamed)])
def test_a_bomb_is_stopped_a_piece_after_the_limit(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(400_000_000))
    tracemalloc.start()
    try:
        assert refused(lambda: unpack(bomb, encoding, LIMITS))[0] == "too-large"
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_a_window_wider_than_http_allows_is_refused() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    assert refused(lambda: unpack(packer.compress(TEXT) + packer.flush(), "zstd", LIMITS))[0] == "malformed-encoding"


def test_the_message_about_a_damaged_body_is_a_sentence() -> None:
    with pytest.raises(
        CalibrationError, match="the body cannot be decompressed: the data is not gzip, or it is damaged"
    ):
        unpack(b"junk", "gzip", LIMITS)
