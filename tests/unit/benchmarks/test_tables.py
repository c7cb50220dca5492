"""The parts of the tables that are formulas, and the theorems that they rest on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.tables.binnings import Kind, cross_validated, roof, swept
from benchmarks.tables.columns import auroc, averaged_answers, error_after
from benchmarks.tables.datasets import DERIVATES, SHAPES, Floats, dataset, emitted
from benchmarks.tables.order import page
from calibrant.evaluation import evaluate
from calibrant.piecewise.families import cell_losses

pytestmark = pytest.mark.slow


def test_the_golden_batch_is_one_of_the_datasets(golden: dict[str, Any]) -> None:
    rows = dataset("beta2", "0.050", 1000, 0)
    np.testing.assert_allclose(rows.p, golden["p"], atol=1e-12)
    np.testing.assert_array_equal(rows.y, golden["y"])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_derivate_is_named_after_its_expected_error(shape: str) -> None:
    c = (np.arange(200_000) + 0.5) / 200_000
    for derivate in DERIVATES:
        assert np.abs(emitted(shape, derivate, c) - c).mean() == pytest.approx(float(derivate), abs=2e-6)


@pytest.mark.parametrize("kind", ["ES", "EW"])
def test_errors_of_binnings_are_those_of_the_papers_code(kind: Kind, golden: dict[str, Any]) -> None:
    p, y = np.array(golden["p"]), np.array(golden["y"], np.float64)
    for count in (1, 7, 15, 40):
        reference = golden[kind][str(count)]
        assert roof(kind, p, y, count).error(1) == pytest.approx(reference["ECE1_debiased"], abs=2e-5)
        assert roof(kind, p, y, count).error(2) == pytest.approx(reference["ECE2_debiased"], abs=1e-9)
    assert len(swept("ES", p, y).bins) == golden["sweep_bins"]
    assert 1 <= len(cross_validated(kind, p, y).bins) <= 40


def _divergence(q: Floats, r: Floats, kind: str) -> Floats:
    """Two Bregman divergences between chances: squared distance, and Kullback and Leibler's of r from q."""
    if kind == "squared":
        return (q - r) ** 2
    return r * np.log(r / q) + (1 - r) * np.log((1 - r) / (1 - q))


@pytest.mark.parametrize("kind", ["squared", "log"])
def test_theorem_1_a_gain_in_expected_loss_is_a_gain_in_distance_from_the_truth(kind: str) -> None:
    random = np.random.default_rng(0)
    truth, first, second = (random.uniform(0.05, 0.95, 1000) for _ in range(3))

    def expected(q: Floats) -> Floats:
        """The engine's held-out loss, of each place alone: a mass of 1 of which ``truth`` is positive."""
        c, w, wy = (part[:, None] for part in (q, np.ones(1000), truth))
        return cell_losses("pl", "brier" if kind == "squared" else "log-loss", c, w, wy)[:, 0]

    gain = expected(first) - expected(second)
    np.testing.assert_allclose(gain, _divergence(first, truth, kind) - _divergence(second, truth, kind), atol=1e-12)


@pytest.mark.parametrize("kind", ["squared", "log"])
def test_theorem_3_the_error_of_a_map_is_what_its_outputs_show_plus_what_its_ties_hide(kind: str) -> None:
    random = np.random.default_rng(1)
    truth = random.uniform(0.05, 0.95, 4000)
    bent = np.clip(truth**0.8 + 0.1 * np.sin(9 * truth), 0.05, 0.95)
    calibrated = np.round(100 * bent).astype(np.float64) / 100  # many ties
    _, group = np.unique(calibrated, return_inverse=True)
    after = (np.bincount(group, truth) / np.bincount(group))[group]
    cmee = _divergence(calibrated, truth, kind).mean()
    ceac = _divergence(calibrated, after, kind).mean()
    hidden = _divergence(after, truth, kind).mean()
    assert hidden > 1e-4
    if kind == "squared":
        assert error_after(calibrated, truth) == pytest.approx(ceac, abs=1e-12)
    assert cmee == pytest.approx(ceac + hidden, abs=1e-12)


def test_the_auroc_of_true_probabilities_counts_ties_as_half() -> None:
    truth = np.array([0.1, 0.4, 0.4, 0.9])
    labelled = evaluate(
        np.tile(truth, 2), np.repeat([0, 1], 4), weights=np.concatenate([1.0 - truth, truth]), measures=["auroc"]
    )
    assert auroc(truth, truth) == pytest.approx(labelled["auroc"].value)
    assert auroc(np.ones(4), truth) == pytest.approx(0.5)


def test_the_average_of_a_dataset_loses_no_auroc_in_order_and_its_page_has_every_table() -> None:
    records = {
        (rows.shape, rows.derivate, rows.n, rows.seed): averaged_answers(rows)
        for rows in (dataset("stairs", derivate, 1_000, 0) for derivate in ("0.085", "0.090"))
    }
    assert all(record["averaged"]["auroc lost"] == 0.0 for record in records.values())
    assert any(record["averaged free"]["auroc lost"] > 5e-4 for record in records.values())
    text = page(records)
    assert "from the 2 datasets" in text
    assert "Datasets on which ties cost more than 0.0005: 0." in text
