"""Tallies as bytes: a header with a checksum, and columns as narrow as they may be."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from calibrant.tallies.gathering import Gathered

_MAGIC = b"T1"
#: What it is, the bytes of a step and of a count, how many entries, the CRC-32 of the rest; up to 16 bytes.
_HEADER = struct.Struct("<2sBBII4x")
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4"}


def written(entries: Gathered, *, packed: bool) -> bytes:
    """The bytes of ascending distinct keys with their rows and sums: the sums, the rows, the steps between keys.

    Rows and steps take 4 bytes each, or, ``packed``, as few as the largest asks for.
    """
    keys, rows, p_sum = entries
    if rows.max(initial=0) >= 2**32:
        raise OverflowError("a tally holds at most 2^32 - 1 rows of a kind")
    steps = np.diff(keys, prepend=np.uint32(0))
    widths = [_width(int(column.max(initial=0))) if packed else 4 for column in (steps, rows)]
    columns = (column.astype(_WIDTHS[width]) for column, width in zip((rows, steps), widths[::-1], strict=True))
    body = b"".join([p_sum.astype("<f8").tobytes(), *(column.tobytes() for column in columns)])
    return _HEADER.pack(_MAGIC, *widths, len(keys), zlib.crc32(body)) + body


def read(data: bytes) -> Gathered:
    """What ``written`` wrote; raises ``ValueError`` for anything else."""
    if len(data) < _HEADER.size or data[:2] != _MAGIC:
        raise ValueError("these bytes are no tally")
    _, of_step, of_rows, m, checksum = _HEADER.unpack_from(data)
    if not {of_step, of_rows} <= _WIDTHS.keys() or len(data) != _HEADER.size + m * (8 + of_step + of_rows):
        raise ValueError("these bytes are no whole tally")
    if zlib.crc32(memoryview(data)[_HEADER.size :]) != checksum:
        raise ValueError("these bytes were a tally, and have changed")
    p_sum = np.frombuffer(data, "<f8", m, _HEADER.size)
    rows = np.frombuffer(data, _WIDTHS[of_rows], m, _HEADER.size + 8 * m).astype(np.int64)
    steps = np.frombuffer(data, _WIDTHS[of_step], m, _HEADER.size + (8 + of_rows) * m)
    return np.cumsum(steps, dtype=np.uint32), rows, p_sum


def _width(largest: int) -> int:
    return next(width for width in _WIDTHS if largest < 256**width)
