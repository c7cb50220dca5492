"""The same rows come to the same counts in every format."""

from __future__ import annotations

import gzip
import io
import json
import time
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from backend.store.monitors.ledger import MonitorGroups
from backend.store.store import Store
from service.formats.media import ARROW, JSON, JSONL, NDJSON, NPZ
from tests.integration.monitors.monitored import answered, counted, monitored

N = 600


def rows() -> list[dict[str, Any]]:
    """Rows with every field, some of them without some, and three that are refused."""
    rng = np.random.default_rng(3)
    start = float(int(time.time())) - 7200
    made: list[dict[str, Any]] = [
        {
            "id": f"идентификатор-{i}" if i % 7 == 0 else f"row-{i}",
            "prediction": float(p),
            "label": int(i % 3 == 0),
            "timestamp": start + i,
            "group": None if i % 5 == 0 else f"g{i % 4}",
        }
        for i, p in enumerate(rng.uniform(size=N))
    ]
    made[10]["prediction"] = 1.5
    made[20]["label"] = 7
    made[30]["timestamp"] = start + 1e6
    made[40]["id"] = made[41]["id"]
    return made


def as_json(some: list[dict[str, Any]]) -> bytes:
    return json.dumps({"rows": some}).encode()


def as_lines(some: list[dict[str, Any]]) -> bytes:
    return b"\r\n".join(json.dumps(row).encode() for row in some)


def as_npz(some: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    named: dict[str, Any] = {
        field + "s": np.array([row[field] for row in some]) for field in ("id", "prediction", "label")
    }
    times = np.array([row["timestamp"] * 1000 for row in some]).astype("M8[ms]")
    np.savez(out, **named, timestamps=times, groups=np.array([row["group"] or "" for row in some]))
    return out.getvalue()


def arrow_of(columns: dict[str, Any], pieces: int = 3) -> bytes:
    out = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(out, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=max(1, len(table) // pieces)):
            writer.write_batch(batch)
    return out.getvalue()


def as_arrow(some: list[dict[str, Any]]) -> bytes:
    columns: dict[str, Any] = {name: [row[name] for row in some] for name in ("id", "prediction", "label", "group")}
    times = pa.array([int(row["timestamp"] * 1000) for row in some], pa.timestamp("ms", tz="UTC"))
    return arrow_of(columns | {"timestamp": times})


def as_coded_arrow(some: list[dict[str, Any]]) -> bytes:
    coded = {name: pa.array([row[name] for row in some]).dictionary_encode() for name in ("id", "group")}
    numbers = {name: [row[name] for row in some] for name in ("prediction", "label", "timestamp")}
    return arrow_of(coded | numbers, pieces=1)


def as_binary_arrow(some: list[dict[str, Any]]) -> bytes:
    ids = pa.array([row["id"].encode() for row in some], pa.large_binary())
    others = {name + "s": [row[name] for row in some] for name in ("prediction", "label", "timestamp", "group")}
    return arrow_of({"ids": ids} | others)


FORMATS = [
    (JSON, as_json),
    (NDJSON, as_lines),
    (JSONL, as_lines),
    (NPZ, as_npz),
    (ARROW, as_arrow),
    (ARROW, as_coded_arrow),
    (ARROW, as_binary_arrow),
]


@pytest.mark.parametrize(("kind", "write"), FORMATS)
def test_rows_in_any_format_are_the_same_rows(store: Store, api: httpx.Client, kind: str, write: Any) -> None:
    ledger = monitored(store)
    body = gzip.compress(write(rows()))
    headers = {"content-type": kind, "content-encoding": "gzip"}
    answer = answered(api.post("/monitors/m/rows", content=body, headers=headers))
    refusals = [(one["row"], one["code"]) for one in answer.pop("refusals")]
    assert refusals[:3] == [(10, "out-of-range"), (20, "invalid-label"), (30, "from-the-future")]
    assert answer["refused"] == 3
    assert answer["accepted"] == N - 4
    assert answer.get("duplicates", 0) + answer.get("contradicted", 0) == 1
    # Sent again as JSON, every row is known: its id is the same.
    again = answered(api.post("/monitors/m/rows", json={"rows": rows()}))
    assert (again.get("accepted", 0), again["refused"]) == (0, 3)
    tally = ledger.buckets.tally(0, 2**31)
    kept = [row for i, row in enumerate(rows()) if i not in (10, 20, 30, 41)]
    for group, index in MonitorGroups(store.redis, store.keys, store.monitors.get("m")).all().items():
        assert len(tally.of_group(index)) == sum(row["group"] == group for row in kept)
    assert tally.p_sum.sum() == pytest.approx(sum(row["prediction"] for row in kept), abs=1e-9)
    event = tally.event()
    assert event.w is not None
    assert (len(tally), event.w @ event.y) == (N - 4, sum(row["label"] for row in kept))


def test_vectors_come_as_lists_and_as_columns(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, n_classes=3, reduction="top:2")
    values = np.random.default_rng(5).dirichlet(np.ones(3), 40)
    labels = np.arange(40) % 3
    lists: dict[str, Any] = {"prediction": values.tolist(), "label": labels}
    columns = {f"prediction.{k}": values[:, k] for k in range(3)} | {"label": labels}
    fixed = {"prediction": pa.FixedSizeListArray.from_arrays(values.ravel(), 3), "label": labels}
    for columned in (lists, columns, fixed):
        answer = api.post("/monitors/m/rows", content=arrow_of(columned), headers={"content-type": ARROW})
        assert answered(answer)["joined"] == 40
    out = io.BytesIO()
    np.savez(out, predictions=values.astype(np.float32), labels=labels)
    assert answered(api.post("/monitors/m/rows", content=out.getvalue(), headers={"content-type": NPZ}))["joined"] == 40
    documents = [{"prediction": row, "label": int(y)} for row, y in zip(values.tolist(), labels, strict=True)]
    assert answered(api.post("/monitors/m/rows", json={"rows": documents}))["joined"] == 40
    event = ledger.buckets.tally(0, 2**31).event()
    ranked = np.argsort(-values, axis=1)[:, 1]
    assert event.w is not None
    assert event.w @ event.y == 5 * np.count_nonzero(ranked == labels)
    assert counted(ledger) == 200


def test_what_is_null_in_arrow_is_not_given(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    columns = {
        "id": pa.array(["a", None, "c", "d", None]),
        "prediction": pa.array([0.5, 0.5, None, 0.5, 0.5]),
        "label": pa.array([1, 0, 1, None, 1], pa.int8()),
        "timestamp": pa.array([None, time.time(), None, None, None]),
        "group": pa.array([None, "g", "g", None, None]),
    }
    answer = answered(api.post("/monitors/m/rows", content=arrow_of(columns), headers={"content-type": ARROW}))
    codes = [(one["row"], one["code"]) for one in answer.pop("refusals")]
    assert codes == [(2, "missing-prediction"), (3, "missing-label")]
    assert answer == {"accepted": 3, "joined": 3, "refused": 2}
    assert ledger.known() == 1


def test_vectors_of_another_length_are_refused_by_row(store: Store, api: httpx.Client) -> None:
    monitored(store, n_classes=2, reduction="confidence")
    lists = pa.array([[0.5, 0.5], [1.0], None, [0.25, None], [0.25, 0.75]])
    sent = arrow_of({"prediction": lists, "label": [0, 1, 0, 1, 1]})
    answer = answered(api.post("/monitors/m/rows", content=sent, headers={"content-type": ARROW}))
    assert [(one["row"], one["code"]) for one in answer["refusals"]] == [
        (1, "wrong-shape"),
        (2, "missing-prediction"),
        (3, "not-finite"),
    ]
    assert answer["joined"] == 2


def test_integers_are_ids_by_their_digits_in_every_format(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    numbers = np.array([17, 2**63 - 1])
    columns = {"prediction": [0.5, 0.5], "label": [1, 0]}
    first = api.post(
        "/monitors/m/rows", json={"rows": [{"id": int(i), "prediction": 0.5, "label": 1} for i in numbers]}
    )
    assert answered(first)["joined"] == 2
    arrow = api.post("/monitors/m/rows", content=arrow_of({"id": numbers} | columns), headers={"content-type": ARROW})
    assert answered(arrow) == {"duplicates": 1, "contradicted": 1, "refusals": arrow.json()["refusals"]}
    out = io.BytesIO()
    np.savez(out, ids=numbers, predictions=[0.5, 0.5], labels=[1, 1])
    npz = api.post("/monitors/m/rows", content=out.getvalue(), headers={"content-type": NPZ})
    assert answered(npz) == {"duplicates": 2}
    assert ledger.known() == 2


@pytest.mark.parametrize(
    ("columns", "pointer"),
    [
        ({"prediction": [0.5]}, "/label"),
        ({"prediction": [0.5], "label": [1], "colour": ["red"]}, ""),
        ({"prediction": ["0.5"], "label": [1]}, "/prediction"),
        ({"prediction": [[0.5, 0.5]], "label": [1]}, "/prediction"),
        ({"prediction": [0.5], "predictions": [0.5], "label": [1]}, "/prediction"),
        ({"prediction": [0.5], "label": [1], "timestamp": ["now"]}, "/timestamp"),
        ({"prediction": [0.5], "label": [True]}, "/label"),
        ({"prediction.0": [0.5], "prediction.1": [0.5], "label": [1]}, "/prediction"),
    ],
)
def test_a_column_that_cannot_be_is_a_problem_that_names_it(
    store: Store, api: httpx.Client, columns: dict[str, Any], pointer: str
) -> None:
    ledger = monitored(store)
    answer = api.post("/monitors/m/rows", content=arrow_of(columns), headers={"content-type": ARROW})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert ledger.totals() == {}


@pytest.mark.parametrize(
    ("arrays", "status"),
    [
        ({"predictions": np.zeros(2)}, 422),
        ({"predictions": np.zeros(2), "labels": np.zeros(3)}, 422),
        ({"predictions": np.zeros((2, 2)), "labels": np.zeros(2)}, 422),
        ({"predictions": np.zeros(2), "labels": np.zeros(2), "colours": np.zeros(2)}, 400),
        ({"predictions": np.zeros(2), "labels": np.zeros(2), "ids": np.zeros(2)}, 400),
    ],
)
def test_an_array_that_cannot_be_is_a_problem(
    store: Store, api: httpx.Client, arrays: dict[str, Any], status: int
) -> None:
    ledger = monitored(store)
    out = io.BytesIO()
    np.savez(out, **arrays)
    answer = api.post("/monitors/m/rows", content=out.getvalue(), headers={"content-type": NPZ})
    assert answer.status_code == status
    assert ledger.totals() == {}
