"""The pace of jobs, from the moments when they were queued and ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from backend.store.jobs.backlog import KEPT, JobEnd, pace_of, read_ends


@pytest.mark.parametrize(
    ("ends", "per_second"),
    [
        ([], 0.0),
        # The first job ever: all of its time.
        ([JobEnd(102.0, 100.0)], 0.5),
        # Work waits: from one end to the next.
        ([JobEnd(101.0 + i, 100.0) for i in range(10)], 1.0),
        ([JobEnd(100.5 + i / 2, 100.0) for i in range(10)], 2.0),
        # A job now and then: the pauses between them are not the workers'.
        ([JobEnd(100.0 + 60 * i, 99.0 + 60 * i) for i in range(10)], 1.0),
        # Four at once by four workers are four in the time of one.
        ([JobEnd(102.0, 100.0)] + [JobEnd(102.0 + i / 1e6, 100.0) for i in (1, 2, 3)], 4 / 2.003),
        # A clock that went back makes no time run backwards.
        ([JobEnd(101.0, 100.0), JobEnd(100.5, 100.4), JobEnd(101.0, 150.0)], 3 / 0.601),
    ],
)
def test_the_pace_is_that_of_the_time_in_which_there_was_work(ends: Sequence[JobEnd], per_second: float) -> None:
    assert pace_of(ends).per_second() == pytest.approx(per_second)
    assert pace_of(ends[::-1]) == pace_of(ends)


def test_the_last_of_many_ends_count_and_time_begins_at_the_first_of_these() -> None:
    slow = [JobEnd(100.0 + 10 * i, 0.0) for i in range(50)]
    quick = [JobEnd(1000.0 + i, 0.0) for i in range(KEPT)]
    pace = pace_of(slow + quick)
    assert pace.ends == KEPT - 1
    assert pace.per_second() == pytest.approx(1.0)


def test_the_estimated_wait_grows_with_the_jobs_and_the_time_since_the_last_end() -> None:
    pace = pace_of([JobEnd(101.0 + i, 100.0) for i in range(10)])
    assert pace.seconds(1, since=130.0, now=130.0) == pytest.approx(1.0)
    assert pace.seconds(25, since=130.0, now=130.0) == pytest.approx(25.0)
    # The last end was at 110: silent for 20 s of work, or for 10 where the work came at 120.
    assert pace.seconds(1, since=100.0, now=130.0) == pytest.approx(3.0)
    assert pace.seconds(1, since=120.0, now=130.0) == pytest.approx(2.0)
    assert pace_of([]).seconds(1, since=100.0, now=130.0) is None


def test_ends_are_read_as_the_store_keeps_them() -> None:
    assert read_ends([b"1700000000.000250 1699999999.5"]) == [JobEnd(1700000000.00025, 1699999999.5)]
