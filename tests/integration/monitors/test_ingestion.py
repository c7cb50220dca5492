"""Rows come to a monitor once each, in any order."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np

from backend.monitors.outcomes import DELAY_FIELDS, delay_bins
from backend.store.clock import at
from backend.store.monitors.ids import NO_GROUP
from backend.store.store import Store
from tests.integration.monitors.monitored import answered, counted, monitored, refusals_of


def test_labelled_rows_are_counted_at_once_and_once(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    rows = {"rows": [{"id": "a", "prediction": 0.2, "label": 0}, {"id": "b", "prediction": 0.9, "label": 1}]}
    assert answered(api.post("/monitors/m/rows", json=rows)) == {"accepted": 2, "joined": 2}
    assert answered(api.post("/monitors/m/rows", json=rows)) == {"duplicates": 2}
    assert counted(ledger) == 2
    event = ledger.buckets.tally(0, 2**31).event()
    assert (event.p.tolist(), event.y.tolist()) == ([0.2, 0.9], [0, 1])
    assert ledger.totals() == {"predictions": 2, "labels": 2, "joined": 2, "duplicates": 2}


def test_labels_join_their_predictions_in_any_order(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    predictions = {"rows": [{"id": "a", "prediction": 0.2}, {"id": "b", "prediction": 0.9}]}
    assert answered(api.post("/monitors/m/predictions", json=predictions)) == {"accepted": 2}
    labels = {"rows": [{"id": "b", "label": 1}, {"id": "c", "label": 0}, {"id": "a", "label": 0}]}
    assert answered(api.post("/monitors/m/labels", json=labels)) == {"accepted": 3, "joined": 2, "waiting": 1}
    late = {"rows": [{"id": "c", "prediction": 0.5}]}
    assert answered(api.post("/monitors/m/predictions", json=late)) == {"accepted": 1, "joined": 1}
    event = ledger.buckets.tally(0, 2**31).event()
    assert (event.p.tolist(), event.y.tolist()) == ([0.2, 0.5, 0.9], [0, 0, 1])
    assert ledger.totals() == {"predictions": 3, "labels": 3, "joined": 3}


def test_a_contradicting_label_is_reported_and_not_counted(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    api.post("/monitors/m/predictions", json={"rows": [{"id": "a", "prediction": 0.2}]})
    api.post("/monitors/m/labels", json={"rows": [{"id": "a", "label": 0}, {"id": "w", "label": 1}]})
    again = {"rows": [{"id": "a", "label": 1}, {"id": "w", "label": 0}, {"id": "a", "label": 0}]}
    answer = answered(api.post("/monitors/m/labels", json=again))
    assert (answer["contradicted"], answer["duplicates"]) == (2, 1)
    assert refusals_of(answer) == [
        (0, "contradicted"),
        (1, "contradicted"),
    ]
    assert ledger.buckets.tally(0, 2**31).event().y.tolist() == [0]


def test_a_labelled_row_whose_label_waits_counts_with_the_label_that_came_first(
    store: Store, api: httpx.Client
) -> None:
    ledger = monitored(store)
    api.post("/monitors/m/labels", json={"rows": [{"id": "a", "label": 1}, {"id": "b", "label": 1}]})
    rows = {"rows": [{"id": "a", "prediction": 0.3, "label": 0}, {"id": "b", "prediction": 0.4, "label": 1}]}
    answer = answered(api.post("/monitors/m/rows", json=rows))
    assert (answer["accepted"], answer["joined"], answer["contradicted"]) == (1, 1, 1)
    assert ledger.buckets.tally(0, 2**31).event().y.tolist() == [1, 1]
    assert ledger.totals() == {"labels": 2, "predictions": 2, "joined": 2, "contradicted": 1}


def test_a_labelled_row_whose_prediction_waits_labels_that_prediction(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    api.post("/monitors/m/predictions", json={"rows": [{"id": "a", "prediction": 0.3}]})
    rows = {"rows": [{"id": "a", "prediction": 0.8, "label": 1}]}
    assert answered(api.post("/monitors/m/rows", json=rows)) == {"accepted": 1, "joined": 1}
    assert ledger.buckets.tally(0, 2**31).event().p.tolist() == [0.3]


def test_a_duplicate_id_in_a_request_counts_once(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    rows = [{"id": f"r{i % 3}", "prediction": 0.5, "label": int(i == 5)} for i in range(9)]
    answer = answered(api.post("/monitors/m/rows", json={"rows": rows}))
    assert (answer["accepted"], answer["duplicates"], answer["contradicted"]) == (3, 5, 1)
    assert answer["refusals"][0]["row"] == 5
    assert counted(ledger) == 3
    twice = {"rows": [{"id": "p", "prediction": 0.5}, {"id": "p", "prediction": 0.6}]}
    assert answered(api.post("/monitors/m/predictions", json=twice)) == {"accepted": 1, "duplicates": 1}
    labels = {"rows": [{"id": "p", "label": 1}, {"id": "p", "label": 0}]}
    answer = answered(api.post("/monitors/m/labels", json=labels))
    assert (answer["joined"], answer["contradicted"]) == (1, 1)


def test_more_rows_than_one_step_takes_are_all_counted(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    rows = [{"id": i, "prediction": i / 12_000, "label": i % 2} for i in range(12_000)]
    assert answered(api.post("/monitors/m/rows", json={"rows": rows}))["accepted"] == 12_000
    assert answered(api.post("/monitors/m/rows", json={"rows": rows[::-1]}))["duplicates"] == 12_000
    assert (counted(ledger), ledger.known()) == (12_000, 12_000)


def test_rows_without_ids_are_counted_each_time_but_once_with_an_idempotency_key(
    store: Store, api: httpx.Client
) -> None:
    ledger = monitored(store)
    rows = {"rows": [{"prediction": 0.25, "label": 1}, {"prediction": 0.5, "label": 0}]}
    for _ in range(2):
        assert answered(api.post("/monitors/m/rows", json=rows)) == {"accepted": 2, "joined": 2}
    assert counted(ledger) == 4
    for _ in range(2):
        answer = api.post("/monitors/m/rows", json=rows, headers={"Idempotency-Key": "k"})
        assert answered(answer) == {"accepted": 2, "joined": 2}
    assert counted(ledger) == 6


def test_rows_are_counted_in_the_bucket_of_their_time(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    now = time.time()
    rows: list[dict[str, Any]] = [
        {"id": str(i), "prediction": 0.5, "label": 1, "timestamp": at(now - 7200 * (i % 2))} for i in range(10)
    ]
    assert answered(api.post("/monitors/m/rows", json={"rows": rows}))["joined"] == 10
    counts = ledger.buckets.counts_by_bucket(0, 2**31)
    assert [bucket["joined"] for bucket in counts.values()] == [5, 5]
    assert max(counts) - min(counts) == 2


def test_the_delay_of_a_label_is_counted_where_its_prediction_is(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    now = time.time()
    api.post("/monitors/m/predictions", json={"rows": [{"id": "a", "prediction": 0.5, "timestamp": at(now - 3600)}]})
    api.post("/monitors/m/labels", json={"rows": [{"id": "a", "label": 1, "timestamp": at(now - 3500)}]})
    counts = ledger.buckets.counts(0, 2**31)
    assert counts == {"predictions": 1, "joined": 1} | {DELAY_FIELDS[int(delay_bins(np.array([100.0]))[0])]: 1}


def test_groups_beyond_the_bound_are_counted_together_and_reported(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, max_groups=2)
    rows = [{"prediction": 0.5, "label": 1, "group": name} for name in ("a", "b", "c", "d", "a")]
    answer = answered(api.post("/monitors/m/rows", json={"rows": rows}))
    assert (answer["accepted"], answer["other_group"]) == (5, 2)
    tally = ledger.buckets.tally(0, 2**31)
    assert [len(tally.of_group(group)) for group in range(5)] == [0, 2, 2, 1, 0]


def test_the_reserved_group_name_is_refused_and_an_empty_name_means_no_group(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, max_groups=2, windows=[{"name": "day", "seconds": 86_400}])
    names = ["(other)"] * 7 + ["x"] * 5 + ["y"] * 3 + ["z"] * 2 + [""]
    rows = [{"prediction": 0.25, "label": 1, "group": name} for name in names]
    answer = answered(api.post("/monitors/m/rows", json={"rows": rows}))
    assert (answer["accepted"], answer["refused"], answer["other_group"]) == (11, 7, 2)
    assert {refusal["code"] for refusal in answer["refusals"]} == {"invalid-group"}
    groups = api.get("/monitors/m").json()["windows"][0]["groups"]
    assert {name: group["rows"] for name, group in groups.items()} == {"x": 5, "y": 3, "(other)": 2}
    assert len(ledger.buckets.tally(0, 2**31).of_group(NO_GROUP)) == 1


def test_rows_for_an_unknown_monitor_are_404(api: httpx.Client) -> None:
    answer = api.post("/monitors/none/rows", json={"rows": []})
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-monitor")
