"""Diagrams of data that never change, each drawn as a golden image and looked at from every side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

import calibrant
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS, drawn, read_distribution_diagrams
from calibrant.distributions.forecasts import read_forecasts
from calibrant.distributions.measures import MeasuredForecasts
from calibrant.plots.by_size import draw_by_size
from calibrant.plots.canvas import Caption, Drawn
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import draw, draw_several
from calibrant.plots.over_time import draw_over_time
from calibrant.plots.reliability import draw_fit_bins

N = 1200
ABOUT = Caption(N, "binary", "spam-filter:3", ("ECE", 0.1234), (0.1, 0.15))
PLAIN = Caption(N, "binary")
QUICK = (
    "reliability",
    "corp",
    "logit-logit",
    "ks-graphs",
    "decision-curve",
    "murphy",
    "calibration-belt",
    "calibration-curve",
)

Array = npt.NDArray[np.float64]


def rows(power: float = 1.6) -> tuple[Array, npt.NDArray[np.int64]]:
    """Predictions evenly over all of a power, and labels that follow a sequence of low discrepancy."""
    c = (np.arange(N) + 0.5) / N
    return c**power, (np.modf(np.arange(N) * 0.6180339887498949)[0] < c).astype(np.int64)


@cache
def diagram(name: str, power: float = 1.6) -> Mapping[str, Any]:
    """A quick diagram or a fitted one, as a report holds it. Alone, since the belt takes seconds, and few need it."""
    request: str | dict[str, Any] = {"name": name, "method": "platt"} if name == "fit-on-test" else name
    diagram_of: Mapping[str, Any] = calibrant.evaluate(*rows(power), measures=["ece"], diagrams=[request]).diagrams[
        name
    ]
    return diagram_of


def piecewise() -> dict[str, Any]:
    """A fit-on-test diagram by PL, of two curves with two inner knots each."""
    shown = dict(diagram("fit-on-test"))
    p = np.array(shown["data"]["predictions"])
    curves = [
        {"knots": [0.0, 0.22, 0.7, 1.0], "heights": [0.03, 0.45, 0.82, 1.0]},
        {"knots": [0.0, 0.3, 0.66, 1.0], "heights": [0.01, 0.53, 0.78, 0.98]},
    ]
    calibrated = np.mean([np.interp(p, curve["knots"], curve["heights"]) for curve in curves], axis=0)
    points = {
        **shown["data"],
        "calibrated": calibrated.tolist(),
        "low": np.clip(calibrated - 0.04, 0.0, 1.0).tolist(),
        "high": np.clip(calibrated + 0.04, 0.0, 1.0).tolist(),
        "family": "pl",
        "parameters": {"models": curves},
    }
    return {**shown, "data": points, "definition": {**shown["definition"], "method": "pl"}}


def sizes() -> dict[str, Any]:
    """What ``measure_by_size`` answers, as JSON: a biased measure, and one that lacks values."""
    steps = [100, 200, 400, 800, 1600]
    return {
        "sizes": steps,
        "curves": {
            "ece": {"mean": [0.3 / n**0.5 + 0.02 for n in steps], "standard_deviation": [0.2 / n**0.5 for n in steps]},
            "ks": {"mean": [None, *[0.03] * 4], "standard_deviation": [None, 0.01, 0.008, 0.005, None]},
        },
    }


def plane() -> dict[str, Any]:
    """A cost plane on which each model is the cheaper one somewhere."""
    rates, ratios = np.arange(10) / 10, np.array([1.0, 2.0, 5.0, 10.0, 20.0])
    relative = np.subtract.outer(rates, np.linspace(0.1, 0.8, 5)) * 0.6
    return {"abstention": rates.tolist(), "cost_ratios": ratios.tolist(), "relative": relative.tolist()}


def fit_bins() -> dict[str, Any]:
    """Bins of a fit, before and after its map, as a record holds them."""
    p = (np.arange(60) + 0.5) / 60
    common = {"count": [20] * 60, "rows": [20.0] * 60, "share": [1 / 60] * 60, "start": (p - 1 / 120).tolist()}
    before = {**common, "mean_prediction": p.tolist(), "observed_frequency": (p**1.5).tolist()}
    after = {**common, "mean_prediction": p.tolist(), "observed_frequency": p.tolist()}
    return {"of": "binary", "before": before, "after": after}


def series() -> dict[str, Any]:
    """A value in 24 hours, of which two are missing and one has no interval, with two alarms."""
    start = 1_700_006_400.0
    points = [
        {
            "start": start + 3600.0 * hour,
            "end": start + 3600.0 * (hour + 1),
            "value": 0.02 + 0.002 * (hour % 5) + 0.004 * max(0, hour - 16),
            "interval": None if hour == 20 else (0.01 + 0.003 * max(0, hour - 16), 0.04 + 0.005 * max(0, hour - 16)),
        }
        for hour in range(24)
        if hour not in (8, 9)
    ]
    alarms = [{"at": start + 3600.0 * hour, "rule": "evidence"} for hour in (18.5, 21.0)]
    return {"measure": "ece", "points": points, "alarms": alarms}


@cache
def forecast_rows(kind: str = "quantiles", width: float = 1.0) -> MeasuredForecasts:
    """Forecasts of a wave that are too narrow, and outcomes from a sequence of low discrepancy."""
    i = np.arange(N)
    mean, std = 10 + 4 * np.sin(i / 9), 0.4 * 1.6 ** ((i * 7) % 5)
    observed = mean + 0.2 + 1.7 * std * ndtri(np.modf(i * 0.6180339887498949 + 0.3)[0])
    levels = np.array([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    if kind == "normal":
        forecasts = read_forecasts(mean=mean, variance=(width * std) ** 2)
    else:
        forecasts = read_forecasts(quantiles=mean[:, None] + width * std[:, None] * ndtri(levels), levels=levels)
    return MeasuredForecasts(forecasts, observed)


def forecast_diagram(name: str, kind: str = "quantiles", width: float = 1.0) -> dict[str, Any]:
    """A diagram of predictive distributions, over weeks for a fan."""
    (request,) = read_distribution_diagrams([{"name": name, **({"most": 60} if name == "fan" else {})}])
    weeks = (np.datetime64("2023-01-07") + 7 * np.arange(N)).astype(str).tolist()
    return drawn(request, forecast_rows(kind, width), weeks)


def _kind(name: str) -> str:
    return "normal" if name in ("mean-variance", "fan") else "quantiles"


def _draw_forecasts(name: str, *, overlaid: bool, **options: Any) -> Drawn:
    kind = _kind(name)
    after = (forecast_diagram(name, kind, 1.6), Caption(N, kind)) if overlaid else None
    return draw(name, forecast_diagram(name, kind), Caption(N, kind, "admissions"), after=after, **options)


def _after(name: str) -> tuple[Mapping[str, Any], Caption]:
    return diagram(name, 0.8), replace(PLAIN, error=("ECE", 0.05))


#: Every kind of picture; each takes form, theme and width.
PICTURES: Mapping[str, Callable[..., Drawn]] = {
    **{name: lambda name=name, **options: draw(name, diagram(name), ABOUT, **options) for name in QUICK},
    **{
        f"{name}-after": lambda name=name, **options: draw(name, diagram(name), PLAIN, after=_after(name), **options)
        for name in (*QUICK, "fit-on-test")
    },
    "fit-on-test": lambda **options: draw("fit-on-test", diagram("fit-on-test"), PLAIN, **options),
    "fit-on-test-pl": lambda **options: draw("fit-on-test", piecewise(), ABOUT, **options),
    "several": lambda **options: draw_several(
        "reliability", [(diagram("reliability", power), ABOUT) for power in (0.7, 1.0, 1.6)], **options
    ),
    "by-size": lambda **options: draw_by_size(sizes(), PLAIN, **options),
    "cost-plane": lambda **options: draw_cost_plane(plane(), PLAIN, names=("one", "the other"), **options),
    "over-time": lambda **options: draw_over_time(series(), replace(PLAIN, name="inbox"), **options),
    "fit-bins": lambda **options: draw_fit_bins(fit_bins(), PLAIN, **options),
    **{name: partial(_draw_forecasts, name, overlaid=False) for name in DISTRIBUTION_DIAGRAMS},
    **{f"{name}-after": partial(_draw_forecasts, name, overlaid=True) for name in DISTRIBUTION_DIAGRAMS},
    "pit-normal": lambda **options: draw("pit", forecast_diagram("pit", "normal"), Caption(N, "normal"), **options),
}
