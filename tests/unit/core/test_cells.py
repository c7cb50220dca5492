from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from calibrant.core.cells import cells_of, row_keys, row_order, sort_rows
from calibrant.core.reductions import Event


def test_rows_are_sorted_by_prediction_then_outcome() -> None:
    rows = sort_rows(np.array([0.5, 1.0, 0.0, 0.5]), np.array([1, 0, 1, 0], dtype=np.int8))
    assert rows.p.tolist() == [0.0, 0.5, 0.5, 1.0]
    assert rows.y.tolist() == [1, 0, 1, 0]


def test_negative_zero_is_zero() -> None:
    rows = sort_rows(np.array([0.25, -0.0, 0.0]), np.array([0, 1, 0], dtype=np.int8))
    assert rows.p.tolist() == [0.0, 0.0, 0.25]
    assert len(cells_of(rows)) == 2


def test_weighted_and_unweighted_sorting_agree() -> None:
    random = np.random.default_rng(0)
    p = np.round(random.random(500), 2)
    y = random.integers(0, 2, 500).astype(np.int8)
    plain, weighted = sort_rows(p, y), sort_rows(p, y, np.ones(500))
    np.testing.assert_array_equal(plain.p, weighted.p)
    np.testing.assert_array_equal(plain.y, weighted.y)


def test_ties_merge_and_their_sums_add_up() -> None:
    rows = sort_rows(
        np.array([0.2, 0.7, 0.2, 0.2]), np.array([1, 1, 0, 1], dtype=np.int8), np.array([1.0, 2.0, 3.0, 0.5])
    )
    cells = cells_of(rows)
    assert cells.p.tolist() == [0.2, 0.7]
    assert cells.rows.tolist() == [3.0, 1.0]
    assert cells.w.tolist() == [4.5, 2.0]
    assert cells.w2.tolist() == [10.25, 4.0]
    assert cells.wy.tolist() == [1.5, 2.0]
    assert cells.w2y.tolist() == [1.25, 4.0]


def test_rows_of_weight_zero_make_no_cell() -> None:
    cells = cells_of(sort_rows(np.array([0.2, 0.3]), np.array([0, 1], dtype=np.int8), np.array([0.0, 1.0])))
    assert cells.p.tolist() == [0.3]


def test_single_predictions_sort_as_doubles_do() -> None:
    random = np.random.default_rng(4)
    p = np.append(random.random(300), [0.0, 1.0, 1e-45, 0.5, 0.5]).astype(np.float32).astype(np.float64)
    y = random.integers(0, 2, len(p)).astype(np.int8)
    assert row_keys(p, y).dtype == np.uint32
    order = np.lexsort((y, p))
    rows = sort_rows(p, y)
    assert (rows.p.tolist(), rows.y.tolist()) == (p[order].tolist(), y[order].tolist())
    assert row_keys(np.append(p, 0.1), np.append(y, y[:1])).dtype == np.uint64


def test_sums_over_the_nodes_of_panels_are_those_over_the_rows() -> None:
    random = np.random.default_rng(5)
    z = np.append(random.normal(-1.0, 1.3, 30_000), 9.0)  # several blocks, and panels without rows
    y = (random.random(len(z)) < expit(z)).astype(np.int8)
    cells = cells_of(sort_rows(expit(z), y, logit=z))
    panels = cells.panels
    assert panels is not None
    assert len(panels.logit) < len(z) / 4
    for slope in (0.5, 2.0):
        chance, of_nodes = expit(slope * cells.log_odds), expit(slope * panels.logit)
        assert float(panels.w @ of_nodes) == pytest.approx(float(cells.w @ chance), rel=1e-10)
        assert float(panels.wy @ of_nodes) == pytest.approx(float(cells.wy @ chance), rel=1e-10)


@pytest.mark.parametrize("decimals", [2, 16])
def test_ties_alone_are_ordered_by_outcome_weight_and_cluster(decimals: int) -> None:
    random = np.random.default_rng(6)
    p, y = np.round(random.random(400), decimals), random.integers(0, 2, 400)
    w, clusters = np.round(random.random(400), 1), random.integers(0, 9, 400)
    np.testing.assert_array_equal(row_order([], y, p, w, clusters), np.lexsort([clusters, w, y, p]))


def test_cells_of_rows_in_clusters_are_those_without_clusters() -> None:
    random = np.random.default_rng(2)
    p = np.concatenate([random.random(300), random.random(300).round(1), [0.0, -0.0]])
    y = random.integers(0, 2, len(p)).astype(np.int8)
    clusters = random.integers(0, 40, len(p))
    alone, own = Event(p, y), Event(p, y, clusters=clusters)
    sorted_first = Event(p, y, clusters=clusters)
    assert len(sorted_first.sorted_rows) == len(p)
    for name in ("p", "rows", "w", "w2", "wy", "w2y"):
        for event in (own, sorted_first):
            np.testing.assert_array_equal(getattr(event.cells, name), getattr(alone.cells, name))
