from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

import calibrant
from benchmarks.pseudo_real.arrays import agreement, arrays, calibrator_distances, complete_seeds, mean_ranks
from benchmarks.pseudo_real.calibrators import (
    BINARY,
    CALIBRATORS,
    FINER,
    FIVE,
    SIX,
    VECTOR,
    ModelRows,
    calibrated,
    calibrated_events,
    fitted_curve,
)
from benchmarks.pseudo_real.evaluators import EVALUATORS, NO_RULE, PAPER, estimates
from benchmarks.pseudo_real.experiment import (
    CALIBRATION_ROWS,
    EVENTS,
    HELD_OUT,
    SEEDS,
    SIZES,
    TRUTH_ROWS,
    ExperimentPart,
    calibrator_records,
    evaluated_rows,
    evaluator_records,
    jobs,
)
from benchmarks.pseudo_real.model import MODELS
from benchmarks.pseudo_real.page import PUBLISHED, page
from benchmarks.pseudo_real.truth import TRUTHS, BinnedMap, TrueMaps
from calibrant.core.reductions import Event

pytestmark = pytest.mark.slow


def draw(n: int) -> tuple[Event, Any]:
    random = np.random.default_rng(0)
    p = random.random(n)
    c = p**1.5
    return Event(p, (random.random(n) < c).astype(np.int8)), c


def draw_classes(n: int, scales: Any, shifts: Any) -> ModelRows:
    random = np.random.default_rng(0)
    logits = 2.0 * random.standard_normal((n, len(scales)))
    cumulative = softmax(logits * scales + shifts, axis=1).cumsum(axis=1)
    return ModelRows(logits, (random.random((n, 1)) > cumulative).sum(axis=1))


def test_a_binned_map_is_flat_or_has_slope_one_around_the_bins_means() -> None:
    event = Event(np.array([0.1, 0.2, 0.6, 0.8]), np.array([0, 1, 1, 1], dtype=np.int8))
    bins = BinnedMap.fit(event, 2)
    queries = np.array([0.0, 0.2, 0.59, 0.6, 1.0])
    assert bins.flat(queries) == pytest.approx([0.5, 0.5, 0.5, 1.0, 1.0])
    assert bins.tilted(queries) == pytest.approx([0.35, 0.55, 0.94, 0.9, 1.3])


def test_tied_predictions_share_a_bin() -> None:
    event = Event(np.array([0.2] * 6 + [0.9] * 2), np.array([0, 0, 0, 1, 1, 1, 1, 1], dtype=np.int8))
    bins = BinnedMap.fit(event, 4)
    assert bins.flat(np.array([0.2, 0.9])) == pytest.approx([0.5, 1.0])


def test_the_three_true_maps_are_close_to_the_truth() -> None:
    event, c = draw(200_000)
    for estimate in TrueMaps.fit(event)(event.p).values():
        assert float(np.abs(estimate - c).mean()) < 0.01


def test_the_isotonic_true_map_is_the_one_of_scikit_learn() -> None:
    event, _ = draw(5_000)
    reference = IsotonicRegression(out_of_bounds="clip").fit(event.p, event.y).predict(event.p)
    assert TrueMaps.fit(event)(event.p)["isotonic"] == pytest.approx(reference, abs=1e-12)


def test_beta_calibration_recovers_a_beta_map() -> None:
    random = np.random.default_rng(0)
    p = random.random(100_000)
    c = expit(0.5 * np.log(p) - 1.5 * np.log1p(-p) + 0.2)
    fitted = fitted_curve("beta", Event(p, (random.random(len(p)) < c).astype(np.int8)))
    assert float(np.abs(fitted(p) - c).max()) < 0.02


def test_table_f1_has_the_papers_20_calibrators() -> None:
    assert len(CALIBRATORS) == len(PUBLISHED["mean ranks"]["F1"]) == 20
    assert {*CALIBRATORS, FINER} == {*BINARY, *VECTOR}
    assert {*SIX, *FIVE} <= set(CALIBRATORS)


@pytest.mark.parametrize("name", [*SIX, *sorted(set(FIVE) - set(SIX))])
@pytest.mark.parametrize("event", ["class:1", "confidence"])
def test_every_calibrator_brings_a_wrong_scale_closer_to_the_truth(name: str, event: str) -> None:
    rows = draw_classes(6_000, np.full(3, 0.4), np.zeros(3))
    true = ModelRows(0.4 * rows.logits, rows.labels).event(event).p
    after = calibrated(name, rows[:3_000], rows, event)
    before = rows.event(event)
    assert np.abs(after.p - true)[3_000:].mean() < 0.5 * np.abs(before.p - true)[3_000:].mean()


def test_a_calibrator_of_the_vector_is_fitted_once_for_all_events() -> None:
    rows = draw_classes(2_000, np.full(3, 0.4), np.zeros(3))
    together = calibrated_events("VecS", rows, rows, ("class:0", "confidence"))
    for name, event in together.items():
        assert event.p == pytest.approx(calibrated("VecS", rows, rows, name).p)


def test_scaling_binning_gives_one_value_a_bin() -> None:
    rows = draw_classes(3_000, np.ones(3), np.zeros(3))
    assert len(np.unique(calibrated("Scaling-Binning", rows, rows, "class:0").p)) == 15


@cache
def fitted() -> dict[str, Any]:
    return estimates(draw(2_000)[0], EVALUATORS, seed=0)


def test_there_are_the_papers_21_evaluators() -> None:
    assert len(PAPER) == len(PUBLISHED["mean ranks"]["F2"]) == 21


# An order-invariant map of two classes treats p and 1 - p alike, so it cannot follow p^1.5.
@pytest.mark.parametrize("name", [name for name in EVALUATORS if name not in ("identity", "IOP_OI")])
def test_every_evaluator_finds_most_of_a_gross_error(name: str) -> None:
    event, c = draw(2_000)
    evaluator = fitted()[name]
    assert evaluator.errors[0] == pytest.approx(np.abs(event.p - c).mean(), rel=0.35)
    assert np.abs(evaluator.map(event.p) - c).mean() < 0.5 * np.abs(event.p - c).mean()


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("ES_15", {"name": "ece", "n_bins": 15}),
        ("EW_20", {"name": "ece", "n_bins": 20, "binning": "equal-width"}),
        ("ES_sweep", {"name": "ece-sweep"}),
        ("Platt", {"name": "ece-platt"}),
        ("IOP_OI", {"name": "ece-iop-oi"}),
        ("PL MSE", {"name": "ece-pl", "loss": "brier"}),
    ],
)
@pytest.mark.parametrize("norm", [1, 2])
def test_errors_are_those_of_the_librarys_measures(name: str, measure: dict[str, Any], norm: int) -> None:
    event, _ = draw(2_000)
    result_of_library = calibrant.evaluate(event.p, event.y, measures=[{**measure, "norm": norm}])[measure["name"]]
    binned = name[:2] in ("ES", "EW")
    assert fitted()[name].errors[norm - 1] == pytest.approx(
        result_of_library.debiased if binned else result_of_library.value, abs=1e-6
    )


def test_the_best_score_decides_without_the_rule() -> None:
    event, _ = draw(2_000)
    best = calibrant.fit("pl", event.p, event.y, tolerance=0)
    queries = np.linspace(0, 1, 101)
    assert fitted()["PL CE no rule"].map(queries) == pytest.approx(best.apply(queries), abs=1e-9)
    assert set(NO_RULE) <= set(fitted())


def test_evaluators_get_a_record_for_every_size_and_truth() -> None:
    rows = draw_classes(CALIBRATION_ROWS + 20_000, np.full(3, 0.6), np.zeros(3))
    job = ExperimentPart("evaluators", "network", "Platt", "class:1", 0)
    records = evaluator_records(job, rows, ("ES_15", "identity"), truth_rows=10_000, sizes=SIZES[:2])
    assert [(record["n"], record["evaluator"]) for record in records] == [
        (n, name) for n in SIZES[:2] for name in ("ES_15", "identity")
    ]
    for record in records:
        assert set(record["distance"]) == set(record["ce"]) == set(TRUTHS)
        for truth in TRUTHS:
            assert record["ce"][truth][1] <= record["ce"][truth][0] < 0.1
    assert [record["ece"] for record in records if record["evaluator"] == "identity"] == [[0.0, 0.0]] * 2


def test_a_calibrator_is_compared_with_the_true_map_of_the_model() -> None:
    rows = draw_classes(30_000, np.full(3, 0.4), np.zeros(3))
    distances = {
        name: [
            r["distance"]
            for r in calibrator_records(ExperimentPart("calibrators", "network", name, "", 0), rows, 20_000)
        ]
        for name in ("isotonic", "ES_sweep")
    }
    assert all(len(by_event) == len(EVENTS) for by_event in distances.values())
    assert max(distances["isotonic"]) < 0.04


def test_no_two_runs_evaluate_the_same_row() -> None:
    uses = np.zeros(HELD_OUT, dtype=int)
    uses[:CALIBRATION_ROWS] += 1
    uses[-TRUTH_ROWS:] += 1
    for n in SIZES:
        for seed in range(SEEDS):
            uses[evaluated_rows(n, seed)] += 1
    assert np.all(uses == 1)


def test_ranks_are_taken_within_rows_and_ties_share_one() -> None:
    assert mean_ranks(np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]])) == pytest.approx([2.0, 1.75, 2.25])


def test_orders_are_compared_over_the_columns_that_the_paper_has() -> None:
    assert agreement(np.array([1.0, 9.0, 2.0, 3.0]), [10.0, None, 20.0, 30.0]) == pytest.approx(1.0)


def synthetic(seeds: int) -> dict[ExperimentPart, list[dict[str, Any]]]:
    """Records in which evaluator i is i + 1 thousandths away, and calibrator k has an error of k + 1 thousandths."""
    records: dict[ExperimentPart, list[dict[str, Any]]] = {}
    for job in jobs(seeds):
        if job.kind == "calibrators":
            i = (*CALIBRATORS, FINER).index(job.calibrator)
            records[job] = [{**job._asdict(), "event": event, "distance": 1e-3 * (i + 1)} for event in EVENTS]
        elif job.kind == "evaluators":
            ce = 1e-3 * (SIX.index(job.calibrator) + 1)
            records[job] = [
                {
                    **job._asdict(),
                    "n": n,
                    "evaluator": name,
                    "distance": {truth: [1e-3 * (i + 1) * (1 + job.seed), 1e-6 * (i + 1)] for truth in TRUTHS},
                    "ece": [ce + 1e-4 * i * (1 + job.seed), ce**2 + 1e-6 * i],
                    "ce": {truth: [ce, ce**2] for truth in TRUTHS},
                }
                for n in SIZES
                for i, name in enumerate(EVALUATORS)
            ]
    return records


def test_the_statistics_of_known_records_are_those_by_hand() -> None:
    statistics = arrays(synthetic(2), "evaluators", EVALUATORS, SIX)
    assert statistics.seeds == 2
    assert statistics.distances(["ES_15"]).mean() == pytest.approx(3.0)
    assert statistics.distances(["ES_15"], norm=2).mean() == pytest.approx(2e-3)
    assert statistics.errors(["ES_20"]).mean() == statistics.biases(["ES_20"]).mean() == pytest.approx(0.3)
    assert statistics.rank_correlations(["ES_10"]).mean() == pytest.approx(1.0)
    assert calibrator_distances(synthetic(2))[3].mean() == pytest.approx(4.0)
    assert calibrator_distances(synthetic(2), (FINER,)).mean() == pytest.approx(21.0)


def test_an_incomplete_seed_is_left_out() -> None:
    records = synthetic(2)
    del records[next(job for job in records if job.kind == "evaluators" and job.seed == 1)]
    assert complete_seeds(records, "evaluators") == 1
    assert complete_seeds(records, "calibrators") == 2
    assert arrays(records, "evaluators", EVALUATORS, SIX).seeds == 1
    with pytest.raises(ValueError, match="no seed is complete"):
        arrays({}, "evaluators", EVALUATORS, SIX)


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_page_has_every_table(seeds: int) -> None:
    both = {"errors": dict.fromkeys(EVENTS, 0.01), "platt": dict.fromkeys(EVENTS, 0.0042)}
    facts = {name: {"accuracy": 0.9, "confidence": 0.95, **both} for name in MODELS}
    text = page(synthetic(seeds), facts)
    for number in range(2, 24):
        assert f"Table {number} (arXiv: " in text
    assert "4.2 or less from c*" in text
    assert "nan" not in text
    assert ("need two seeds" in text) == (seeds == 1)
    rows = [line for line in text.splitlines() if line.startswith("| mean rank |")]
    assert rows[0].count("|") == 17
