"""The same rows come to the same counts in every format."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from backend.store.monitors.ledger import MonitorGroups
from backend.store.store import Store
from tests.body_formats import (
    ARROW,
    CSV,
    JSON,
    NPZ,
    PARQUET,
    WITH_NULL,
    WRITE_ROWS,
    columns_of,
)
from tests.integration.monitors.monitored import answered, counted, monitored, refusals_of
from tests.known import known
from tests.packed import arrow, npz, parquet

N = 600


def rows() -> list[dict[str, Any]]:
    """Rows with every field, some of them without some, and three that are refused."""
    rng = np.random.default_rng(3)
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    documents: list[dict[str, Any]] = [
        {
            "id": f"идентификатор-{i}" if i % 7 == 0 else f"row-{i}",
            "prediction": float(p),
            "label": int(i % 3 == 0),
            "timestamp": start + timedelta(seconds=i),
            "group": None if i % 5 == 0 else f"g{i % 4}",
        }
        for i, p in enumerate(rng.uniform(size=N))
    ]
    documents[10]["prediction"] = 1.5
    documents[20]["label"] = 7
    documents[30]["timestamp"] = start + timedelta(days=12)
    documents[40]["id"] = documents[41]["id"]
    return documents


def as_npz(some: list[dict[str, Any]]) -> bytes:
    """With times in milliseconds."""
    named: dict[str, Any] = {
        field + "s": np.array([row[field] for row in some]) for field in ("id", "prediction", "label")
    }
    times = np.array([row["timestamp"].replace(tzinfo=None) for row in some], "M8[ms]")
    return npz(**named, timestamps=times, groups=np.array([row["group"] or "" for row in some]))


def columns_in_milliseconds(some: list[dict[str, Any]]) -> dict[str, Any]:
    times = pa.array([row["timestamp"] for row in some], pa.timestamp("ms", tz="UTC"))
    return columns_of(some) | {"timestamp": times}


def as_coded_arrow(some: list[dict[str, Any]]) -> bytes:
    coded = {name: pa.array([row[name] for row in some]).dictionary_encode() for name in ("id", "group")}
    numbers = {name: [row[name] for row in some] for name in ("prediction", "label", "timestamp")}
    return arrow(coded | numbers)


def as_binary_arrow(some: list[dict[str, Any]]) -> bytes:
    ids = pa.array([row["id"].encode() for row in some], pa.large_binary())
    others = {name + "s": [row[name] for row in some] for name in ("prediction", "label", "timestamp", "group")}
    return arrow({"ids": ids} | others, chunk=len(some) // 3)


VARIANTS: list[tuple[str, Any]] = [
    *WRITE_ROWS.items(),
    (NPZ, as_npz),
    (ARROW, lambda some: arrow(columns_in_milliseconds(some), chunk=len(some) // 3)),
    (PARQUET, lambda some: parquet(columns_in_milliseconds(some))),
    (ARROW, as_coded_arrow),
    (ARROW, as_binary_arrow),
]


@pytest.mark.parametrize(("kind", "write"), VARIANTS)
def test_rows_in_any_format_are_the_same_rows(store: Store, api: httpx.Client, kind: str, write: Any) -> None:
    ledger = monitored(store)
    body = gzip.compress(write(rows()))
    headers = {"content-type": kind, "content-encoding": "gzip"}
    answer = answered(api.post("/monitors/m/rows", content=body, headers=headers))
    refusals = [(refusal["row"], refusal["code"]) for refusal in answer.pop("refusals")]
    assert refusals[:3] == [(10, "out-of-range"), (20, "invalid-label"), (30, "from-the-future")]
    assert answer["refused"] == 3
    assert answer["accepted"] == N - 4
    assert answer.get("duplicates", 0) + answer.get("contradicted", 0) == 1
    # Sent again as JSON, every row is known: its id is the same.
    again = answered(api.post("/monitors/m/rows", content=WRITE_ROWS[JSON](rows()), headers={"content-type": JSON}))
    assert (again.get("accepted", 0), again["refused"]) == (0, 3)
    tally = ledger.buckets.tally(0, 2**31)
    accepted = [row for i, row in enumerate(rows()) if i not in (10, 20, 30, 41)]
    for group, index in MonitorGroups(store.redis, store.keys, store.monitors.get("m")).all().items():
        assert len(tally.of_group(index)) == sum(row["group"] == group for row in accepted)
    assert tally.p_sum.sum() == pytest.approx(sum(row["prediction"] for row in accepted), abs=1e-9)
    event = tally.event()
    assert (len(tally), known(event.w) @ event.y) == (N - 4, sum(row["label"] for row in accepted))


@pytest.mark.parametrize("kind", WRITE_ROWS)
def test_vectors_in_any_format_are_the_same_vectors(store: Store, api: httpx.Client, kind: str) -> None:
    ledger = monitored(store, n_classes=3, reduction="top:2")
    vectors = np.random.default_rng(5).dirichlet(np.ones(3), 40)
    labels = np.arange(40) % 3
    documents = [{"prediction": row, "label": int(y)} for row, y in zip(vectors.tolist(), labels, strict=True)]
    bodies = [WRITE_ROWS[kind](documents)]
    if kind in (ARROW, PARQUET):
        fixed = {"prediction": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 3), "label": labels}
        columns = {f"prediction.{k}": vectors[:, k] for k in range(3)} | {"label": labels}
        bodies += [(arrow if kind == ARROW else parquet)(table) for table in (fixed, columns)]
    for body in bodies:
        answer = api.post("/monitors/m/rows", content=body, headers={"content-type": kind})
        assert answered(answer)["joined"] == 40
    event = ledger.buckets.tally(0, 2**31).event()
    ranked = np.argsort(-vectors, axis=1)[:, 1]
    assert known(event.w) @ event.y == len(bodies) * np.count_nonzero(ranked == labels)
    assert counted(ledger) == 40 * len(bodies)


@pytest.mark.parametrize("kind", WITH_NULL)
def test_a_missing_value_is_not_given_in_any_format(store: Store, api: httpx.Client, kind: str) -> None:
    ledger = monitored(store)
    now = datetime.now(UTC)
    some: list[dict[str, Any]] = [
        {"id": "a", "prediction": 0.5, "label": 1, "timestamp": None, "group": None},
        {"id": None, "prediction": 0.5, "label": 0, "timestamp": now, "group": "g"},
        {"id": "c", "prediction": None, "label": 1, "timestamp": None, "group": "g"},
        {"id": "d", "prediction": 0.5, "label": None, "timestamp": None, "group": None},
        {"id": None, "prediction": 0.5, "label": 1, "timestamp": None, "group": None},
    ]
    answer = answered(api.post("/monitors/m/rows", content=WRITE_ROWS[kind](some), headers={"content-type": kind}))
    codes = [(refusal["row"], refusal["code"]) for refusal in answer.pop("refusals")]
    assert codes == [(2, "missing-prediction"), (3, "missing-label")]
    assert answer == {"accepted": 3, "joined": 3, "refused": 2}
    assert ledger.known() == 1


@pytest.mark.parametrize(("kind", "write"), [(ARROW, arrow), (PARQUET, parquet)])
def test_vectors_of_another_length_are_refused_by_row(store: Store, api: httpx.Client, kind: str, write: Any) -> None:
    monitored(store, n_classes=2, reduction="confidence")
    lists = pa.array([[0.5, 0.5], [1.0], None, [0.25, None], [0.25, 0.75]])
    sent = write({"prediction": lists, "label": [0, 1, 0, 1, 1]})
    answer = answered(api.post("/monitors/m/rows", content=sent, headers={"content-type": kind}))
    assert refusals_of(answer) == [
        (1, "wrong-shape"),
        (2, "missing-prediction"),
        (3, "not-finite"),
    ]
    assert answer["joined"] == 2


@pytest.mark.parametrize("kind", WRITE_ROWS)
def test_integers_are_ids_by_their_digits_in_any_format(store: Store, api: httpx.Client, kind: str) -> None:
    ledger = monitored(store)
    some = [{"id": number, "prediction": 0.5, "label": 1} for number in (17, 2**63 - 1)]
    assert answered(api.post("/monitors/m/rows", json={"rows": some}))["joined"] == 2
    again = api.post("/monitors/m/rows", content=WRITE_ROWS[kind](some), headers={"content-type": kind})
    assert answered(again) == {"duplicates": 2}
    other = [some[0], some[1] | {"label": 0}]
    answer = api.post("/monitors/m/rows", content=WRITE_ROWS[kind](other), headers={"content-type": kind})
    assert answered(answer) == {"duplicates": 1, "contradicted": 1, "refusals": answer.json()["refusals"]}
    assert ledger.known() == 2


@pytest.mark.parametrize("kind", WRITE_ROWS)
def test_predictions_and_labels_are_joined_in_any_format(store: Store, api: httpx.Client, kind: str) -> None:
    ledger = monitored(store)
    predictions = [{"id": f"r{i}", "prediction": 0.25 + i / 8, "group": "g"} for i in range(4)]
    labels = [{"id": f"r{i}", "label": i % 2} for i in range(4)]
    headers = {"content-type": kind}
    sent = api.post("/monitors/m/predictions", content=WRITE_ROWS[kind](predictions), headers=headers)
    assert answered(sent)["accepted"] == 4
    assert answered(api.post("/monitors/m/labels", content=WRITE_ROWS[kind](labels), headers=headers))["joined"] == 4
    assert counted(ledger) == 4


def test_cells_of_csv_that_cannot_be_refuse_their_rows(store: Store, api: httpx.Client) -> None:
    monitored(store)
    text = (
        "ids,predictions,labels,timestamp\n"
        "a,0.5,1,\nb,half,1,\nc,nan,1,\nd,0.5,yes,\ne,0.5,nan,\nf,0.5,1,yesterday\ng,0.5,1,nan\nh,0.5,1,inf\n"
        "i,1_0,1,\n"
    )
    answer = answered(api.post("/monitors/m/rows", content=text, headers={"content-type": CSV}))
    assert refusals_of(answer) == [
        (1, "not-a-number"),
        (2, "not-finite"),
        (3, "invalid-label"),
        (4, "invalid-label"),
        *[(row, "invalid-timestamp") for row in (5, 6, 7)],
        (8, "not-a-number"),
    ]
    assert answer["joined"] == 1


@pytest.mark.parametrize(
    ("text", "status", "pointer"),
    [
        ("prediction\n0.5\n", 422, "/label"),
        ("prediction,label,colour\n0.5,1,red\n", 422, ""),
        ("prediction,predictions,label\n0.5,0.5,1\n", 422, "/prediction"),
        ("prediction.0,prediction.1,label\n0.5,0.5,1\n", 422, "/prediction"),
        ("prediction,label\n0.5\n", 400, None),
        ("", 400, None),
        ("prediction,label\n0.5,\xff\n", 400, None),
    ],
)
def test_csv_that_cannot_be_is_a_problem(
    store: Store, api: httpx.Client, text: str, status: int, pointer: str | None
) -> None:
    ledger = monitored(store)
    answer = api.post("/monitors/m/rows", content=text.encode("latin-1"), headers={"content-type": CSV})
    assert answer.status_code == status
    assert pointer is None or answer.json()["errors"][0]["pointer"] == pointer
    assert ledger.totals() == {}


@pytest.mark.parametrize("kind", [ARROW, PARQUET])
@pytest.mark.parametrize(
    ("columns", "pointer"),
    [
        ({"prediction": [0.5]}, "/label"),
        ({"prediction": [0.5], "label": [1], "colour": ["red"]}, ""),
        ({"prediction": ["0.5"], "label": [1]}, "/prediction"),
        ({"prediction": [[0.5, 0.5]], "label": [1]}, "/prediction"),
        ({"prediction": [0.5], "predictions": [0.5], "label": [1]}, "/prediction"),
        ({"prediction": [0.5], "label": [1], "timestamp": ["now"]}, "/timestamp"),
        ({"prediction": [True], "label": [1]}, "/prediction"),
        ({"prediction": [0.5], "label": [1], "timestamp": [1.7e9]}, "/timestamp"),
        ({"prediction": [0.5], "label": [1], "timestamp": [1_769_860_800]}, "/timestamp"),
        ({"prediction.0": [0.5], "prediction.1": [0.5], "label": [1]}, "/prediction"),
    ],
)
def test_a_column_that_cannot_be_is_a_problem_that_names_it(
    store: Store, api: httpx.Client, kind: str, columns: dict[str, Any], pointer: str
) -> None:
    ledger = monitored(store)
    body = arrow(columns) if kind == ARROW else parquet(columns)
    answer = api.post("/monitors/m/rows", content=body, headers={"content-type": kind})
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
    answer = api.post("/monitors/m/rows", content=npz(**arrays), headers={"content-type": NPZ})
    assert answer.status_code == status
    assert ledger.totals() == {}
