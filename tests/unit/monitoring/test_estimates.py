"""Estimates without labels, against scikit-learn's figures, simulation, and hostile input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

import calibrant
from calibrant.core.errors import CalibrationError, TooFewRows
from calibrant.monitoring.figures import binary_figures, class_figures
from tests.refusals import refused_at


def drawn(n: int, seed: int, *, steepness: float = 1.4) -> tuple[Any, Any]:
    """Overconfident predictions, rounded so that there are ties."""
    random = np.random.default_rng(seed)
    c = random.beta(0.9, 1.4, n)
    p = 1.0 / (1.0 + np.exp(-steepness * np.log(c / (1.0 - c)) - 0.2))
    return p.round(2), (random.uniform(size=n) < c).astype(np.int64)


def vectors(n: int, seed: int) -> tuple[Any, Any]:
    logits, labels, _ = calibrant.logistic_normal(n, n_classes=4, temperature=1.5, seed=seed)
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), labels


def test_figures_of_labels_are_those_of_scikit_learn() -> None:
    p, y = drawn(500, 1)
    w = np.random.default_rng(0).integers(1, 4, 500).astype(np.float64)
    figures = binary_figures(y.astype(np.float64), p, p >= 0.5, w, w)
    wanted = {
        "accuracy": metrics.accuracy_score(y, p >= 0.5, sample_weight=w),
        "auroc": metrics.roc_auc_score(y, p, sample_weight=w),
        "brier": metrics.brier_score_loss(y, p, sample_weight=w),
        "log-loss": metrics.log_loss(y, np.clip(p, 2.0**-52, 1 - 2.0**-52), sample_weight=w),
        "precision": metrics.precision_score(y, p >= 0.5, sample_weight=w),
        "recall": metrics.recall_score(y, p >= 0.5, sample_weight=w),
        "f1": metrics.f1_score(y, p >= 0.5, sample_weight=w),
    }
    assert dict(zip(figures.names, figures.values, strict=True)) == pytest.approx(wanted, rel=1e-12)
    assert figures.confusion * w.sum() == pytest.approx(metrics.confusion_matrix(y, p >= 0.5, sample_weight=w))
    assert figures.variances == pytest.approx(np.zeros(7), abs=1e-15)


def test_figures_of_classes_are_those_of_scikit_learn() -> None:
    p, y = vectors(600, 2)
    ones = np.ones(600)
    figures = class_figures(np.eye(4)[y], p, p.argmax(axis=1), ones, ones)
    wanted = {
        "accuracy": metrics.accuracy_score(y, p.argmax(axis=1)),
        "brier": np.square(np.eye(4)[y] - p).sum(axis=1).mean(),
        "log-loss": metrics.log_loss(y, p),
        "auroc": metrics.roc_auc_score(y, p, multi_class="ovr"),
        "precision": metrics.precision_score(y, p.argmax(axis=1), average="macro"),
        "recall": metrics.recall_score(y, p.argmax(axis=1), average="macro"),
        "f1": metrics.f1_score(y, p.argmax(axis=1), average="macro"),
    }
    assert dict(zip(figures.names, figures.values, strict=True)) == pytest.approx(wanted, rel=1e-12)
    assert figures.confusion * 600 == pytest.approx(metrics.confusion_matrix(y, p.argmax(axis=1)))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 4])
def test_expected_figures_and_variances_are_those_of_simulated_labels(classes: int) -> None:
    random = np.random.default_rng(3)
    p = random.dirichlet(np.full(classes, 0.7), 400)
    c = 0.8 * p + 0.2 / classes
    ones = np.ones(400)
    draws = (random.uniform(size=(2000, 400, 1)) > c.cumsum(axis=1)[:, :-1]).sum(axis=2)
    if classes == 2:
        expected = binary_figures(c[:, 1], p[:, 1], p[:, 1] >= 0.5, ones, ones)
        seen = [binary_figures(y.astype(np.float64), p[:, 1], p[:, 1] >= 0.5, ones, ones) for y in draws]
    else:
        expected = class_figures(c, p, p.argmax(axis=1), ones, ones)
        seen = [class_figures(np.eye(classes)[y], p, p.argmax(axis=1), ones, ones) for y in draws[:600]]
    realised = np.array([estimate.flat() for estimate in seen])
    deviation = np.sqrt(expected.flat_variances())
    assert np.abs(realised.mean(axis=0) - expected.flat()).max() < 0.15 * deviation.max()
    assert realised.std(axis=0) == pytest.approx(deviation, rel=0.12)


@pytest.mark.slow
def test_intervals_contain_realised_figures_as_often_as_they_say() -> None:
    covered: dict[str, list[bool]] = {}
    for seed in range(60):
        p, y = drawn(5000, seed)
        estimator = calibrant.fit_performance_estimator(p[:4000], y[:4000])
        for name, figure in estimator.realised(estimator.estimate(p[4000:]), p[4000:], y[4000:]).figures.items():
            covered.setdefault(name, []).append(figure.covered is True)
    assert all(sum(hits) >= 52 for hits in covered.values()), covered


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_a_tally_gives_nearly_the_estimate_of_its_rows() -> None:
    p, y = drawn(6000, 5)
    parts = [calibrant.tally(p[start : start + 1000], y[start : start + 1000]) for start in range(0, 5000, 1000)]
    from_tallies = calibrant.fit_performance_estimator(parts)
    of_rows = calibrant.fit_performance_estimator(p[:5000], y[:5000], windows=5)
    window = calibrant.tally(p[5000:], 1 - y[5000:])  # labels of a window are not used
    from_counts, from_rows = from_tallies.estimate(window), of_rows.estimate(p[5000:])
    for name, figure in from_rows.figures.items():
        of_name = from_counts.figures[name]
        ends = (figure.value, figure.low, figure.high, figure.sampling)
        assert (of_name.value, of_name.low, of_name.high, of_name.sampling) == pytest.approx(ends, rel=1e-6)


def test_classes_and_confidence_have_estimates() -> None:
    p, y = vectors(4000, 6)
    whole = calibrant.fit_performance_estimator(p[:3000], y[:3000])
    realised = whole.realised(whole.estimate(p[3000:]), p[3000:], y[3000:])
    assert realised.confusion is not None
    assert realised.confusion.sum() == pytest.approx(1000)
    assert sum(figure.covered is True for figure in realised.figures.values()) >= 6
    confident = calibrant.fit_performance_estimator(p[:3000], y[:3000], reduction="confidence")
    of_events = confident.estimate(p[3000:]).figures
    assert sorted(of_events) == ["accuracy", "auroc", "brier", "log-loss"]
    assert of_events["accuracy"].value == pytest.approx(realised.figures["accuracy"].value, abs=0.02)


def test_late_labels_that_reject_the_map_withhold_the_estimate() -> None:
    p, y = drawn(6000, 7)
    estimator = calibrant.fit_performance_estimator(p[:4000], y[:4000])
    changed = np.where(np.random.default_rng(1).uniform(size=2000) < 0.3, 1, y[4000:])
    estimate = estimator.estimate(p[4000:], late=(p[4000:], changed))
    assert estimate.withheld is not None
    assert not estimate.figures
    assert "reject" in repr(estimate)
    assert estimator.estimate(p[4000:], late=(p[4000:], y[4000:])).withheld is None


@pytest.mark.parametrize("effective", ["all", "few"])
def test_calibrated_late_labels_seldom_withhold_the_estimate(effective: str) -> None:
    withheld = 0
    for seed in range(60):
        p, y = drawn(6000, 100 + seed)
        few = np.where(np.random.default_rng(seed).uniform(size=2000) < 0.02, 100.0, 0.01)
        weights = few if effective == "few" else None
        estimator = calibrant.fit_performance_estimator(p[:2000], y[:2000], weights=weights, windows=2)
        withheld += estimator.estimate(p[:10], late=(p[2000:], y[2000:]), alpha=0.05).withheld is not None
    assert withheld <= 6


def test_the_effective_number_of_reference_rows_is_that_of_the_weights() -> None:
    p, y = drawn(1000, 4)
    weights = np.random.default_rng(4).uniform(0.1, 9.0, size=1000)
    estimator = calibrant.fit_performance_estimator(p, y, weights=weights)
    assert estimator.n == 1000
    assert estimator.effective == pytest.approx(weights.sum() ** 2 / np.square(weights).sum())
    assert calibrant.fit_performance_estimator(p, y).effective == 1000
    parts = [calibrant.tally(p[start::2], y[start::2]) for start in (0, 1)]
    assert calibrant.fit_performance_estimator(parts).effective == 1000


def test_covariate_weights_repair_an_estimate_that_predictions_alone_cannot() -> None:
    random = np.random.default_rng(8)
    group = np.concatenate([random.uniform(size=8000) < 0.3, random.uniform(size=4000) < 0.8])
    p = random.beta(2, 2, 12_000)
    y = (random.uniform(size=12_000) < np.where(group, 0.5 + 0.2 * (p - 0.5), p)).astype(np.int64)
    ratios = calibrant.density_ratios(group[:8000, None].astype(int), group[8000:, None].astype(int))
    plain = calibrant.fit_performance_estimator(p[:8000], y[:8000])
    weighted = calibrant.fit_performance_estimator(p[:8000], y[:8000], weights=ratios)
    figures = [
        estimator.realised(estimator.estimate(p[8000:]), p[8000:], y[8000:]).figures["accuracy"]
        for estimator in (plain, weighted)
    ]
    assert [figure.covered for figure in figures] == [False, True]


def test_an_estimate_is_plain_json_and_a_table() -> None:
    p, y = drawn(1000, 9)
    estimate = calibrant.fit_performance_estimator(p, y).estimate(p)
    assert json.loads(json.dumps(estimate.to_dict()))["figures"]["f1"]["realised"] is None
    assert "accuracy" in repr(estimate)
    assert "accuracy" in estimate._repr_html_()


P, Y = drawn(400, 10)


@pytest.mark.parametrize(
    ("call", "code", "pointer"),
    [
        (lambda: calibrant.fit_performance_estimator(P[:100], Y[:100]), "too-few-rows", "/predictions"),
        (lambda: calibrant.fit_performance_estimator(P, Y[:-1]), "length-mismatch", "/labels"),
        (lambda: calibrant.fit_performance_estimator(P), "empty-batch", "/labels"),
        (lambda: calibrant.fit_performance_estimator(np.full(400, np.nan), Y), "not-finite", "/predictions/0"),
        (lambda: calibrant.fit_performance_estimator(P, Y, windows=1), "invalid-option", "/windows"),
        (lambda: calibrant.fit_performance_estimator(P, Y, threshold=float("nan")), "invalid-option", "/threshold"),
        (lambda: calibrant.fit_performance_estimator(P, Y, weights=-np.ones(400)), "invalid-weight", "/weights/0"),
        (lambda: calibrant.fit_performance_estimator([calibrant.tally(P, Y)]), "too-few-rows", "/predictions"),
        (lambda: calibrant.fit_performance_estimator(P, Y).estimate([]), "empty-batch", "/predictions"),
        (lambda: calibrant.fit_performance_estimator(P, Y).estimate(P, level=1), "invalid-option", "/level"),
        (lambda: calibrant.fit_performance_estimator(P, Y).estimate(P, late=P), "invalid-option", "/late"),
        (
            lambda: calibrant.fit_performance_estimator(P, Y).estimate([[0.2, 0.3, 0.5]]),
            "unknown-reduction",
            "/reduction",
        ),
    ],
)
def test_invalid_arguments_are_named(call: Any, code: str, pointer: str) -> None:
    with refused_at(pointer, CalibrationError, code=code):
        call()


def test_reference_rows_without_weight_do_not_count() -> None:
    random = np.random.default_rng(31)
    p = random.random(900)
    y = (random.random(900) < p).astype(int)
    weights = np.r_[np.zeros(300), random.uniform(0.5, 2.0, 600)]
    estimator = calibrant.fit_performance_estimator(p, y, weights=weights)
    expected = calibrant.fit_performance_estimator(p[300:], y[300:], weights=weights[300:])
    assert estimator.effective == pytest.approx(expected.effective)
    for name, figure in estimator.estimate(p).figures.items():
        assert figure.value == pytest.approx(expected.estimate(p).figures[name].value)
        assert (figure.low, figure.high) == pytest.approx(
            (expected.estimate(p).figures[name].low, expected.estimate(p).figures[name].high)
        )
    with pytest.raises(TooFewRows, match="150 rows of positive weight"):
        calibrant.fit_performance_estimator(p, y, weights=np.r_[np.zeros(750), np.ones(150)])
