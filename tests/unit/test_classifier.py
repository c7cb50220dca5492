from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import calibrant
from calibrant.errors import CalibrationError


def _estimators() -> list[Any]:
    return [calibrant.CalibrantClassifier(model, method="platt", cv=3) for model in (None, RidgeClassifier())]


@parametrize_with_checks(_estimators())  # type: ignore[untyped-decorator]
def test_it_is_a_classifier_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_two_classes_are_mapped_as_one_event() -> None:
    X, y = make_classification(2000, n_informative=6, random_state=0)
    X_fit, X_new, y_fit, y_new = train_test_split(X, y, random_state=0)
    for method in ("beta", "isotonic", "temperature"):
        fitted = calibrant.CalibrantClassifier(GaussianNB(), method=method).fit(X_fit, y_fit)
        assert fitted.map_.reduction == "binary"
        before = log_loss(y_new, np.clip(fitted.estimator_.predict_proba(X_new), 1e-12, 1.0))
        assert log_loss(y_new, np.clip(fitted.predict_proba(X_new), 1e-12, 1.0)) < before


@pytest.mark.parametrize(
    ("method", "reduction", "expected"),
    [
        ("platt", None, "classwise"),
        ("temperature", None, "canonical"),
        ("beta", "top-label", "top-label"),
        ("platt", "ranks", "ranks"),
    ],
)
def test_many_classes_are_mapped_together(method: str, reduction: str | None, expected: str) -> None:
    X, y = load_digits(return_X_y=True)
    names = np.array(list("abcdefghij"))[y]
    X_fit, X_new, y_fit, y_new = train_test_split(X, names, random_state=0)
    fitted = calibrant.CalibrantClassifier(GaussianNB(), method=method, reduction=reduction, cv=3).fit(X_fit, y_fit)
    assert fitted.map_.reduction == expected
    q, p = fitted.predict_proba(X_new), fitted.estimator_.predict_proba(X_new)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    one_hot = (y_new[:, None] == fitted.classes_).astype(float)
    assert ((q - one_hot) ** 2).sum() < ((p - one_hot) ** 2).sum()
    assert set(fitted.predict(X_new)) <= set(names)


def test_decision_functions_are_logits() -> None:
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(StandardScaler(), LinearSVC())
    fitted = calibrant.CalibrantClassifier(model, method="temperature", cv=3).fit(X, y)
    assert fitted.map_.scale == "logit"
    assert (fitted.predict(X) == y).mean() > 0.95


def test_a_fitted_classifier_is_left_alone() -> None:
    X, y = make_classification(1500, random_state=1)
    model = LogisticRegression().fit(X[:500], y[:500])
    weights = np.random.default_rng(0).integers(1, 3, 500)
    fitted = calibrant.CalibrantClassifier(model, method="platt", cv="prefit")
    fitted.fit(X[500:1000], y[500:1000], sample_weight=weights)
    assert fitted.estimator_ is model
    p = model.predict_proba(X[500:1000])[:, 1]
    alone = calibrant.fit("platt", p, y[500:1000], weights=weights).apply(model.predict_proba(X[1000:])[:, 1])
    np.testing.assert_allclose(fitted.predict_proba(X[1000:])[:, 1], alone)
    assert brier_score_loss(y[1000:], alone) < 0.25
    with pytest.raises(CalibrationError):
        calibrant.CalibrantClassifier(model, method="platt", cv="prefit").fit(X, y + 5)
