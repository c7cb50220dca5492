"""Forecasts and outcomes are checked once, and errors name the field and the first rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.distributions.forecasts import read_forecasts, read_observed
from tests.refusals import refused_at

LEVELS = [0.1, 0.5, 0.9]


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"quantiles": pd.DataFrame([[1.0, 2.0]])}, "/levels"),
        ({"quantiles": pd.DataFrame([[1.0, 2.0]], columns=["a", "b"])}, "/levels"),
        ({"quantiles": pd.DataFrame([[1.0, 2.0]], columns=["q5", "q95"])}, "/levels"),
        ({"quantiles": pd.DataFrame([[2.0, 1.0]], columns=[0.9, 0.1])}, "/levels"),
        ({"quantiles": pd.DataFrame([[1.0, 2.0]], columns=[0.1, 0.9]), "levels": [0.1, 0.5]}, "/levels/1"),
        ({"quantiles": pd.DataFrame([[1.0, 2.0]], columns=[0.9, 0.1]), "levels": [0.1, 0.9]}, "/levels/0"),
        ({}, ""),
        ({"mean": [0.0]}, ""),
        ({"mean": [0.0], "variance": [1.0], "samples": [[1.0]]}, ""),
        ({"mean": [], "variance": []}, "/mean"),
        ({"mean": [0.0, np.nan], "variance": [1.0, 1.0]}, "/mean/1"),
        ({"mean": [0.0, 1.0], "variance": [1.0]}, "/variance"),
        ({"mean": [0.0, 1.0], "std": [1.0]}, "/std"),
        ({"mean": [0.0, 1.0], "variance": [1.0, 0.0]}, "/variance/1"),
        ({"mean": ["a"], "variance": [1.0]}, "/mean"),
        ({"mean": [[0.0]], "variance": [1.0]}, "/mean"),
        ({"quantiles": [[1.0, 2.0]], "levels": LEVELS}, "/levels"),
        ({"quantiles": [[1.0, 2.0, np.inf]], "levels": LEVELS}, "/quantiles/0/2"),
        ({"quantiles": [[1.0, 2.0, 3.0], [1.0, 0.9, 3.0]], "levels": LEVELS}, "/quantiles/1"),
        ({"quantiles": [[1.0, 2.0, 3.0]], "levels": [0.1, 0.9, 0.5]}, "/levels"),
        ({"quantiles": [[1.0, 2.0, 3.0]], "levels": [0.0, 0.5, 0.9]}, "/levels"),
        ({"quantiles": [[1.0, 2.0, 3.0]], "levels": [0.5, 0.5 + 1e-13, 0.9]}, "/levels"),
        ({"quantiles": [[1.0, 2.0, 3.0]], "levels": [1e-300, 2e-300, 0.9]}, "/levels"),
        ({"quantiles": [[1.0, 2.0, 3.0]], "levels": [0.1, 0.9, 1.0 - 2.0**-53]}, "/levels"),
        ({"lower": [0.0], "upper": [1.0], "level": 5e-324}, "/level"),
        ({"lower": [0.0], "upper": [1.0], "level": 1.0 - 2.0**-53}, "/level"),
        ({"lower": [0.0], "upper": [1.0]}, "/level"),
        ({"samples": [1.0, 2.0]}, "/samples"),
        ({"lower": [0.0, 3.0], "upper": [1.0, 2.0], "level": 0.9}, "/upper/1"),
        ({"lower": [0.0], "upper": [1.0], "level": 1.0}, "/level"),
        ({"lower": [0.0], "upper": [1.0], "level": True}, "/level"),
    ],
)
def test_invalid_forecasts_are_refused_with_the_place(arguments: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        read_forecasts(**arguments)


@pytest.mark.parametrize(
    "names", [LEVELS, ["0.1", "0.5", "0.9"], ["q0.1", "Q_0.5", "quantile_0.9"], ["q.1", ".5", "q.9"]]
)
def test_the_columns_of_a_frame_name_the_levels(names: list[Any]) -> None:
    assert read_forecasts(quantiles=pd.DataFrame([[1.0, 2.0, 3.0]], columns=names)).levels.tolist() == LEVELS


def test_levels_beside_a_frame_may_be_those_of_its_columns_with_more_decimals() -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=["q0.33", "q0.67"])
    assert read_forecasts(quantiles=frame, levels=[1 / 3, 2 / 3]).levels.tolist() == [1 / 3, 2 / 3]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"mean": [0.0, 1.0], "std": [1.0, 1.0]}, "normal"),
        ({"lower": [0.0, 1.0], "upper": [1.0, 2.0], "level": 0.9}, "intervals of level 0.9"),
        ({"samples": [[0.0, 1.0, 2.0]] * 2}, "3 samples each"),
        ({"quantiles": [[0.0, 1.0, 2.0]] * 2, "levels": LEVELS}, "quantiles at 3 levels"),
    ],
)
def test_forecasts_are_shown_by_their_kind(arguments: dict[str, Any], kind: str) -> None:
    assert repr(read_forecasts(**arguments)) == f"Forecasts: 2 rows, {kind}"


def test_recalibrated_forecasts_are_passed_on_by_name() -> None:
    y = np.random.default_rng(3).normal(size=50)
    forecasts: dict[str, Any] = {"mean": np.zeros(50), "std": np.full(50, 2.0)}
    after = calibrant.fit_distribution("variance-scaling", y, **forecasts).apply(**forecasts)
    by_hand: dict[str, Any] = {"mean": after.mean, "variance": after.variance}
    assert calibrant.evaluate_distribution(y, **after) == calibrant.evaluate_distribution(y, **by_hand)
    pair = calibrant.compare_distributions(y, {"before": forecasts, "after": after})
    assert pair.ranking == calibrant.compare_distributions(y, {"before": forecasts, "after": by_hand}).ranking
    assert list(after) == ["mean", "variance"]
    with pytest.raises(KeyError, match="samples"):
        after["samples"]
    with pytest.raises(TypeError, match=r"pass mean, quantiles and so on after the map: \*\*map.apply"):
        calibrant.evaluate_distribution(y, **forecasts, map=after)  # type: ignore[call-arg]


def test_times_are_answered_with_groups() -> None:
    with pytest.raises(TypeError, match="has no argument times; pass groups, such as the month of each row"):
        calibrant.evaluate([0.1, 0.9], [0, 1], times=["2026-01-01", "2026-01-02"])  # type: ignore[call-arg]


def test_crossings_up_to_rounding_are_repaired_and_counted() -> None:
    forecasts = read_forecasts(quantiles=[[1.0, 1.0 - 1e-9, 2.0], [1.0, 1.5, 2.0]], levels=LEVELS)
    assert forecasts.n_repaired == 1
    assert forecasts.quantiles[0].tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(("observed", "pointer"), [([1.0], "/observed"), ([1.0, np.inf], "/observed/1")])
def test_invalid_outcomes_are_refused_with_the_place(observed: list[float], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        read_observed(observed, read_forecasts(mean=[0.0, 0.0], variance=[1.0, 1.0]))


def test_quantiles_of_every_kind_are_computed_at_other_levels() -> None:
    levels = np.array([0.1, 0.5])
    normal = read_forecasts(mean=[0.0], variance=[4.0])
    np.testing.assert_allclose(normal.quantile(levels), [[-2.5631031, 0.0]])
    table = read_forecasts(quantiles=[[0.0, 4.0]], levels=[0.1, 0.9])
    assert table.quantile(levels).tolist() == [[0.0, 2.0]]
    interval = read_forecasts(lower=[0.0], upper=[4.0], level=0.8)
    np.testing.assert_allclose(interval.quantile(levels), [[0.0, 2.0]], atol=1e-12)
    samples = read_forecasts(samples=[[0.0, 1.0, 2.0]])
    np.testing.assert_allclose(samples.quantile(levels), [[0.2, 1.0]])
    assert samples.cdf(np.array([1.0])).tolist() == [2 / 3]
    assert normal.cdf(np.array([0.0])).tolist() == [0.5]


def test_rows_are_taken_from_every_field() -> None:
    forecasts = read_forecasts(quantiles=[[1.0, 2.0], [3.0, 4.0]], levels=[0.1, 0.9]).take(np.array([1]))
    assert (len(forecasts), forecasts.quantiles.tolist(), forecasts.levels.tolist()) == (1, [[3.0, 4.0]], [0.1, 0.9])
