"""The timeline of a monitor's page, over few and over many buckets."""

from __future__ import annotations

import time
from itertools import pairwise

import httpx
import pytest

from backend.monitors.answers import MonitorCache, MonitorReader
from backend.monitors.timeline import POINTS, gathered_points, state_of
from backend.monitors.windows import Span, kept_span
from backend.store.clock import at
from backend.store.store import Store
from tests.integration.monitors.monitored import answered, monitored
from tests.integration.responses import patched


@pytest.mark.parametrize("buckets", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (700, 3000))])
def test_points_have_every_row_once_in_order(store: Store, api: httpx.Client, buckets: int) -> None:
    monitored(store, bucket=60, retention=10_000 * 60)
    newest = time.time()
    rows = [{"prediction": 0.3, "label": int(i % 3 == 0), "timestamp": at(newest - 60 * i)} for i in range(buckets)]
    assert answered(api.post("/monitors/m/rows", json={"rows": rows}))["accepted"] == buckets
    record = store.monitors.get("m")
    reader, span = MonitorReader(store.redis, store.keys, record, MonitorCache()), kept_span(record, newest)
    oldest = reader.buckets.oldest(span.first, span.last)
    assert oldest is not None
    for _ in range(2):  # the second time from memory
        points = gathered_points(reader, Span(oldest, span.last, span.bucket))
        assert 1 < len(points) <= POINTS + 1
        assert all(earlier.end <= other.start for (earlier, _), (other, _) in pairwise(points))
        assert sum(len(point.tally) for _, point in points) == buckets
        assert sum(point.predictions for _, point in points) == buckets
        assert points[0][0].first == oldest


def test_the_state_changes_with_rows_and_with_the_definition_only(store: Store, api: httpx.Client) -> None:
    monitored(store)
    before = state_of(store, store.monitors.get("m"))
    assert state_of(store, store.monitors.get("m")) == before
    api.post("/monitors/m/predictions", json={"rows": [{"id": "a", "prediction": 0.5}]}).raise_for_status()
    after = state_of(store, store.monitors.get("m"))
    assert after != before
    patched(api, "/monitors/m", {"description": "new"}).raise_for_status()
    assert state_of(store, store.monitors.get("m")) != after
