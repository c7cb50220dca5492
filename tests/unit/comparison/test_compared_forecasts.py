"""Comparisons of forecasts by proper scores: values by definition, laws, sizes of tests, and refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.distributions import scores
from calibrant.distributions.forecasts import read_forecasts
from calibrant.distributions.streams import diebold_mariano
from tests.refusals import refused_at

N = 120
LEVELS = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def _forecasts(seed: int = 0) -> tuple[np.ndarray, dict[str, dict[str, Any]]]:
    random = np.random.default_rng(seed)
    centre = random.normal(size=N)
    y = centre + random.normal(size=N)
    return y, {
        "good": {"mean": centre, "variance": np.ones(N)},
        "narrow": {"mean": centre, "std": np.full(N, 0.3)},
        "shifted": {"mean": centre + 0.5, "variance": np.ones(N)},
    }


def test_the_difference_is_that_of_the_mean_scores_with_student_s_interval() -> None:
    y, forecasts = _forecasts()
    comparison = calibrant.compare_distributions(y, {name: forecasts[name] for name in ("good", "narrow")})
    first = scores.crps(read_forecasts(**forecasts["good"]), y)
    second = scores.crps(read_forecasts(mean=forecasts["narrow"]["mean"], variance=np.full(N, 0.09)), y)
    expected = stats.ttest_rel(first, second)
    pair = comparison.pairs[0]
    assert (comparison.n, comparison.score, comparison.ranking) == (N, "crps", ("good", "narrow"))
    assert comparison.means == pytest.approx({"good": first.mean(), "narrow": second.mean()}, rel=1e-12)
    assert pair.difference == pytest.approx(np.mean(first - second), rel=1e-12)
    assert pair.p_value == pair.unadjusted == pytest.approx(expected.pvalue, rel=1e-9)
    assert pair.interval == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-9)


def test_several_forecasts_have_holm_s_p_values_and_simultaneous_intervals() -> None:
    y, forecasts = _forecasts(1)
    comparison = calibrant.compare_distributions(y, forecasts, interval=0.9)
    assert [pair.between for pair in comparison.pairs] == [
        ("good", "narrow"),
        ("good", "shifted"),
        ("narrow", "shifted"),
    ]
    p = np.array([pair.unadjusted for pair in comparison.pairs], float)
    order = np.argsort(p)
    adjusted = np.minimum(np.maximum.accumulate(p[order] * [3, 2, 1]), 1.0)
    assert [comparison.pairs[i].p_value for i in order] == pytest.approx(adjusted)
    alone = calibrant.compare_distributions(y, {n: forecasts[n] for n in ("good", "narrow")}, interval=1.0 - 0.1 / 3)
    assert alone.pairs[0].interval == pytest.approx(comparison.pairs[0].interval)


def test_lags_are_those_of_diebold_and_mariano() -> None:
    y, forecasts = _forecasts(2)
    comparison = calibrant.compare_distributions(y, forecasts | {"last": forecasts["good"]}, lags=3)
    first, second = (
        scores.crps(read_forecasts(mean=forecasts[n]["mean"], variance=np.ones(N)), y) for n in ("good", "shifted")
    )
    expected = diebold_mariano(first, second, lags=3)
    pair = next(pair for pair in comparison.pairs if pair.between == ("good", "shifted"))
    assert (pair.difference, pair.unadjusted) == pytest.approx((expected.value, expected.p_value))
    same = next(pair for pair in comparison.pairs if pair.between == ("good", "last"))
    assert (same.difference, same.interval, same.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_weights_are_repetitions_and_clusters_widen_the_interval() -> None:
    y, forecasts = _forecasts(3)
    chosen = {name: forecasts[name] for name in ("good", "shifted")}
    w = np.arange(N) % 3
    rows = np.repeat(np.arange(N), w)
    repeated = {n: {k: np.asarray(v)[rows] for k, v in own.items()} for n, own in chosen.items()}
    weighted = calibrant.compare_distributions(y, chosen, weights=w, weights_kind="frequency")
    expected = calibrant.compare_distributions(y[rows], repeated)
    assert weighted.n < expected.n
    assert weighted.pairs[0].interval == pytest.approx(expected.pairs[0].interval)
    twice = np.tile(np.arange(N), 2)
    copies = {n: {k: np.asarray(v)[twice] for k, v in own.items()} for n, own in chosen.items()}
    alone = calibrant.compare_distributions(y, chosen).pairs[0]
    clustered = calibrant.compare_distributions(y[twice], copies, clusters=[str(i) for i in twice]).pairs[0]
    assert clustered.interval == pytest.approx(alone.interval)
    importance = calibrant.compare_distributions(y, chosen, weights=w * 7.0, weights_kind="importance").pairs[0]
    assert importance.difference == pytest.approx(weighted.pairs[0].difference)


@pytest.mark.parametrize(
    ("kinds", "score"),
    [
        (("normal", "samples"), "crps"),
        (("normal", "quantiles"), "quantile-score"),
        (("samples", "quantiles", "normal"), "quantile-score"),
        (("interval", "normal", "samples", "quantiles"), "interval-score"),
    ],
)
def test_different_kinds_have_a_common_score(kinds: tuple[str, ...], score: str) -> None:
    random = np.random.default_rng(4)
    centre = random.normal(size=N)
    known: dict[str, dict[str, Any]] = {
        "normal": {"mean": centre, "variance": np.ones(N)},
        "samples": {"samples": centre[:, None] + random.normal(size=(N, 40))},
        "quantiles": {"quantiles": centre[:, None] + stats.norm.ppf(LEVELS), "levels": LEVELS},
        "interval": {"lower": centre - 1.2815515655446004, "upper": centre + 1.2815515655446004, "level": 0.8},
    }
    comparison = calibrant.compare_distributions(centre + random.normal(size=N), {kind: known[kind] for kind in kinds})
    assert comparison.score == score
    exact = [kind for kind in kinds if kind != "samples"]
    assert [comparison.means[kind] for kind in exact] == pytest.approx([comparison.means[exact[0]]] * len(exact))


@pytest.mark.parametrize("score", ["log-score", "dawid-sebastiani", "squared-error", "absolute-error"])
def test_the_score_can_be_chosen(score: str) -> None:
    y, forecasts = _forecasts(5)
    comparison = calibrant.compare_distributions(y, forecasts, score=score)  # type: ignore[arg-type]
    assert comparison.score == score
    if score == "squared-error":
        assert comparison.means["shifted"] == pytest.approx(np.mean((y - forecasts["shifted"]["mean"]) ** 2))
        assert comparison.means["good"] == comparison.means["narrow"]


def test_an_infinite_score_is_a_problem_of_its_pairs_alone() -> None:
    y = np.array([0.0, 1.0, 1e50])
    forecasts = {
        "a": {"mean": np.zeros(3), "variance": [1.0, 1.0, 1e-300]},
        "b": {"mean": np.zeros(3), "std": [1.0] * 3},
    }
    forecasts["c"] = {"mean": np.zeros(3), "variance": [1.0, 1.0, 1e90]}
    comparison = calibrant.compare_distributions(y, forecasts, score="log-score")
    assert [pair.problem is None for pair in comparison.pairs] == [False, False, True]
    assert json.dumps(comparison.to_dict(), allow_nan=False).count("null") > 2
    assert "infinite" in repr(comparison)


def test_one_row_has_no_interval() -> None:
    own = {"mean": [0.0], "variance": [1.0]}
    pair = calibrant.compare_distributions([0.5], {"a": own, "b": {"mean": [1.0], "variance": [1.0]}}).pairs[0]
    assert (pair.interval, pair.p_value) == (None, None)
    assert pair.problem is not None


def test_the_test_has_its_size_for_dependent_scores() -> None:
    random = np.random.default_rng(6)
    rejected = 0
    for _ in range(400):
        noise = random.normal(size=302)
        y = noise[2:] + 0.8 * noise[1:-1] + 0.5 * noise[:-2]
        near = {"a": {"mean": np.full(300, 0.3), "variance": np.ones(300)}}
        near["b"] = {"mean": np.full(300, -0.3), "variance": np.ones(300)}
        rejected += (calibrant.compare_distributions(y, near, lags=6).pairs[0].p_value or 0.0) <= 0.05
    assert 0.02 <= rejected / 400 <= 0.10


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"forecasts": {}}, "/forecasts"),
        ({"forecasts": {"a": {"mean": [0.0], "variance": [1.0]}}}, "/forecasts"),
        ({"forecasts": [1, 2]}, "/forecasts"),
        ({"b": {"mu": [0.0] * 3}}, "/forecasts/b"),
        ({"b": 3}, "/forecasts/b"),
        ({"b": {"mean": [0.0] * 3, "std": [1.0] * 3, "variance": [1.0] * 3}}, "/forecasts/b/std"),
        ({"b": {"mean": [0.0] * 2, "variance": [1.0] * 2}}, "/forecasts/b"),
        ({"b": {"mean": [0.0] * 3, "variance": [1.0, -1.0, 1.0]}}, "/forecasts/b/variance/1"),
        ({"b": {"quantiles": [[0.0, 1.0]] * 3, "levels": [0.2, 0.9]}, "score": "crps", "interval": 2.0}, "/interval"),
        ({"score": "brier"}, "/score"),
        ({"score": "interval-score", "b": {"quantiles": [[0.0]] * 3, "levels": [0.5]}}, "/score"),
        ({"score": "quantile-score"}, "/score"),
        ({"lags": -1}, "/lags"),
        ({"lags": 1.0}, "/lags"),
        ({"lags": 1, "weights": [1.0, 1.0, 1.0]}, "/lags"),
        ({"lags": 1, "clusters": ["a", "b", "c"]}, "/lags"),
        ({"lags": 2}, "/lags"),
        ({"interval": None}, "/interval"),
        ({"interval": 1.0}, "/interval"),
        ({"observed": [0.0, 1.0]}, "/observed"),
        ({"observed": [0.0, np.nan, 1.0]}, "/observed/1"),
        ({"weights": [1.0, -1.0, 1.0]}, "/weights/1"),
    ],
)
def test_a_refusal_names_its_argument(change: dict[str, Any], pointer: str) -> None:
    own: dict[str, Any] = {"mean": [0.0] * 3, "variance": [1.0] * 3}
    arguments: dict[str, Any] = {"observed": [0.0, 1.0, 2.0], "forecasts": {"a": own, "b": change.pop("b", own)}}
    with refused_at(pointer, CalibrationError):
        calibrant.compare_distributions(**arguments | change)


def test_quantiles_at_other_levels_and_open_intervals_have_no_common_score() -> None:
    y = [0.0, 1.0]
    first = {"quantiles": [[0.0, 1.0]] * 2, "levels": [0.2, 0.8]}
    second = {"quantiles": [[0.0, 1.0]] * 2, "levels": [0.1, 0.9]}
    for other in (second, {"lower": [0.0] * 2, "upper": [1.0] * 2, "level": 0.5}):
        with pytest.raises(CalibrationError, match="no score is common"):
            calibrant.compare_distributions(y, {"one": first, "other": other})


def test_results_are_shown_as_tables() -> None:
    y, forecasts = _forecasts()
    comparison = calibrant.compare_distributions(y, forecasts)
    assert list(comparison.to_frame()["second"]) == ["narrow", "shifted", "shifted"]
    assert repr(comparison).startswith("Comparison by crps: 120 rows")
    assert "<table>" in comparison._repr_html_()
