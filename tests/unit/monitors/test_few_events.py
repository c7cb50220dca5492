"""Windows with few events."""

from __future__ import annotations

import pytest

import calibrant
from backend.monitors.kinds import event_of, measured
from calibrant.measures.catalogue import read_requests
from tests.rows import draw_distorted

LOGISTIC = ["calibration-slope", "calibration-intercept", "logistic-intercept"]


@pytest.mark.parametrize("name", ["oe-ratio", "pcoc", "net-benefit", *LOGISTIC])
def test_a_window_has_the_interval_that_is_computed_with_the_value_as_in_an_evaluation(name: str) -> None:
    p, y = draw_distorted(150, 7)
    (request,) = read_requests([name])
    reading = measured([request], event_of(calibrant.tally(p, y).tally, "binary"), 0.95)[request.key]
    measure = calibrant.evaluate(p, y, measures=[name], interval=0.95)[name]
    # The rows of a cell have its mean prediction.
    assert reading.interval == pytest.approx(measure.interval, rel=1e-3)
    assert reading.problem == measure.problem
    assert str(measure.problem).count("imprecise") == (name != "net-benefit")


def test_a_window_does_not_simulate_labels_for_an_interval() -> None:
    p, y = draw_distorted(150, 7)
    (request,) = read_requests(["decomposition"])
    reading = measured([request], event_of(calibrant.tally(p, y).tally, "binary"), 0.95)[request.key]
    assert reading.interval is None
    assert str(reading.problem).startswith("no interval: ")
