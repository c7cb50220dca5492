from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers.agreement import EDGE_COLUMNS, EDGES, SharedDefinition, compared, shown
from benchmarks.peers.data import binary, matrix
from benchmarks.peers.run import Goal
from calibrant.core.errors import EmptyBatch

pytestmark = pytest.mark.slow


def test_rows_of_the_drawn_matrix_are_probabilities_and_its_labels_classes() -> None:
    p, labels = matrix(2_500, 7)  # more than one block
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6)
    assert set(labels.tolist()) == set(range(7))


def test_the_drawn_predictions_are_overconfident_on_both_sides() -> None:
    p, y = binary(20_000)
    low, high = p < 0.3, p > 0.7
    assert y[low].mean() > p[low].mean()
    assert y[high].mean() < p[high].mean()


@pytest.mark.parametrize(("measured", "verdict"), [(2.9, "| met |"), (3.0, "| met |"), (3.1, "| **missed** |")])
def test_a_goal_says_whether_it_is_met(measured: float, verdict: str) -> None:
    assert Goal("panel", measured, 3.0, " s").row().endswith(verdict)


def test_a_difference_that_nothing_explains_stands_out() -> None:
    p, y = binary(200)
    measure = {"name": "ece"}
    assert "**unexplained**" in compared(SharedDefinition("ECE", measure, "peer", lambda: 0.9), p, y)
    assert "why" in compared(SharedDefinition("ECE", measure, "peer", lambda: 0.9, "why"), p, y)
    assert "not in the catalogue" in compared(SharedDefinition("x", {"name": "no-such"}, "peer", lambda: 0.9), p, y)


def test_an_error_of_a_library_is_reported_by_its_name() -> None:
    def refuses() -> float:
        raise EmptyBatch("no rows")

    assert shown(refuses) == "refused: empty-batch"
    assert shown(lambda: 1 / 0) == "ZeroDivisionError"
    assert shown(lambda: 0.25) == "0.25"


def test_edges_have_as_many_outcomes_as_predictions() -> None:
    assert all(len(edge.p) == len(edge.y) for edge in EDGES)
    assert EDGE_COLUMNS[0] == "calibrant"
