from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from service.formats.catalogue import WRITERS
from tests.body_formats import ARROW, JSON, NPZ

RANDOM = np.random.default_rng(0)
ARRAYS: dict[str, dict[str, Any]] = {
    "one row": {"predictions": np.array([0.25])},
    "bounds": {name: RANDOM.random(10) for name in ("predictions", "p0", "p1")},
    "vectors": {"predictions": RANDOM.random((5, 3))},
    "fortran": {"predictions": np.asfortranarray(RANDOM.random((7, 2)))},
    "many": {"predictions": RANDOM.random(300_000), "p0": RANDOM.random(300_000)},
    "many vectors": {"predictions": RANDOM.random((100_000, 7))},
}


def _read(kind: str, body: bytes) -> tuple[dict[str, str], dict[str, Any]]:
    """The fields and arrays of an answer, by the reader that a caller would take."""
    if kind == JSON:
        document = json.loads(body)
        return {"map": document.pop("map")}, {name: np.array(column) for name, column in document.items()}
    if kind == NPZ:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            return {}, dict(archive)
    table = pa.ipc.open_stream(body).read_all()
    fields = {name.decode(): text.decode() for name, text in table.schema.metadata.items()}
    return fields, {name: np.array(table[name].to_pylist()) for name in table.column_names}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("case", ARRAYS)
def test_what_was_written_is_read_again(kind: str, case: str) -> None:
    arrays: Mapping[str, Any] = ARRAYS[case]
    pieces = list(WRITERS[kind]({"map": "map_1"}, arrays))
    assert max(map(len, pieces)) < 4_000_000
    fields, read = _read(kind, b"".join(pieces))
    assert fields == ({} if kind == NPZ else {"map": "map_1"})
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)


def test_the_types_of_answers() -> None:
    assert tuple(WRITERS) == (JSON, NPZ, ARROW)
