"""Windows with few events."""

from __future__ import annotations

import pytest

import calibrant
from backend.monitors.kinds import event_of, measured
from calibrant.measures.catalogue import read_requests
from tests.rows import draw_distorted


@pytest.mark.parametrize("name", ["oe-ratio", "pcoc"])
def test_a_window_with_few_events_has_the_interval_of_a_clinical_measure(name: str) -> None:
    p, y = draw_distorted(150, 7)
    (request,) = read_requests([name])
    reading = measured([request], event_of(calibrant.tally(p, y).tally, "binary"), 0.95)[request.key]
    measure = calibrant.evaluate(p, y, measures=[name], interval=0.95)[name]
    assert reading.interval == pytest.approx(measure.interval, rel=0.05)
    assert reading.problem == measure.problem
    assert str(measure.problem).count("imprecise") == 1
