"""The anytime-valid test of the coverage of prediction sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp

from calibrant.monitoring.coverage import coverage_drop, coverage_drops
from calibrant.monitoring.evidence import log_start_weight, weight_from


def test_the_e_value_of_one_bucket_is_the_mean_of_its_likelihood_ratios() -> None:
    n, covered, nominal = 40, 30, 0.9
    deltas = [shift.delta for shift in coverage_drops()]
    ratios = []
    for delta in deltas:
        q = float(expit(logit(nominal) + delta))
        ratios.append(covered * math.log(q / nominal) + (n - covered) * math.log((1.0 - q) / (1.0 - nominal)))
    mean = log_start_weight(0) + float(logsumexp(ratios)) - math.log(len(deltas))
    expected = np.logaddexp(mean, math.log(weight_from(1)))
    drop = coverage_drop(np.array([[n, covered]], dtype=np.float64), nominal)
    assert drop.log_e == pytest.approx(expected, rel=1e-12)
    assert (drop.start, drop.rows, drop.coverage) == (0, 40, 0.75)


def test_every_bet_is_fair_at_the_nominal_coverage_and_loses_above_it() -> None:
    for nominal in (0.5, 0.9, 0.99):
        for shift in coverage_drops():
            q = float(expit(logit(nominal) + shift.delta))
            for true in (nominal, (1.0 + nominal) / 2.0, 1.0):
                mean = true * q / nominal + (1.0 - true) * (1.0 - q) / (1.0 - nominal)
                assert mean <= 1.0 + 1e-12
                assert (mean == pytest.approx(1.0)) == (true == nominal)


def test_false_alarms_at_any_check_are_at_most_alpha() -> None:
    rng, alarms, streams = np.random.default_rng(1), 0, 400
    for _ in range(streams):
        counts = np.full((20, 2), 25.0)
        counts[:, 1] = rng.binomial(25, 0.9, 20)
        largest = max(coverage_drop(counts[: k + 1], 0.9).log_e for k in range(20))
        alarms += largest >= math.log(1.0 / 0.05)
    assert alarms / streams <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / streams)


def test_sets_that_cover_more_than_nominal_are_never_evidence() -> None:
    assert coverage_drop(np.array([[5000.0, 5000.0]] * 30), 0.9).log_e < 0.0


def test_a_drop_after_a_long_quiet_period_is_found_with_its_start() -> None:
    counts = np.array([[200.0, 181.0]] * 30 + [[200.0, 150.0]] * 3)
    drop = coverage_drop(counts, 0.9)
    assert drop.log_e > math.log(100.0)
    assert (drop.start, drop.rows, drop.coverage) == (30, 600, 0.75)


def test_buckets_that_were_dropped_do_not_give_their_weight_to_others() -> None:
    counts = np.array([[100.0, 80.0]])
    assert coverage_drop(counts, 0.9, first=50).log_e < coverage_drop(counts, 0.9).log_e
    empty = coverage_drop(np.zeros((0, 2)), 0.9)
    assert (empty.rows, empty.coverage) == (0, None)
    assert coverage_drop(np.zeros((3, 2)), 0.9).coverage is None
    assert coverage_drop(np.zeros((3, 2)), 0.9).log_e == pytest.approx(0.0, abs=1e-12)
