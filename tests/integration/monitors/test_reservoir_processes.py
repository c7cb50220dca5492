"""Processes that fill the reservoirs of one monitor at once, and are killed; the sample does not depend on it."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

import calibrant
from backend.monitors.ingestion import Account, Ingestion
from backend.monitors.rows import MonitorRows
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ids import Ids
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.server.connection import connect
from backend.store.store import Store
from calibrant.monitoring.reservoir import NO_LABEL, Reservoir, priorities_of
from schemas.base import HOUR
from tests.integration.monitors.monitored import monitored
from tests.integration.monitors.test_processes import names_of
from tests.warm_service import Popen

pytestmark = pytest.mark.slow

#: Rows in all, in this many hours, those of one request, and classes. The time of the first row.
ROWS, HOURS, CHUNK, K, BEGAN = 6_000, 6, 200, 3, 500_000 * HOUR
#: Processes that are killed, and vectors that are kept.
KILLED, SIZE = 4, 1000


def send(url: str, seed: int) -> None:
    """Send all rows, and the labels of some later, in an order of one's own; announce every request before."""
    store = Store.of(connect(url))
    record = Definitions(store.redis, store.keys).get("m")
    ledger, groups = Ledger(store.redis, store.keys, record), MonitorGroups(store.redis, store.keys, record)
    logits, labels, _ = calibrant.logistic_normal(ROWS, n_classes=K, seed=0)
    order = np.random.default_rng(seed).permutation(ROWS)
    for start in range(0, ROWS, CHUNK):
        rows = order[start : start + CHUNK]
        times = (BEGAN + HOUR * (rows % HOURS) + 1).astype(np.float64)
        ids, none, at = Ids.of(names_of(rows)), np.zeros(CHUNK, np.uint8), np.arange(CHUNK)
        ingestion, now = Ingestion(ledger, groups, record), BEGAN + HOURS * HOUR
        sys.stdout.write("next\n")
        sys.stdout.flush()
        ingestion.add("predictions", MonitorRows(none, at, ids, predictions=logits[rows], times=times), now, Account())
        known = rows % 2 == 0
        late = MonitorRows(none, at, ids, labels=labels[rows].astype(float)).taken(known)
        ingestion.add("labels", late, now, Account())
        if start % (10 * CHUNK) == 0:
            ledger.buckets.vectors.thin(0, 0)


def test_the_sample_is_the_same_whoever_is_killed_while_it_is_filled(store: Store, redis_url: str) -> None:
    ledger = monitored(store, n_classes=K, scale="logit", reduction="confidence", reservoir=SIZE)
    commands = [[sys.executable, "-m", __name__, redis_url, str(seed)] for seed in range(KILLED + 1)]
    for number, command in enumerate(commands[:KILLED]):
        with Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            # After other numbers of requests, so that each is killed elsewhere in its work.
            assert all(process.stdout.readline() == "next\n" for _ in range(2 + 7 * number))
            process.send_signal(signal.SIGKILL)
    subprocess.run(commands[KILLED], check=True, stdout=subprocess.DEVNULL)
    uid = store.monitors.get("m").id
    logits, labels, _ = calibrant.logistic_normal(ROWS, n_classes=K, seed=0)
    rows = np.arange(ROWS)
    known = np.where(rows % 2 == 0, labels, NO_LABEL)
    expected = Reservoir.of(priorities_of(names_of(rows), uid), logits, known).at_most(SIZE)
    sampled = ledger.buckets.vectors.sample(0, 2**40)
    assert np.array_equal(sampled.priorities, expected.priorities)
    assert np.array_equal(sampled.vectors, expected.vectors)
    assert np.array_equal(sampled.labels, expected.labels)
    totals = ledger.totals()
    assert (totals["predictions"], totals["joined"]) == (ROWS, ROWS // 2)


if __name__ == "__main__":
    send(sys.argv[1], int(sys.argv[2]))
