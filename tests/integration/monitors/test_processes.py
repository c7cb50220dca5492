"""Processes that send the same rows at once, and die at any moment; every row counts once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ids import Ids, padded
from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.server.connection import connect
from backend.store.store import Store
from calibrant.monitoring.tally import tally_of
from tests.integration.monitors.stored import NOW, monitor
from tests.warm_service import Popen

pytestmark = pytest.mark.slow

#: Rows in all, those of one commit, and the processes.
ROWS, CHUNK, PROCESSES = 4000, 100, 4


def p_of(rows: np.ndarray) -> np.ndarray:
    """The prediction of each row."""
    return (rows * 0.618) % 1.0


def names_of(rows: np.ndarray) -> list[bytes]:
    return [b"row-%d" % row for row in rows.tolist()]


def _commit(ledger: Ledger, rows: np.ndarray) -> None:
    """Count labelled rows; those that are known already no more."""
    rows = np.unique(rows)
    while len(rows):
        p = p_of(rows)
        both = (tally_of(p, (p > 0.5).astype(np.int8)), None)
        ids, entries = Ids.of(names_of(rows)), padded([b"J1"] * len(rows), 40)
        n = len(rows)
        change = RowChanges(ids, None, entries, NOW, {7: both}, {7: {"joined": n}}, {"joined": n})
        conflict = ledger.commit(change)
        if conflict is None:
            return
        rows = np.delete(rows, conflict.indices)


def send(url: str, seed: int) -> None:
    """Send all rows in its own order once started, and report every commit."""
    store = Store.of(connect(url))
    ledger = Ledger(store.redis, store.keys, Definitions(store.redis, store.keys).get("m"))
    rows = np.random.default_rng(seed).permutation(ROWS)
    sys.stdin.readline()
    for start in range(0, ROWS, CHUNK):
        _commit(ledger, rows[start : start + CHUNK])
        sys.stdout.write("committed\n")
        sys.stdout.flush()
    sys.stdin.read()  # whoever is killed is still there on a busy machine


@contextmanager
def _senders(url: str) -> Iterator[list[Popen[str]]]:
    """Processes that send at once."""
    with ExitStack() as processes:
        started = []
        for seed in range(PROCESSES):
            args = [sys.executable, "-m", __name__, url, str(seed)]
            process = Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes.enter_context(process)
            processes.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield started


def test_rows_sent_by_many_processes_of_which_some_are_killed_count_once(store: Store, redis_url: str) -> None:
    record = monitor(store)
    with _senders(redis_url) as (*killed, last, other):
        for i, process in enumerate(killed):
            assert process.stdout is not None
            assert all(process.stdout.readline() for _ in range(3 + 8 * i))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        for process in (last, other):
            process.communicate()
            assert process.returncode == 0
    ledger = Ledger(store.redis, store.keys, record)
    p = p_of(np.arange(ROWS))
    expected = tally_of(p, (p > 0.5).astype(np.int8))
    counted = ledger.buckets.tally(7, 7)
    assert ledger.known() == len(counted) == ROWS
    assert ledger.totals() == ledger.buckets.counts(0, 9) == {"joined": ROWS}
    assert np.array_equal(counted.keys, expected.keys)
    assert np.array_equal(counted.rows, expected.rows)
    assert np.allclose(counted.p_sum, expected.p_sum, rtol=1e-12, atol=0)
    arrived = Counter(row for slot in ledger.due_slots(1e12) for row in _of_slot(ledger, slot))
    assert set(arrived) == set(names_of(np.arange(ROWS)))
    assert set(arrived.values()) == {1}


def _of_slot(ledger: Ledger, slot: int) -> Iterator[bytes]:
    """Every id of a slot, which is forgotten."""
    while (pieces := ledger.oldest(slot)) is not None:
        names = pieces.ids.strings()
        yield from names
        forget = RowChanges(pieces.ids, padded([b"J1"] * len(names), 40), None, NOW, forgets=pieces)
        assert ledger.commit(forget) is None


if __name__ == "__main__":
    send(sys.argv[1], int(sys.argv[2]))
