"""What could hide where resampled rows tell nothing: no certainty that the rows do not give."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import calibrant
from calibrant.evaluation import report_document
from calibrant.reports import lookup
from calibrant.reports.html import standalone
from calibrant.reports.panel import ReportSubject
from calibrant.reports.regions import could_hide, error_interval, largest_shift, shift_of
from calibrant.reports.tables import measured
from calibrant.reports.verdict import verdict
from tests.unit.reports.reading import Page
from tests.unit.reports.worlds import draw, many_classes, report_of

#: Rows that are too alike to be resampled: predictions, labels, and an error that they do not exclude, in points.
ALIKE: dict[str, tuple[Any, list[int], float]] = {
    "a coin": (np.full(200, 0.5), [0, 1] * 100, 7.1),
    "a coin, ten times": (np.full(10, 0.5), [0, 1] * 5, 31.2),
    "certain and right": (np.repeat([0.0, 1.0], 50), [0] * 50 + [1] * 50, 3.0),
    "nearly certain and right": (np.full(300, 0.999), [1] * 300, 1.0),
    "no event": (np.random.default_rng(0).uniform(0.0, 0.01, 300), [0] * 300, 0.7),
    "one row": ([0.7], [1], 65.0),
    "two rows": ([0.7, 0.2], [1, 0], 50.0),
}

_NO_INTERVAL = (
    "no interval: (the rows vary too little|the value is 0, which .* by chance|. of . bins have a single row.*)"
)


@pytest.fixture(scope="module", params=list(ALIKE))
def alike(request: pytest.FixtureRequest) -> tuple[dict[str, Any], float]:
    p, y, least = ALIKE[request.param]
    return report_of(p, y), least


@pytest.mark.slow
def test_among_similar_rows_the_bound_is_larger_than_the_interval_of_resamples(
    alike: tuple[dict[str, Any], float],
) -> None:
    report, least = alike
    conclusion = verdict(report)
    assert conclusion.tone == "not-rejected"
    (hidden,) = re.findall(r"errors? (?:of up to|below) (\d+\.\d) points", conclusion.headline)
    assert least <= float(hidden) <= 2.0 * least + 0.5
    for points in re.findall(r"bears a mean error of (\d+\.\d) points", " ".join(conclusion.decisions)):
        assert points == hidden


def test_similar_rows_have_no_stated_interval(alike: tuple[dict[str, Any], float]) -> None:
    report, _ = alike
    (estimate,) = (reason for reason in verdict(report).reasons if reason.startswith("The mean calibration error"))
    assert re.fullmatch(
        rf"The mean calibration error is estimated at (0|\d+\.\d points); {_NO_INTERVAL}\.",
        estimate,
    )
    row = next(row for row in measured(report) if row.key == "ece")
    assert row.interval == ""
    assert re.match(_NO_INTERVAL, row.problem)
    page = standalone(report, ReportSubject("a.csv", "0.1.0"))
    for low, high in re.findall(r"(-?\d\S*) to (-?\d\S*?)[ <)]", Page(page).all("article")[0].text):
        assert low != high
    assert "less than 0.1 points could" not in page
    assert "below less" not in page


@pytest.mark.parametrize(("n", "k", "p"), [(200, 100, 0.5), (300, 300, 0.999), (50, 3, 0.2), (1, 1, 0.7)])
def test_the_largest_shift_of_one_prediction_is_that_of_clopper_and_pearson(n: int, k: int, p: float) -> None:
    bins = {"rows": [float(n)], "share": [1.0], "mean_prediction": [p], "observed_frequency": [k / n]}
    low = beta.ppf(0.025, k, n - k + 1) if k > 0 else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    assert largest_shift(bins, 0.95) == pytest.approx(max(p - low, high - p), abs=1e-9)


def test_the_largest_shift_of_certain_predictions_is_that_of_no_failure() -> None:
    bins = {"rows": [50.0, 50.0], "share": [0.5, 0.5], "mean_prediction": [0.0, 1.0], "observed_frequency": [0.0, 1.0]}
    assert largest_shift(bins, 0.95) == pytest.approx(0.5 * (1.0 - 0.025 ** (1 / 50)))


def test_one_heavy_row_could_hide_nearly_all() -> None:
    p, y = draw("calibrated", 200)
    weights = np.append(1e6, np.ones(199))
    options: dict[str, Any] = {"measures": ["ece"], "diagrams": ["reliability"], "interval": 0.95}
    report = calibrant.evaluate(p, y, weights=weights, weights_kind="importance", **options)
    assert (could_hide(report_document(report, None)) or 0.0) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.01, 0.03, 0.1])
def test_a_true_shift_is_excluded_in_one_of_forty_batches_at_most(size: float) -> None:
    random = np.random.default_rng(3)
    missed = 0
    for _ in range(200):
        p = random.beta(0.5, 0.5, 400)
        y = (random.random(400) < p + size * (1.0 - p)).astype(int)
        shown = calibrant.evaluate(p, y, measures=["brier"], diagrams=["reliability"]).diagrams["reliability"]["data"]
        missed += largest_shift(shown, 0.95) < size * float(np.mean(1.0 - p))
    assert missed <= binom.ppf(0.999, 200, 0.025)


def test_a_shift_beyond_the_interval_is_stated_for_rows_that_differ() -> None:
    report = report_of(*draw("calibrated"))
    ends, shift = error_interval(report), shift_of(report)
    assert ends is not None
    assert shift is not None
    assert ends == tuple(report["measures"]["ece"]["interval"])
    assert could_hide(report) == max(ends[1], shift)
    stated = any("cannot be excluded either" in reason for reason in verdict(report).reasons)
    assert stated == (shift > ends[1])


def test_for_dependent_rows_or_without_bins_only_the_interval_counts() -> None:
    for reduction in ("pooled", "classwise"):
        report = report_of(*many_classes(n=300), reduction)
        assert shift_of(report) is None
        assert could_hide(report) == report["measures"]["ece"]["interval"][1]
    perfect = report_of(np.eye(3)[[0, 1, 2] * 100], [0, 1, 2] * 100, "classwise")
    assert could_hide(perfect) is None
    assert verdict(perfect).headline == "No evidence of miscalibration in 300 rows, p = 1.00"


def test_no_bound_on_hidden_errors_is_stated_without_an_interval() -> None:
    p, y = draw("calibrated", 300)
    options: dict[str, Any] = {"measures": ["ece", "smooth-test"], "diagrams": ["reliability"]}
    assert could_hide(report_document(calibrant.evaluate(p, y, **options), None)) is None


@pytest.mark.parametrize(
    ("estimate", "ends", "alike"),
    [(0.1, (0.1, 0.1), True), (0.0, (0.02, 0.1), True), (0.1, (0.1, 0.1 + 1e-12), True), (0.1, (0.05, 0.1), False)],
)
def test_an_interval_without_width_or_without_its_value_is_none(
    estimate: float, ends: tuple[float, float], *, alike: bool
) -> None:
    answer = {"value": estimate, "interval": ends}
    assert lookup.too_alike(answer) is alike
    assert (lookup.interval(answer) is None) is alike
