"""Net benefit against exact values, and the identities of the elementary score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtri, stdtrit

import calibrant
from calibrant.core.reductions import Event
from calibrant.measures.net_benefit import combined, net_benefit, outcome_shares, weighted_sum
from tests.clinical import EXACT, NAMES, clinical_rows
from tests.rows import draw_distorted

Array = npt.NDArray[np.float64]
_OF_ROWS = ("weights", "weights_kind", "reduction", "clusters", "cluster_variance")


def _measure(p: Any, y: Any, /, **options: Any) -> Any:
    weights = {key: options.pop(key) for key in _OF_ROWS if key in options}
    request = {"name": "net-benefit", "as": "m", **options}
    return calibrant.evaluate(p, y, measures=[request], interval=0.95, **weights).measures["m"]


@pytest.mark.parametrize("name", NAMES)
def test_net_benefit_has_the_exact_values(name: str) -> None:
    p, y, _ = clinical_rows(name)
    for threshold, exact in zip((0.05, 0.1, 0.2), EXACT[name]["net_benefit_at_.05_.10_.20"], strict=True):
        assert _measure(p, y, threshold=threshold).value == pytest.approx(exact, abs=5e-11)


def test_a_prediction_equal_to_the_threshold_is_a_positive_decision() -> None:
    assert _measure([0.2, 0.2, 0.1], [1, 0, 1], threshold=0.2).value == pytest.approx((1.0 - 0.25) / 3.0, abs=1e-15)


def test_standardised_net_benefit_is_1_for_perfect_decisions_and_needs_an_event() -> None:
    assert _measure([0.1, 0.2, 0.9], [0, 0, 1], standardised=True).value == 1.0
    none = _measure([0.1, 0.2, 0.9], [0, 0, 0], standardised=True)
    assert (none.value, none.interval) == (None, None)
    assert none.problem == "no value: labels contain no event, and the rate of events is the divisor"
    assert _measure([0.1, 0.2, 0.9], [0, 0, 0]).value == pytest.approx(-1.0 / 3.0)


def test_the_part_treat_all_is_the_net_benefit_of_positive_decisions_for_all_rows() -> None:
    p, y = draw_distorted(200, 3)
    everywhere = _measure(np.full(200, 0.9), y, threshold=0.3)
    assert _measure(p, y, threshold=0.3).parts["treat_all"] == pytest.approx(everywhere.value, abs=1e-15)
    standardised = _measure(p, y, threshold=0.3, standardised=True).parts["treat_all"]
    assert standardised == pytest.approx(everywhere.value / y.mean(), abs=1e-14)


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("kind", [None, "frequency", "importance"])
def test_the_variance_of_the_interval_is_that_of_the_influence(kind: str | None, standardised: bool) -> None:
    p, y = draw_distorted(4000, 5)
    w = None if kind is None else np.random.default_rng(1).integers(1, 5, len(p)).astype(float)
    event = Event(p, y.astype(np.int8), w, kind or "frequency")  # type: ignore[arg-type]
    entry = calibrant.MEASURES["net-benefit"]
    assert entry.influence is not None
    influence = entry.influence(event, None, threshold=0.4, standardised=standardised)
    mass = len(p) if w is None else w.sum()
    scale = 1.0 if w is None else np.sqrt(w) if kind == "frequency" else w
    error = float(np.sqrt(np.sum((scale * influence) ** 2))) / mass
    curve = net_benefit(outcome_shares(event, np.array([0.4])), np.array([0.4]), 0.95, standardised=standardised)
    assert float(curve.high[0] - curve.low[0]) / 2.0 == pytest.approx(float(ndtri(0.975)) * error, rel=0.005)


def test_the_interval_of_one_share_is_wilsons() -> None:
    n, k, z = 40, 3, float(ndtri(0.975))
    event = Event(np.full(n, 0.5), (np.arange(n) < k).astype(np.int8))
    share = combined(outcome_shares(event, np.array([0.5])), (1.0, 0.0, 0.0, 0.0), 0.95)
    centre, half = (k + z * z / 2.0) / (n + z * z), z * np.sqrt(k * (n - k) / n + z * z / 4.0) / (n + z * z)
    assert [float(end[0]) for end in (share.value, share.low, share.high)] == pytest.approx(
        [k / n, centre - half, centre + half]
    )


def test_pooled_events_have_an_interval_from_the_influence_of_rows() -> None:
    random = np.random.default_rng(2)
    probs, labels = random.dirichlet(np.ones(3), 80), random.integers(0, 3, 80)
    measure = _measure(probs, labels, threshold=0.4, reduction="pooled")
    assert measure.interval[0] < measure.value < measure.interval[1]


def test_rows_in_clusters_have_the_interval_of_the_decision_curve() -> None:
    p, y = draw_distorted(200, 3)
    options: dict[str, Any] = {"clusters": np.arange(200) // 5}
    curve = calibrant.decision_curve(p, y, thresholds=[0.3], **options)
    for standardised, of_model in ((False, curve.net_benefit["model"]), (True, curve.standardised["model"])):
        interval = _measure(p, y, threshold=0.3, standardised=standardised, **options).interval
        assert interval == pytest.approx((float(of_model.low[0]), float(of_model.high[0])), rel=1e-12)


def test_the_variance_of_clusters_is_that_of_the_option() -> None:
    p, y = draw_distorted(200, 3)
    clusters = np.arange(200) // 5
    entry, error = calibrant.MEASURES["net-benefit"], {}
    assert entry.influence is not None
    event = Event(p, y.astype(np.int8))
    sums = np.bincount(clusters, entry.influence(event, None, threshold=0.5, standardised=False)) / 200
    for variance, factor in (("cr0", 1.0), ("cr1", 40 / 39)):
        low, high = _measure(p, y, clusters=clusters, cluster_variance=variance).interval
        quantile = float(ndtri(0.975) if variance == "cr0" else stdtrit(39.0, 0.975))
        error[variance] = quantile * float(np.sqrt(factor * sums @ sums))
        assert (high - low) / 2.0 == pytest.approx(error[variance], rel=0.1)
    assert error["cr0"] < error["cr1"]


def test_rows_of_one_cluster_have_no_interval() -> None:
    p, y = draw_distorted(20, 3)
    measure = _measure(p, y, clusters=np.zeros(20))
    assert (measure.value is None, measure.interval) == (False, None)
    assert measure.problem.startswith("no interval: clusters must be two or more")


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.0}, {"threshold": "0.5"}, {"standardised": 1}])
def test_thresholds_beyond_probabilities_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(calibrant.CalibrationError, match=f"measures/0/{next(iter(options))} must be"):
        _measure([0.2, 0.8], [0, 1], **options)


# --- The elementary score: |y - t| if t separates p and y


def _elementary(p: Array, y: Array, thresholds: Array) -> Array:
    event = Event(p, y.astype(np.int8))
    zero = np.zeros_like(thresholds)
    of = outcome_shares(event, thresholds)
    return weighted_sum(of, np.stack([zero, thresholds, 1.0 - thresholds, zero]))


def _by_definition(p: Array, y: Array, thresholds: Array) -> Array:
    """Return the mean elementary score of mean-values of model-diagnostics 1.5, from its definition."""
    t = thresholds[:, None]
    separated = (np.minimum(p, y) < t) & (t <= np.maximum(p, y))
    scores: Array = np.mean(np.abs(y - t) * separated, axis=1)
    return scores


def test_elementary_scores_are_those_of_the_definition_also_at_predictions() -> None:
    p, y = draw_distorted(300, 11)
    p = np.round(p, 2)
    thresholds = np.unique(np.concatenate([p[(p > 0.0) & (p < 1.0)], np.linspace(0.005, 0.995, 100)]))
    assert _elementary(p, y, thresholds) == pytest.approx(_by_definition(p, y, thresholds), abs=1e-14)
    drawn = calibrant.evaluate(p, y, measures=["brier"], diagrams=["murphy"]).diagrams["murphy"]["data"]
    assert drawn["value"] == pytest.approx(_by_definition(p, y, np.array(drawn["thresholds"])), abs=1e-14)


def test_net_benefit_is_the_prevalence_less_the_elementary_score_at_the_odds() -> None:
    p, y = draw_distorted(300, 12)
    p = np.round(p, 2)
    thresholds = np.linspace(0.01, 0.99, 99)
    of = outcome_shares(Event(p, y.astype(np.int8)), thresholds)
    expected = y.mean() - _elementary(p, y, thresholds) / (1.0 - thresholds)
    assert net_benefit(of, thresholds, 0.95).value == pytest.approx(expected, abs=1e-13)


def _lines(p: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Return the ends of the intervals in which the score is linear in t, its slopes and its intercepts."""
    ends = np.unique(np.concatenate([[0.0, 1.0], p]))
    low, high = ends[:-1], ends[1:]
    first, second = low + (high - low) / 3.0, high - (high - low) / 3.0
    slope = (_elementary(p, y, second) - _elementary(p, y, first)) / (second - first)
    return low, high, slope, _elementary(p, y, first) - slope * first


def test_the_integral_of_the_elementary_score_is_half_the_brier_score() -> None:
    p, y = draw_distorted(80, 13)
    low, high, slope, intercept = _lines(p, y)
    integral = float(np.sum(slope * (high**2 - low**2) / 2.0 + intercept * (high - low)))
    assert integral == pytest.approx(float(np.mean((p - y) ** 2)) / 2.0, rel=1e-12)


def test_the_integral_of_the_elementary_score_over_t_times_1_less_t_is_the_log_loss() -> None:
    p, y = draw_distorted(80, 14)
    low, high, slope, intercept = _lines(p, y)
    # (a + b t) / (t (1 - t)) = a / t + (a + b) / (1 - t); the score is b t below, and a (1 - t) above all predictions.
    at_one = slope + intercept
    at_zero, at_one = np.where(low == 0.0, 0.0, intercept), np.where(high == 1.0, 0.0, at_one)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_low = np.where(at_zero == 0.0, 0.0, at_zero * (np.log(high) - np.log(low)))
        of_high = np.where(at_one == 0.0, 0.0, at_one * (np.log1p(-low) - np.log1p(-high)))
    log_loss = -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))
    assert float(np.sum(of_low + of_high)) == pytest.approx(float(log_loss), rel=1e-9)
