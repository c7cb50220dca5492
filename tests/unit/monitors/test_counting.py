from __future__ import annotations

import pytest

from schemas.monitors import Counts


@pytest.mark.parametrize(
    ("totals", "pending", "waiting"),
    [
        ({}, 0, 0),
        ({"predictions": 4, "labels": 4, "joined": 4}, 0, 0),
        ({"predictions": 4}, 4, 0),
        ({"labels": 3}, 0, 3),
        ({"predictions": 9, "labels": 8, "joined": 5, "expired": 3, "unmatched": 2}, 1, 1),
    ],
)
def test_unmatched_and_unexpired_predictions_and_labels_are_waiting(
    totals: dict[str, int], pending: int, waiting: int
) -> None:
    counts = Counts.of(totals)
    assert (counts.pending, counts.waiting) == (pending, waiting)
    assert counts.predictions == counts.joined + counts.expired + counts.pending
    assert counts.labels == counts.joined + counts.unmatched + counts.waiting
