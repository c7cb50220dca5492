from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidDocument, InvalidOption, MissingClass, OneClass, UnknownReduction, WrongShape
from tests.refusals import refused_at
from tests.unit.maps.drawn import assert_refused, drawn_logits, softmax

K = 4
VECTORS = ["classwise", "top-label", "ranks", "within-ranks"]


def _rows(n: int = 600, seed: int = 0, heat: float = 2.0) -> tuple[Any, Any]:
    """Overconfident predictions of K classes, and labels."""
    z, labels = drawn_logits(n, K, seed=seed, heat=heat, tilt=0.0)
    return softmax(z), labels


@pytest.mark.parametrize("reduction", VECTORS)
@pytest.mark.parametrize("method", ["isotonic", "platt", "beta"])
def test_rows_are_probabilities_that_score_better(method: str, reduction: str) -> None:
    P, y = _rows()
    fitted = calibrant.fit(method, P, y, reduction=reduction)
    again = calibrant.load(fitted.to_document())
    unseen, labels = _rows(seed=1)
    q = again.apply(unseen)
    np.testing.assert_array_equal(q, fitted.apply(unseen))
    assert q.shape == unseen.shape
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    before, after = (calibrant.evaluate(r, labels, measures=["brier"], reduction="canonical") for r in (unseen, q))
    assert (after.measures["brier"].value or 9.0) < (before.measures["brier"].value or 0.0)


def test_one_vs_rest_of_identity_is_identity() -> None:
    P, y = _rows()
    for reduction in VECTORS:
        np.testing.assert_allclose(calibrant.fit("identity", P, y, reduction=reduction).apply(P), P, atol=1e-12)


def test_each_class_has_the_curve_of_its_event() -> None:
    P, y = _rows()
    fitted = calibrant.fit("isotonic", P, y, reduction="classwise", renormalise=False)
    alone = [calibrant.fit("isotonic", P, y, reduction=f"class:{k}").apply(P) for k in range(K)]
    np.testing.assert_array_equal(fitted.apply(P), np.column_stack(alone))
    divided = calibrant.fit("isotonic", P, y, reduction="classwise").apply(P)
    sums = np.column_stack(alone).sum(axis=1, keepdims=True)
    assert (sums > 0.0).all()
    np.testing.assert_allclose(divided, np.column_stack(alone) / sums)


def test_the_first_rank_is_the_confidence_and_the_others_share_the_rest() -> None:
    P, y = _rows()
    confidence = calibrant.fit("platt", P, y, reduction="confidence").apply(P)
    rows, top = np.arange(len(P)), P.argmax(axis=1)
    for reduction in ("top-label", "ranks"):
        options: dict[str, Any] = {} if reduction == "top-label" else {"n_ranks": 1}
        q = calibrant.fit("platt", P, y, reduction=reduction, **options)
        calibrated = q.apply(P)
        np.testing.assert_allclose(calibrated[rows, top], confidence)
        rest = np.delete(P[0], top[0]) / (1.0 - P[0, top[0]])
        np.testing.assert_allclose(np.delete(calibrated[0], top[0]), (1.0 - confidence[0]) * rest)


def test_within_ranks_are_differences_of_what_the_first_ranks_hold() -> None:
    P, y = _rows()
    fitted = calibrant.fit("platt", P, y, reduction="within-ranks", n_ranks=2, keep_order=True)
    ordered_columns = np.sort(fitted.apply(P))[:, ::-1]
    first, second = (calibrant.fit("platt", P, y, reduction=f"within-top:{r}").apply(P) for r in (1, 2))
    ordered = (first >= second - first) & (second - first >= (1 - second))
    assert ordered.sum() > 100
    np.testing.assert_allclose(ordered_columns[ordered, 0], first[ordered])
    np.testing.assert_allclose(ordered_columns[ordered, 1], (second - first)[ordered], atol=1e-12)


@pytest.mark.parametrize("reduction", VECTORS)
def test_the_order_of_the_classes_is_kept_on_request(reduction: str) -> None:
    P, y = _rows(seed=3)
    free = calibrant.fit("isotonic", P, y, reduction=reduction)
    ordered = calibrant.fit("isotonic", P, y, reduction=reduction, keep_order=True)
    order = np.argsort(-P, axis=1)
    assert np.all(np.diff(np.take_along_axis(ordered.apply(P), order, axis=1), axis=1) <= 1e-15)
    assert ordered.diagnostics["accuracy_after"] >= ordered.diagnostics["accuracy_before"] - 0.02
    expected = float((P.argmax(axis=1) == y).mean())
    assert free.diagnostics["accuracy_before"] == pytest.approx(expected)
    assert free.diagnostics["accuracy_after"] == pytest.approx(float((free.apply(P).argmax(axis=1) == y).mean()))


def test_ranks_that_are_never_right_have_a_constant() -> None:
    P, _ = _rows(200)
    fitted = calibrant.fit("platt", P, P.argmax(axis=1), reduction="ranks")
    q = fitted.apply(P)
    np.testing.assert_array_equal(q.argmax(axis=1), P.argmax(axis=1))
    assert q.max() == pytest.approx((200.5 / 201) / (200.5 / 201 + 3 * 0.5 / 201))


def test_unfittable_rows_are_refused_with_their_reason() -> None:
    P, y = _rows(50)
    with pytest.raises(MissingClass) as caught:
        calibrant.fit("platt", P, np.where(y == 2, 0, y), reduction="classwise")
    assert "class 2" in caught.value.detail
    with pytest.raises(UnknownReduction):
        calibrant.fit("platt", P, y, reduction="canonical")
    with pytest.raises(UnknownReduction):
        calibrant.fit("platt", P[:, 0], (y == 0).astype(int), reduction="classwise")
    with pytest.raises(InvalidOption):
        calibrant.fit("platt", P, y, reduction="top-label", n_ranks=2)
    with pytest.raises(InvalidOption):
        calibrant.fit("platt", P, y, keep_order=True)
    with pytest.raises(OneClass):
        calibrant.fit("platt", P, P.argmax(axis=1), reduction="confidence")
    fitted = calibrant.fit("platt", P, y, reduction="classwise")
    with pytest.raises(WrongShape):
        fitted.apply(P[:, :3] / P[:, :3].sum(axis=1, keepdims=True))
    with pytest.raises(WrongShape):
        fitted.apply(P[:, 0])


def test_damaged_documents_of_many_curves_are_found() -> None:
    P, y = _rows(100)
    document = calibrant.fit("platt", P, y, reduction="classwise").to_document()
    damages: list[tuple[dict[str, Any], str]] = [
        ({"curves": document["parameters"]["curves"][:3]}, "curves"),
        ({"curves": [{"family": "magic", "parameters": {}}] * K}, "curves/0/family"),
        ({"curves": [{"family": "platt", "parameters": {}}] * K}, "curves/0/parameters/slope"),
        ({"renormalise": 1}, "renormalise"),
    ]
    assert_refused(document, damages)
    other: dict[str, Any] = {"reduction": "binary", "n_classes": 2}
    for change, where in [(other, "/family"), ({"n_classes": None}, "/n_classes")]:
        with refused_at(where, InvalidDocument):
            calibrant.load(document | change)


def test_a_temperature_maps_vectors_and_events() -> None:
    P, y = _rows(4000)
    fitted = calibrant.fit("temperature", P, y)
    assert fitted.reduction == "canonical"
    assert fitted.function.parameters()["temperature"] == pytest.approx(2.0, rel=0.1)
    logits = np.log(P)
    of_logits = calibrant.fit("temperature", logits, y, scale="logit")
    assert of_logits.function.parameters() == pytest.approx(fitted.function.parameters())
    np.testing.assert_allclose(of_logits.apply(logits), fitted.apply(P), atol=1e-12)
    np.testing.assert_array_equal(fitted.apply(P).argmax(axis=1), P.argmax(axis=1))
    of_event = calibrant.fit("temperature", P[:, 0], (y == 0).astype(int))
    assert of_event.reduction == "binary"
    temperature = of_event.function.parameters()["temperature"]
    odds = P[:, 0] / (1 - P[:, 0])
    np.testing.assert_allclose(of_event.apply(P[:, 0]), odds ** (1 / temperature) / (1 + odds ** (1 / temperature)))


def test_a_report_of_a_map_of_the_vector_is_of_any_reduction() -> None:
    P, y = _rows()
    fitted = replace(calibrant.fit("temperature", P, y), training_digest=None)  # as a map of other rows
    q = fitted.apply(P)
    for reduction in ("confidence", "class:1", "classwise", "canonical"):
        report = calibrant.evaluate(P, y, measures=["brier"], reduction=reduction, map=fitted)
        alone = calibrant.evaluate(q, y, measures=["brier"], reduction=reduction)
        assert report.after is not None
        assert report.after["brier"].value == pytest.approx(alone.measures["brier"].value)
    assert report.improvement is not None
    before, after = report.measures["brier"].value, (report.after or {})["brier"].value
    assert report.improvement["brier"].value == pytest.approx((before or 0.0) - (after or 0.0))
