"""Rows that are checked one by one, and reduced to one event each."""

from __future__ import annotations

import numpy as np
import pytest

from backend.monitors.outcomes import LABEL, PREDICTION, counted, known, labels_of, padded, reduce_rows
from backend.monitors.rows import Why, check_labels, check_predictions, check_times
from calibrant.core.batch import Batch, Predictions, read_predictions
from calibrant.core.reductions import event_probability, reduce


def test_a_bad_prediction_is_refused_and_the_others_are_left() -> None:
    why, checked = check_predictions(np.array([0.2, np.nan, 1.5, 1.00005, np.inf, -0.00005]), "probability")
    assert why.tolist() == [0, Why.NOT_FINITE, Why.OUT_OF_RANGE, 0, Why.NOT_FINITE, 0]
    assert checked[[0, 3, 5]].tolist() == [0.2, 1.0, 0.0]
    assert np.isfinite(checked).all()


def test_vectors_are_checked_by_row_as_a_whole_batch_is() -> None:
    predictions = np.array([[0.5, 0.5], [0.5, 0.50005], [0.5, 0.6], [np.nan, 1.0], [1.00005, -0.00005], [-0.5, 1.5]])
    why, checked = check_predictions(predictions, "probability")
    assert why.tolist() == [0, 0, Why.WRONG_SUM, Why.NOT_FINITE, 0, Why.OUT_OF_RANGE]
    fine = why == 0
    assert np.array_equal(checked[fine], read_predictions(predictions[fine]).values)


def test_rounded_vectors_are_accepted_as_in_a_whole_batch() -> None:
    predictions = np.array([[0.3333, 0.3333, 0.1667, 0.1669], [0.5, 0.25, 0.125, 0.125], [0.9, 0.9, 0.9, 0.9]])
    why, checked = check_predictions(predictions, "probability")
    assert why.tolist() == [0, 0, Why.WRONG_SUM]
    assert np.array_equal(checked[:2], read_predictions(predictions[:2]).values)
    assert read_predictions(predictions[:2]).rewritten
    why, _ = check_predictions(predictions + np.array([0.0003, 0.0, 0.0, 0.0]), "probability")
    assert why.tolist() == [Why.WRONG_SUM] * 3


def test_logits_are_of_any_size_but_finite() -> None:
    why, _ = check_predictions(np.array([-40.0, 3.0, np.inf]), "logit")
    assert why.tolist() == [0, 0, Why.NOT_FINITE]


def test_checking_leaves_the_callers_array_alone() -> None:
    predictions = np.array([[0.5, 0.50005], [0.1, 0.9]])
    before = predictions.copy()
    check_predictions(predictions, "probability")
    assert np.array_equal(predictions, before)


def test_labels_are_whole_numbers_of_the_classes() -> None:
    labels = np.array([0.0, 2.0, 3.0, -1.0, 0.5, np.nan, np.inf])
    bad = Why.INVALID_LABEL
    assert check_labels(labels, 3).tolist() == [0, 0, bad, bad, bad, bad, bad]


def test_times_may_lie_within_the_skew_and_the_retention() -> None:
    times = np.array([1000.0, 1060.0, 1061.0, 900.0, 899.0, np.nan])
    assert check_times(times, 1000.0, skew=60, retention=100).tolist() == [0, 0, Why.FUTURE, 0, Why.TOO_OLD, 0]


@pytest.mark.parametrize("reduction", ["confidence", "class:2", "top:1", "top:2", "top:3"])
def test_vectors_are_reduced_as_batches_are(reduction: str) -> None:
    rng = np.random.default_rng(7)
    predictions = rng.dirichlet(np.ones(3), 200)
    predictions[:20] = [0.4, 0.2, 0.4]  # ties rank the first class first
    labels = rng.integers(0, 3, 200)
    reduced = reduce_rows(predictions, "probability", reduction)
    batch = Batch(Predictions(predictions, "probability"), labels, None)
    assert np.array_equal(reduced.p, event_probability(batch.predictions, reduction))
    assert np.array_equal(reduced.event == labels, reduce(batch, reduction).y == 1)


def test_a_map_of_vectors_may_change_the_class_and_the_raw_one_is_kept() -> None:
    vectors = np.array([[0.6, 0.3, 0.1]])
    reduced = reduce_rows(vectors, "probability", "confidence", lambda predictions: predictions.values[:, ::-1])
    assert (reduced.p.tolist(), reduced.event.tolist()) == ([0.6], [2])
    assert reduced.raw_event is not None
    assert reduced.raw_event.tolist() == [0]


def test_a_map_of_one_event_keeps_the_class_predicted_before_it() -> None:
    vectors = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    reduced = reduce_rows(vectors, "probability", "confidence", lambda predictions: np.full(2, 0.25))
    assert (reduced.p.tolist(), reduced.event.tolist()) == ([0.25, 0.25], [0, 2])
    assert reduced.raw_p is not None
    assert reduced.raw_p.tolist() == [0.6, 0.6]


def test_entries_of_any_kind_are_read_back() -> None:
    label = np.zeros(1, LABEL)
    label["kind"], label["label"], label["time"] = ord("L"), 3, 12.5
    joined = counted(np.array([70_000]), False, 9.0)
    waiting = np.zeros(1, PREDICTION)
    waiting["kind"], waiting["p"], waiting["time"] = ord("P"), 0.25, 7.0
    read = known([label.tobytes(), None, joined.tobytes(), waiting.tobytes()])
    assert read["kind"].tolist() == [ord("L"), 0, ord("J"), ord("P")]
    labels = labels_of(read)
    assert (labels["label"][[0, 2]].tolist(), float(labels["time"][0])) == ([3, 70_000], 12.5)
    assert (float(read["p"][3]), float(read["time"][3])) == (0.25, 7.0)
    assert padded(joined).tobytes() == read[2:3].tobytes()
    assert counted(np.array([1]), True, 9.0)["time"].tolist() == [9.0]
    assert len(label.tobytes()) < PREDICTION.itemsize


def test_every_reason_has_a_message_without_a_value() -> None:
    assert all(reason.code and "{" not in reason.detail for reason in set(Why) - {Why.FINE})
