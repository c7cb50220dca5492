from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calibrant.core.binning import (
    BinnedCells,
    Binning,
    Closed,
    adaptive,
    cross_validated_count,
    cross_validated_scores,
    equal_mass,
    equal_width,
    equal_width_of_cells,
    equal_width_of_rows,
    exact,
    sweep_count,
    width_sweep_count,
)
from calibrant.core.cells import Cells, WeightsKind
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Event
from calibrant.core.validation import fold_of_rows

Cut = Callable[[Event, int, Closed], BinnedCells]


def _by_cells(event: Event, n_bins: int, closed: Closed) -> BinnedCells:
    return equal_width_of_cells(event.cells, n_bins, closed)


both_ways = pytest.mark.parametrize("cut", [_by_cells, equal_width_of_rows])


def _cells(p: Any, y: Any, w: Any = None) -> Cells:
    return Event(np.asarray(p, float), np.asarray(y, np.int8), None if w is None else np.asarray(w, float)).cells


@pytest.mark.parametrize("family", ["ES", "EW"])
def test_bins_have_the_references_sizes_and_means(golden: dict[str, Any], golden_event: Event, family: str) -> None:
    for count, expected in golden[family].items():
        bins = equal_mass(golden_event.cells, int(count)) if family == "ES" else equal_width(golden_event, int(count))
        assert bins.rows.tolist() == [n for n in expected["n_per_bin"] if n]
        np.testing.assert_allclose(bins.mean_p, [m for m in expected["mean_p"] if m is not None], atol=1e-12)
        np.testing.assert_allclose(bins.mean_y, [m for m in expected["mean_y"] if m is not None], atol=1e-12)


def test_the_sweep_stops_where_the_reference_stops(golden: dict[str, Any], golden_event: Event) -> None:
    assert sweep_count(golden_event.cells) == golden["sweep_bins"]


def test_the_first_bins_take_the_rows_that_are_left_over() -> None:
    bins = equal_mass(_cells(np.linspace(0, 1, 11), [0, 1] * 5 + [0]), 4)
    assert bins.rows.tolist() == [3, 3, 3, 2]


def test_a_border_inside_a_tie_moves_to_the_nearer_end_and_to_the_lower_of_two_as_near() -> None:
    cells = _cells([0.1, 0.2, 0.2, 0.2, 0.3, 0.4], [0, 0, 1, 1, 0, 1])
    assert equal_mass(cells, 2).rows.tolist() == [4, 2]
    assert equal_mass(_cells([0.1, 0.2, 0.2, 0.3], [0, 1, 0, 1]), 2).rows.tolist() == [1, 3]


def test_constant_predictions_are_one_bin_for_any_requested_number() -> None:
    assert len(equal_mass(_cells([0.4] * 20, [0, 1] * 10), 15)) == 1


def test_more_bins_than_rows_leave_one_row_a_bin() -> None:
    assert equal_mass(_cells([0.1, 0.2, 0.3], [0, 1, 0]), 15).rows.tolist() == [1, 1, 1]


@both_ways
@pytest.mark.parametrize(
    ("p", "n_bins", "bin_of_p"),
    [(0.3, 10, 3), (0.29, 100, 29), (0.57, 100, 57), (1.0, 15, 14), (0.0, 15, 0), (0.7, 10, 7), (0.6, 5, 3)],
)
def test_equal_width_borders_are_the_doubles_i_over_b(cut: Cut, p: float, n_bins: int, bin_of_p: int) -> None:
    # A companion row in each bin tells which one p fell into.
    companions = (np.arange(n_bins) + 0.5) / n_bins
    event = Event(np.append(companions, p), np.zeros(n_bins + 1, np.int8))
    assert int(np.argmax(cut(event, n_bins, "left").rows)) == bin_of_p


@both_ways
@pytest.mark.parametrize("closed", ["left", "right"])
def test_equal_width_agrees_with_searchsorted_on_every_border(cut: Cut, closed: Closed) -> None:
    for n_bins in range(1, 60):
        edges = np.arange(n_bins + 1) / n_bins
        near = np.unique(np.clip([np.nextafter(edges, 0), edges, np.nextafter(edges, 1)], 0, 1))
        side: Closed = "right" if closed == "left" else "left"
        expected = np.clip(np.searchsorted(edges, near, side=side) - 1, 0, n_bins - 1)
        got = cut(Event(near, np.ones(len(near), np.int8)), n_bins, closed)
        assert got.rows.tolist() == [n for n in np.bincount(expected, minlength=n_bins) if n]
        assert got.start.tolist() == edges[np.unique(expected)].tolist()


@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize("kind", ["frequency", "importance"])
def test_equal_width_bins_of_cells_and_of_rows_are_the_same(closed: Closed, kind: WeightsKind) -> None:
    random = np.random.default_rng(2)
    n = 70_000  # more than are binned by cells unasked
    w = random.integers(0, 3, n).astype(np.float64)
    event = Event(np.round(random.random(n), 3), random.integers(0, 2, n).astype(np.int8), w, kind)
    by_cells, by_rows = _by_cells(event, 12, closed), equal_width(event, 12, closed)
    for name in ("mass", "rows", "mean_p", "mean_y", "start"):
        np.testing.assert_allclose(getattr(by_cells, name), getattr(by_rows, name), rtol=1e-12)


def test_whole_weights_cut_bins_like_repeated_rows() -> None:
    random = np.random.default_rng(1)
    p, y = random.random(50), random.integers(0, 2, 50)
    w = random.integers(0, 4, 50)
    weighted = equal_mass(_cells(p, y, w), 7)
    repeated = equal_mass(_cells(np.repeat(p, w), np.repeat(y, w)), 7)
    np.testing.assert_allclose(weighted.mean_p, repeated.mean_p)
    np.testing.assert_allclose(weighted.rows, repeated.rows)


def _plain_sweep(cells: Cells) -> int:
    """The sweep as its definition says it, one bin count after the other."""
    for count in range(2, len(cells) + 1):
        if np.any(np.diff(equal_mass(cells, count).mean_y) < (0 if cells.counts_rows else -1e-9)):
            return count - 1
    return len(cells)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_the_sweep_follows_its_definition_on_any_data(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 200))
    p = random.random(n) if seed % 3 else np.round(random.random(n), 1)
    steepness = random.choice([0.5, 1.0, 5.0, 200.0])
    y = random.random(n) < 1 / (1 + np.exp(-steepness * (p - 0.5)))
    cells = _cells(p, y, [None, random.integers(1, 3, n), random.random(n)][seed % 7 if seed % 7 < 3 else 0])
    assert sweep_count(cells) == _plain_sweep(cells)


def test_the_sweep_of_separable_data_ends_at_one_row_a_bin() -> None:
    p = np.linspace(0, 1, 100_000)
    assert sweep_count(_cells(p, p > 0.3)) == 100_000


def test_the_sweep_finds_one_swapped_pair_in_many_rows() -> None:
    p = np.linspace(0, 1, 20_000)
    y = p > 0.5
    border = int(np.argmax(y))
    y[border - 1], y[border] = True, False
    assert _plain_sweep(_cells(p[border - 40 : border + 40], y[border - 40 : border + 40])) > 1
    assert 10_000 < sweep_count(_cells(p, y)) < 20_000


def test_cross_validated_scores_are_those_of_roofs_fitted_to_the_other_rows() -> None:
    random = np.random.default_rng(5)
    p = np.round(random.random(300), 1)
    event = Event(p, (random.random(300) < p).astype(np.int8))
    rows, fold = event.sorted_rows, fold_of_rows(300, 5, 3)
    expected = np.zeros(12)
    for number in range(5):
        own = fold == number
        for count in range(1, 13):
            place = np.clip(np.searchsorted(np.arange(count + 1) / count, rows.p, side="right") - 1, 0, count - 1)
            roof = np.zeros(count)
            for j in np.unique(place[~own]):
                here = ~own & (place == j)
                roof[j] = (rows.y[here] - rows.p[here]).mean()
            expected[count - 1] += np.mean((rows.p[own] + roof[place[own]] - rows.y[own]) ** 2) / 5
    scores = cross_validated_scores(event, "equal-width", folds=5, most=12, seed=3)
    np.testing.assert_allclose(scores, expected, atol=1e-14)


@pytest.mark.parametrize(("kind", "binning"), [("ES_CV", "equal-mass"), ("EW_CV", "equal-width")])
def test_cross_validation_agrees_with_the_reference(
    golden: dict[str, Any], golden_event: Event, kind: str, binning: Binning
) -> None:
    scores = cross_validated_scores(golden_event, binning, folds=10, most=40, seed=1)
    np.testing.assert_allclose(scores, golden[kind]["scores"], atol=1e-12)
    assert cross_validated_count(golden_event, binning, folds=10, most=40, seed=1) == golden[kind]["chosen"]


@pytest.mark.slow
@pytest.mark.parametrize("binning", ["equal-mass", "equal-width"])
@pytest.mark.parametrize(
    "weights", [None, np.arange(1.0, 81.0), np.linspace(0.01, 1e6, 80)], ids=["none", "whole", "real"]
)
@pytest.mark.parametrize("low", [0.1, 0.3, 1e-9])
def test_two_bins_are_chosen_where_two_predictions_separate_the_labels(
    binning: Binning, weights: Any, low: float
) -> None:
    p, y = np.tile([low, 1.0 - low], 40), np.tile([0, 1], 40).astype(np.int8)
    event = Event(p, y, weights)
    scores = cross_validated_scores(event, binning, folds=10, most=40, seed=1)
    assert scores[0] > 0.0
    assert scores[1] == 0.0
    assert scores.min() == 0.0
    assert cross_validated_count(event, binning, folds=10, most=40, seed=1) == 2


def test_fewer_rows_than_folds_cannot_be_cross_validated() -> None:
    with pytest.raises(TooFewRows):
        cross_validated_count(
            Event(np.array([0.1, 0.2]), np.array([0, 1], np.int8)), "equal-mass", folds=3, most=4, seed=1
        )


def test_bins_closed_on_the_right_take_their_upper_edge() -> None:
    p = np.array([0.0, 0.1, 0.2, 0.25, 0.29, 1.0])
    event = Event(p, np.zeros(6, np.int8))
    assert equal_width(event, 10, "right").mass.tolist() == [2, 1, 2, 1]
    assert equal_width(event, 10, "left").mass.tolist() == [1, 1, 3, 1]
    for closed in ("left", "right"):
        bins = equal_width(event, 10, closed)
        assert np.bincount(bins.index(p)).tolist() == bins.mass.tolist()


def test_adaptive_bins_of_importance_weights_begin_at_quantiles_with_any_largest_weight() -> None:
    random = np.random.default_rng(0)
    p, w = random.random(600), random.exponential(size=600)
    w[7] = 300.0
    for scale in (1.0, 1.0 / 300.0, 1e-6):
        cells = Event(p, np.zeros(600, np.int8), scale * w, kind="importance").cells
        bins = adaptive(cells, 15)
        ends = np.searchsorted(cells.cumulative_w, np.arange(15) / 15 * cells.mass, side="right") - 1
        np.testing.assert_array_equal(bins.start, cells.p[np.unique(ends)])


def test_adaptive_bins_begin_at_ranks_and_keep_ties_together_above_an_edge() -> None:
    p = np.array([0.1, 0.2, 0.3, 0.3, 0.3, 0.6, 0.7])
    bins = adaptive(Event(p, np.zeros(7, np.int8)).cells, 3)  # ranks 0, 2.33, 4.67: 0, 2, 5
    assert bins.mass.tolist() == [2, 3, 2]
    assert bins.start.tolist() == [0.1, 0.3, 0.6]
    assert len(exact(Event(p, np.zeros(7, np.int8)).cells)) == 5


def test_the_sweep_of_equal_widths_stops_before_the_first_decrease() -> None:
    random = np.random.default_rng(1)
    p = random.random(400)
    event = Event(p, (random.random(400) < p).astype(np.int8))
    count = width_sweep_count(event)
    means = [equal_width(event, b).mean_y for b in range(1, count + 2)]
    assert all((np.diff(m) >= 0).all() for m in means[:-1])
    assert (np.diff(means[-1]) < 0).any()


@pytest.mark.parametrize("seed", range(60))
def test_the_sweep_of_equal_widths_sees_every_decrease(seed: int) -> None:
    random = np.random.default_rng(seed)
    p = np.round(random.random(random.integers(2, 60)), random.integers(1, 5))
    y = (random.random(len(p)) < (p > 0.5) * 0.9 + 0.05 * (seed % 3)).astype(np.int8)
    w = None if seed % 2 else random.integers(1, 4, len(p)).astype(np.float64)
    event = Event(p, y, w)
    count, most = width_sweep_count(event), min(len(event.cells), 4096)
    rising = [bool((np.diff(equal_width_of_cells(event.cells, b).mean_y) >= 0).all()) for b in range(1, most + 1)]
    assert count == (rising.index(False) if False in rising else most)


def test_equal_widths_from_cells_are_those_from_rows() -> None:
    random = np.random.default_rng(2)
    p = np.append(np.round(random.random(500), 2), [0.0, 1.0])
    event = Event(p, random.integers(0, 2, 502).astype(np.int8), random.random(502), "importance")
    for count in (1, 7, 50, 100):
        a, b = equal_width(event, count), equal_width_of_cells(event.cells, count)
        for name in ("mass", "rows", "mean_p", "mean_y", "start"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)
