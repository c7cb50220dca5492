from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import calibrant
from calibrant.core.validation import fold_of_rows, row_parts, simplest
from tests.known import known


@pytest.mark.parametrize(
    ("counts", "scores", "chosen"),
    [
        ((1, 2, 3), [0.2, 0.1, 0.15], 1),
        ((1, 2, 3), [0.1, 0.1, 0.1], 0),
        ((1, 2, 3, 4), [0.10005, 0.2, 0.3, 0.1], 0),  # the search goes on beyond counts that do not qualify
        ((1, 2, 3, 4), [0.1002, 0.2, 0.10009, 0.1], 2),
        ((1, 2, 3), [0.1, 0.1001, 0.2], 0),  # larger counts never replace the best
        ((5,), [0.3], 0),
        ((1, 2, 3), [0.1, 1e-32, 0.0], 1),  # equal but for the rounding of predictions
        ((1, 2, 3), [0.1, 0.0, -1e-17], 2),  # a score that cancelled to below 0
        ((2, 1), [-0.1, 0.1], 0),
    ],
)
def test_the_smallest_count_within_a_thousandth_of_the_best_is_chosen(
    counts: tuple[int, ...], scores: list[float], chosen: int
) -> None:
    assert simplest(counts, np.array(scores)) == chosen


@pytest.mark.parametrize(("n", "folds", "seed"), [(10, 10, 0), (997, 10, 3), (1000, 7, 1)])
def test_folds_are_those_of_scikit_learn(n: int, folds: int, seed: int) -> None:
    fold = fold_of_rows(n, folds, seed)
    splits = KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n))
    for number, (_, test) in enumerate(splits):
        np.testing.assert_array_equal(np.flatnonzero(fold == number), test)


@pytest.mark.parametrize("w", [[3.0, 0.0, 1.0], [2.5, 0.5, 1.0], [40_000.0, 1.0, 25_000.0]])
def test_parts_of_rows_have_their_weights_and_are_small(w: list[float]) -> None:
    parts = row_parts(np.array(w), "frequency", None)
    assert parts is not None
    assert np.bincount(parts.row, parts.w).tolist() == w
    assert parts.w.max() <= max(1.0, np.ceil(sum(w) / 10_000))
    assert len(parts.w) <= 10_000 + len(w)
    values = np.arange(len(parts.row), dtype=float)
    assert parts.mean(values)[2] == pytest.approx(np.average(values[parts.row == 2], weights=parts.w[parts.row == 2]))


def test_rows_that_count_once_or_are_in_clusters_or_have_other_weights_are_not_divided() -> None:
    w = np.array([2.0, 1.0])
    assert row_parts(None, "frequency", None) is None
    assert row_parts(np.ones(2), "frequency", None) is None
    assert row_parts(w, "importance", None) is None
    assert row_parts(w, "frequency", np.array([0, 1])) is None


def _table() -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """Rows with few distinct predictions, which are too high, their table of counts, and its weights."""
    random = np.random.default_rng(0)
    p = np.clip(np.round(random.beta(1.0, 2.0, 3000), 1), 0.05, 0.95)
    rows = pd.DataFrame({"p": p, "y": (random.random(3000) < p**1.4).astype(int)})
    table = rows.value_counts().reset_index(name="n")
    return rows, table, {"weights": table["n"], "weights_kind": "frequency"}


@pytest.mark.parametrize("method", ["averaged", "pl", "es-cv", "spline", "platt", "isotonic"])
def test_a_fit_to_a_table_of_counts_is_that_to_its_rows(method: str) -> None:
    rows, table, counts = _table()
    of_rows = calibrant.fit(method, rows["p"], rows["y"])
    of_table = calibrant.fit(method, table["p"], table["y"], **counts)
    of_tally = calibrant.fit_tally(calibrant.tally(rows["p"], rows["y"]), method)
    for other in (of_table, of_tally):
        np.testing.assert_allclose(other([0.1, 0.3, 0.7]), of_rows([0.1, 0.3, 0.7]), rtol=1e-6)
    assert of_table.diagnostics["held_out_gain"]["log_loss"] == pytest.approx(
        of_rows.diagnostics["held_out_gain"]["log_loss"], rel=1e-6
    )
    assert of_table.diagnostics["held_out_gain"]["standard_error"] == pytest.approx(
        of_rows.diagnostics["held_out_gain"]["standard_error"], rel=1e-2
    )


@pytest.mark.parametrize("measure", ["recalibration-improvement", "ece-after-temperature", "ece-cv", "ece-averaged"])
def test_a_cross_validated_measure_of_a_table_of_counts_is_that_of_its_rows(measure: str) -> None:
    rows, table, counts = _table()
    options: dict[str, Any] = {"measures": [measure], "interval": 0.9}
    of_rows = calibrant.evaluate(rows["p"], rows["y"], **options)[measure]
    of_table = calibrant.evaluate(table["p"], table["y"], **options, **counts)[measure]
    assert of_table.value == pytest.approx(of_rows.value, rel=1e-6)
    assert of_rows.interval is not None
    assert of_table.interval == pytest.approx(of_rows.interval, rel=0.1)


def test_decisions_and_the_recommendation_of_a_table_of_counts_are_those_of_its_rows() -> None:
    rows, table, counts = _table()
    of_rows = calibrant.best_threshold(rows["p"], rows["y"], costs=(1, 3))["excess-cost"]
    of_table = calibrant.best_threshold(table["p"], table["y"], costs=(1, 3), **counts)["excess-cost"]
    assert of_table.value == pytest.approx(of_rows.value)
    assert of_table.interval == pytest.approx(of_rows.interval)
    recommended = calibrant.recommend(rows["p"], rows["y"])
    assert calibrant.recommend(table["p"], table["y"], **counts).method == recommended.method == "platt"


@pytest.mark.parametrize("method", ["averaged", "es-cv"])
def test_the_diagram_of_a_table_of_counts_has_the_curve_of_its_rows(method: str) -> None:
    rows, table, counts = _table()
    options: dict[str, Any] = {"diagrams": [{"name": "fit-on-test", "method": method}], "measures": ["brier"]}
    of_rows = calibrant.evaluate(rows["p"], rows["y"], **options).to_dict()["diagrams"]["fit-on-test"]["data"]
    of_table = calibrant.evaluate(table["p"], table["y"], **options, **counts).to_dict()
    np.testing.assert_allclose(of_table["diagrams"]["fit-on-test"]["data"]["calibrated"], of_rows["calibrated"])


def test_the_cross_fitted_values_of_a_map_and_a_table_of_counts_are_those_of_its_rows() -> None:
    rows, table, counts = _table()
    names = ["brier", "auroc", "ece"]
    groups = (np.arange(len(rows)) % 2).astype(str)
    of_rows = calibrant.evaluate(
        rows["p"], rows["y"], map=calibrant.fit("isotonic", rows["p"], rows["y"]), measures=names
    )
    fitted = calibrant.fit("isotonic", table["p"], table["y"], **counts)
    options: dict[str, Any] = {"map": fitted, "measures": names, **counts}
    of_table = calibrant.evaluate(table["p"], table["y"], **options)
    grouped = calibrant.evaluate(table["p"], table["y"], groups=groups[: len(table)], **options)
    compared = calibrant.compare(table["p"], table["y"], {"iso": fitted}, measures=names, **counts)
    entrant = next(report for report in compared.contestants if report.name == "iso")
    for name in names:
        expected = known(of_rows.after)[name].parts["cross_fitted"]
        assert known(of_table.after)[name].parts["cross_fitted"] == pytest.approx(expected)
        assert entrant.measures[name].parts["cross_fitted"] == pytest.approx(expected)
    assert known(of_table.improvement)["brier"].value == pytest.approx(known(of_rows.improvement)["brier"].value)
    assert set(grouped.groups or {}) == {"0", "1"}
