from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from calibrant.client import UnusableRows
from calibrant.client.calls.monitor_rows import send_labels, send_predictions, send_rows
from calibrant.client.monitored import ARROW, arrays_of, packed, pieces
from calibrant.client.packing import unpack
from calibrant.client.retries import Patience
from tests.unit.client.replies import answer, take

IDS = ["a", "b", "c", "d", "ü"]
P = [0.1, 0.2, 0.3, 0.4, 0.5]
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def _taken(**counts: Any) -> bytes:
    every = ("accepted", "joined", "waiting", "duplicates", "contradicted", "refused")
    return orjson.dumps(dict.fromkeys(every, 0) | counts)


def test_rows_go_in_pieces_each_under_its_own_key_and_are_counted_together() -> None:
    refused = [{"row": 1, "code": "out-of-range", "detail": "is above 1"}]
    answers = [
        answer(content=_taken(accepted=2, joined=1)),
        answer(content=_taken(accepted=1, refused=1, refusals=refused)),
        answer(content=_taken(duplicates=1, new_field=3)),
    ]
    outcome = take(send_rows(Patience(), "a/b", P, [0, 1, 1, 0, 1], ids=IDS, piece=2, key="k"), answers)
    assert [request.path for request in outcome.requests] == ["/monitors/a%2Fb/rows"] * 3
    assert [request.headers["Idempotency-Key"] for request in outcome.requests] == ["k-0", "k-2", "k-4"]
    assert (outcome.answer.accepted, outcome.answer.joined, outcome.answer.duplicates) == (3, 1, 1)
    assert [refusal.row for refusal in outcome.answer.refusals] == [3]
    sent = [unpack(request.content or b"") for request in outcome.requests]
    assert [piece["ids"].tolist() for piece in sent] == [["a", "b"], ["c", "d"], ["ü"]]
    assert np.concatenate([piece["predictions"] for piece in sent]).tolist() == P


def test_predictions_and_labels_have_keys_of_their_own_if_the_caller_gives_none() -> None:
    first = take(send_predictions(Patience(), "m", IDS, P, groups=["x"] * 5, piece=3), [answer(content=_taken())] * 2)
    other = take(send_labels(Patience(), "m", IDS, [True, False, True, True, False]), [answer(content=_taken())])
    assert [request.path for request in (*first.requests, *other.requests)] == [
        "/monitors/m/predictions",
        "/monitors/m/predictions",
        "/monitors/m/labels",
    ]
    assert unpack(other.requests[0].content or b"")["labels"].tolist() == [1, 0, 1, 1, 0]


@pytest.mark.parametrize("p", [np.array(P), np.array([[0.2, 0.8]] * 5, dtype=np.float32)])
def test_every_form_holds_the_same_rows(p: np.ndarray[Any, Any]) -> None:
    arrays = arrays_of({"ids": IDS, "predictions": p, "labels": [0, 1, 0, 1, 1], "timestamps": None})
    media, body = packed(arrays, "arrow")
    with pyarrow.ipc.open_stream(io.BytesIO(body)) as reader:
        table = reader.read_all()
    assert (media, table.column_names) == (ARROW, ["ids", "predictions", "labels"])
    assert table.column("predictions").to_pylist() == p.tolist()
    assert table.column("ids").to_pylist() == IDS
    rows = orjson.loads(packed(arrays, "json")[1])["rows"]
    assert rows == [
        {"id": i, "prediction": q, "label": y} for i, q, y in zip(IDS, p.tolist(), [0, 1, 0, 1, 1], strict=True)
    ]
    assert unpack(packed(arrays, "npz")[1])["predictions"].dtype == p.dtype
    with pytest.raises(ValueError, match="npz, arrow, json"):
        packed(arrays, "csv")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "times",
    [
        lambda: np.array(["2026-01-02T12:00:00.5"], dtype="datetime64[ms]"),
        lambda: pd.Series([pd.Timestamp("2026-01-02T13:00:00.5+01:00")]),
        lambda: pd.Series([pd.Timestamp("2026-01-02T12:00:00.5")]),
        lambda: pl.Series([NOON + dt.timedelta(seconds=0.5)]),
        lambda: [NOON.timestamp() + 0.5],
    ],
)
def test_times_of_every_type_are_sent_as_times_in_utc(times: Callable[[], Any]) -> None:
    array = arrays_of({"timestamps": times()})["timestamps"]
    assert array.tolist() == [NOON.replace(tzinfo=None) + dt.timedelta(seconds=0.5)]
    rows = json.loads(packed({"timestamps": array}, "json")[1])["rows"]
    assert [dt.datetime.fromisoformat(row["timestamp"]) for row in rows] == [NOON + dt.timedelta(seconds=0.5)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"ids": [1.0, 2.0], "labels": [0, 1]}, "ids: must be strings or integers, not float64"),
        ({"ids": ["a", None], "labels": [0, 1]}, "ids: 1 value is missing"),
        ({"ids": ["a", "b"], "labels": [0]}, "labels: has 1 rows, but ids has 2"),
        ({"timestamps": np.array(["NaT"], dtype="datetime64[s]")}, "timestamps: 1 value is missing"),
        ({"timestamps": [1.0, np.nan]}, "timestamps: 1 value is missing"),
        ({"timestamps": [1.7e18]}, "timestamps: numbers must be seconds since 1970"),
        ({"timestamps": ["noon"]}, "timestamps must be numbers or dates in ISO 8601"),
    ],
)
def test_unsendable_rows_are_refused_before_any_is_sent(rows: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableRows, match=message):
        arrays_of(rows)


def test_an_argument_of_a_wrong_type_is_named() -> None:
    with pytest.raises(TypeError, match="'weights'"):
        take(send_rows(Patience(), "m", P, [0] * 5, weights=P), [])  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="at least 1"):
        list(pieces({"ids": np.array(IDS)}, 0))


@pytest.mark.parametrize(
    "groups",
    [
        lambda: ["x", None, ""],
        lambda: np.array(["x", None, ""], dtype=object),
        lambda: pd.Series(["x", None, float("nan")]),
        lambda: pl.Series(["x", None, None]),
        lambda: pa.array(["x", None, None]),
    ],
)
def test_a_row_without_group_is_sent_without_one_in_every_form(groups: Callable[[], Any]) -> None:
    arrays = arrays_of({"predictions": [0.1, 0.2, 0.3], "labels": [0, 1, 1], "groups": groups()})
    assert unpack(packed(arrays, "npz")[1])["groups"].tolist() == ["x", "", ""]
    assert [row["group"] for row in orjson.loads(packed(arrays, "json")[1])["rows"]] == ["x", None, None]
    table = pyarrow.ipc.open_stream(packed(arrays, "arrow")[1]).read_all()
    assert table.column("groups").to_pylist() == ["x", None, None]


def test_no_rows_are_sent_as_none() -> None:
    outcome = take(send_predictions(Patience(), "m", [], np.array([])), [answer(content=_taken())])
    sent = unpack(outcome.requests[0].content or b"")
    assert [len(sent["ids"]), len(sent["predictions"])] == [0, 0]
    assert sent["ids"].dtype.kind == "U"
