"""Laws of maps of predictive distributions: documents, order of rows, weights, monotonicity and support."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.distributions.maps.distribution_map import DistributionMap
from tests.drawn import examples

METHODS = [
    (kind, name)
    for name, method in calibrant.DISTRIBUTION_METHODS.items()
    for kind in ("normal", "quantiles", "samples", "interval")
    if kind in method.kinds
]
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def forecasts(kind: str, n: int, random: np.random.Generator) -> dict[str, Any]:
    """Overconfident forecasts of counts, with ties."""
    mean, sd = random.gamma(2.0, 4.0, n), random.uniform(0.5, 3.0, n)
    if kind == "normal":
        return {"mean": mean, "variance": sd**2}
    if kind == "samples":
        return {"samples": np.maximum(np.round(mean[:, None] + sd[:, None] * random.standard_normal((n, 40))), 0.0)}
    table = np.maximum(np.round(mean[:, None] + sd[:, None] * np.array([-1.6, -0.7, 0.0, 0.7, 1.6])), 0.0)
    if kind == "quantiles":
        return {"quantiles": table, "levels": LEVELS}
    return {"lower": table[:, 0], "upper": table[:, -1], "level": 0.9}


def outcomes(n: int, random: np.random.Generator) -> Any:
    return np.round(random.gamma(2.0, 5.0, n))


def rows_of(given_rows: dict[str, Any], chosen: Any) -> dict[str, Any]:
    return {
        name: column if name in ("levels", "level") else np.asarray(column)[chosen]
        for name, column in given_rows.items()
    }


def numbers(forecasts: Any) -> np.ndarray[Any, Any]:
    if forecasts.kind == "normal":
        return np.column_stack([forecasts.mean, forecasts.variance])
    return np.asarray(
        forecasts.quantiles if forecasts.kind == "quantiles" else np.column_stack([forecasts.lower, forecasts.upper])
    )


def scale_of(kind: str) -> Any:
    return "identity" if kind == "normal" else "log1p"


def support_of(kind: str, name: str) -> Any:
    return (None, None) if kind == "normal" and calibrant.DISTRIBUTION_METHODS[name].keeps_normal else (0.0, None)


def fitted_to(kind: str, name: str, y: Any, rows: dict[str, Any], **more: Any) -> DistributionMap:
    return calibrant.fit_distribution(name, y, scale=scale_of(kind), support=support_of(kind, name), **rows, **more)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), METHODS)
@settings(max_examples=examples(4))
@given(seed=st.integers(0, 1 << 20), by_group=st.booleans())
def test_a_map_read_from_its_document_applies_the_same_function_whose_results_do_not_cross_and_stay_in_the_support(
    kind: str, name: str, seed: int, *, by_group: bool
) -> None:
    random = np.random.default_rng(seed)
    rows, y = forecasts(kind, 120, random), outcomes(120, random)
    groups = random.choice(["a", "b"], 120) if by_group else None
    fitted = fitted_to(kind, name, y, rows, by=groups)
    read = calibrant.load_distribution(json.loads(json.dumps(fitted.to_document(), allow_nan=False)))
    assert read == fitted
    assert read.training_digest == fitted.training_digest
    new_groups = None if groups is None else np.where(groups == "a", "unknown", groups)
    applied = fitted.apply(by=new_groups, **rows)
    table = numbers(applied)
    np.testing.assert_array_equal(table, numbers(read.apply(by=new_groups, **rows)))
    if applied.kind == "normal":
        assert (applied.variance > 0.0).all()
        return
    assert (np.diff(table, axis=1) >= -1e-9 * np.maximum(1.0, np.abs(table[:, 1:]))).all()
    assert (table >= 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), METHODS)
@settings(max_examples=examples(4))
@given(seed=st.integers(0, 1 << 20))
def test_frequency_weights_are_repetitions_of_rows_whose_order_does_not_matter(kind: str, name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, y, w = forecasts(kind, 80, random), outcomes(80, random), random.integers(0, 4, 80)
    weighted = fitted_to(kind, name, y, rows, weights=w, weights_kind="frequency")
    order = random.permutation(80)
    others = [fitted_to(kind, name, y[order], rows_of(rows, order), weights=w[order], weights_kind="frequency")]
    assert others[0].training_digest == weighted.training_digest
    if name != "averaged":
        repeated = np.repeat(np.arange(80), w)
        others.append(fitted_to(kind, name, y[repeated], rows_of(rows, repeated)))
    for other in others:
        np.testing.assert_allclose(numbers(other.apply(**rows)), numbers(weighted.apply(**rows)), rtol=1e-3, atol=1e-3)


@settings(max_examples=examples(8, 400))
@given(seed=st.integers(0, 1 << 20), name=st.sampled_from(["variance-isotonic", "std-isotonic", "variance-platt"]))
def test_a_larger_predicted_variance_never_becomes_a_smaller_one(seed: int, name: str) -> None:
    random = np.random.default_rng(seed)
    rows = forecasts("normal", 100, random)
    fitted = calibrant.fit_distribution(name, outcomes(100, random), **rows)
    variance = np.sort(random.gamma(1.0, 10.0, 50))
    assert (np.diff(fitted.apply(mean=np.zeros(50), variance=variance).variance) >= 0.0).all()


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 1 << 20), n=st.integers(1, 60), level=st.sampled_from([0.5, 0.8, 0.9]))
def test_conformal_intervals_contain_as_many_calibration_outcomes_as_promised(seed: int, n: int, level: float) -> None:
    random = np.random.default_rng(seed)
    rows, y = forecasts("quantiles", n, random), outcomes(n, random)
    lower, upper = rows["quantiles"][:, 0], rows["quantiles"][:, -1]
    fitted = calibrant.fit_distribution("conformal", y, lower=lower, upper=upper, level=level)
    calibrated = fitted.apply(lower=lower, upper=upper, level=level)
    inside = int(((y >= calibrated.lower) & (y <= calibrated.upper)).sum())
    assert inside >= min(n, np.ceil((n + 1) * level - 1e-9))
    assert (
        np.isinf(calibrated.upper).all()
        == (np.ceil((n + 1) * level - 1e-9) > n)
        == ("infinite" in str(fitted.diagnostics))
    )


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 1 << 20), later=st.integers(0, 30))
def test_outcomes_that_were_not_known_yet_change_nothing(seed: int, later: int) -> None:
    random = np.random.default_rng(seed)
    n = 60
    rows, y, origin = forecasts("quantiles", n, random), outcomes(n, random), np.sort(random.integers(0, 30, n))
    known = origin + random.integers(1, 5, n)
    changed = np.where(known > later, np.where(random.random(n) < 0.5, np.nan, y + 50.0), y)
    settings_of: dict[str, Any] = {"half_life": 2.0, "scale": "log1p", "support": (0.0, None)}
    first = calibrant.recalibrate_in_order(y, origin, known, **settings_of, **rows)
    other = calibrant.recalibrate_in_order(changed, origin, known, **settings_of, **rows)
    early = origin <= later
    np.testing.assert_array_equal(first.forecasts.quantiles[early], other.forecasts.quantiles[early])
    assert (np.diff(first.forecasts.quantiles, axis=1) >= 0.0).all()
    assert (first.forecasts.quantiles >= 0.0).all()
