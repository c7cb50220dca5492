"""Files packed by gzip or Zstandard, unpacked into a file of bounded size."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

import zstandard

from tabular.bounds import Bounds
from tabular.errors import DamagedFile
from tabular.source import Kept, copy

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: What a frame may ask to be remembered: 128 MiB, as zstd's own command.
_MAX_WINDOW = 1 << 27

Unpack = Callable[[BinaryIO, BinaryIO, Bounds], None]


def packing(head: bytes) -> Unpack | None:
    """What unpacks a file that begins so, to no more than the limit; None for one that is not packed."""
    if head.startswith(_GZIP):
        return _gunzip
    return _unzstd if head.startswith(_ZSTD) else None


def _gunzip(file: BinaryIO, target: BinaryIO, bounds: Bounds) -> None:
    file.seek(0)
    try:
        with gzip.GzipFile(fileobj=Kept(file)) as plain:
            copy(cast(BinaryIO, plain), target, bounds)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedFile("the file is packed by gzip, and damaged or cut off") from error


def _unzstd(file: BinaryIO, target: BinaryIO, bounds: Bounds) -> None:
    file.seek(0)
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
            cast(BinaryIO, Kept(file)), read_across_frames=True
        )
        with reader as plain:
            copy(cast(BinaryIO, plain), target, bounds)
    except zstandard.ZstdError as error:
        raise DamagedFile("the file is packed by Zstandard, and damaged or cut off") from error
