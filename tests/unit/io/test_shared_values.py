"""Columns whose rows share their strings: dictionaries and views, in which few bytes can stand for many."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.io.errors import FileTooLarge
from calibrant.io.files import read_sheet
from calibrant.io.limits import Limits
from calibrant.io.strict import read_arrow
from tests.unit.io.refused import refused

LIMITS = Limits(1 << 24, 1_000, 10)
BATCHES = 100


def stream(batches: list[pa.RecordBatch], *, deltas: bool = False) -> bytes:
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    with pa.ipc.new_stream(out, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return out.getvalue()


def batch(groups: Any) -> pa.RecordBatch:
    n = len(groups)
    return pa.record_batch({"predictions": np.full(n, 0.5), "labels": np.arange(n) % 2, "groups": groups})


def _growing(length: int) -> bytes:
    """A stream of a dictionary that begins with a long string and gets a short one in each batch."""
    texts = ["x" * length, *map(str, range(BATCHES + 1))]
    return stream(
        [batch(pa.DictionaryArray.from_arrays(pa.array([1, i + 1]), pa.array(texts[: i + 2]))) for i in range(BATCHES)],
        deltas=True,
    )


def test_a_dictionary_that_grows_counts_as_often_as_it_is_copied() -> None:
    found = read_arrow(_growing(100), LIMITS)["groups"]
    np.testing.assert_array_equal(found[1::2], [str(i) for i in range(BATCHES)])
    assert refused(lambda: read_arrow(_growing(1_000_000), LIMITS)) == ("too-large", "")
    with pytest.raises(FileTooLarge, match="bytes after decompression"):
        read_sheet(io.BytesIO(_growing(1_000_000)), name="a", max_rows=None, max_bytes=1 << 24)
