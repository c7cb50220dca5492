"""Figures of classifiers under noise: the models, and the page of few of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.revisiting.measures import DECIDED, VARIANTS, decisions, figures
from benchmarks.revisiting.models import SEVERITIES, families, network, predictions, temperature_of
from benchmarks.revisiting.page import SeverityResults, page, pictures

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def severities() -> SeverityResults:
    drawn = {
        family: {name: predictions(train, splits=1) for name, train in own.items()}
        for family, own in families().items()
        if family in ("logistic regression", "naive Bayes")
    }
    chosen = {
        family: {name: [figures(network) for network in networks] for name, networks in list(own.items())[:2]}
        for family, own in drawn.items()
    }
    smoothing = {
        f"{amount:g}": [figures(noisy) for noisy in predictions(network(16, amount), splits=1)] for amount in (0.0, 0.2)
    }
    return SeverityResults(chosen, smoothing, decisions(drawn))


def test_noise_raises_the_errors_and_smoothing_lowers_the_temperature(severities: SeverityResults) -> None:
    plain, smoothed = severities.smoothing.values()
    assert len(plain) == len(SEVERITIES)
    assert plain[-1].error > plain[0].error + 0.2
    assert plain[-1].after > plain[0].after
    assert smoothed[0].temperature < plain[0].temperature
    assert set(plain[0].variants) == set(VARIANTS)
    assert plain[0].after == plain[0].variants["equal mass, 100 bins"]


def test_the_temperature_after_scaling_is_near_one_without_noise() -> None:
    prediction = predictions(network(16, 0.2), splits=1)[0]
    assert temperature_of(prediction.after, prediction.labels) == pytest.approx(1.0, abs=0.25)
    assert np.array_equal(prediction.before.argmax(axis=1), prediction.after.argmax(axis=1))


def test_a_pair_of_classifiers_is_compared_at_each_setting(severities: SeverityResults) -> None:
    assert len(severities.decisions) == 2
    for choices in severities.decisions.values():
        assert [decision.severity for decision in choices] == list(DECIDED)
        assert all(0 <= min(decision.accurate, decision.calibrated) <= decision.settings == 140 for decision in choices)
    naive = severities.decisions["naive Bayes (smoothing 0.001) and naive Bayes (smoothing 0.1)"][0]
    assert (naive.errors[0] < naive.errors[1]) == (naive.eces[0] < naive.eces[1]) or naive.accurate != naive.calibrated


def test_the_page_has_every_figure(severities: SeverityResults) -> None:
    drawn = pictures(severities)
    text = page(severities, drawn)
    for figure in ("Figure 11", "Figure 12", "Figure 13", "Figure 14", "Figures 15 to 17", "Figure 18"):
        assert figure in text
    assert all(f"revisiting-{name}.svg" in text for name in drawn)
    assert "after temperature scaling no smoothing is best" in text
    assert "Power law" in text or "power laws" in text
