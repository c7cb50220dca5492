"""Tallies of the PIT: exact counts, merging, measures as of the rows, and evidence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from calibrant.core.errors import CalibrationError, EmptyBatch, InvalidOption, OutOfRange, TooFewRows, UnknownMethod
from calibrant.distributions.calibrators import fit_distribution
from calibrant.distributions.evaluation import evaluate_distribution
from calibrant.monitoring.pit_tally import (
    evaluate_pit,
    fit_pit,
    histogram,
    merge_pit,
    pit_evidence,
    pit_gain,
    sample_levels,
    tally_pit,
)
from calibrant.monitoring.tally import merged

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def _quantile_rows(n: int, scale: float = 1.0, seed: int = 0) -> dict[str, Any]:
    y = np.random.default_rng(seed).normal(size=n)
    return {"observed": y, "quantiles": np.tile(scale * ndtri(LEVELS), (n, 1)), "levels": LEVELS}


def test_merged_tallies_are_the_tally_of_all_rows() -> None:
    rows = _quantile_rows(1000)
    groups = ["a" if i % 3 else "b" for i in range(1000)]
    whole = tally_pit(**rows, groups=groups)
    parts = [
        tally_pit(rows["observed"][part], quantiles=rows["quantiles"][part], levels=LEVELS, groups=groups[part])
        for part in (slice(0, 1), slice(1, 600), slice(600, 1000))
    ]
    together = merge_pit(parts)
    assert together.groups == whole.groups
    assert together.tally.keys.tolist() == whole.tally.keys.tolist()
    assert together.tally.rows.tolist() == whole.tally.rows.tolist()
    assert together.of_group("b").counts.sum() == sum(name == "b" for name in groups)


@pytest.mark.parametrize("kind", ["quantiles", "normal", "interval"])
def test_the_measures_of_a_tally_are_those_of_its_rows(kind: str) -> None:
    n, rng = 3000, np.random.default_rng(4)
    y, scale = rng.normal(size=n), rng.uniform(0.4, 1.2, n)
    forecasts = {
        "quantiles": {"quantiles": scale[:, None] * ndtri(LEVELS), "levels": LEVELS},
        "normal": {"mean": np.zeros(n), "variance": scale**2},
        "interval": {"lower": -scale, "upper": scale, "level": 0.68},
    }[kind]
    score = "interval-score" if kind == "interval" else "crps"
    names = ["quantile-calibration-error", "coverage", "pit-ks", score]
    report = evaluate_pit(tally_pit(y, **forecasts), measures=names)
    rows = evaluate_distribution(y, **forecasts, measures=names).measures
    for name in names:
        assert report[name].value == pytest.approx(rows[name].value, rel=1e-12), name
        assert (report[name].p_value is None) == (rows[name].p_value is None), name
        if report[name].p_value is not None:
            assert report[name].p_value == pytest.approx(rows[name].p_value, rel=1e-9), name
    error = report["quantile-calibration-error"].value
    assert error is not None
    assert error > 0.02


def test_samples_have_uniform_ranks() -> None:
    rng = np.random.default_rng(1)
    tally = tally_pit(rng.normal(size=20_000), samples=rng.normal(size=(20_000, 4)))
    assert tally.levels.tolist() == sample_levels(4).tolist()
    assert np.abs(tally.counts / 20_000 - 0.2).max() < 0.01


def test_outcomes_equal_to_tied_quantiles_are_spread_over_the_levels_between() -> None:
    n = 4000
    tally = tally_pit(np.zeros(n), quantiles=np.zeros((n, 5)), levels=LEVELS)
    assert np.abs(tally.counts / n - np.diff([0.0, *LEVELS, 1.0])).max() < 0.03


def test_the_histogram_has_few_bins_and_contains_every_row() -> None:
    y = np.random.default_rng(2).normal(size=500)
    shown = histogram(tally_pit(y, mean=np.zeros(500), variance=np.full(500, 0.25)))
    assert len(shown.edges) == 21
    assert shown.count.sum() == 500
    assert shown.density[0] > shown.high[0]
    assert np.sum(shown.density * np.diff(shown.edges)) == pytest.approx(1.0)
    assert [level for level, *_ in shown.intervals] == [0.5, 0.8, 0.9, 0.95, 0.98, 0.99]
    level, share, low, high = shown.intervals[2]
    assert (level, low < share < high) == (0.9, True)
    assert share == pytest.approx(np.mean(np.abs(y) <= 0.5 * ndtri(0.95)))


def test_the_interval_of_the_calibration_error_contains_the_true_error() -> None:
    true = np.mean(np.abs(0.5 * (1 + np.vectorize(math.erf)(0.8 * ndtri(LEVELS) / math.sqrt(2))) - LEVELS))
    inside = 0
    for seed in range(100):
        measure = evaluate_pit(tally_pit(**_quantile_rows(500, 0.8, seed)), interval=0.9)["quantile-calibration-error"]
        assert measure.interval is not None
        inside += measure.interval[0] <= true <= measure.interval[1]
    assert inside >= 90


@pytest.mark.slow
def test_calibrated_forecasts_rarely_reach_the_bound_of_the_evidence() -> None:
    rng, reached = np.random.default_rng(5), 0
    for _ in range(200):
        u = rng.normal(size=(20, 50))
        parts = [tally_pit(row, mean=np.zeros(50), variance=np.ones(50)) for row in u]
        reached += max(pit_evidence(parts[: k + 1]).log_e for k in range(0, 20, 4)) >= math.log(10.0)
    assert reached <= 20 + 2 * math.sqrt(200 * 0.1 * 0.9)


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        (0.0, 0.5, "forecasts are too narrow"),
        (0.0, 2.0, "forecasts are too wide"),
        (-0.4, 1.0, "forecasts are too low"),
        (0.4, 1.0, "forecasts are too high"),
    ],
)
def test_the_evidence_says_what_is_wrong(mean: float, variance: float, message: str) -> None:
    y = np.random.default_rng(6).normal(size=5000)
    shift = pit_evidence([tally_pit(y, mean=np.full(5000, mean), variance=np.full(5000, variance))])
    assert shift.log_e > 20.0
    assert shift.shift.message() == message


def test_evidence_appears_in_a_part_of_the_levels() -> None:
    rng = np.random.default_rng(7)
    low = np.where(rng.random(4000) < 0.7, 0.0, 1.0)  # 70 % of the outcomes are below the median, spread as forecast
    y = ndtri(0.5 * (low + rng.random(4000)))
    shift = pit_evidence([tally_pit(y, mean=np.zeros(4000), variance=np.ones(4000))])
    assert shift.shift.message().startswith("outcomes are too")


def test_extreme_numbers_have_finite_counts_and_scores() -> None:
    y = np.array([1e308, -1e308, 0.0])
    tally = tally_pit(y, mean=np.array([-1e308, 1e308, 0.0]), variance=np.array([1e-300, 1e300, 1e-320]))
    assert tally.counts.sum() == 3
    assert np.isfinite(tally.tally.p_sum).all()
    assert evaluate_pit(tally, measures=["crps"])["crps"].value is None


def test_small_scores_keep_their_digits() -> None:
    y = np.full(1000, 1e-12)
    tally = tally_pit(y, mean=np.zeros(1000), variance=np.full(1000, 1e-24))
    rows = evaluate_distribution(y, mean=np.zeros(1000), variance=np.full(1000, 1e-24), measures=["crps"])
    assert evaluate_pit(tally, measures=["crps"])["crps"].value == pytest.approx(rows["crps"].value, rel=1e-12)


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(OutOfRange, match="200"):
        tally_pit(np.zeros(1), samples=np.zeros((1, 201)))
    with pytest.raises(OutOfRange, match="200"):
        tally_pit(np.zeros(1), quantiles=np.zeros((1, 300)), levels=np.arange(1, 301) / 301)
    counted = tally_pit(**_quantile_rows(30))
    for measures in (["sharpness"], [{"name": "coverage", "level": 0.8}], [{"name": "crps", "estimator": "fair"}]):
        with pytest.raises(InvalidOption, match="must"):
            evaluate_pit(counted, measures=measures)
    with pytest.raises(EmptyBatch):
        merge_pit([])
    with pytest.raises(InvalidOption, match="same"):
        merge_pit([counted, tally_pit(np.zeros(1), samples=np.zeros((1, 3)))])


@pytest.mark.parametrize("shape", ["isotonic", "pl"])
def test_a_map_of_the_counts_is_nearly_that_of_the_rows(shape: str) -> None:
    n, rng = 20_000, np.random.default_rng(5)
    y, mean, scale = rng.normal(0.3, 1.0, n), np.zeros(n), rng.uniform(0.5, 0.9, n)
    normal = {"mean": mean, "variance": scale**2}
    fine = np.round(np.arange(1, 100) / 100.0, 2)
    quantile_forecasts = {"quantiles": scale[:, None] * ndtri(fine), "levels": fine}
    for forecasts in (normal, quantile_forecasts):
        counted = fit_pit(tally_pit(y, **forecasts), shape=shape)
        of_rows = fit_distribution("quantile-recalibration", y, shape=shape, **forecasts)
        assert counted.kind == of_rows.kind
        shown: Any = {name: column if name == "levels" else column[:50] for name, column in forecasts.items()}
        calibrated, wanted = counted.apply(**shown).quantiles, of_rows.apply(**shown).quantiles
        inside = slice(2, -2)  # the outermost levels depend on where outcomes are within the outermost bins
        np.testing.assert_allclose(calibrated[:, inside], wanted[:, inside], atol=0.1)


def test_a_map_of_counts_calibrates_other_rows() -> None:
    train, other = _quantile_rows(20_000, 0.6, 1), _quantile_rows(20_000, 0.6, 2)
    fitted = fit_pit(tally_pit(**train), support=(-50.0, None))
    assert (fitted.support, fitted.diagnostics["fit"]["options"]["tails"]) == ((-50.0, None), "normal")
    y = other.pop("observed")
    panel = ["coverage", "crps"]
    before: Any = evaluate_distribution(y, **other, measures=panel).measures
    applied = fitted.apply(**other)
    after: Any = evaluate_distribution(y, quantiles=applied.quantiles, levels=LEVELS, measures=panel).measures
    assert before["coverage"].value < 0.7 < 0.89 < after["coverage"].value < 0.91
    assert after["crps"].value < before["crps"].value
    gain = pit_gain(tally_pit(y, **other), fitted)
    assert 0.0 < gain.low < gain.value < gain.high
    assert gain.rows == 20_000


@pytest.mark.slow
def test_the_gain_of_a_map_of_calibrated_forecasts_is_not_positive() -> None:
    beaten = 0
    for seed in range(200):
        train, other = _quantile_rows(400, 1.0, 2 * seed), _quantile_rows(100, 1.0, 2 * seed + 1)
        beaten += pit_gain(tally_pit(**other), fit_pit(tally_pit(**train))).low > 0.0
    assert beaten <= 12  # at most .05 / 2 per map, and a fit to noise does harm


def test_a_map_of_no_rows_is_the_identity() -> None:
    empty = replace(tally_pit(**_quantile_rows(10)), tally=merged([]))
    forecasts: Any = {"quantiles": [[-3.0, 0.0, 1.0, 4.0, 9.0]], "levels": LEVELS}
    np.testing.assert_allclose(fit_pit(empty).apply(**forecasts).quantiles, forecasts["quantiles"], atol=0.01)


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"shape": "beta"}, "/shape"),
        ({"shape": ["pl"]}, "/shape"),
        ({"tails": None}, "/tails"),
        ({"knots": 3}, ""),
        ({"where": "/o", "tally": 1}, ""),
        ({"scale": "sqrt"}, "/scale"),
        ({"scale": ["log1p"]}, "/scale"),
        ({"support": 0.0}, "/support"),
        ({"support": (2.0, 1.0)}, "/support"),
        ({"support": (math.nan, 1.0)}, "/support"),
        ({"output_levels": [0.5]}, "/output_levels"),
    ],
)
def test_options_of_a_map_of_counts_are_checked(options: dict[str, Any], pointer: str) -> None:
    with pytest.raises(CalibrationError) as caught:
        fit_pit(tally_pit(**_quantile_rows(50)), **options)
    assert [offence.pointer for offence in caught.value.offences] == [pointer]


def test_counts_of_samples_and_intervals_have_no_map_of_levels() -> None:
    y = np.zeros(3)
    for forecasts in (
        {"samples": np.ones((3, 4))},
        {"lower": y - 1.0, "upper": y + 1.0, "level": 0.9},
    ):
        with pytest.raises(UnknownMethod):
            fit_pit(tally_pit(y, **forecasts))


def test_a_gain_needs_two_rows_and_a_map_of_levels() -> None:
    rows = _quantile_rows(50)
    fitted = fit_pit(tally_pit(**rows))
    with pytest.raises(TooFewRows):
        pit_gain(tally_pit(np.zeros(1), quantiles=[[1.0, 2.0, 3.0, 4.0, 5.0]], levels=LEVELS), fitted)
    other = fit_distribution("location-scale", rows["observed"], quantiles=rows["quantiles"], levels=LEVELS)
    with pytest.raises(UnknownMethod):
        pit_gain(tally_pit(**rows), other)
