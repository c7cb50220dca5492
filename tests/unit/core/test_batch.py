from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant.core import errors
from calibrant.core.batch import read_batch, read_classes, read_predictions, restrict
from calibrant.core.errors import EmptyBatch, InvalidOption, OutOfRange, WrongShape
from tests.refusals import refused_at
from tests.rows import draw_event


@pytest.mark.parametrize(
    ("predictions", "labels", "weights", "error", "pointer"),
    [
        ([0.1, float("nan")], [0, 1], None, errors.NotFinite, "/predictions/1"),
        ([0.1, float("inf")], [0, 1], None, errors.NotFinite, "/predictions/1"),
        ([0.1, 10**400], [0, 1], None, errors.NotFinite, "/predictions/1"),
        ([[0.5, 0.5], [0, -(10**400)]], [0, 1], None, errors.NotFinite, "/predictions/1/1"),
        ([0.1, 1.2], [0, 1], None, errors.OutOfRange, "/predictions/1"),
        ([[0.5, 0.5], [-0.2, 1.2]], [0, 1], None, errors.OutOfRange, "/predictions/1/0"),
        ([[0.5, 0.5], [0.5, 0.6]], [0, 1], None, errors.OutOfRange, "/predictions/1"),
        ([], [], None, errors.EmptyBatch, "/predictions"),
        ([[[0.1]]], [0], None, errors.WrongShape, "/predictions"),
        ([[0.1], [0.2]], [0, 1], None, errors.WrongShape, "/predictions"),
        ([[0.1, 0.9], [0.2]], [0, 1], None, errors.WrongShape, "/predictions"),
        (["a", "b"], [0, 1], None, errors.NotANumber, "/predictions"),
        ([True, False], [0, 1], None, errors.NotANumber, "/predictions"),
        ([0.1, 0.2], [0, 2], None, errors.InvalidLabel, "/labels/1"),
        ([0.1, 0.2], [0, -1], None, errors.InvalidLabel, "/labels/1"),
        ([0.1, 0.2], [0, 0.5], None, errors.InvalidLabel, "/labels/1"),
        ([0.1, 0.2], [0, float("nan")], None, errors.NotFinite, "/labels/1"),
        ([[0.2, 0.3, 0.5]], [3], None, errors.InvalidLabel, "/labels/0"),
        ([0.1, 0.2], [0], None, errors.LengthMismatch, "/labels"),
        ([0.1, 0.2], [[0], [1]], None, errors.WrongShape, "/labels"),
        ([0.1, 0.2], [0, 1], [1.0], errors.LengthMismatch, "/weights"),
        ([0.1, 0.2], [0, 1], [1.0, -1.0], errors.InvalidWeight, "/weights/1"),
        ([0.1, 0.2], [0, 1], [0.0, 0.0], errors.InvalidWeight, "/weights"),
        ([0.1, 0.2], [0, 1], [1.0, float("inf")], errors.NotFinite, "/weights/1"),
        ([0.1, 0.2], [0, 1], [1.0, 10**400], errors.NotFinite, "/weights/1"),
    ],
)
def test_a_bad_batch_is_refused_with_the_first_bad_place(
    predictions: Any, labels: Any, weights: Any, error: type[errors.CalibrationError], pointer: str
) -> None:
    with refused_at(pointer, error):
        read_batch(predictions, labels, weights)


def test_a_refusal_names_five_places_at_most_and_no_value() -> None:
    with pytest.raises(errors.OutOfRange) as caught:
        read_predictions([7.125] * 100)
    assert len(caught.value.offences) == 5
    assert "7.125" not in str(caught.value)
    assert all("7.125" not in offence.detail for offence in caught.value.offences)


def test_rounding_of_real_classifiers_is_corrected_and_counted() -> None:
    read = read_predictions(np.array([[0.5, 0.5], [1.00001, 0.0], [0.6, 0.40002]]))
    assert (read.clipped, read.renormalised) == (1, 1)
    np.testing.assert_allclose(read.values.sum(axis=1), 1.0, atol=1e-15)
    assert read_predictions([1.00005, -0.00005, 0.5]).clipped == 2


def test_rows_whose_sum_differs_by_rounding_are_left_alone() -> None:
    matrix = np.full((4, 3), 1 / 3)
    read = read_predictions(matrix)
    assert read.renormalised == 0
    assert read.values is matrix


def test_logits_become_probabilities() -> None:
    np.testing.assert_allclose(read_predictions([0.0, np.log(3)], scale="logit").values, [0.5, 0.75])
    np.testing.assert_allclose(read_predictions([[0.0, np.log(3)]], scale="logit").values, [[0.25, 0.75]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_percentages_become_probabilities(dtype: Any) -> None:
    read = read_predictions(np.array([0, 72, 100], dtype), scale="percent")
    assert read.scale == "probability"
    np.testing.assert_allclose(read.values, [0.0, 0.72, 1.0], rtol=1e-7)
    rows = read_predictions(np.array([[40, 60], [0, 100]], dtype), scale="percent")
    np.testing.assert_allclose(rows.values, [[0.4, 0.6], [0.0, 1.0]], rtol=1e-7)
    assert read_predictions([100.004, -0.004], scale="percent").clipped == 2


@pytest.mark.parametrize("bad", [[50.0, 100.1], [-1.0, 50.0], [1e300, 0.0]])
def test_percentages_outside_0_to_100_are_refused_by_row(bad: list[float]) -> None:
    with pytest.raises(errors.OutOfRange, match=r"\[0, 100\]") as caught:
        read_predictions(bad, scale="percent")
    assert len(caught.value.offences) == 1
    with pytest.raises(errors.OutOfRange, match="sum to 1"):
        read_predictions([[50.0, 60.0]], scale="percent")
    with pytest.raises(errors.NotFinite):
        read_predictions([np.nan, 5.0], scale="percent")


def test_boolean_labels_of_numpy_are_labels() -> None:
    assert read_batch([0.1, 0.9], np.array([False, True])).labels.tolist() == [0, 1]


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(errors.InvalidOption):
        read_predictions([0.1], scale="percents")  # type: ignore[arg-type]


def test_restricted_logits_go_through_the_softmax_of_the_classes_chosen() -> None:
    logits = np.array([[0.0, 800.0, 1.0, 2.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 1.0]])
    batch, rows = restrict(read_batch(logits, [2, 1, 0], [1.0, 2.0, 4.0], scale="logit"), [2, 0])
    assert rows.tolist() == [0, 2]
    assert batch.labels.tolist() == [0, 1]
    assert batch.weights is not None
    assert batch.weights.tolist() == [0.25, 1.0]
    # The first row's probabilities of these classes underflow: only its logits still know them.
    np.testing.assert_allclose(batch.predictions.values, softmax(logits[[0, 2]][:, [2, 0]], axis=1))


def test_restricted_probabilities_are_divided_by_their_sum() -> None:
    batch, _ = restrict(read_batch([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]], [0, 1]), [0, 1])
    np.testing.assert_allclose(batch.predictions.values, [[0.625, 0.375], [1.0, 0.0]])


def test_restricting_names_what_is_wrong() -> None:
    batch = read_batch([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [0, 1])
    with refused_at("/predictions/1", OutOfRange):
        restrict(batch, [0, 1])
    with pytest.raises(EmptyBatch):
        restrict(read_batch([[0.5, 0.5, 0.0]], [0]), [1, 2])
    wrong: list[object] = [[0], [0, 0], [0, 3], "01", [0, True]]
    for classes in wrong:
        with pytest.raises(InvalidOption):
            read_classes(classes, 3)
    with pytest.raises(WrongShape):
        read_classes([0, 1], None)


def test_a_matrix_of_single_precision_stays_so_and_its_sums_may_round() -> None:
    random = np.random.default_rng(0)
    matrix = softmax(random.normal(size=(50, 1000)), axis=1).astype(np.float32)
    read = read_predictions(matrix)
    assert read.values is matrix
    assert read.renormalised == 0
    assert read_predictions(matrix * np.float32(1.00003)).renormalised == 50


@pytest.mark.parametrize("power", [1023, 900, -900, -1022])
def test_importance_weights_of_any_scale_are_the_same_batch(power: int) -> None:
    weights = np.random.default_rng(1).integers(1, 1000, 50) / 1024.0
    p, y = np.linspace(0.1, 0.9, 50), np.arange(50) % 2
    plain = read_batch(p, y, weights, kind="importance")
    scaled = read_batch(p, y, np.ldexp(weights, power), kind="importance")
    assert plain.weights is not None
    assert scaled.weights is not None
    if power > -1000:
        np.testing.assert_array_equal(scaled.weights, plain.weights)
    np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-9)


def test_frequency_weights_whose_sum_overflows_count_too_many_rows() -> None:
    with pytest.raises(errors.InvalidWeight, match="weights_kind importance"):
        read_batch([0.1, 0.9], [0, 1], [1e308, 1e308], kind="frequency")


@pytest.mark.parametrize("method", ["histogram", "es-sweep", "es-cv", "bbq", "scaling-binning", "isotonic"])
def test_equal_importance_weights_are_no_weights(method: str) -> None:
    p, y = draw_event(400, 0, 1.4)
    weights: dict[str, Any] = {"weights": np.full(400, 0.3), "weights_kind": "importance"}
    fitted, weighted = calibrant.fit(method, p, y), calibrant.fit(method, p, y, **weights)
    np.testing.assert_allclose(weighted.apply(p), fitted.apply(p), atol=1e-12)
    report, of_weights = calibrant.evaluate(p, y), calibrant.evaluate(p, y, **weights)
    assert [of_weights[key].value for key in report] == pytest.approx([report[key].value for key in report], abs=1e-12)
