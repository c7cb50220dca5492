"""What arrays and columns of rows may hold, and that none may be empty of rows."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from backend.store.store import Store
from tests.body_formats import ARROW, NPZ
from tests.integration.monitors.monitored import answered, monitored, refusals_of
from tests.packed import arrow, npz

NONE = np.zeros(0)


def send(api: httpx.Client, what: str, **arrays: Any) -> httpx.Response:
    return api.post(f"/monitors/m/{what}", content=npz(**arrays), headers={"content-type": NPZ})


def stream(api: httpx.Client, **columns: Any) -> httpx.Response:
    return api.post("/monitors/m/rows", content=arrow(columns), headers={"content-type": ARROW})


@pytest.mark.parametrize("kind", ["U1", "U0", "S4", np.int64])
def test_an_empty_request_is_accepted(store: Store, api: httpx.Client, kind: Any) -> None:
    monitored(store)
    ids = np.array([], kind)
    assert answered(send(api, "predictions", ids=ids, predictions=NONE)) == {}
    assert answered(send(api, "labels", ids=ids, labels=NONE)) == {}
    assert answered(send(api, "rows", ids=ids, predictions=NONE, labels=NONE, timestamps=NONE.astype("M8[us]"))) == {}


def _invalid(response: httpx.Response) -> list[tuple[int, str]]:
    answer = answered(response)
    assert answer["accepted"] == 1
    return refusals_of(answer)


def test_an_invalid_time_refuses_its_row(store: Store, api: httpx.Client) -> None:
    monitored(store)
    p, y = np.array([0.5, 0.5]), np.array([1, 0])
    dates = np.array([int(time.time()), "NaT"], "M8[s]")
    assert _invalid(send(api, "rows", predictions=p, labels=y, timestamps=dates)) == [(1, "invalid-timestamp")]


def test_times_that_are_numbers_are_refused(store: Store, api: httpx.Client) -> None:
    monitored(store)
    p, y = np.array([0.5, 0.5]), np.array([1, 0])
    for times in (np.full(2, time.time()), np.full(2, int(time.time()))):
        for refused in (
            send(api, "rows", predictions=p, labels=y, timestamps=times),
            stream(api, prediction=p, label=y, timestamp=times),
        ):
            assert (refused.status_code in (400, 422), "timestamp" in refused.text) == (True, True)


@pytest.mark.parametrize(("unit", "seconds"), [("m", 60), ("h", 3_600), ("s", 1)])
def test_a_date_that_overflows_refuses_its_row(store: Store, api: httpx.Client, unit: str, seconds: int) -> None:
    monitored(store)
    now = int(time.time()) // seconds
    # 2**64 microseconds, or more, after now: in 64 bits they are now.
    wrapped = now + 2**64 // math.gcd(2**64, seconds * 10**6)
    dates = np.array([now, wrapped]).astype(f"M8[{unit}]")
    answer = send(api, "rows", predictions=np.array([0.5, 0.5]), labels=np.array([1, 0]), timestamps=dates)
    assert _invalid(answer) == [(1, "invalid-timestamp")]


def test_a_null_time_of_a_column_is_now(store: Store, api: httpx.Client) -> None:
    monitored(store)
    answer = stream(api, prediction=[0.5, 0.5], label=[1, 0], timestamp=pa.array([None, datetime.now(UTC)]))
    assert answered(answer)["accepted"] == 2


def test_a_refused_id_names_the_accepted_forms(store: Store, api: httpx.Client) -> None:
    monitored(store)
    refused = send(api, "predictions", ids=np.array([1.5]), predictions=np.array([0.5]))
    assert "strings or integers" in refused.text
    assert "strings, binary values or integers" in stream(api, id=[1.5], prediction=[0.5], label=[1]).text


def test_ids_may_be_string_views(store: Store, api: httpx.Client) -> None:
    monitored(store)
    texts = pa.array(["a", "a longer id than a view holds", None], pa.string_view())
    for ids in (texts, pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), texts)):
        answer = answered(stream(api, id=ids, prediction=[0.5] * 3, label=[0, 1, 1]))
        assert answer["accepted"] + answer.get("duplicates", 0) == 3
    assert answer["duplicates"] == 2
