"""Rows that cannot be counted are refused and named, and the others count."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import httpx
import numpy as np
import pytest

from backend.store.clock import at
from backend.store.monitors.ids import Ids
from backend.store.monitors.ledger import MonitorGroups
from backend.store.store import Store
from tests.body_formats import NPZ
from tests.integration.monitors.monitored import answered, counted, monitored, refusals_of
from tests.integration.responses import code_of
from tests.packed import npz

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
GOOD = {"id": "good", "prediction": 0.5, "label": 1}


def send(api: httpx.Client, rows: list[Any], what: str = "rows") -> dict[str, Any]:
    return answered(api.post(f"/monitors/m/{what}", content=json.dumps({"rows": rows}).encode(), headers=JSON))


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"prediction": None}, "missing-prediction"),
        ({"prediction": "0.5"}, "not-a-number"),
        ({"prediction": True}, "not-a-number"),
        ({"prediction": [0.5, 0.5]}, "wrong-shape"),
        ({"prediction": 1.1}, "out-of-range"),
        ({"label": None}, "missing-label"),
        ({"label": 2}, "invalid-label"),
        ({"label": 0.5}, "invalid-label"),
        ({"label": "true"}, "invalid-label"),
        ({"label": "1"}, "invalid-label"),
        ({"id": "x" * 201}, "invalid-id"),
        ({"id": "é" * 101}, "invalid-id"),
        ({"id": 1.5}, "invalid-id"),
        ({"id": 2**64}, "invalid-id"),
        ({"timestamp": "yesterday"}, "invalid-timestamp"),
        ({"timestamp": "2026-01-01T00:00:00"}, "invalid-timestamp"),
        ({"timestamp": "2026-W47-7T04:00:00Z"}, "invalid-timestamp"),
        ({"timestamp": "20260101T000000Z"}, "invalid-timestamp"),
        ({"timestamp": "1970-01-01T00:00:00Z"}, "too-old"),
        ({"timestamp": 0}, "invalid-timestamp"),
        ({"timestamp": 1_769_860_800.5}, "invalid-timestamp"),
        ({"timestamp": "1769860800"}, "invalid-timestamp"),
        ({"timestamp": 1e300}, "invalid-timestamp"),
        ({"timestamp": "2999-01-01T00:00:00Z"}, "from-the-future"),
        ({"group": "g" * 10_240}, "invalid-group"),
        ({"group": 5}, "invalid-group"),
        ({"predictions": 0.5}, "invalid-field"),
    ],
)
def test_an_invalid_row_is_refused_with_its_field(store: Store, api: httpx.Client, row: Any, code: str) -> None:
    ledger = monitored(store)
    answer = send(api, [GOOD | {"id": "bad"} | row, GOOD])
    refusals = answer.pop("refusals")
    assert answer == {"accepted": 1, "joined": 1, "refused": 1}
    assert [(refusal["row"], refusal["code"]) for refusal in refusals] == [(0, code)]
    assert counted(ledger) == 1
    assert ledger.totals() == {"predictions": 1, "labels": 1, "joined": 1, "refused": 1}


def test_integers_of_64_bits_are_ids_and_the_refusal_of_longer_ones_names_this_limit(
    store: Store, api: httpx.Client
) -> None:
    monitored(store)
    answer = send(api, [GOOD | {"id": number} for number in (-(2**63), 2**64 - 1, 2**64)])
    assert answer["accepted"] == 2
    assert [(refusal["row"], "64 bits" in refusal["detail"]) for refusal in answer["refusals"]] == [(2, True)]


def test_a_row_that_is_no_object_is_refused(store: Store, api: httpx.Client) -> None:
    monitored(store)
    answer = send(api, [GOOD, 5, None, [0.5]])
    assert (answer["accepted"], [refusal["row"] for refusal in answer["refusals"]]) == (1, [1, 2, 3])


def test_nan_in_one_row_refuses_that_row(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    lines = b'{"prediction": 0.5, "label": 1}\n{"prediction": NaN, "label": 1}\n\n{"prediction": 0.25, "label": 0}\n'
    answer = answered(api.post("/monitors/m/rows", content=lines, headers=LINES))
    assert (answer["accepted"], answer["refused"]) == (2, 1)
    assert (answer["refusals"][0]["row"], answer["refusals"][0]["code"]) == (1, "not-finite")
    assert counted(ledger) == 2


def test_a_refused_row_may_be_corrected_and_resent(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    assert send(api, [GOOD | {"prediction": 7}])["refused"] == 1
    assert send(api, [GOOD]) == {"accepted": 1, "joined": 1}
    assert counted(ledger) == 1


def test_predictions_and_labels_need_ids(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    for what, row in (("predictions", {"prediction": 0.5}), ("labels", {"label": 1})):
        answer = send(api, [row, {"id": ""} | row], what)
        assert [refusal["code"] for refusal in answer["refusals"]] == ["missing-id", "missing-id"]
    assert ledger.known() == 0


def test_labels_of_unknown_ids_wait_until_their_predictions_come(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    assert send(api, [{"id": "unknown", "label": 1}], "labels") == {"accepted": 1, "waiting": 1}
    assert counted(ledger) == 0
    assert send(api, [{"id": "unknown", "prediction": 0.5}], "predictions") == {"accepted": 1, "joined": 1}
    assert counted(ledger) == 1


def test_times_ahead_within_the_allowed_skew_are_accepted(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, skew=60)
    now = time.time()
    answer = send(api, [GOOD | {"timestamp": at(now + 30)}, GOOD | {"id": "far", "timestamp": at(now + 120)}])
    assert (answer["accepted"], answer["refusals"][0]["code"]) == (1, "from-the-future")
    # A label that came before its prediction, as clocks say, waited no time.
    send(api, [{"id": "p", "prediction": 0.5, "timestamp": at(now + 30)}], "predictions")
    send(api, [{"id": "p", "label": 1, "timestamp": at(now - 30)}], "labels")
    assert ledger.buckets.counts(0, 2**31)["d0"] == 2


def test_ten_thousand_groups_are_those_of_the_bound_and_the_others(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, max_groups=100)
    rows = [{"prediction": 0.5, "label": 1, "group": f"g{i}"} for i in range(10_000)]
    assert send(api, rows) == {"accepted": 10_000, "joined": 10_000, "other_group": 9900}
    record = store.monitors.get("m")
    assert len(MonitorGroups(store.redis, store.keys, record).all()) == 100
    assert counted(ledger) == 10_000


def test_only_the_first_of_many_refused_rows_are_named_and_all_are_counted(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    answer = send(api, [{"id": str(i), "prediction": 2, "label": 1} for i in range(7000)])
    assert (answer["refused"], [refusal["row"] for refusal in answer["refusals"]]) == (7000, list(range(20)))
    assert ledger.totals() == {"refused": 7000}


def test_no_refusal_repeats_what_was_sent(store: Store, api: httpx.Client) -> None:
    monitored(store)
    secret = "correct-horse-battery-staple"
    for row in ({"prediction": secret}, {"group": secret * 10}, {"timestamp": secret}, {secret: 1}, {"label": secret}):
        assert secret not in json.dumps(send(api, [GOOD | row]))


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"rows": [{]}', "malformed-json", 400),
        (b'{"rows": [{"prediction": nan, "label": 1}]}', "malformed-json", 400),
        (b"[]", "invalid-field", 422),
        (b'{"rows": 5}', "invalid-field", 422),
        (b'{"rows": [], "more": 1}', "invalid-field", 422),
        (b'{"rows": [{"id": "a", "id": "b", "prediction": 0.5, "label": 1}]}', "invalid-field", 422),
        (b'{"rows": [' + b"[" * 40 + b"]" * 40 + b"]}", "too-large", 413),
    ],
)
def test_a_body_that_cannot_be_read_is_a_problem_and_counts_nothing(
    store: Store, api: httpx.Client, body: bytes, kind: str, status: int
) -> None:
    ledger = monitored(store)
    answer = api.post("/monitors/m/rows", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{kind}")
    assert ledger.totals() == {}


def test_a_monitor_that_knows_as_many_ids_as_it_may_loses_nothing(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, max_ids=1000)
    send(api, [{"id": str(i), "prediction": 0.5, "label": 1} for i in range(900)])
    answer = api.post(
        "/monitors/m/rows", json={"rows": [{"id": f"n{i}", **GOOD} | {"id": f"n{i}"} for i in range(200)]}
    )
    assert code_of(answer) == (429, "monitor-full")
    assert "; 0 rows of this request are counted" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) > 0
    assert (ledger.known(), counted(ledger)) == (900, 900)
    rng = np.random.default_rng(1)
    rows = [{"prediction": p, "label": 1} for p in rng.uniform(size=50).tolist()]
    assert send(api, rows)["accepted"] == 50


def test_a_full_monitor_reports_how_many_rows_were_counted(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, max_ids=6000)
    rows = [{"id": str(i), "prediction": 0.5, "label": 1} for i in range(7000)]
    answer = api.post("/monitors/m/rows", json={"rows": rows})
    assert code_of(answer) == (429, "monitor-full")
    assert answer.json()["detail"].endswith("; 5,000 rows of this request are counted")
    assert counted(ledger) == 5000


def test_a_full_monitor_refuses_labels_of_unknown_ids_and_joins_the_others(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, max_ids=1000)
    send(api, [{"id": str(i), "prediction": 0.5} for i in range(1000)], "predictions")
    answer = send(api, [{"id": "0", "label": 1}, {"id": "new", "label": 1}, {"id": "1", "label": 0}], "labels")
    assert (answer["joined"], answer["refused"]) == (2, 1)
    assert refusals_of(answer) == [(1, "monitor-full")]
    assert counted(ledger) == 2
    only_new = api.post("/monitors/m/labels", json={"rows": [{"id": "new", "label": 1}]})
    assert only_new.json()["type"] == "/problems/monitor-full"


def test_rows_that_are_too_old_are_listed_once_with_their_number_and_the_remedy(
    store: Store, api: httpx.Client
) -> None:
    monitored(store)
    old = [{"prediction": 0.5, "label": 1, "timestamp": at(0)}] * 30
    late = [{"id": "a", "prediction": 0.5, "label": 1, "timestamp": at(time.time() - 2 * 86_400)}]
    answer = send(api, [GOOD, *old, {"prediction": 2, "label": 1}, *late])
    refusals = [(refusal["row"], refusal["code"], refusal["rows"]) for refusal in answer["refusals"]]
    assert refusals == [(1, "too-old", 30), (31, "out-of-range", 1), (32, "too-old", 1)]
    assert "increase `retention`" in answer["refusals"][0]["detail"]
    assert "longer `horizon`" in answer["refusals"][2]["detail"]
    assert (answer["accepted"], answer["refused"]) == (1, 32)


def test_the_refusal_names_the_unknown_field_of_its_row(store: Store, api: httpx.Client) -> None:
    monitored(store)
    rows = [GOOD, {"prediction": 0.5, "lable": 1}, {"prediction": 0.5, "label": 1, "not a name {0}": 1}]
    details = [refusal["detail"] for refusal in send(api, rows)["refusals"]]
    assert details[0].startswith("has the unknown field lable; allowed are")
    assert details[1].startswith("has an unknown field; allowed are")
    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    refusals = answered(api.post("/monitors/m/rows", content=lines, headers=LINES))["refusals"]
    assert [refusal["detail"] for refusal in refusals] == details


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("filler", [0, 9000])
def test_nan_in_a_json_body_refuses_the_row_as_in_other_formats(
    store: Store, api: httpx.Client, text: bytes, filler: int
) -> None:
    ledger = monitored(store)
    rest = b"".join(b', {"id": "Infinity, NaN %d", "prediction": 0.5, "label": 1}' % i for i in range(1 + filler))
    bad = b'{"prediction": ' + text + b', "label": 1}, {"prediction": 0.5, "label": ' + text + b"}"
    worse = b'{"id": ' + text + b', "prediction": 0.5, "label": 1}'
    answer = answered(
        api.post("/monitors/m/rows", content=b'{"rows": [' + bad + b", " + worse + rest + b"]}", headers=JSON)
    )
    refusals = refusals_of(answer)
    assert refusals == [(0, "not-finite"), (1, "invalid-label"), (2, "invalid-id")]
    assert answer["accepted"] == counted(ledger) == 1 + filler
    assert ledger.entries(Ids.of([b"Infinity, NaN 0"])) != [None]


def test_nan_in_a_vector_or_an_event_refuses_the_row(store: Store, api: httpx.Client) -> None:
    monitored(store, n_classes=3, reduction="confidence")
    body = b'{"rows": [{"prediction": [0.5, NaN, 0.5], "label": 1}, {"prediction": [0.5, 0, 0.5], "label": 1}]}'
    answer = answered(api.post("/monitors/m/rows", content=body, headers=JSON))
    assert refusals_of(answer) == [(0, "not-finite")]
    event = b'{"specversion": "1.0", "id": "1", "source": "/", "type": "com.calibrant.rows", "data": ' + body + b"}"
    receipt = answered(api.post("/monitors/m/events", content=event, headers=JSON))
    assert refusals_of(receipt) == [(0, "not-finite")]


def test_text_that_only_resembles_nan_is_malformed(store: Store, api: httpx.Client) -> None:
    monitored(store)
    for text in (b"NaNs", b"nan", b"--Infinity", b"NaN NaN", b"infinity"):
        body = b'{"rows": [{"prediction": ' + text + b', "label": 1}]}'
        assert api.post("/monitors/m/rows", content=body, headers=JSON).json()["type"] == "/problems/malformed-json"


def test_lines_that_are_blank_are_refused_together_where_they_are_too_many(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    bomb = gzip.compress(b"\n" * 1_000_001)
    response = api.post("/monitors/m/rows", content=bomb, headers=LINES | {"content-encoding": "gzip"})
    assert code_of(response) == (413, "too-large")
    assert ledger.totals() == {}


@pytest.mark.slow
def test_predictions_of_one_event_are_bounded_as_rows_are(store: Store, api: httpx.Client) -> None:
    monitored(store)
    event = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/",
        "ce-type": "org.kubeflow.serving.inference.response",
    }
    body = b'{"predictions": [' + b"1," * 1_000_000 + b"1]}"
    response = api.post("/monitors/m/events", content=body, headers=JSON | event)
    assert code_of(response) == (413, "too-large")


def test_a_time_in_milliseconds_is_refused_with_a_hint(store: Store, api: httpx.Client) -> None:
    monitored(store)
    body = npz(
        predictions=np.array([0.5]), labels=np.array([1]), timestamps=np.array([int(time.time() * 1000)], "M8[s]")
    )
    [refused] = api.post("/monitors/m/rows", content=body, headers={"content-type": NPZ}).json()["refusals"]
    assert refused["code"] == "from-the-future"
    assert "in milliseconds" in refused["detail"]


def test_rfc_3339_may_be_in_lower_case(store: Store, api: httpx.Client) -> None:
    monitored(store)
    when = time.strftime("%Y-%m-%dt%H:%M:%S.123456789z", time.gmtime(time.time() - 60))
    assert send(api, [GOOD | {"timestamp": when}]) == {"accepted": 1, "joined": 1}


def test_a_null_optional_field_is_ignored(store: Store, api: httpx.Client) -> None:
    monitored(store)
    assert send(api, [GOOD | {"weight": None}]) == {"accepted": 1, "joined": 1}


_OTHERS: list[tuple[dict[str, Any], str | None]] = [
    ({"reduction": "class:1"}, "unknown-reduction"),
    ({"reduction": "confidence", "scale": "logit"}, "scale-mismatch"),
    ({"reduction": "canonical", "method": "temperature", "allow_shape_change": True}, None),
    ({"reduction": "binary", "predictions": [0.2, 0.4, 0.6], "labels": [0, 1, 0]}, "wrong-shape"),
]


@pytest.mark.parametrize(("other", "code"), _OTHERS)
def test_predictions_are_refused_once_the_alias_refers_to_a_map_that_does_not_fit_the_monitor(
    api: httpx.Client, other: dict[str, Any], code: str | None
) -> None:
    rows = {"predictions": [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7]], "labels": [1, 1, 2]}
    first = {"name": "map", "method": "identity", "reduction": "confidence"}
    for version, body in enumerate((rows | first, rows | first | other), 1):
        assert api.post("/maps", json=body).json()["version"] == version
    api.put("/maps/map/aliases/live", json={"version": 1}).raise_for_status()
    api.post("/monitors", json={"name": "m", "map": "map@live", "n_classes": 3}).raise_for_status()
    row = {"id": "a", "prediction": [0.2, 0.5, 0.3], "label": 1}
    assert send(api, [row]) == {"accepted": 1, "joined": 1}
    api.put("/maps/map/aliases/live", json={"version": 2}).raise_for_status()
    response = api.post("/monitors/m/rows", json={"rows": [row | {"id": "b"}]})
    if code is None:  # a map of the whole vector fits every reduction
        assert answered(response) == {"accepted": 1, "joined": 1}
        return
    problem = response.json()
    assert (response.status_code, problem["type"]) == (422, f"/problems/{code}")
    assert [error["pointer"] for error in problem["errors"]] == ["/map"]
    assert send(api, [{"id": "c", "label": 1}], "labels") == {"accepted": 1, "waiting": 1}
    assert api.get("/monitors/m").json()["counts"]["joined"] == 1
