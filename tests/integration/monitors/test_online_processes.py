"""Processes that follow the stream of one monitor at once, and are killed; each bucket counts once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from backend.monitors.recalibration import recalibrate_at
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.standings import Standings
from backend.store.pages import PageRequest
from backend.store.server.connection import connect
from backend.store.store import Store
from tests.integration.monitors.streams import BEGAN, HOUR, pour, rows
from tests.integration.monitors.test_online import online, progress, state
from tests.integration.monitors.test_recalibrating import champion
from tests.warm_service import Popen

pytestmark = pytest.mark.slow

#: Hours of the stream, and processes that are killed.
HOURS, KILLED = 120, 4


def work(url: str) -> None:
    """Follow the stream hour by hour, and announce each hour before."""
    store = Store.of(connect(url))
    record = Definitions(store.redis, store.keys).get("m")
    for hour in range(1, HOURS + 1):
        sys.stdout.write("next\n")
        sys.stdout.flush()
        recalibrate_at(store, record, BEGAN + hour * HOUR + 1.0)


def test_processes_that_are_killed_neither_lose_nor_repeat_a_bucket(store: Store, redis_url: str) -> None:
    champion(store, "m")
    record = online(store, map="m@champion", level=0.999999)
    for hour in range(HOURS):
        tally = rows(100, hour, shift=0.3)
        pour(store, record, hour, tally, raw=tally)
    for number in range(KILLED):
        command = [sys.executable, "-m", __name__, redis_url]
        with Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            # After other numbers of lines, so that each is killed elsewhere in its work.
            assert all(process.stdout.readline() == "next\n" for _ in range(3 + 7 * number))
            process.send_signal(signal.SIGKILL)
    recalibrate_at(store, record, BEGAN + HOURS * HOUR + 1.0)
    standing = progress(store, record)
    assert (standing.rounds, standing.rows, state(store, record).rounds) == (HOURS, 100 * HOURS, HOURS)
    alias = store.aliases.get("m", "champion")
    assert alias.map == standing.in_force == standing.versions[-1].map
    # No version was written twice, and each has one event and one entry of the audit.
    versions = store.maps.versions("m")
    assert versions == list(range(1, len(versions) + 1))
    standings = Standings(store.redis, store.keys, record)
    assert standings.read().versions == len(versions) - 1
    applied = [event for event in standings.events(PageRequest(100)).items if event.type.endswith("applied")]
    assert len(applied) == len({event.id for event in applied}) == len(versions) - 1
    moved = [entry for entry in standings.audit(PageRequest(100)).items if entry.action == "alias-moved"]
    assert len(moved) == len(versions) - 1


if __name__ == "__main__":
    work(sys.argv[1])
