from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrant.core.reductions import Event
from calibrant.diagrams.cumulative import difference_spline, ks_graphs
from calibrant.measures.cumulative import end_value, ks_error
from calibrant.measures.intervals import PLAIN


def test_the_largest_distance_of_the_graphs_is_the_ks_error(event: Event) -> None:
    w = np.random.default_rng(3).random(len(event))
    for drawn_event in (event, replace(event, w=w), replace(event, y=(1 - event.y).astype(np.int8))):
        for points in (10, 400):
            graphs = ks_graphs(drawn_event, PLAIN, points=points, knots=6)
            apart = graphs.cumulative_label - graphs.cumulative_score
            assert np.abs(apart).max() == pytest.approx(ks_error(drawn_event.cells), abs=1e-14)
            assert graphs.ks == ks_error(drawn_event.cells)
            top = np.abs(apart).argmax()
            assert graphs.signed == pytest.approx(apart[top], abs=1e-14)
            assert (graphs.reached_fractile, graphs.reached_score) == (graphs.fractile[top], graphs.score[top])
            assert graphs.end == pytest.approx(end_value(drawn_event.cells), abs=1e-14)
            assert len(graphs.fractile) <= points


def test_the_graphs_are_those_by_hand() -> None:
    event = Event(np.array([0.6, 0.2, 0.2, 0.9]), np.array([1, 0, 1, 1], np.int8))
    graphs = ks_graphs(event, PLAIN, points=100, knots=3)
    np.testing.assert_allclose(graphs.fractile, [0, 0.5, 0.75, 1])
    np.testing.assert_allclose(graphs.score, [0.2, 0.2, 0.6, 0.9])
    np.testing.assert_allclose(graphs.cumulative_score, [0, 0.1, 0.25, 0.475])
    np.testing.assert_allclose(graphs.cumulative_label, [0, 0.25, 0.5, 0.75])
    assert graphs.signed == pytest.approx(0.275)
    assert (graphs.reached_fractile, graphs.reached_score) == (1.0, 0.9)


@pytest.mark.parametrize("knots", [6, 12])
def test_the_spline_agrees_with_the_released_code(golden_event: Event, drawn: dict[str, Any], knots: int) -> None:
    spline = difference_spline(golden_event.cells, knots)
    slope = spline(np.linspace(0, 1, 101), 1)
    np.testing.assert_allclose(slope, drawn["spline_slope"][str(knots)], atol=1e-9)


def test_the_probability_is_score_plus_slope_at_the_row_s_own_place(golden_event: Event) -> None:
    graphs = ks_graphs(golden_event, PLAIN, points=1000, knots=6)
    row = np.round(graphs.fractile[1:] * 1000).astype(int)
    slope = difference_spline(golden_event.cells, 6)((row - 1) / 999, 1)
    wanted = np.clip(graphs.score[1:] + slope * 1000 / 999, 0, 1)
    np.testing.assert_allclose(graphs.probability[1:], wanted, atol=1e-9)


def test_the_probability_is_near_the_true_one() -> None:
    random = np.random.default_rng(0)
    c = random.random(50_000)
    event = Event(c**1.4, (random.random(50_000) < c).astype(np.int8))
    graphs = ks_graphs(event, PLAIN, points=400, knots=6)
    off = graphs.probability - graphs.score ** (1 / 1.4)
    assert np.abs(off).mean() < 0.015
    assert np.abs(off).max() < 0.08


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_and_one_prediction_have_graphs(n: int) -> None:
    graphs = ks_graphs(Event(np.full(n, 0.4), np.ones(n, np.int8)), PLAIN, points=100, knots=6)
    assert graphs.ks == pytest.approx(0.6)
    assert np.all(np.isfinite(graphs.probability))
    np.testing.assert_allclose(graphs.probability, 1.0, atol=1e-9)
