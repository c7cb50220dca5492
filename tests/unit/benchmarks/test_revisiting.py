"""Figures of classifiers under noise: the models, and the page of few of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.revisiting.measures import VARIANTS, figures
from benchmarks.revisiting.models import SEVERITIES, families, network, predictions, temperature_of
from benchmarks.revisiting.page import Results, page, pictures

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results() -> Results:
    chosen = {
        family: {
            name: [figures(each) for each in predictions(train, splits=1)] for name, train in list(own.items())[:2]
        }
        for family, own in families().items()
        if family in ("logistic regression", "naive Bayes")
    }
    smoothing = {
        f"{amount:g}": [figures(each) for each in predictions(network(16, amount), splits=1)] for amount in (0.0, 0.2)
    }
    return Results(chosen, smoothing)


def test_noise_raises_the_errors_and_smoothing_lowers_the_temperature(results: Results) -> None:
    plain, smoothed = results.smoothing.values()
    assert len(plain) == len(SEVERITIES)
    assert plain[-1].error > plain[0].error + 0.2
    assert plain[-1].after > plain[0].after
    assert smoothed[0].temperature < plain[0].temperature
    assert set(plain[0].variants) == set(VARIANTS)
    assert plain[0].after == plain[0].variants["equal mass, 100 bins"]


def test_the_temperature_after_scaling_is_near_one_without_noise() -> None:
    found = predictions(network(16, 0.2), splits=1)[0]
    assert temperature_of(found.after, found.labels) == pytest.approx(1.0, abs=0.25)
    assert np.array_equal(found.before.argmax(axis=1), found.after.argmax(axis=1))


def test_the_page_has_every_figure(results: Results) -> None:
    drawn = pictures(results)
    text = page(results, drawn)
    for figure in ("Figure 11", "Figure 13", "Figure 14", "Figures 15 to 17", "Figure 18"):
        assert figure in text
    assert all(f"revisiting-{name}.svg" in text for name in drawn)
    assert "after temperature scaling no smoothing is best" in text
    assert "Power law" in text or "power laws" in text
