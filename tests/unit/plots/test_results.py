"""Axes of results that are no reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.plots.canvas import NothingToDraw
from tests.known import known
from tests.rows import draw_classes

P, LABELS = draw_classes(300, 3, 4)
BINARY, EVENTS = P[:, 0], (LABELS == 0).astype(int)
NAMES = ("cat", "dog", "bird")


@pytest.mark.parametrize("method", ["platt", "isotonic", "histogram", "pl"])
def test_a_map_of_an_event_is_a_curve_through_what_it_returns(method: str) -> None:
    fitted = calibrant.fit(method, BINARY, EVENTS)
    ax = fitted.plot()
    curve, diagonal = ax.get_lines()
    x, y = np.asarray(curve.get_xdata(), float), np.asarray(curve.get_ydata(), float)
    np.testing.assert_allclose(y, fitted.apply(x), rtol=1e-12)
    np.testing.assert_array_equal(diagonal.get_xdata(), [0.0, 1.0])
    assert ax.get_legend() is None
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted probability", "calibrated probability")


def test_a_classwise_map_has_a_named_curve_for_each_class() -> None:
    fitted = calibrant.fit("platt", P, LABELS, reduction="classwise", class_names=NAMES)
    legend = known(fitted.plot().get_legend())
    assert [text.get_text() for text in legend.get_texts()] == list(NAMES)
    ranks = known(calibrant.fit("platt", P, LABELS, reduction="ranks").plot().get_legend())
    assert ranks.get_texts()[0].get_text() == "rank 1"


def test_the_title_of_a_map_names_its_class() -> None:
    options: dict[str, Any] = {"reduction": "class:2"}
    assert calibrant.fit("platt", P, LABELS, **options, class_names=NAMES).plot().get_title() == "platt, class:bird"
    assert calibrant.fit("platt", P, LABELS, **options).plot().get_title() == "platt, class:2"


def test_a_map_of_the_whole_vector_has_no_curve() -> None:
    with pytest.raises(NothingToDraw, match=r"evaluate\(predictions, labels, map"):
        calibrant.fit("temperature", P, LABELS, reduction="canonical").plot()


def test_measures_by_size_are_drawn_with_their_deviations() -> None:
    by_size = calibrant.measure_by_size(BINARY, EVENTS, measures=["ece", "ks"], start=100, start_repetitions=4)
    ax = by_size.plot()
    legend = known(ax.get_legend())
    assert [text.get_text() for text in legend.get_texts()] == ["ece", "ks"]
    wanted = np.array(by_size.curves["ece"].mean, float)
    np.testing.assert_allclose(ax.containers[0][0].get_ydata(), wanted)


def test_a_cost_plane_is_drawn_in_percent() -> None:
    plane = calibrant.cost_plane(BINARY, np.clip(BINARY**2, 0.0, 1.0), EVENTS)
    (image,) = plane.plot().get_images()
    np.testing.assert_allclose(np.asarray(image.get_array()), 100.0 * plane.relative)
    most = float(np.abs(100.0 * plane.relative).max())
    (red, _, blue, _), (other_red, _, other_blue, _) = image.to_rgba(np.array([-most, most]))
    assert blue > red  # of the first model, as in pictures
    assert other_red > other_blue


def test_a_comparison_has_a_point_for_each_contestant_and_hollow_ones_in_sample() -> None:
    maps = {"platt": calibrant.fit("platt", BINARY**2, EVENTS), "own": calibrant.fit("beta", BINARY, EVENTS)}
    report = calibrant.compare(BINARY, EVENTS, maps, measures=["ece", "brier"])
    ax = report.plot("brier")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["own (in-sample)", "platt", "uncalibrated"]
    points = [line for line in ax.get_lines() if line.get_marker() == "o"]
    scores = np.array([contestant.measures["brier"].value for contestant in reversed(report.contestants)], float)
    np.testing.assert_allclose([np.asarray(point.get_xdata(), float)[0] for point in points], scores)
    assert [point.get_markerfacecolor() == "none" for point in points] == [True, False, False]
    assert report.plot().get_xlabel() == "ece (debiased)"
    with pytest.raises(CalibrationError, match="did you mean brier"):
        report.plot("brierr")


def test_long_names_leave_room_for_the_plot() -> None:
    name = "a very long name of a map " * 5
    report = calibrant.compare(BINARY, EVENTS, {name: calibrant.fit("platt", BINARY**2, EVENTS)}, measures=["brier"])
    ax = report.plot()
    ax.figure.canvas.draw()
    assert ax.get_position().width > 0.5
    first, second = calibrant.plot({name: calibrant.evaluate(BINARY, EVENTS), "b": calibrant.evaluate(BINARY, EVENTS)})
    first.figure.canvas.draw()
    assert first.title.get_window_extent().x1 < second.get_window_extent().x0


def _results() -> list[Any]:
    fitted = calibrant.fit("platt", BINARY, EVENTS)
    return [
        fitted,
        calibrant.measure_by_size(BINARY, EVENTS, measures=["ece"], start_repetitions=2),
        calibrant.cost_plane(BINARY, BINARY, EVENTS),
        calibrant.compare(BINARY, EVENTS, {"m": fitted}, measures=["brier"]),
    ]


def test_axes_are_used_and_anything_else_is_refused() -> None:
    for shown in _results():
        _, ax = plt.subplots()
        assert shown.plot(ax=ax) is ax
        with pytest.raises(CalibrationError, match="must be matplotlib axes"):
            shown.plot(ax=3)
