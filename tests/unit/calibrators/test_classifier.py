from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import config_context
from sklearn.datasets import load_digits, load_iris, make_classification, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import (
    GroupKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import calibrant
from calibrant.core.errors import CalibrationError

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "scikit-learn.md"


def _estimators() -> list[Any]:
    return [
        calibrant.CalibrantClassifier(),
        calibrant.CalibrantClassifier(LogisticRegression(), method="platt", cv=3, weights_kind="frequency"),
        calibrant.CalibrantClassifier(RidgeClassifier(), cv=3, ensemble=False, weights_kind="frequency"),
    ]


#: Checks that fail on some processors for LinearSVC, scikit-learn's default estimator: liblinear's random order of rows
#: makes weights and repeated rows differ.
_BY_CHANCE = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@parametrize_with_checks(_estimators())  # type: ignore[untyped-decorator]
def test_it_is_a_classifier_of_scikit_learn(estimator: Any, check: Any) -> None:
    if estimator.estimator is None and check.func.__name__ in _BY_CHANCE:
        pytest.skip("liblinear orders rows at random")
    check(estimator)


def _blobs() -> tuple[Any, Any]:
    X, y = make_classification(600, n_informative=5, n_classes=3, random_state=0)
    return X, np.array(["bird", "cat", "dog"])[y]


def test_two_classes_are_mapped_as_one_event() -> None:
    X, y = make_classification(2000, n_informative=6, random_state=0)
    X_fit, X_new, y_fit, y_new = train_test_split(X, y, random_state=0)
    for method in ("beta", "isotonic", "temperature"):
        fitted = calibrant.CalibrantClassifier(GaussianNB(), method=method, ensemble=False).fit(X_fit, y_fit)
        assert fitted.map_.reduction == "binary"
        model = fitted.calibrated_classifiers_[0].estimator
        before = log_loss(y_new, np.clip(model.predict_proba(X_new), 1e-12, 1.0))
        assert log_loss(y_new, np.clip(fitted.predict_proba(X_new), 1e-12, 1.0)) < before


@pytest.mark.slow
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
    q, p = fitted.predict_proba(X_new), GaussianNB().fit(X_fit, y_fit).predict_proba(X_new)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    one_hot = (y_new[:, None] == fitted.classes_).astype(float)
    assert ((q - one_hot) ** 2).sum() < ((p - one_hot) ** 2).sum()
    assert set(fitted.predict(X_new)) <= set(names)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["venn-abers", "isotonic"])
def test_equal_probabilities_of_a_forest_stay_equal(method: str) -> None:
    X, y = make_classification(600, n_informative=6, n_classes=4, flip_y=0.1, random_state=0)
    forest = RandomForestClassifier(50, random_state=0).fit(X[:300], y[:300])
    scores, y_held_out = forest.predict_proba(X[300:]), y[300:]
    fitted = calibrant.CalibrantClassifier(forest, method=method, cv="prefit").fit(X[300:], y_held_out)
    expected = calibrant.fit(method, scores, y_held_out, reduction="classwise").apply(scores)
    np.testing.assert_allclose(fitted.predict_proba(X[300:]), expected, atol=1e-12)


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
    logits = model.decision_function(X[500:1000])
    alone = calibrant.fit("platt", logits, y[500:1000], weights=weights, scale="logit").apply(
        model.decision_function(X[1000:])
    )
    np.testing.assert_allclose(fitted.predict_proba(X[1000:])[:, 1], alone)
    assert brier_score_loss(y[1000:], alone) < 0.25
    frozen = calibrant.CalibrantClassifier(FrozenEstimator(model), method="platt")
    frozen.fit(X[500:1000], y[500:1000], sample_weight=weights)
    np.testing.assert_array_equal(frozen.predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(CalibrationError, match="y contains classes"):
        calibrant.CalibrantClassifier(model, method="platt", cv="prefit").fit(X, y + 5)
    with pytest.raises(NotFittedError):
        calibrant.CalibrantClassifier(LogisticRegression(), cv="prefit").fit(X, y)


def test_the_guide_runs() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, GUIDE.name, "exec"), names)
    assert names["report"].measures["ece"].value < 0.1


def test_the_default_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # every import of it fails
    calibrant.CalibrantClassifier().fit(*load_iris(return_X_y=True))


@pytest.mark.parametrize("ensemble", [True, False])
def test_one_map_is_fitted_to_the_scores_of_all_folds(ensemble: bool) -> None:
    X, y = _blobs()
    cv = StratifiedKFold(4)
    fitted = calibrant.CalibrantClassifier(GaussianNB(), method="temperature", cv=cv, ensemble=ensemble).fit(X, y)
    scores = cross_val_predict(GaussianNB(), X, y, cv=cv, method="predict_proba")
    alone = calibrant.fit("temperature", scores, np.searchsorted(fitted.classes_, y))
    assert fitted.map_.function.temperature == pytest.approx(alone.function.temperature)  # type: ignore[union-attr]
    assert fitted.map_.class_names == ("bird", "cat", "dog")
    assert len(fitted.calibrated_classifiers_) == (4 if ensemble else 1)
    predicted = [member.predict_proba(X) for member in fitted.calibrated_classifiers_]
    np.testing.assert_allclose(fitted.predict_proba(X), np.mean(predicted, axis=0))


def test_folds_may_overlap_and_need_not_cover_all_rows() -> None:
    X, y = _blobs()
    cv = ShuffleSplit(3, test_size=0.5, random_state=0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    fitted = calibrant.CalibrantClassifier(GaussianNB(), cv=cv, ensemble=False).fit(X, y, sample_weight=weights)
    assert fitted.score(X, y) > 0.6


@pytest.mark.parametrize("method", ["platt", "isotonic", "beta"])
def test_only_ratios_of_sample_weights_matter_to_the_map(method: str) -> None:
    X, y = make_classification(400, random_state=0)
    weights = np.random.default_rng(0).lognormal(size=len(y))
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    first, tripled = (
        calibrant.CalibrantClassifier(frozen, method=method).fit(X, y, sample_weight=scale * weights)
        for scale in (1.0, 3.0)
    )
    np.testing.assert_allclose(tripled.predict_proba(X), first.predict_proba(X), rtol=1e-9)
    plain = calibrant.CalibrantClassifier(frozen, method=method).fit(X, y)
    assert np.abs(plain.predict_proba(X) - first.predict_proba(X)).max() > 1e-3


def _multi_label() -> tuple[Any, Any]:
    drawn: tuple[Any, Any] = make_multilabel_classification(500, n_classes=4, random_state=0)
    return drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(20, random_state=0),  # a list of arrays (n, 2)
        OneVsRestClassifier(LogisticRegression(max_iter=1000)),  # a decision function (n, L)
        MultiOutputClassifier(GaussianNB()),
    ],
)
@pytest.mark.parametrize("method", ["venn-abers", "ets"])
def test_every_label_of_multi_label_targets_has_its_map(model: Any, method: str) -> None:
    X, y = _multi_label()
    fitted = calibrant.CalibrantClassifier(model, method=method, cv=3).fit(X[:300], y[:300])
    p = fitted.predict_proba(X[300:])
    assert p.shape == (200, 4)
    assert len(fitted.map_) == 4
    np.testing.assert_array_equal(fitted.predict(X[300:]), p > 0.5)
    rate = y[:300].mean(axis=0)
    assert ((p - y[300:]) ** 2).mean() < ((rate - y[300:]) ** 2).mean()
    sparse = calibrant.CalibrantClassifier(model, method=method, cv=3).fit(X[:300], csr_matrix(y[:300]))
    np.testing.assert_allclose(sparse.predict_proba(X[300:]), p)


def test_a_multi_label_classifier_works_in_cross_validation() -> None:
    X, y = _multi_label()
    model = calibrant.CalibrantClassifier(RandomForestClassifier(10, random_state=0), cv=3)
    assert cross_val_score(model, X, y, scoring="roc_auc", cv=3).min() > 0.5


def test_frames_keep_their_names() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(_blobs()[0]).add_prefix("x")
    fitted = calibrant.CalibrantClassifier(GaussianNB(), cv=3).fit(frame, pd.Series(_blobs()[1], index=frame.index + 7))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    assert fitted.n_features_in_ == 20
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"x0": "other"}))


class _Routed(LogisticRegression):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups_seen: Any = None) -> Any:
        self.seen_ = groups_seen
        return super().fit(X, y, sample_weight)


def test_metadata_are_routed_to_the_estimator_and_the_splitter() -> None:
    X, y = make_classification(300, random_state=0)
    groups = np.arange(300) % 6
    with config_context(enable_metadata_routing=True):
        model = _Routed().set_fit_request(sample_weight=True, groups_seen=True)
        fitted = calibrant.CalibrantClassifier(model, cv=GroupKFold(3), method="platt")
        fitted.fit(X, y, sample_weight=np.ones(300), groups=groups, groups_seen=groups)
        for member in fitted.calibrated_classifiers_:
            assert len(set(member.estimator.seen_)) == 4
        with pytest.raises(TypeError, match="unexpected argument"):
            fitted.fit(X, y, other=groups)


def test_sigmoid_is_platt_and_fits_in_parallel_agree() -> None:
    X, y = _blobs()
    with joblib.parallel_config(backend="threading"):
        first = calibrant.CalibrantClassifier(GaussianNB(), method="sigmoid", n_jobs=2).fit(X, y)
    assert first.map_.method == "platt"
    second = calibrant.CalibrantClassifier(GaussianNB(), method="platt").fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_large_decision_values_are_scaled_down() -> None:
    X, y = make_classification(500, n_informative=4, class_sep=0.5, random_state=0)

    class Loud(LogisticRegression):  # type: ignore[misc]
        def decision_function(self, X: Any) -> Any:
            return 1e6 * super().decision_function(X)

    loud = calibrant.CalibrantClassifier(Loud(), method="platt").fit(X, y).predict_proba(X)
    plain = calibrant.CalibrantClassifier(LogisticRegression(), method="platt").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(loud, plain, atol=1e-3)
    temperature = calibrant.CalibrantClassifier(Loud(), method="temperature").fit(X, y)
    assert 0.5e-6 < temperature.calibrated_classifiers_[0].calibrators[0].beta_ < 2e-6


def test_scores_that_do_not_determine_the_map_fall_back_to_platt_scaling() -> None:
    y = np.arange(100) % 2
    X = 10.0 * y[:, None] + np.random.default_rng(0).normal(size=(100, 1))
    with pytest.warns(ConvergenceWarning, match="no prediction is wrong; using Platt scaling instead of temperature"):
        fitted = calibrant.CalibrantClassifier(LogisticRegression(), method="temperature").fit(X, y)
    assert fitted.map_.method == "platt"
    calibrator = fitted.calibrated_classifiers_[0].calibrators[0]
    assert not hasattr(calibrator, "beta_")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "venn"}, "did you mean venn-abers"),
        ({"method": None}, "method must be one of"),
        ({"ensemble": "yes"}, 'ensemble must be True, False or "auto"'),
        ({"ensemble": None}, 'ensemble must be True, False or "auto"'),
        ({"reduction": "confidence"}, "reduction must be one of"),
        ({"reduction": "binary"}, "reduction"),
        ({"reduction": "canonical"}, "reduction must be a reduction to one event"),
        ({"options": {"knots": 3}}, "has an unknown option"),
        ({"cv": "five"}, "cv"),
        ({"cv": 601}, "Requesting 601-fold"),
    ],
)
def test_invalid_parameters_are_refused_before_the_estimator_is_fitted(parameters: Any, message: str) -> None:
    class Never(GaussianNB):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            raise AssertionError("fitted")

    with pytest.raises(ValueError, match=message):
        calibrant.CalibrantClassifier(Never(), **parameters).fit(*_blobs())


def test_invalid_rows_are_refused() -> None:
    X, y = _blobs()
    model = calibrant.CalibrantClassifier(GaussianNB(), cv=3)
    for labels, weights, message in (
        (y[:-1], None, "inconsistent numbers of samples"),
        (["a"] * 600, None, "y contains one class"),
        (np.linspace(0, 1, 600), None, "Unknown label type"),
        ([*range(599), np.nan], None, "y contains NaN"),
        (y, -np.ones(600), "weights"),
        (y, np.ones(599), "sample_weight"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, labels, sample_weight=weights)

    class Empty(GaussianNB):  # type: ignore[misc]
        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 3), np.nan)

    class Narrow(GaussianNB):  # type: ignore[misc]
        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 2), 0.5)

    for estimator, message in ((Empty(), "predictions"), (Narrow(), "2 columns for 3 classes")):
        with pytest.raises(CalibrationError, match=message):
            calibrant.CalibrantClassifier(estimator, cv=3).fit(X, y)


def test_a_class_that_a_fold_did_not_see_has_probability_0_there_and_is_a_warning() -> None:
    # as of sorted rows without stratified folds: https://github.com/scikit-learn/scikit-learn/issues/29551
    X, y = _blobs()
    order = np.argsort(y, kind="stable")
    cv = [(order[200:], order[:200]), (order[:400], order[400:]), (order[::2], order[1::2])]
    for model in (GaussianNB(), LinearSVC(), RidgeClassifier()):
        with pytest.warns(UserWarning, match="a class is not among the training rows of 2 of 3 folds"):
            fitted = calibrant.CalibrantClassifier(model, cv=cv).fit(X, y)
        unseen = [set(fitted.classes_) - set(member.estimator.classes_) for member in fitted.calibrated_classifiers_]
        assert [len(classes) for classes in unseen][2] == 0
        for member, classes in zip(fitted.calibrated_classifiers_, unseen, strict=True):
            p = member.predict_proba(X)
            np.testing.assert_allclose(p.sum(axis=1), 1.0)
            assert not p[:, np.isin(fitted.classes_, list(classes))].any()


def test_a_correction_to_a_known_rate_uses_the_logits_of_the_classifier_and_warns_of_trees() -> None:
    X, y = make_classification(400, class_sep=3.0, weights=[0.7], random_state=0)
    plain = LogisticRegression(C=1e6, max_iter=10_000).fit(X, y)
    options: dict[str, Any] = {"method": "prior-shift", "cv": "prefit", "options": {"kept_negatives": 0.1}}
    corrected = calibrant.CalibrantClassifier(plain, **options).fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_allclose(
        corrected, calibrant.shift_prior(plain.predict_proba(X)[:, 1], kept_negatives=0.1), atol=1e-9
    )
    forest = RandomForestClassifier(5, min_samples_leaf=40, random_state=0)
    for estimator in (forest, make_pipeline(StandardScaler(), forest)):
        with pytest.warns(UserWarning, match="trees"):
            calibrant.CalibrantClassifier(estimator.fit(X, y), **options).fit(X, y)
