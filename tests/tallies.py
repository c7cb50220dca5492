"""What tests compare of tallies."""

from __future__ import annotations

from numpy.testing import assert_allclose, assert_array_equal

from calibrant.monitoring.event_tally import EventTally


def assert_same_tally(tally: EventTally, expected: EventTally) -> None:
    """The same counts; sums of predictions may be added in another order."""
    assert (tally.groups, tally.reduction, len(tally)) == (expected.groups, expected.reduction, len(expected))
    assert_array_equal(tally.tally.keys, expected.tally.keys)
    assert_array_equal(tally.tally.rows, expected.tally.rows)
    assert_allclose(tally.tally.p_sum, expected.tally.p_sum, rtol=1e-12)
