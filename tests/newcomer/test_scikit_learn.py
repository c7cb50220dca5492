"""Tasks of a person who knows scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_multilabel_classification
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict, cross_val_score, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import calibrant


def test_predict_proba_and_classes_are_passed_as_they_are() -> None:
    """Evaluate predict_proba of three classes against text labels."""
    iris = load_iris(as_frame=True)
    y = iris.target_names[iris.target]
    model = GaussianNB().fit(iris.data, y)
    p = cross_val_predict(model, iris.data, y, method="predict_proba")
    report = calibrant.evaluate(p, y, class_names=model.classes_, reduction="canonical", measures=["log_loss"])
    assert report["log_loss"].value == pytest.approx(log_loss(y, p))
    with pytest.raises(calibrant.CalibrationError, match="class_names"):
        calibrant.evaluate(p, y)


def test_the_calibration_display_has_the_arguments_of_scikit_learn() -> None:
    """Replace sklearn.calibration.CalibrationDisplay by a display with intervals."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = GaussianNB().fit(X_train, y_train)
    y_prob = model.predict_proba(X_test)[:, 1]
    _, axes = plt.subplots(1, 2)
    display = calibrant.CalibrationDisplay.from_predictions(y_test, y_prob, n_bins=10, name="bayes", ax=axes[0])
    assert display.ax_ is axes[0]
    assert axes[0].has_data()
    assert calibrant.CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=10, ax=axes[1]).ax_ is axes[1]
    assert isinstance(calibrant.CalibrationDisplay.from_predictions(y_test, y_prob).ax_, Axes)


def test_several_models_share_the_axes_as_in_scikit_learn() -> None:
    """Pass the axes of one display to the next; the legend names the models."""
    p = np.linspace(0.05, 0.95, 60)
    y = np.tile([0, 1, 1], 20)
    _, ax = plt.subplots()
    for name, predicted in {"bayes": p, "forest": p**2, "boosting": np.sqrt(p)}.items():
        display = calibrant.CalibrationDisplay.from_predictions(y, predicted, n_bins=5, name=name, ax=ax)
        assert display.ax_ is ax
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["bayes", "forest", "boosting"]
    np.testing.assert_allclose(np.asarray(ax.lines[-1].get_ydata()), y.reshape(5, 12).mean(axis=1))
    ax.clear()
    assert calibrant.CalibrationDisplay.from_predictions(y, p, name="alone", ax=ax).ax_.get_title() == "alone"
    assert calibrant.evaluate(p, y).plot(ax) is ax
    with pytest.raises(calibrant.CalibrationError, match=r"axes\[0\]"):
        calibrant.evaluate(p, y).plot(ax=np.array([ax]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"n_bins": 5}, r'CalibrantClassifier\(\) has no argument n_bins; .*options=\{"n_bins": ...\}'),
        ({"random_state": 0}, "pass seed"),
        ({"base_estimator": GaussianNB()}, "did you mean estimator"),
    ],
)
def test_the_classifier_names_what_to_pass_instead_of_an_unknown_argument(options: dict[str, Any], remedy: str) -> None:
    """Pass what scikit-learn's classes or the calibrators take."""
    with pytest.raises(TypeError, match=remedy):
        calibrant.CalibrantClassifier(**options)


@pytest.mark.parametrize("model", [GaussianNB(), FrozenEstimator(GaussianNB().fit([[0.0], [1.0]], [0, 1]))])
def test_weights_of_a_fit_are_sample_weight(model: Any) -> None:
    """Pass weights under the name that evaluate takes."""
    X, y = np.linspace(0, 1, 40)[:, None], np.tile([0, 1], 20)
    with pytest.raises(TypeError, match="no argument weights; did you mean sample_weight"):
        calibrant.CalibrantClassifier(model).fit(X, y, weights=np.ones(40))


def test_the_classifier_replaces_calibrated_classifier_cv_for_texts() -> None:
    """Calibrate a pipeline of texts, with the parameters of CalibratedClassifierCV."""
    texts = ["win a free prize now", "free money", "lunch at noon?", "see you at the meeting"] * 30
    labels = ["spam", "spam", "ham", "ham"] * 30
    pipeline = make_pipeline(CountVectorizer(), MultinomialNB())
    model = calibrant.CalibrantClassifier(pipeline, method="sigmoid", cv=3, n_jobs=1, ensemble=True).fit(texts, labels)
    assert list(model.classes_) == ["ham", "spam"]
    assert len(model.calibrated_classifiers_) == 3
    assert list(model.predict(["free prize", "lunch at noon"])) == ["spam", "ham"]


def test_a_fitted_model_is_calibrated_on_held_out_rows() -> None:
    """Calibrate a model that is already fitted, on a frame and with sample weights."""
    X, y = make_classification(4000, n_informative=2, n_redundant=10, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    X_train, X_fit, y_train, y_fit = train_test_split(X, y, random_state=0)
    model = GaussianNB().fit(X_train, y_train)
    before = model.predict_proba(X_test)
    calibrated = calibrant.CalibrantClassifier(FrozenEstimator(model), method="beta")
    calibrated.fit(X_fit, y_fit, sample_weight=np.ones(len(y_fit)))
    assert log_loss(y_test, calibrated.predict_proba(X_test)) < log_loss(y_test, before)
    np.testing.assert_array_equal(model.predict_proba(X_test), before)


def test_a_classifier_with_coarse_predictions_warns_once_of_them() -> None:
    """Calibrate neighbors with weights, which they do not take, and a tree, whose predictions are 0 and 1."""
    X, y = load_breast_cancer(return_X_y=True)
    neighbors, tree = KNeighborsClassifier(), DecisionTreeClassifier(random_state=0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        calibrant.CalibrantClassifier(neighbors, method="platt").fit(X, y, sample_weight=np.ones(len(y)))
        calibrant.CalibrantClassifier(tree, method="platt").fit(X, y)
    assert [str(warning.message).split(",")[0] for warning in warned] == [
        "KNeighborsClassifier does not accept sample_weight; only the calibration map uses the weights",
        "81 % of the predictions are exactly 0 or 1",
        "100 % of the predictions are exactly 0 or 1",
    ]
    assert {warning.filename for warning in warned} == {__file__}


def test_predictions_of_several_labels_are_cross_validated() -> None:
    """Collect the out-of-fold predictions of several labels, and score those of two."""
    X, y = make_multilabel_classification(200, random_state=0)
    model = calibrant.CalibrantClassifier(OneVsRestClassifier(GaussianNB()), method="platt", cv=2)
    predicted = cross_val_predict(model, X, y, method="predict_proba", cv=2)
    assert predicted.shape == y.shape
    assert ((predicted - y) ** 2).mean() < y.mean(axis=0).var() + 0.25
    assert cross_val_score(model, X, y[:, :2], scoring="roc_auc", cv=2).min() > 0.5


def test_warnings_of_a_display_have_the_line_of_the_notebook() -> None:
    """Draw predicted classes, and apply a map of logits to probabilities by calling it."""
    p = np.tile([0.1, 0.9], 20)
    with pytest.warns(UserWarning, match="like predicted classes") as warned:
        calibrant.CalibrationDisplay.from_predictions(np.tile([0, 1, 1, 1], 10), np.round(p))
    assert [warning.filename for warning in warned] == [__file__]
    fitted = calibrant.fit("platt", np.log(p / (1 - p)), np.tile([0, 1, 1, 1], 10), scale="logit")
    with pytest.warns(UserWarning, match="like probabilities") as warned:
        fitted(p)
    assert [warning.filename for warning in warned] == [__file__]
