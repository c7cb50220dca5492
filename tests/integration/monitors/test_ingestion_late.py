"""Rows that are sent again around the time at which their ids are forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backend.monitors.ingestion import Account, Ingestion
from backend.monitors.looks import expire
from backend.monitors.rows import MonitorRows, What
from backend.store.monitors.ids import Ids
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.store import Store
from schemas.base import DAY, HOUR
from schemas.monitors import IngestionResult
from tests.integration.monitors.monitored import counted, monitored

NOW = 1_700_000_000.0
SKEW = 300


def take(
    store: Store, ledger: Ledger, what: What, now: float, *, time: float | None, named: bool = True
) -> IngestionResult:
    """One row that is sent at a time and names another."""
    columns: dict[str, Any] = {"ids": Ids.of([b"a"]) if named else None}
    columns["times"] = None if time is None else np.array([time])
    if what != "labels":
        columns["predictions"] = np.array([0.25])
    if what != "predictions":
        columns["labels"] = np.array([1.0])
    record, account = store.monitors.get("m"), Account()
    rows = MonitorRows(np.zeros(1, np.uint8), np.arange(1), **columns)
    Ingestion(ledger, MonitorGroups(store.redis, store.keys, record), record).add(what, rows, now, account)
    return account.answer()


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [0.0, float(SKEW)])
@pytest.mark.parametrize("earlier", [None, "labels", "predictions"])
def test_a_row_with_an_id_and_a_time_counts_once_whenever_it_is_sent_again(
    store: Store, ahead: float, earlier: What | None
) -> None:
    ledger = monitored(store)
    # What else was said of the id came long before, so that it would be forgotten long before.
    if earlier is not None:
        take(store, ledger, earlier, NOW - 0.9 * DAY, time=None)
    assert take(store, ledger, "rows", NOW, time=NOW + ahead).joined == 1
    ends = []
    for later in np.arange(0, 3 * DAY, HOUR / 2):
        assert expire(ledger, NOW + later, 60)
        receipt = take(store, ledger, "rows", NOW + later, time=NOW + ahead)
        assert receipt.joined == 0
        ends.append(receipt.refusals[0].code if receipt.refused else "duplicate")
        assert receipt.refused + receipt.duplicates == 1
    assert list(dict.fromkeys(ends)) == ["duplicate", "too-old"]
    assert (counted(ledger), ledger.known()) == (1, 0)


@pytest.mark.parametrize("what", ["rows", "predictions", "labels"])
def test_an_id_beyond_the_horizon_is_refused_as_too_old_with_the_reason(store: Store, what: What) -> None:
    ledger = monitored(store)
    (refused,) = take(store, ledger, what, NOW, time=NOW - DAY - 1).refusals
    assert (refused.code, "the id may have expired" in refused.detail) == ("too-old", True)
    assert take(store, ledger, what, NOW, time=NOW - DAY + 1).accepted == 1


def test_rows_without_ids_are_taken_as_far_back_as_buckets_are_kept(store: Store) -> None:
    ledger = monitored(store, retention=10 * DAY)
    assert take(store, ledger, "rows", NOW, time=NOW - 9 * DAY, named=False).joined == 1
    assert take(store, ledger, "rows", NOW, time=NOW - 11 * DAY, named=False).refusals[0].code == "too-old"
