from __future__ import annotations

import json

import numpy as np
import pytest

from calibrant.core.batch import Batch, read_batch
from calibrant.reports.advice import MOST_ROWS, advice, recommended_map
from tests.unit.reports.worlds import draw, many_classes, report_of


def _batch(truth: str, n: int = 10_000) -> Batch:
    return read_batch(*draw(truth, n))


@pytest.mark.parametrize(
    ("truth", "methods"),
    [
        ("calibrated", {"identity"}),
        ("overconfident", {"temperature"}),
        ("underconfident", {"temperature"}),
        ("shifted", {"platt"}),
        ("top", {"beta", "spline", "isotonic"}),
    ],
)
def test_the_simplest_map_that_repairs_is_recommended(truth: str, methods: set[str]) -> None:
    assert recommended_map(_batch(truth)).recommended in methods


def test_what_is_recommended_is_proven_to_gain() -> None:
    recommendation = recommended_map(_batch("shifted"))
    best = next(candidate for candidate in recommendation.candidates if candidate.method == recommendation.recommended)
    assert best.proven
    gain = best.gains["log-loss"]
    assert gain.interval is not None
    assert gain.interval[0] > 0.0
    assert gain.value == pytest.approx(gain.parts["before"] - gain.parts["after"])


@pytest.mark.slow
def test_calibrated_predictions_are_nearly_always_left_unchanged() -> None:
    recommended = [recommended_map(read_batch(*draw("calibrated", 400, seed))).recommended for seed in range(40)]
    assert (
        recommended.count("identity") >= 36
    )  # five others of 40 would happen with probability 0.05 at an error of 5 %


def test_maps_of_the_whole_vector_are_compared_for_many_classes() -> None:
    recommendation = recommended_map(read_batch(*many_classes()))
    assert (recommendation.recommended, recommendation.reduction) == ("temperature", "canonical")
    assert {candidate.method for candidate in recommendation.candidates} >= {"temperature", "vector"}


def test_maps_of_the_event_are_compared_for_one_class_of_many() -> None:
    recommendation = recommended_map(read_batch(*many_classes()), "class:2")
    assert {candidate.reduction for candidate in recommendation.candidates} == {"class:2"}


def test_the_seed_draws_some_of_many_rows() -> None:
    batch = _batch("overconfident", MOST_ROWS + 5_000)
    recommendation = recommended_map(batch, seed=1)
    assert recommendation.n == MOST_ROWS
    assert recommendation == recommended_map(batch, seed=1)
    assert recommendation.candidates != recommended_map(batch, seed=2).candidates
    recommended = advice({"n": len(batch), "measures": {}, "recommendation": recommendation.to_document()})
    assert recommended is not None
    assert any("a random sample of 20,000 rows (seed 1)" in reason for reason in recommended.reasons)


@pytest.mark.parametrize(
    ("p", "y", "headline"),
    [
        ([0.1, 0.9, 0.2], [0, 1, 0], "No map can be recommended: at least 5 rows are required"),
        ([0.5] * 20, [0, 1] * 10, "Keep the predictions unchanged: no fast method is significantly better"),
        ([0.0] * 10 + [1.0] * 10, [0] * 10 + [1] * 10, "Keep the predictions unchanged: no fast method is"),
    ],
)
def test_no_map_is_recommended_if_none_can_be_fitted_or_improves(p: object, y: object, headline: str) -> None:
    recommendation = recommended_map(read_batch(p, y))
    assert recommendation.recommended == "identity"
    recommended = advice(
        {"n": recommendation.n, "measures": {}, "recommendation": json.loads(json.dumps(recommendation.to_document()))}
    )
    assert recommended is not None
    assert recommended.headline.startswith(headline)
    assert recommended.python is None


@pytest.mark.parametrize(
    ("p", "labels", "reduction"),
    [
        (np.random.default_rng(0).random(300), [1] * 300, None),
        (np.random.default_rng(0).random(300), [0] * 300, None),
        (np.random.default_rng(6).dirichlet(np.ones(3), 300), [0, 1] * 150, "class:2"),
        (np.random.default_rng(6).dirichlet(np.ones(3), 300), [1] * 300, None),
    ],
)
def test_one_outcome_has_no_recommendation_and_no_advice_to_get_more_rows(
    p: object, labels: list[int], reduction: str | None
) -> None:
    recommendation = recommended_map(read_batch(p, labels), reduction)
    assert recommendation.recommended == "identity"
    recommended = advice(report_of(p, labels, reduction) | {"recommendation": recommendation.to_document()})
    assert recommended is not None
    assert recommended.headline == "No map can be recommended: all labels are equal"
    assert len(recommended.reasons) == 1
    assert recommended.reasons[0].startswith("Not compared (all labels are equal): ")


def test_each_map_has_a_reason_if_a_class_is_missing() -> None:
    p, labels = np.random.default_rng(6).dirichlet(np.ones(3), 300), [0, 1] * 150
    recommendation = recommended_map(read_batch(p, labels)).to_document()
    recommended = advice(report_of(p, labels) | {"recommendation": recommendation})
    assert recommended is not None
    assert recommended.headline == "No map can be recommended: none of the fast methods can be fitted to these rows"
    assert all(reason.startswith("Not compared (") for reason in recommended.reasons)
    assert any("class 2" in reason for reason in recommended.reasons)


def test_the_advice_has_the_gain_and_the_line_that_fits_the_map() -> None:
    recommendation = recommended_map(_batch("overconfident"))
    recommended = advice(
        {"n": recommendation.n, "measures": {}, "recommendation": json.loads(json.dumps(recommendation.to_document()))}
    )
    assert recommended is not None
    assert recommended.headline.startswith("Fit temperature: estimated to lower the log loss by 0.02")
    assert recommended.python == 'calibrant.fit("temperature", predictions, labels, reduction="binary")'
    losses = [float(row.cells[1][0]) for row in recommended.rows]
    assert [row.note for row in recommended.rows].count("lowest log loss") + ("lowest" in recommended.rows[0].note) == 1
    (lowest,) = [row for row in recommended.rows if "lowest log loss" in row.note]
    assert float(lowest.cells[1][0]) == min(losses)
    assert recommended.rows[0].note.startswith("recommended")
    assert recommended.columns[1] == "Log loss, binary"
    assert "averaged" in recommended.reasons[-1]


def test_rejected_calibration_without_a_proven_map_reports_both() -> None:
    p, y = draw("one-region", 3_000)
    report = report_of(p, y) | {"recommendation": recommended_map(read_batch(p, y)).to_document()}
    recommended = advice(report)
    assert recommended is not None
    assert recommended.headline == (
        "No map can be recommended: calibration is rejected, but no fast method is significantly better"
    )
    assert "Calibration is rejected nevertheless; more rows may show which map to fit." in recommended.reasons


def test_a_report_without_a_recommendation_has_no_advice() -> None:
    assert advice({"n": 3}) is None


@pytest.mark.slow
def test_scores_of_the_whole_vector_and_of_the_event_are_distinguished() -> None:
    for (p, y), apart in ((many_classes(), True), (draw("overconfident"), False)):
        recommended = advice(report_of(p, y) | {"recommendation": recommended_map(read_batch(p, y)).to_document()})
        assert recommended is not None
        assert any("whole probability vector" in reason for reason in recommended.reasons) is apart
        assert recommended.columns[1] == f"Log loss, {'canonical' if apart else 'binary'}"
