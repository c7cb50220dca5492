"""Diagrams of predictive distributions, of simulated forecasts of a temperature that are too narrow."""

from __future__ import annotations

from functools import cache

import numpy as np

from calibrant.diagrams.forecasts import drawn, read_distribution_diagrams, times_with_weight
from calibrant.distributions.evaluation import read_rows
from calibrant.distributions.forecasts import ForecastRows, read_forecasts
from calibrant.distributions.measures import MeasuredForecasts
from calibrant.plots.canvas import Caption, Drawn, Format, Theme
from calibrant.plots.diagram import draw

_DAYS = 1_000


@cache
def forecasts() -> MeasuredForecasts:
    """Means and variances, and outcomes whose standard deviation is 1.5 times the predicted one."""
    random = np.random.default_rng(11)
    day = np.arange(_DAYS)
    std = np.exp(0.4 * random.normal(size=_DAYS) - 0.2 + 0.3 * np.cos(2.0 * np.pi * day / 365.0))
    mean = 10.0 - 9.0 * np.cos(2.0 * np.pi * day / 365.0) + 2.0 * random.normal(size=_DAYS)
    observed = mean + 1.5 * std * random.normal(size=_DAYS)
    return read_rows(ForecastRows(read_forecasts(mean=mean, variance=std**2), observed))[0]


def diagram_of(name: str, form: Format, theme: Theme, width: int) -> Drawn:
    """A diagram of these forecasts."""
    rows = forecasts()
    (request,) = read_distribution_diagrams([name])
    days = times_with_weight([str(np.datetime64("2024-01-01") + i) for i in range(_DAYS)], None)
    return draw(name, drawn(request, rows, days), Caption(len(rows), "normal"), form=form, theme=theme, width=width)
