from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from benchmarks.calibration_test import miscalibrated
from benchmarks.monitors.accuracy import GOAL, compared, shaped
from benchmarks.monitors.alarms import delay_cell
from benchmarks.monitors.streams import Stream
from benchmarks.monitors.watching import BUCKET, Betting, Windows
from tests.known import known

pytestmark = pytest.mark.slow


def test_the_watch_is_the_test_and_finds_the_error_after_it_began() -> None:
    watch, windows = Betting(), Windows(20_000, 1_000_000)
    stream = Stream(miscalibrated("square", 0.1), sound=25_000)
    for p, y in islice(stream.chunks(BUCKET, np.random.default_rng(0)), 6):
        watch.take(p, y)
        windows.take(p, y)
    assert watch.agrees()
    alarm = known(watch.first(0.01))
    assert 25_000 < alarm <= 30_000
    assert (len(watch.log_e), len(windows.p_values), windows.first(0.01)) == (60, 3, 40_000)


def test_a_delay_without_an_alarm_is_reported() -> None:
    assert delay_cell([1_000, 3_000, 2_000]) == "2,000 / 3,000"
    assert delay_cell([1_000, None, 2_000, None]) == "never / never (50%)"


def test_a_shape_is_read_off_its_tally_to_the_goal() -> None:
    random = np.random.default_rng(1)
    rows = known(shaped("uniform", "beta1", 0.05, random))
    errors, apart = compared(rows, random)
    assert max(errors.values()) <= GOAL
    assert all(errors[key] <= apart[key] + 1e-7 for key in errors)
    assert shaped("Beta(5, 1), as a confidence", "beta2", 0.1, random) is None
