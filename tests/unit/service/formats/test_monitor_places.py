"""Rows without a vector take no memory of one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from backend.monitors.rows import MonitorRows, Why, together
from service.formats.catalogue import ROWS_READERS
from service.formats.documents import read_json_rows, read_lines
from service.formats.format import BodyLimits
from tests.body_formats import ARROW, class_monitor
from tests.known import known
from tests.packed import arrow
from tests.traced import PeakOf

LIMITS = BodyLimits(max_unpacked_bytes=1 << 28, max_rows=1_000_000, max_classes=10_000, max_json_depth=8)
K, N = 10_000, 30_000


def _arrow(rows: list[list[float] | None]) -> bytes:
    return arrow({"prediction": pa.array(rows, pa.list_(pa.float64())), "label": np.zeros(len(rows), dtype=np.int64)})


def _empty_lines() -> MonitorRows:
    return read_lines(b"{}\n" * N, LIMITS, "rows", class_monitor(K))


def _empty_json() -> MonitorRows:
    return read_json_rows(b'{"rows": [' + b"{}," * (N - 1) + b"{}]}", LIMITS, "rows", class_monitor(K))


def _empty_arrow() -> MonitorRows:
    return ROWS_READERS[ARROW](_arrow([[]] * N), LIMITS, "rows", class_monitor(K))


@pytest.mark.slow
@pytest.mark.parametrize("read", [_empty_lines, _empty_json, _empty_arrow])
def test_rows_without_a_vector_are_refused_in_little_memory(read: object, peak_of: PeakOf) -> None:
    assert peak_of(read) < 64 << 20  # N x K numbers would be 2.4 GB


@pytest.mark.parametrize("kind", ["lines", "json", "arrow"])
def test_rows_with_a_vector_keep_it_among_rows_without(kind: str) -> None:
    sent: list[list[float] | None] = [[0.25, 0.75], None, [0.5], [0.5, 0.5], [0.125, 0.875]]
    text = [
        f'{{"prediction": {"null" if prediction is None else prediction}, "label": {i % 2}}}'
        for i, prediction in enumerate(sent)
    ]
    mixed = {
        "lines": lambda: read_lines("\n".join(text).encode(), LIMITS, "rows", class_monitor(2)),
        "json": lambda: read_json_rows(f'{{"rows": [{", ".join(text)}]}}'.encode(), LIMITS, "rows", class_monitor(2)),
        "arrow": lambda: ROWS_READERS[ARROW](_arrow(sent), LIMITS, "rows", class_monitor(2)),
    }[kind]()
    whole = MonitorRows(np.zeros(2, np.uint8), np.arange(2), predictions=np.array([[0.5, 0.5], [0.0, 1.0]]))
    joined = together([mixed, whole, mixed])
    assert joined.refused.tolist() == [0, Why.NO_PREDICTION, Why.WRONG_SHAPE, 0, 0, 0, 0, *mixed.refused.tolist()]
    vectors = [[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]]
    fine = joined.taken(joined.refused == 0)
    assert fine.places is None
    assert known(fine.predictions).tolist() == [*vectors, [0.5, 0.5], [0.0, 1.0], *vectors]
    part = joined.part(3, 6)
    assert known(part.predictions).tolist() == [[0.5, 0.5], [0.125, 0.875], [0.5, 0.5]]
