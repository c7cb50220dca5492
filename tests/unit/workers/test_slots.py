"""Slots of workers count starts that failed, whatever the worker that ended was doing."""

from __future__ import annotations

import os
import time

import pytest

from workers.supervisor import WorkerSlot

FAILED, STORE_AWAY = os.EX_SOFTWARE << 8, os.EX_TEMPFAIL << 8


def after(*ends: int, claimed: bool = False, lived: float = 0.0) -> WorkerSlot:
    """A slot whose workers ended with these wait statuses."""
    slot = WorkerSlot()
    for status in ends:
        slot.born, slot.claimed[0] = time.monotonic() - lived, claimed
        slot.note_end(status)
    return slot


def test_a_slot_fails_after_five_short_starts() -> None:
    assert not after(*[FAILED] * 4).is_failing
    assert after(*[FAILED] * 5).is_failing
    assert after(*[9] * 5).is_failing


@pytest.mark.parametrize(
    "slot",
    [after(*[FAILED] * 9, claimed=True), after(*[FAILED] * 9, lived=60.0), after(*[STORE_AWAY] * 9)],
    ids=["claimed work", "lived long", "lost the store"],
)
def test_workers_that_started_do_not_fail_a_slot(slot: WorkerSlot) -> None:
    assert not slot.is_failing


def test_a_slot_recovers_once_its_worker_lives_or_claims_work() -> None:
    slot = after(*[FAILED] * 5)
    slot.pid, slot.born = 1, time.monotonic()
    assert slot.is_failing
    slot.note_claim()
    assert not slot.is_failing
