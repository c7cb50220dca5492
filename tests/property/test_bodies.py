"""Laws of reading bodies in every format: changed bodies of arrays and of rows of monitors are read or refused."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.core.errors import CalibrationError
from service.formats.catalogue import READERS, ROWS_READERS
from service.formats.documents import of_text
from service.formats.format import BodyLimits
from tests.body_formats import WRITE_ARRAYS, WRITE_ROWS, class_monitor
from tests.drawn import examples

LIMITS = BodyLimits(max_unpacked_bytes=1 << 22, max_rows=1000, max_classes=20, max_json_depth=8)
P = np.random.default_rng(1).dirichlet(np.ones(3), 20)
ARRAYS = {"predictions": P, "labels": np.arange(20) % 3, "weights": np.ones(20)}
START = datetime(2026, 1, 31, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"id": f"r{i}", "prediction": row, "label": i % 3, "timestamp": START + timedelta(seconds=i), "group": "ab"[i % 2]}
    for i, row in enumerate(P.tolist())
]


@st.composite
def mutations(draw: st.DrawFn, good: bytes) -> bytes:
    """A good body, some bytes of it changed, and perhaps cut off or followed by others."""
    body = bytearray(good)
    for _ in range(draw(st.integers(0, 8))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    end = draw(st.integers(0, len(body)))
    return draw(st.sampled_from([bytes(body), bytes(body[:end]), bytes(body) + draw(st.binary(max_size=20))]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=examples(40, 2000))
@given(data=st.data())
def test_a_changed_body_of_arrays_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    good = WRITE_ARRAYS[kind](ARRAYS)
    assert len(READERS[kind](good, LIMITS, {}).arrays["predictions"]) == 20
    with contextlib.suppress(CalibrationError):
        payload = READERS[kind](data.draw(mutations(good)), LIMITS, {})
        assert all(isinstance(array, np.ndarray) for array in payload.arrays.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS_READERS)
@settings(max_examples=examples(40, 2000))
@given(data=st.data())
def test_a_changed_body_of_rows_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    good, limits = WRITE_ROWS[kind](ROWS), of_text(LIMITS)
    read = ROWS_READERS[kind](good, limits, "rows", class_monitor(3))
    assert len(read) == 20
    assert not read.refused.any()
    with contextlib.suppress(CalibrationError):
        rows = ROWS_READERS[kind](data.draw(mutations(good)), limits, "rows", class_monitor(3))
        lengths = {len(rows), *(len(column) for column in (rows.labels, rows.times, rows.groups) if column is not None)}
        assert lengths == {len(rows)}
