"""Change times: the estimate, its description, and invalid input."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, EmptyBatch, InvalidOption
from calibrant.monitoring.change import ChangeTime, change_time
from calibrant.monitoring.event_tally import EventTally

HOUR = dt.timedelta(hours=1)


def counted(buckets: int, change: int, true: Callable[[Floats], Floats], seed: int = 1) -> list[EventTally]:
    """Buckets of 1,000 rows, calibrated before the change."""
    random, tallies = np.random.default_rng(seed), []
    for bucket in range(buckets):
        p = random.random(1000)
        labels = random.random(1000) < (true(p) if bucket >= change else p)
        tallies.append(calibrant.tally(p, labels.astype(int)))
    return tallies


def raised(p: Floats) -> Floats:
    """Five points above the prediction."""
    return np.minimum(p + 0.08, 1.0)


def lowered(p: Floats) -> Floats:
    """Ten points below the prediction in a range."""
    return np.where((p >= 0.2) & (p <= 0.4), p - 0.1, p)


@pytest.mark.parametrize("change", [0, 7, 30])
def test_the_interval_contains_the_change(change: int) -> None:
    detected = change_time(counted(40, change, raised), range(41))
    assert abs(detected.time - change) < 1.0
    assert detected.interval[0] <= change + 0.5
    assert detected.interval[1] >= change - 0.5
    assert detected.interval[1] - detected.interval[0] < 5.0


def test_a_change_of_a_range_is_described() -> None:
    change = change_time(counted(60, 25, lowered), range(61))
    assert change.interval[0] <= 25.0 <= change.interval[1]
    assert change.predictions == (0.2, 0.4)
    assert change.gap == pytest.approx(-0.1, abs=0.02)
    assert "predictions of 0.2 to 0.4 are" in change.message
    assert change.message.endswith("points too high")


def test_a_change_within_a_bucket_is_between_its_ends() -> None:
    buckets = counted(40, 20, raised)
    halves = counted(2, 1, lambda p: np.minimum(p + 0.25, 1.0), seed=5)
    after = counted(10, 0, lambda p: np.minimum(p + 0.25, 1.0), seed=6)
    change = change_time([*buckets[:20], calibrant.merge(halves), *after], range(32))
    assert 20.0 < change.time < 21.0


def test_datetimes_stay_datetimes() -> None:
    start = dt.datetime(2026, 3, 13, tzinfo=dt.UTC)
    change = change_time(counted(40, 24, raised), [start + hour * HOUR for hour in range(41)])
    assert abs(change.time - (start + 24 * HOUR)) < HOUR
    assert "March predictions" in change.message
    assert json.loads(json.dumps(change.to_dict()))["time"] == change.time.isoformat()


@pytest.mark.parametrize("length", [dt.timedelta(milliseconds=1), dt.timedelta(seconds=0.7), HOUR])
def test_datetimes_are_as_exact_as_numbers(length: dt.timedelta) -> None:
    buckets, start = counted(40, 24, raised), dt.datetime(2026, 3, 13, 0, 0, 0, 300_000, tzinfo=dt.UTC)
    plain = change_time(buckets, range(41))
    change = change_time(buckets, [start + k * length for k in range(41)])
    for moment, number in zip((change.time, *change.interval), (plain.time, *plain.interval), strict=True):
        assert (moment - start) / length == pytest.approx(number, abs=0.002)


def test_buckets_without_rows_do_not_matter() -> None:
    buckets: list[EventTally | None] = list(counted(40, 30, raised))
    plain = change_time(buckets, range(41))
    change = change_time([*buckets[:10], None, *buckets[10:], None], range(43))
    assert change.time == pytest.approx(plain.time + 1.0, abs=0.01)
    assert change.gap == plain.gap


@pytest.mark.parametrize("change", [0, 1])
def test_a_change_is_between_the_first_and_the_last_bucket_with_rows(change: int) -> None:
    buckets: list[EventTally | None] = list(counted(3, change, raised))
    plain = change_time(buckets, range(3, 7))
    detected = change_time([None] * 3 + buckets + [None] * 4, range(11))
    assert (detected.time, detected.interval, detected.rows) == (plain.time, plain.interval, plain.rows)
    assert 3.0 <= detected.interval[0] <= detected.time <= detected.interval[1] <= 6.0


def test_a_higher_level_gives_a_wider_interval() -> None:
    buckets = counted(40, 30, raised)
    narrow, wide = (change_time(buckets, range(41), level=level).interval for level in (0.5, 0.99))
    assert wide[0] <= narrow[0] < narrow[1] <= wide[1]


@pytest.mark.parametrize(
    ("gap", "words"), [(0.0123, "1.2 points too low"), (-0.01, "1 point too high"), (0.2, "20 points too low")]
)
def test_gaps_are_described_in_percentage_points(gap: float, words: str) -> None:
    assert ChangeTime(3.0, (2.0, 4.0), (0.0, 1.0), gap, 10).message == f"since 3 predictions are {words}"


@pytest.mark.parametrize(
    ("times", "level"),
    [
        ([0, 1], 0.95),
        ([0, 1, 1], 0.95),
        ([0, 1, float("nan")], 0.95),
        ([0, 1, dt.datetime(2026, 1, 1)], 0.95),
        (7, 0.95),
        (["a", "b", "c"], 0.95),
        ([0, 1, 2], 1.0),
        ([0, 1, 2], True),
        ([0, 1, 2], "high"),
    ],
)
def test_invalid_arguments_are_refused(times: Any, level: Any) -> None:
    with pytest.raises(CalibrationError):
        change_time(counted(2, 1, raised), times, level=level)


def test_invalid_buckets_are_refused() -> None:
    with pytest.raises(EmptyBatch):
        change_time([None], [0, 1])
    with pytest.raises(EmptyBatch):
        change_time([], [0])
    with pytest.raises(InvalidOption, match="buckets"):
        change_time([3], [0, 1])  # type: ignore[list-item]
    other = calibrant.tally([[0.2, 0.8]], [1])
    with pytest.raises(InvalidOption, match="same event"):
        change_time([*counted(1, 1, raised), other], [0, 1, 2])


def test_one_row_gives_an_interval_of_the_whole_time() -> None:
    change = change_time([calibrant.tally([0.0], [1])], [0.0, 10.0])
    assert 0.0 <= change.interval[0] <= change.time <= change.interval[1] <= 10.0


@pytest.mark.parametrize(
    "times",
    [
        [dt.date(2026, 3, 1) + dt.timedelta(days=day) for day in range(21)],
        np.arange("2026-03-01", "2026-03-22", dtype="datetime64[D]"),
        list(pd.date_range("2026-03-01", periods=21).to_numpy()),
        pd.Series(pd.date_range("2026-03-01", periods=21), index=range(100, 121)),
        (dt.datetime(2026, 3, 1 + day) for day in range(21)),
    ],
    ids=["dates", "array", "numpy", "series", "generator"],
)
def test_times_may_be_dates_of_every_kind(times: Any) -> None:
    buckets = pd.Series(counted(20, 7, raised))
    expected = change_time(list(buckets), [dt.datetime(2026, 3, 1 + day) for day in range(21)])
    assert change_time(buckets, times) == expected
    assert isinstance(expected.time, dt.datetime)


def test_a_missing_time_is_refused() -> None:
    buckets = counted(1, 1, raised)
    for missing in (np.datetime64("NaT"), None, pd.NaT):
        with pytest.raises(CalibrationError, match="times must be"):
            change_time(buckets, [np.datetime64("2026-03-01"), missing])
