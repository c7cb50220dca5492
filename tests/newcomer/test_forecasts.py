"""Tasks with forecasts of a number in a notebook."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant


@pytest.fixture
def weather() -> dict[str, Any]:
    """Return outcomes, and means and standard deviations, of 60 days."""
    random = np.random.default_rng(0)
    mean = random.normal(size=60)
    return {"observed": mean + 1.5 * random.normal(size=60), "mean": mean, "std": np.ones(60)}


def test_recalibrated_forecasts_are_compared(weather: dict[str, Any]) -> None:
    """Compare forecasts with ``==`` after storing and reading them."""
    origin = np.arange(60)
    adapted = calibrant.recalibrate_in_order(made=origin, known=origin + 1, half_life=10, **weather)
    other = calibrant.recalibrate_in_order(made=origin, known=origin + 2, half_life=10, **weather)
    assert pickle.loads(pickle.dumps(adapted)) == adapted != other
    assert pickle.loads(pickle.dumps(adapted.forecasts)) == adapted.forecasts != other.forecasts


def test_numbers_of_numpy_are_options_of_forecasts(weather: dict[str, Any]) -> None:
    """Pass a level and a number of lags from arrays."""
    level: Any = np.float32(0.9)
    lags: Any = np.int64(2)
    measure = calibrant.evaluate_distribution(**weather, measures="crps", interval=level)["crps"]
    assert measure == calibrant.evaluate_distribution(**weather, measures="crps", interval=float(level))["crps"]
    forecasts = {name: {"mean": weather["mean"], "std": weather["std"] * k} for name, k in (("a", 1), ("b", 2))}
    compared = calibrant.compare_distributions(weather["observed"], forecasts, interval=level, lags=lags)
    assert compared == calibrant.compare_distributions(weather["observed"], forecasts, interval=float(level), lags=2)


def test_names_of_forecasts_are_strings(weather: dict[str, Any]) -> None:
    """Number the forecasts of a comparison."""
    forecasts = {k: {"mean": weather["mean"], "std": weather["std"] * k} for k in (1, 2)}
    with pytest.raises(calibrant.CalibrationError, match="forecasts must have names that are strings"):
        calibrant.compare_distributions(weather["observed"], forecasts)  # type: ignore[arg-type]


def test_horizons_are_lengths_of_time(weather: dict[str, Any]) -> None:
    """Pass how far ahead each row forecasts as differences of times."""
    days = pd.date_range("2026-01-01", periods=60)
    steps = np.arange(60) % 3 + 1
    lengths = pd.Series(pd.to_timedelta(steps, unit="D"), index=range(5, 65))
    expected = calibrant.recalibrate_in_order(
        made=days, known=days + pd.Timedelta("1D"), half_life=10, horizon=steps, **weather
    )
    for horizon in (lengths, lengths.to_numpy(), pl.Series(lengths.to_numpy()), [timedelta(int(k)) for k in steps]):
        recalibrated = calibrant.recalibrate_in_order(
            made=days, known=days + pd.Timedelta("1D"), half_life=10, horizon=horizon, **weather
        )
        assert recalibrated == expected


def test_a_fan_has_dates_in_nanoseconds(weather: dict[str, Any]) -> None:
    """Draw a fan over times of numpy, also in a report."""
    days = pd.date_range("2026-01-01", periods=60)
    report = calibrant.evaluate_distribution(**weather)
    drawn = [report.plot.fan(times=times).get_xlim() for times in (days, days.to_numpy().astype("M8[ns]"))]
    assert drawn[0] == drawn[1]
    pages = [
        calibrant.report_distribution(**weather, times=times).document
        for times in (days, days.to_numpy().astype("M8[ns]"))
    ]
    assert pages[0] == pages[1]


def test_options_of_a_diagram_are_listed(weather: dict[str, Any]) -> None:
    """Pass an option of another diagram, a map in place of its forecasts, and a diagram that is the default."""
    report = calibrant.evaluate_distribution(**weather)
    with pytest.raises(TypeError, match="no argument n_bins; the options of pit are: level"):
        report.plot.pit(n_bins=5)
    fitted = calibrant.fit_distribution("variance-scaling", **weather)
    with pytest.raises(calibrant.CalibrationError, match=r"after must be forecasts, such as those of fitted\.apply"):
        report.plot.pit(after=fitted)
    with pytest.raises(AttributeError, match=r"no attribute 'coverage'; use plot\(\)"):
        report.plot.coverage()  # type: ignore[attr-defined]
