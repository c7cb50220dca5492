from __future__ import annotations

import os
import signal
from datetime import UTC, datetime

import pytest

from backend.store.jobs.leases import Lease
from schemas.jobs import JobRecord
from workers.worker import MOST_GROWTH, MOST_RUNS, Horse, Order

ORDER = Order(
    JobRecord(
        id="job_1", kind="fit", status="running", created_at="2026-01-01T00:00:00.000Z", ttl=60, spec={"name": "\n"}
    ),
    Lease("default", "job_1", 1, "a-worker"),
    datetime(2026, 1, 1, tzinfo=UTC),
)


def _nothing(order: Order) -> None:
    assert order == ORDER


def test_an_order_goes_through_a_line() -> None:
    assert ORDER.line().count(b"\n") == 1
    assert Order.read(ORDER.line()) == ORDER


def test_a_work_horse_ends_after_so_many_runs() -> None:
    horse = Horse(_nothing)
    for _ in range(MOST_RUNS - 1):
        assert horse.send(ORDER)
        assert horse.read_answer() is True
    assert horse.send(ORDER)
    assert horse.read_answer() is False
    assert horse.end() in (0, signal.SIGKILL)


@pytest.mark.slow
def test_a_work_horse_that_took_much_memory_ends_after_the_run() -> None:
    horse = Horse(lambda _: print(end="x" * (2 * MOST_GROWTH), file=open(os.devnull, "w")))  # noqa: SIM115
    assert horse.send(ORDER)
    assert horse.read_answer() is False
    horse.end()


def test_a_dead_work_horse_is_detected_and_reported() -> None:
    horse = Horse(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    assert horse.send(ORDER)
    assert horse.read_answer() is None
    os.waitid(os.P_PID, horse.pid, os.WEXITED | os.WNOWAIT)  # it closes one pipe after the other
    assert not horse.send(ORDER)
    assert os.WTERMSIG(horse.end()) == signal.SIGKILL


def test_an_exception_of_a_run_ends_the_work_horse() -> None:
    horse = Horse(lambda _: [][0])
    assert horse.send(ORDER)
    assert horse.read_answer() is None
    assert os.WEXITSTATUS(horse.end()) == os.EX_SOFTWARE
