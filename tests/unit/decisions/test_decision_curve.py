"""Decision curves: their values, their differences on the same rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, TooFewRows
from calibrant.measures import net_benefit
from calibrant.measures.net_benefit import Estimates
from tests.refusals import refused_at
from tests.rows import draw_classes, draw_distorted

P, Y = draw_distorted(400, 7)
MODELS = {"a": P, "b": np.clip(P**2 + 0.05, 0.0, 1.0), "c": np.full(400, 0.4)}
AT = [0.1, 0.3, 0.5, 0.9]
W = np.random.default_rng(0).integers(0, 4, 400).astype(float)


def _parts(curve: Estimates) -> list[Floats]:
    return [curve.value, curve.low, curve.high]


@pytest.mark.parametrize("kind", [None, "frequency", "importance"])
def test_curves_are_the_measures_at_each_threshold(kind: Any) -> None:
    weights = {} if kind is None else {"weights": W, "weights_kind": kind}
    curve = calibrant.decision_curve(MODELS, Y, thresholds=AT, **weights)
    for name, p in MODELS.items():
        for quantity, standardised in ((curve.net_benefit, False), (curve.standardised, True)):
            for i, threshold in enumerate(AT):
                request = {"name": "net-benefit", "threshold": threshold, "standardised": standardised}
                measure = calibrant.evaluate(p, Y, measures=[request], interval=0.95, **weights)["net-benefit"]
                ends = [float(end[i]) for end in _parts(quantity[name])]
                assert ends == pytest.approx([measure.value, *(measure.interval or ())], abs=1e-12)


def test_curves_have_the_values_of_dcurves() -> None:
    """dcurves 1.1.7 (Apache-2.0) and its data ``df_binary``, of which the file has two columns."""
    path = Path(__file__).parents[2] / "golden" / "clinical" / "df_binary.csv"
    marker, cancer = np.loadtxt(path, delimiter=",", skiprows=1).T
    curve = calibrant.decision_curve({"marker": marker}, cancer, thresholds=[0.05, 0.1, 0.2, 0.35])
    curves = [curve.net_benefit["marker"], curve.net_benefit["treat all"]]
    curves += [curve.interventions_avoided["marker"], curve.standardised["marker"]]
    expected = [
        [0.105544, 0.087407, 0.067333, 0.050154],
        [0.094737, 0.044444, -0.075, -0.323077],
        [0.20533, 0.38667, 0.56933, 0.69314],
        [0.75389, 0.62434, 0.48095, 0.35824],
    ]
    for ours, theirs, tolerance in zip(curves, expected, (6e-7, 6e-7, 6e-6, 6e-6), strict=True):
        assert ours.value == pytest.approx(np.array(theirs), abs=tolerance)


def test_differences_are_those_of_the_curves_and_reversed_with_the_models() -> None:
    curve = calibrant.decision_curve(MODELS, Y, weights=W, thresholds=AT)
    back = calibrant.decision_curve(dict(reversed(MODELS.items())), Y, weights=W, thresholds=AT)
    assert list(curve.differences) == ["a - b", "a - c", "b - c"]
    for pair, difference in curve.differences.items():
        first, second = pair.split(" - ")
        expected = curve.net_benefit[first].value - curve.net_benefit[second].value
        assert difference.value == pytest.approx(expected, abs=1e-13)
        other = back.differences[f"{second} - {first}"]
        for ours, theirs in zip(_parts(difference), (-other.value, -other.high, -other.low), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-13)


def test_a_difference_to_a_model_that_treats_all_rows_is_that_to_treating_all() -> None:
    curve = calibrant.decision_curve({"a": P, "all": np.ones(400)}, Y, thresholds=AT)
    difference, over = curve.differences["a - all"], curve.over_treat_all["a"]
    assert difference.value == pytest.approx(over.value, abs=1e-13)
    assert np.all(difference.low <= over.low)  # another model might treat fewer rows
    assert np.all(difference.high >= over.high)
    odds = curve.thresholds / (1.0 - curve.thresholds)
    for avoided, gained in zip(_parts(curve.interventions_avoided["a"]), _parts(over), strict=True):
        assert avoided == pytest.approx(gained / odds, abs=1e-13)
    for ours, other in zip(_parts(curve.net_benefit["all"]), _parts(curve.net_benefit["treat all"]), strict=True):
        assert ours == pytest.approx(other, abs=1e-13)


def test_frequency_weights_are_repeated_rows() -> None:
    repeated = np.repeat(np.arange(400), W.astype(int))
    counted = calibrant.decision_curve(MODELS, Y, weights=W, weights_kind="frequency", thresholds=AT).to_dict()
    whole = calibrant.decision_curve({k: p[repeated] for k, p in MODELS.items()}, Y[repeated], thresholds=AT).to_dict()
    for quantity in ("net_benefit", "standardised", "over_treat_all", "interventions_avoided", "differences"):
        for name, curve in whole[quantity].items():
            for end, ends in curve.items():
                assert counted[quantity][name][end] == pytest.approx(ends, abs=1e-12)


def test_results_are_shown_framed_and_drawn() -> None:
    curve = calibrant.decision_curve({"a": P, "b": P**2}, Y, thresholds=[0.5, 0.1, 0.5])
    assert curve.thresholds.tolist() == [0.1, 0.5]
    frame = curve.to_frame()
    assert len(frame) == 2 * (4 + 4 + 2 + 2 + 1)
    assert set(frame["quantity"]) == {
        "net_benefit",
        "standardised",
        "over_treat_all",
        "interventions_avoided",
        "differences",
    }
    assert repr(curve).startswith("Net benefit by threshold; prevalence 0.")
    assert "interval of b" in repr(curve)
    labels = {text.get_text() for text in curve.plot().get_legend().get_texts()}
    assert labels == {"a", "b", "treat all", "treat none"}
    assert curve == calibrant.decision_curve({"a": P, "b": P**2}, Y, thresholds=[0.1, 0.5])


def test_rows_without_events_have_no_standardised_net_benefit() -> None:
    curve = calibrant.decision_curve([0.1, 0.6], [0, 0], thresholds=[0.5])
    assert (curve.prevalence, curve.standardised) == (0.0, {})
    assert curve.net_benefit["model"].value.tolist() == [-0.5]
    assert curve.plot().get_ylim() == (-1, 1)


@pytest.mark.parametrize(
    ("change", "pointer", "text"),
    [
        ({"thresholds": []}, "/thresholds", "must be 1 to 1,000 numbers above 0 and below 1"),
        ({"thresholds": [0.0]}, "/thresholds", "must be 1 to 1,000 numbers"),
        ({"thresholds": [0.5, float("nan")]}, "/thresholds", "must be 1 to 1,000 numbers"),
        ({"thresholds": [[0.5], [0.5, 0.6]]}, "/thresholds", "must be 1 to 1,000 numbers"),
        ({"thresholds": ["half"]}, "/thresholds", "must be 1 to 1,000 numbers"),
        ({"thresholds": np.linspace(0.1, 0.9, 1001)}, "/thresholds", "must be 1 to 1,000 numbers"),
        ({"interval": 1.0}, "/interval", "must be a number between 0 and 1"),
        ({"interval": 1.0 - 1e-16}, "/interval", "must be a number between 0 and 1"),
        ({"thresholds": [1e-320]}, "/thresholds", "of at least 1e-100"),
        ({"reduction": "pooled"}, "/reduction", "must be binary"),
        ({"predictions": {}}, "/predictions", "must be of 1 to 20 models"),
        ({"predictions": {"treat all": P}}, "/predictions", "must be of 1 to 20 models"),
        ({"predictions": {0: P}}, "/predictions", "whose names are strings"),
        ({"predictions": {"a": P, "b": P + 1.0}}, "/b/", "b: 400 of 400 are outside"),
        ({"predictions": {"a": P, "b": P[:-1]}}, "/", "b: "),
        ({"predictions": P + 1.0}, "/predictions/", "predictions: 400 of 400 are outside"),
    ],
)
def test_invalid_arguments_are_named(change: dict[str, Any], pointer: str, text: str) -> None:
    arguments = {"predictions": P, "labels": Y} | change
    with refused_at(pointer, CalibrationError, match=text, below=True):
        calibrant.decision_curve(**arguments)


def test_models_whose_events_differ_are_refused() -> None:
    probs, labels = draw_classes(60)
    models = {"a": probs, "b": probs[:, ::-1]}
    with pytest.raises(CalibrationError, match="must be the same event for all models"):
        calibrant.decision_curve(models, labels, reduction="confidence")
    assert calibrant.decision_curve(models, labels, reduction="class:1").n == 60


@pytest.mark.parametrize("extra", [{}, {"weights": W[:40] + 0.1}, {"clusters": np.arange(40) // 2}])
def test_intervals_of_standardised_net_benefit_end_at_that_of_perfect_decisions(extra: dict[str, Any]) -> None:
    p, y = np.repeat([0.95, 0.2, 0.95], [4, 35, 1]), np.repeat([1, 0], [4, 36])
    curve = calibrant.decision_curve(p, y, thresholds=AT, **extra)
    for name in ("model", "treat all"):
        benefit, low, high = _parts(curve.standardised[name])
        assert np.all(low <= benefit)
        assert np.all(benefit <= high)
        assert np.all(high <= 1.0)
    assert curve.standardised["model"].high.max() == 1.0


# --- Rows in clusters


def test_rows_that_are_clusters_of_their_own_have_nearly_the_intervals_of_rows() -> None:
    rows = calibrant.decision_curve(MODELS, Y, thresholds=AT)
    own = calibrant.decision_curve(MODELS, Y, thresholds=AT, clusters=np.arange(400))
    for quantity in ("net_benefit", "standardised", "over_treat_all", "differences"):
        for name, curve in getattr(rows, quantity).items():
            for ours, theirs in zip(_parts(getattr(own, quantity)[name]), _parts(curve), strict=True):
                assert ours == pytest.approx(theirs, abs=2e-3, rel=0.02)


@pytest.mark.parametrize("weights", [None, W])
def test_rows_that_are_repeated_in_their_cluster_do_not_shorten_intervals(weights: Any) -> None:
    patients = np.arange(400) // 3
    once = calibrant.decision_curve(P, Y, thresholds=AT, clusters=patients, weights=weights)
    again = calibrant.decision_curve(
        np.tile(P, 2),
        np.tile(Y, 2),
        thresholds=AT,
        clusters=np.tile(patients, 2),
        weights=None if weights is None else np.tile(weights, 2),
    )
    for ours, theirs in zip(_parts(again.net_benefit["model"]), _parts(once.net_benefit["model"]), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_the_error_of_net_benefit_in_clusters_is_that_of_the_influence_of_clusters() -> None:
    patients = np.arange(400) // 4
    curve = calibrant.decision_curve(P, Y, thresholds=[0.3], clusters=patients).net_benefit["model"]
    request = {"name": "net-benefit", "threshold": 0.3}
    measure = calibrant.evaluate(P, Y, measures=[request], interval=0.95, clusters=patients)["net-benefit"]
    low, high = measure.interval or (0.0, 0.0)
    assert float(curve.high[0] - curve.low[0]) == pytest.approx(high - low, rel=0.03)


def test_thresholds_in_blocks_have_the_covariances_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = np.arange(400) // 4
    whole = calibrant.decision_curve(P, Y, clusters=clusters).net_benefit["model"]
    monkeypatch.setattr(net_benefit, "_BLOCK", 1)
    blocks = calibrant.decision_curve(P, Y, clusters=clusters).net_benefit["model"]
    for ours, theirs in zip(_parts(blocks), _parts(whole), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-14)


def test_one_cluster_has_no_decision_curve() -> None:
    with pytest.raises(TooFewRows, match="cluster"):
        calibrant.decision_curve(P, Y, clusters=["a"] * 400)
