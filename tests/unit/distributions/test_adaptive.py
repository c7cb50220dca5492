"""Recalibration in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.distributions.adaptive import read_in_order

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def stream(weeks: int = 60, per_week: int = 30) -> tuple[Any, Any, Any]:
    """Forecasts that are too narrow by 3 and too low by 1, with many rows a week."""
    random = np.random.default_rng(1)
    origin = np.repeat(np.arange(weeks), per_week).astype(float)
    mean = random.uniform(10.0, 20.0, len(origin))
    y = mean + 1.0 + 3.0 * random.standard_normal(len(origin))
    return y, origin, mean[:, None] + stats.norm.ppf(LEVELS)


def coverage(y: Any, q: Any) -> float:
    return float(np.mean((y >= q[:, 0]) & (y <= q[:, -1])))


def test_narrow_and_biased_forecasts_are_widened_and_moved() -> None:
    y, origin, q = stream()
    settings: dict[str, Any] = {"half_life": 4.0, "shift": 1.0, "widen": 1.0, "narrow": 1.0}
    recalibrated = calibrant.recalibrate_in_order(y, origin, origin + 1.0, quantiles=q, levels=LEVELS, **settings)
    late = origin >= 20
    assert coverage(y[late], q[late]) < 0.5
    assert coverage(y[late], recalibrated.forecasts.quantiles[late]) == pytest.approx(0.9, abs=0.03)
    assert recalibrated.shifts[late].mean() == pytest.approx(1.0, abs=0.15)
    assert recalibrated.factors[late].mean() == pytest.approx(3.0, rel=0.1)


def test_rows_without_known_outcomes_are_unchanged() -> None:
    y, origin, q = stream(weeks=3)
    recalibrated = calibrant.recalibrate_in_order(y, origin, origin + 2.0, half_life=1.0, quantiles=q, levels=LEVELS)
    np.testing.assert_array_equal(recalibrated.forecasts.quantiles[origin < 2], q[origin < 2])
    assert recalibrated.n_known[origin == 2].tolist() == [30] * 30


def test_all_kinds_of_forecasts_are_recalibrated_alike() -> None:
    y, origin, q = stream(weeks=10)
    kinds: list[dict[str, Any]] = [
        {"mean": q[:, 2], "variance": np.ones(len(y))},
        {"lower": q[:, 0], "upper": q[:, -1], "level": 0.9},
        {"samples": q[:, 2, None] + stats.norm.ppf((np.arange(199) + 1) / 200)},
    ]
    for forecasts in kinds:
        recalibrated = calibrant.recalibrate_in_order(y, origin, origin + 1.0, half_life=4.0, **forecasts)
        assert recalibrated.factors[-1] > 1.5
        assert recalibrated.shifts[-1] == pytest.approx(0.7, abs=0.3)


def test_dates_count_in_days() -> None:
    y, origin, q = stream(weeks=8)
    dates = np.datetime64("2024-01-06") + (7 * origin).astype("timedelta64[D]")
    by_date = calibrant.recalibrate_in_order(
        y, dates, dates + np.timedelta64(7, "D"), half_life=7.0, quantiles=q, levels=LEVELS
    )
    other = calibrant.recalibrate_in_order(
        y, 7.0 * origin, 7.0 * origin + 7.0, half_life=7.0, quantiles=q, levels=LEVELS
    )
    np.testing.assert_allclose(by_date.forecasts.quantiles, other.forecasts.quantiles)
    weeks: list[Any] = [timedelta(days=7), pd.Timedelta("7D"), np.timedelta64(1, "W"), np.int64(7), np.float32(7.0)]
    for week in weeks:
        same = calibrant.recalibrate_in_order(
            y, dates, dates + np.timedelta64(7, "D"), half_life=week, quantiles=q, levels=LEVELS
        )
        np.testing.assert_array_equal(same.forecasts.quantiles, by_date.forecasts.quantiles)


def test_the_shift_is_that_of_the_shortest_known_horizon() -> None:
    y = np.array([1.0, 9.0, 0.0])
    recalibrated = calibrant.recalibrate_in_order(
        y, [0, 0, 2], [1, 1, 3], half_life=1.0, horizon=[1, 2, 1], shift=1.0, mean=np.zeros(3), variance=np.ones(3)
    )
    assert recalibrated.shifts.tolist() == [0.0, 0.0, 1.0]


DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]
AWARE = [f"{day} 02:00:00 UTC" for day in DAYS]
LATER = [datetime(2026, 1, day, 12) for day in (2, 3, 4)]


def _in_polars() -> pl.Series:
    """Made in the test: dates start polars' threads, which forks of pytest would not have."""
    return pl.Series(LATER, dtype=pl.Datetime(time_zone="UTC"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"known": [0, 2, 3]}, "known/0 must be later than made$"),
        ({"known": [0, 1, 3]}, "known/0 must be later than made, like that of 1 other row$"),
        ({"made": [0, 1]}, "made must have shape"),
        ({"made": [0, 1, np.nan]}, "made/2 must be finite"),
        ({"made": ["a", "b", "c"]}, "made must be numbers or dates"),
        ({"horizon": [0, 1, np.inf]}, "horizon/2 must be finite"),
        ({"horizon": ["2026-01-01"] * 3}, "horizon must be numbers"),
        ({"known": ["2026-01-01"] * 3}, "known must be numbers, like made"),
        ({"made": DAYS, "known": AWARE}, "known must be dates without a time zone, like made"),
        ({"made": AWARE, "known": pd.Series(LATER)}, "known must be dates with a time zone, like made"),
        ({"made": _in_polars, "known": DAYS}, "with a time zone, like made"),
        ({"made": [*DAYS[:2], AWARE[2]], "known": DAYS}, "made must all have a time zone, or none"),
        ({"known": [1, 2, np.inf]}, "known/2 must be finite"),
        ({"half_life": 0.0}, "half_life must be"),
        ({"half_life": True}, "half_life must be"),
        ({"half_life": timedelta(days=7)}, "half_life must be a finite number above 0"),
        ({"shift": 1.5}, "shift must be a number from 0 to 1"),
        ({"scale": "sqrt"}, "scale must be one of"),
        ({"scale": "log1p"}, "scale must be identity"),
    ],
)
def test_invalid_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "observed": [0.0, 1.0, np.nan],
        "made": [0, 1, 2],
        "known": [1, 2, 3],
        "half_life": 1.0,
        "mean": [0.0] * 3,
        "variance": [1.0] * 3,
        **{name: change() if callable(change) else change for name, change in changes.items()},
    }
    with pytest.raises(CalibrationError, match=message):
        calibrant.recalibrate_in_order(**arguments)


def _as_text(times: npt.NDArray[Any]) -> list[str]:
    return [str(time) for time in times]


def _as_bigquery_writes(times: npt.NDArray[Any]) -> list[str]:
    return [f"{time} 00:00:00 UTC" for time in times]


@pytest.mark.parametrize("convert", [list, pd.Series, pl.Series, _as_text, _as_bigquery_writes])
def test_times_are_dates_or_text_and_may_be_unknown(convert: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(5)
    days, n = np.arange(60), 60
    y = rng.normal(1.0, 2.0, n)
    forecasts: dict[str, Any] = {"mean": np.zeros(n), "variance": np.ones(n)}
    numbers = calibrant.recalibrate_in_order(
        np.where(days < 50, y, np.nan), days, days + 3, half_life=7.0, horizon=days % 2, **forecasts
    )
    origin = np.datetime64("2026-01-30") + days
    known: Any = np.where(days < 50, origin + 3, np.datetime64("NaT"))
    is_text = convert in (_as_text, _as_bigquery_writes)
    texts = {"horizon": _as_text(days % 2)} if is_text else {"horizon": days % 2}
    known = ["" if np.isnat(time) else convert([time])[0] for time in known] if is_text else convert(known)
    dates = calibrant.recalibrate_in_order(y, convert(origin), known, half_life=7.0, **texts, **forecasts)
    np.testing.assert_array_equal(dates.n_known, numbers.n_known)
    np.testing.assert_allclose(dates.factors, numbers.factors, rtol=1e-12)
    np.testing.assert_allclose(dates.shifts, numbers.shifts, rtol=1e-12)
    missing = calibrant.recalibrate_in_order(
        pd.Series(y).where(days < 50),
        convert(origin),
        convert(origin + 3),
        half_life=7.0,
        horizon=days % 2,
        **forecasts,
    )
    np.testing.assert_allclose(missing.forecasts.mean, dates.forecasts.mean, rtol=1e-12)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-160, 1e149])
def test_numbers_near_the_ends_of_a_double_stay_numbers(scale: float) -> None:
    random = np.random.default_rng(2)
    y = scale * np.clip(random.normal(size=40), -1.0, 1.0)
    recalibrated = calibrant.recalibrate_in_order(
        y, range(40), range(1, 41), half_life=5.0, mean=np.zeros(40), variance=np.full(40, scale)
    ).forecasts
    assert np.isfinite(recalibrated.mean).all()
    assert (recalibrated.variance > 0.0).all()
    assert np.isfinite(recalibrated.variance).all()


@pytest.mark.parametrize("field", ["observed", "mean", "variance"])
def test_numbers_whose_squares_are_infinite_are_refused(field: str) -> None:
    arguments = {"observed": np.zeros(4), "mean": np.zeros(4), "variance": np.ones(4)}
    with pytest.raises(CalibrationError, match=f"{field}.* must be at most 1e\\+150"):
        calibrant.recalibrate_in_order(
            made=range(4), known=range(1, 5), half_life=5.0, **(arguments | {field: np.full(4, 1e200)})
        )


def test_more_rows_and_longer_half_lives_are_estimated_to_take_longer() -> None:
    def seconds(n: int, half_life: float) -> float:
        times = np.sort(np.random.default_rng(0).integers(0, 500, n)).astype(float)
        checked = read_in_order(
            np.zeros(n),
            times,
            times + 1.0,
            half_life=half_life,
            horizon=None,
            scale="identity",
            support=(None, None),
            settings={},
            mean=np.zeros(n),
            variance=np.ones(n),
        )
        return checked.seconds()

    assert 0.0 < seconds(2_000, 5.0) < seconds(20_000, 5.0) < seconds(20_000, 50.0) < 60.0
