"""The pauses before a child is started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from service.stack import HEALTHY_SECONDS, PAUSES, Backoff, Child, SettingsRefused

FIRST, LONGEST = PAUSES


def test_pauses_grow_to_their_limit_and_are_reset_after_a_healthy_period() -> None:
    backoff = Backoff()
    for failures in range(200):
        longest = min(FIRST * 2.0 ** min(failures, 16), LONGEST)
        assert longest / 2 <= backoff.pause(0.0) <= longest
    assert FIRST / 2 <= backoff.pause(HEALTHY_SECONDS) <= FIRST


def _ended(status: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"])
    process.wait()
    return process


def _mended(child: Child, before: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    while child.process is before:
        child.mend()
    return child.process


def test_a_child_that_cannot_be_started_now_is_tried_again() -> None:
    def starts() -> Iterator[subprocess.Popen[bytes] | OSError]:
        yield BlockingIOError(11, "Resource temporarily unavailable")
        yield _ended(0)

    coming = starts()

    def start() -> subprocess.Popen[bytes]:
        outcome = next(coming)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    first = _ended(1)
    assert _mended(Child("the worker", start, first), first).returncode == 0


def test_a_child_whose_settings_are_refused_is_not_started_again() -> None:
    child = Child("the API", lambda: pytest.fail("it was started again"), _ended(2))
    with pytest.raises(SettingsRefused, match="the API rejected its settings"):
        child.mend()
