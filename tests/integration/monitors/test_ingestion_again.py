"""The same rows by many at once, again after a request was cut off, and through a map."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
from redis import ConnectionPool, Redis, UnixDomainSocketConnection
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Broken
from redis.retry import Retry

from backend.monitors.ingestion import Account, Ingestion
from backend.monitors.rows import MonitorRows
from backend.store.keyspace import Keyspace, Shared
from backend.store.monitors.ids import Ids
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.store import Store
from tests.integration.monitors.monitored import answered, counted, monitored


def nameless(n: int) -> MonitorRows:
    """Rows without ids, the middle one of which is refused."""
    p = np.full(n, 0.25)
    p[n // 2] = np.nan
    return MonitorRows(np.zeros(n, np.uint8), np.arange(n), predictions=p, labels=np.ones(n))


def test_a_request_without_ids_that_is_run_again_under_its_seed_counts_once(store: Store) -> None:
    ledger = monitored(store)
    record = store.monitors.get("m")
    groups = MonitorGroups(store.redis, store.keys, record)
    for attempt, (seed, rows) in enumerate([("s", nameless(50_000)), ("s", nameless(120_000)), ("t", nameless(10))]):
        account, now = Account(), time.time() + attempt
        Ingestion(ledger, groups, record, seed=seed).add("rows", rows, now, account)
        assert account.answer().joined == len(rows) - 1
    # The first attempt was cut off after the first piece; the second, of the whole request, adds what was missing.
    assert counted(ledger) == 49_999 + 70_000 - 1 + 9


class CutOff(UnixDomainSocketConnection):
    """A connection that breaks after the store has made a change, before its answer, again and again."""

    breaks = 0

    def read_response(self, *args: Any, **options: Any) -> Any:
        response = super().read_response(*args, **options)
        if isinstance(response, list) and response[:1] == [b"done"]:
            CutOff.breaks += 1
            if CutOff.breaks % 2:
                raise Broken("cut off")
        return response


@pytest.mark.parametrize("seed", [None, "s"])
@pytest.mark.parametrize("named", [False, True])
def test_rows_count_once_where_the_connection_broke_after_they_were_counted(
    store: Store, redis_url: str, seed: str | None, *, named: bool
) -> None:
    ledger = monitored(store)
    record = store.monitors.get("m")
    retry = Retry(NoBackoff(), 1, (Broken,))
    pool: Any = ConnectionPool.from_url(redis_url, connection_class=CutOff, retry=retry)
    with Redis(connection_pool=pool) as broken:
        groups, account, now = MonitorGroups(broken, Keyspace(), record), Account(), time.time()
        ingestion = Ingestion(Ledger(broken, Keyspace(), record), groups, record, seed=seed)
        before, rows = CutOff.breaks, nameless(100)
        if named:
            rows = replace(rows, ids=Ids.of([b"%d" % i for i in range(100)]))
        ingestion.add("rows", rows, now, account)
        ingestion.close(now, account)
    assert CutOff.breaks - before == 4
    assert (account.answer().joined, account.answer().duplicates, account.answer().refused) == (99, 0, 1)
    assert ledger.totals() == {"predictions": 99, "labels": 99, "joined": 99, "refused": 1}
    assert (counted(ledger), ledger.known()) == (99, 99 if named else 0)


def test_the_same_rows_by_many_clients_at_once_count_once(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    p = np.random.default_rng(4).uniform(size=3000).round(6)
    rows: list[dict[str, Any]] = [{"id": str(i), "prediction": q, "label": i % 2} for i, q in enumerate(p.tolist())]

    def send(turn: int) -> dict[str, Any]:
        mine = rows[turn * 300 :] + rows[: turn * 300]
        split = turn % 2
        if split:
            labels = [{"id": row["id"], "label": row["label"]} for row in mine]
            return answered(api.post("/monitors/m/labels", json={"rows": labels}))
        return answered(api.post("/monitors/m/rows", json={"rows": mine}))

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(send, range(6)))
    assert sum(answer.get("joined", 0) for answer in answers) == 3000
    assert not any("contradicted" in answer for answer in answers)
    tally = ledger.buckets.tally(0, 2**31)
    assert (len(tally), tally.p_sum.sum()) == (3000, pytest.approx(p.sum(), abs=1e-9))
    totals = ledger.totals()
    assert (totals["predictions"], totals["labels"], totals["joined"]) == (3000, 3000, 3000)


def test_a_map_is_applied_before_counting_and_the_raw_prediction_is_kept(store: Store, api: httpx.Client) -> None:
    p = np.random.default_rng(6).uniform(size=400)
    labels = (np.random.default_rng(7).uniform(size=400) < p**2).astype(int).tolist()
    fit = {"method": "platt", "name": "bent", "predictions": p.tolist(), "labels": labels}
    assert api.post("/maps", json=fit).status_code == 201
    ledger = monitored(store, map="bent")
    rows = [{"id": str(i), "prediction": q} for i, q in enumerate(p[:50].tolist())]
    assert answered(api.post("/monitors/m/predictions", json={"rows": rows})) == {"accepted": 50}
    late = [{"id": str(i), "label": label} for i, label in enumerate(labels[:50])]
    assert answered(api.post("/monitors/m/labels", json={"rows": late}))["joined"] == 50
    mapped = api.post("/calibrate", json={"map": "bent", "predictions": p[:50].tolist()}).json()["predictions"]
    buckets = ledger.buckets
    assert buckets.tally(0, 2**31).p_sum.sum() == pytest.approx(sum(mapped), abs=1e-9)
    assert buckets.tally(0, 2**31, kind="raw").p_sum.sum() == pytest.approx(p[:50].sum(), abs=1e-9)
    assert buckets.tally(0, 2**31, kind="raw").event().y.sum() <= 50


def test_a_look_is_scheduled_after_rows_were_counted(store: Store, api: httpx.Client) -> None:
    ledger: Ledger = monitored(store)
    assert answered(api.post("/monitors/m/rows", json={"rows": [{"prediction": 2, "label": 1}]}))["refused"] == 1
    assert not _asked(store)
    answered(api.post("/monitors/m/rows", json={"rows": [{"prediction": 0.5, "label": 1}]}))
    assert _asked(store) == [f"look:default:{store.monitors.get('m').id}"]
    assert counted(ledger) == 1


def _asked(store: Store) -> list[str]:
    names: Any = store.redis.zrange(Shared.chores_due(), 0, -1)
    return [name.decode() for name in names]
