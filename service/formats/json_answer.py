"""Arrays as JSON, in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import orjson

from calibrant.cells import Floats

#: Numbers that are written at once.
_BLOCK = 1 << 16


def write_json(fields: Mapping[str, str], arrays: Mapping[str, Floats]) -> Iterator[bytes]:
    """One object of the fields and the arrays, (n,) as lists of numbers, (n, K) as lists of lists."""
    yield orjson.dumps(fields)[:-1]
    before = b"," if fields else b""
    for name, array in arrays.items():
        yield before + orjson.dumps(name) + b":["
        before = b","
        height = max(1, _BLOCK // max(1, array[:1].size))
        for start in range(0, len(array), height):
            rows = np.ascontiguousarray(array[start : start + height])
            piece = orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
            yield b"," + piece if start else piece
        yield b"]"
    yield b"}"
