"""Tallies as bytes: a header with a checksum, and columns as narrow as they may be."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from calibrant.tallies.gathering import Gathered

_MAGIC = b"T1"
#: What it is, the bytes of a step and of a count, how many entries; then the CRC-32 of all else; up to 16 bytes.
_HEADER, _CHECKSUM = struct.Struct("<2sBBI"), struct.Struct("<I4x")
_BODY = _HEADER.size + _CHECKSUM.size
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def written(entries: Gathered, *, packed: bool) -> bytes:
    """The bytes of ascending distinct keys with their rows and sums: the sums, the rows, the steps between keys.

    Rows and steps take 4 bytes each, rows 8 where there are more than 2^32 - 1 of a kind; or, ``packed``, as few as the
    largest asks for.
    """
    keys, rows, p_sum = entries
    steps = np.diff(keys, prepend=np.uint32(0))
    widths = [max(_width(int(column.max(initial=0))), 1 if packed else 4) for column in (steps, rows)]
    columns = (column.astype(_WIDTHS[width]) for column, width in zip((rows, steps), widths[::-1], strict=True))
    body = b"".join([p_sum.astype("<f8").tobytes(), *(column.tobytes() for column in columns)])
    head = _HEADER.pack(_MAGIC, *widths, len(keys))
    return head + _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(head))) + body


def read(data: bytes) -> Gathered:
    """What ``written`` wrote; raises ``ValueError`` for anything else."""
    if len(data) < _BODY or data[:2] != _MAGIC:
        raise ValueError("these bytes are no tally")
    _, of_step, of_rows, m = _HEADER.unpack_from(data)
    if not {of_step, of_rows} <= _WIDTHS.keys() or len(data) != _BODY + m * (8 + of_step + of_rows):
        raise ValueError("these bytes are no whole tally")
    whole = zlib.crc32(memoryview(data)[_BODY:], zlib.crc32(data[: _HEADER.size]))
    if _CHECKSUM.unpack_from(data, _HEADER.size) != (whole,):
        raise ValueError("these bytes were a tally, and have changed")
    p_sum = np.frombuffer(data, "<f8", m, _BODY)
    rows = np.frombuffer(data, _WIDTHS[of_rows], m, _BODY + 8 * m).astype(np.int64)
    steps = np.frombuffer(data, _WIDTHS[of_step], m, _BODY + (8 + of_rows) * m)
    return np.cumsum(steps, dtype=np.uint32), rows, p_sum


def _width(largest: int) -> int:
    return next(width for width in _WIDTHS if largest < 256**width)
