"""Diagrams of predictive distributions: PIT, quantiles, coverage, variance, sharpness, and a fan over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from calibrant.core.arrays import times_of
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidOption, LengthMismatch, UnknownDiagram
from calibrant.core.options import Catalogue, Option, read_entries
from calibrant.core.results import n_rows
from calibrant.diagrams.diagram import Diagram, DiagramRequest, Picture
from calibrant.distributions import pit, spread
from calibrant.distributions.measures import MeasuredForecasts

#: Levels of the central intervals of normal distributions and samples, and of the bands of a fan.
CENTRAL = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
FANS = (0.5, 0.9)
_MOST = 16
_SAME = 1e-9
#: Estimated seconds of a diagram, most of them for its bands, and of it per level, per row, and per number of a row.
_ONCE, _LEVEL, _ROW, _NUMBER = 0.02, 4e-4, 3e-7, 1.5e-7
#: Diagrams of numbers beyond this size, or of variances below its inverse, are not drawn: axes need room around them.
_LARGEST = 1e300


# --- The data


@dataclass(frozen=True)
class PitHistogram(Picture):
    """Density of the PIT between levels, and the simultaneous band of calibrated forecasts."""

    edges: Floats
    density: Floats
    low: Floats
    high: Floats
    distance: float


@dataclass(frozen=True)
class QuantileReliability(Picture):
    """Observed share of outcomes at most the quantile of each level, and the simultaneous band."""

    levels: Floats
    share: Floats
    low: Floats
    high: Floats
    error: float


@dataclass(frozen=True)
class CentralIntervals(Picture):
    """Level, coverage and mean width of central intervals, and the simultaneous band of their coverage."""

    levels: Floats
    coverage: Floats
    low: Floats
    high: Floats
    width: Floats


@dataclass(frozen=True)
class MeanVariance(Picture):
    """Mean predicted variance and mean squared error of each bin, with an interval of the second."""

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    share: Floats
    error: float


@dataclass(frozen=True)
class Fan(Picture):
    """Central intervals, median and outcome of rows in order; ``seconds`` since 1970 if the times are dates."""

    x: Floats
    seconds: bool
    levels: Floats
    lower: Floats
    upper: Floats
    median: Floats | None
    observed: Floats


# --- Computation


def pit_histogram(rows: MeasuredForecasts, *, level: float) -> PitHistogram:
    """Return the PIT histogram between the declared levels, or in 20 bins."""
    coverage = rows.coverage()
    edges = np.concatenate([[0.0], coverage.levels, [1.0]])
    share = np.diff(np.concatenate([[0.0], coverage.share, [1.0]]))
    half, width = pit.bin_bands(coverage, level, seed=rows.seed), np.diff(edges)
    low, high = np.maximum(width - half, 0.0) / width, (width + half) / width
    return PitHistogram(edges, share / width, low, high, float(np.abs(coverage.gap).max()))


def quantile_reliability(rows: MeasuredForecasts, *, level: float) -> QuantileReliability:
    """Return the observed share of each level."""
    coverage = rows.coverage()
    half = pit.bands(coverage, level, seed=rows.seed)
    low, high = np.clip(coverage.levels - half, 0.0, 1.0), np.clip(coverage.levels + half, 0.0, 1.0)
    return QuantileReliability(coverage.levels, coverage.share, low, high, float(np.abs(coverage.gap).mean()))


def central_intervals(rows: MeasuredForecasts, *, level: float) -> CentralIntervals:
    """Return coverage and mean width of central intervals; of quantiles, between symmetric levels."""
    known = pit.some_levels(pit.levels_of(rows.forecasts))
    if rows.forecasts.kind in ("normal", "samples"):
        known = np.sort(np.concatenate([(1.0 - CENTRAL) / 2.0, (1.0 + CENTRAL) / 2.0]))
    at = [(i, int(np.argmin(np.abs(known - (1.0 - t))))) for i, t in enumerate(known.tolist()) if t < 0.5 - _SAME]
    pairs = [(i, j) for i, j in at if abs(known[i] + known[j] - 1.0) < _SAME][::-1]
    if not pairs:
        raise InvalidOption.at("/levels", "have no two that are symmetric about 1/2")
    low, high = np.array(pairs).T
    coverage = rows.coverage(known)
    covered = coverage.share[high] - coverage.share[low]
    half = pit.interval_bands(coverage, low, high, level, seed=rows.seed)
    nominal = known[high] - known[low]
    table = rows.forecasts.quantile(known)
    weights = np.ones(len(rows)) if rows.w is None else rows.w
    width = weights @ (table[:, high] - table[:, low]) / weights.sum()
    ends = np.clip(nominal - half, 0.0, 1.0), np.clip(nominal + half, 0.0, 1.0)
    return CentralIntervals(nominal, covered, *ends, width)


def mean_variance(rows: MeasuredForecasts, *, n_bins: int, level: float) -> MeanVariance:
    """Return the mean squared error in bins of the predicted variance, with an interval by the chi-square law."""
    if rows.forecasts.kind not in ("normal", "samples"):
        raise InvalidOption.at("/diagram", "needs means and variances, or samples")
    bins = spread.variance_bins(rows.forecasts, rows.y, rows.w, n_bins)
    mass, predicted, observed = bins["mass"], bins["predicted"], bins["observed"]
    tail = (1.0 - level) / 2.0
    low, high = observed * mass / chdtri(mass, tail), observed * mass / chdtri(mass, 1.0 - tail)
    return MeanVariance(predicted, observed, low, high, mass / mass.sum(), spread.expected_normalised_error(bins))


def fan(rows: MeasuredForecasts, times: Sequence[str] | None, *, most: int) -> Fan:
    """Return the last ``most`` rows in the order of ``times (n,)``, or in the given order."""
    x, seconds = np.arange(len(rows), dtype=np.float64), False
    if times is not None:
        if len(times) != len(rows):
            raise LengthMismatch.at("/times", f"has {n_rows(len(times))}, but the forecasts have {len(rows):,}")
        x, kind = times_of(times, "times")
        seconds = kind != "numbers"
        if not np.isfinite(x).all():
            raise InvalidOption.at("/times", "must be finite")
        if len(np.unique(x)) < len(x):
            raise InvalidOption.at("/times", "are not distinct: choose the rows of one series")
    order = np.argsort(x, kind="stable")[-most:]
    forecasts = rows.forecasts.take(order)
    known = pit.levels_of(forecasts)
    levels = np.array(FANS)
    if forecasts.kind in ("quantiles", "interval"):
        own = known[known > 0.5 + _SAME]
        levels = np.unique(
            [2.0 * own[np.argmin(np.abs(2.0 * own - 1.0 - coverage))] - 1.0 for coverage in FANS] if len(own) else []
        )
    table = forecasts.quantile(np.concatenate([(1.0 - levels) / 2.0, [0.5], (1.0 + levels) / 2.0]))
    L = len(levels)
    has_median = forecasts.kind != "interval"
    return Fan(
        x[order],
        seconds,
        levels,
        table[:, :L].T,
        table[:, L + 1 :].T,
        table[:, L] if has_median else None,
        rows.y[order],
    )


# --- The catalogue

_BAND = Option(0.95, low=0.5, high=0.999, real=True)
_OF_INTERVALS = {
    "levels": "levels of the central intervals",
    "coverage": "share of outcomes inside",
    "low": "lower end of the simultaneous band of calibrated forecasts",
    "high": "upper end",
    "width": "mean width",
}

#: Diagrams of predictive distributions, by name.
DISTRIBUTION_DIAGRAMS = Catalogue[Diagram](
    "diagram",
    {
        entry.name: entry
        for entry in (
            Diagram(
                "pit",
                "PIT histogram",
                "Density of the probability integral transform of the outcomes: in 20 bins, or between the declared "
                "levels of quantiles and intervals. Calibrated forecasts have density 1. All bins together are inside "
                "the band with probability level if the forecasts are calibrated.",
                "Czado, Gneiting & Held (2009)",
                pit_histogram,
                {
                    "edges": "ends of the bins",
                    "density": "share of the outcomes in the bin over its width",
                    "low": "lower end of the simultaneous band of calibrated forecasts",
                    "high": "upper end",
                    "distance": "largest distance between the shares of outcomes and the levels",
                },
                "O(n Q)",
                {"level": _BAND},
                caption="Distribution of the outcomes among the quantiles. Calibrated forecasts are flat; outcomes at "
                "both ends mean intervals that are too narrow, and a slope means forecasts that are too high or too "
                "low.",
            ),
            Diagram(
                "quantile-reliability",
                "Reliability of quantiles",
                "Share of outcomes that are at most the quantile, against its level, with a simultaneous band. Ties of "
                "outcomes with quantiles are broken at random.",
                "Gneiting, Wolffram, Resin et al. (2023), unconditional",
                quantile_reliability,
                {
                    "levels": "levels of the quantiles",
                    "share": "share of outcomes at most the quantile",
                    "low": "lower end of the simultaneous band of calibrated forecasts",
                    "high": "upper end",
                    "error": "mean distance between shares and levels",
                },
                "O(n Q)",
                {"level": _BAND},
                caption="Share of outcomes that are at most each quantile. Below the diagonal, the quantile is too "
                "low.",
            ),
            Diagram(
                "coverage",
                "Coverage by level",
                "Share of outcomes inside the central interval, against its level, with a simultaneous band. Points "
                "below the diagonal are intervals that are too narrow.",
                "Gneiting, Balabdaoui & Raftery (2007)",
                central_intervals,
                _OF_INTERVALS,
                "O(n Q)",
                {"level": _BAND},
                caption="Share of outcomes inside central intervals against their level. Below the diagonal, "
                "intervals are too narrow.",
            ),
            Diagram(
                "mean-variance",
                "Mean squared error by predicted variance",
                "Mean squared error in n_bins bins of equal mass of the predicted variance, on logarithmic axes, with "
                "an interval at level that assumes normal errors.",
                "Levi, Gispan, Giladi & Fetaya (2022)",
                mean_variance,
                {
                    "predicted": "mean predicted variance",
                    "observed": "mean squared error",
                    "low": "lower end of its interval",
                    "high": "upper end",
                    "share": "share of the rows",
                    "error": "expected normalised calibration error",
                },
                "O(n log n)",
                {"n_bins": Option(10, high=100), "level": _BAND},
                caption="Mean squared error of rows with similar predicted variances. Above the diagonal, errors are "
                "larger than predicted.",
            ),
            Diagram(
                "sharpness",
                "Sharpness and calibration",
                "Mean width of the central intervals against the coverage that they reach. A ring is at the level that "
                "was promised. Of two models, the lower curve has the narrower intervals at the same coverage.",
                "Gneiting, Balabdaoui & Raftery (2007), the paradigm of sharpness subject to calibration",
                central_intervals,
                _OF_INTERVALS,
                "O(n Q)",
                {"level": _BAND},
                caption="Mean width of intervals against the share of outcomes inside; rings are at the promised "
                "level. Of two models, the lower curve is better.",
            ),
            Diagram(
                "fan",
                "Fan chart",
                "Central intervals, median and outcome of the last rows in the order of time. Needs one row for each "
                "time.",
                "",
                fan,
                {
                    "x": "times, or numbers of rows",
                    "seconds": "whether x is in seconds since 1970",
                    "levels": "levels of the intervals: those next to 50 and 90 %",
                    "lower": "lower ends by level",
                    "upper": "upper ends by level",
                    "median": "medians, or null for intervals",
                    "observed": "outcomes",
                },
                "O(n log n)",
                {"most": Option(120, low=2, high=2000)},
                caption="Intervals, medians and outcomes of the last rows, in the order of time.",
            ),
        )
    },
    public="DISTRIBUTION_DIAGRAMS",
)


def read_distribution_diagrams(requested: str | Sequence[str | Mapping[str, Any]]) -> list[DiagramRequest]:
    """Read names of diagrams, or objects with options; raises ``UnknownDiagram`` or ``InvalidOption``."""
    entries = read_entries(requested, DISTRIBUTION_DIAGRAMS, "diagram", most=_MOST, unknown=UnknownDiagram)
    return [DiagramRequest(key, diagram, options) for key, diagram, options in entries]


def drawing_seconds(n_diagrams: int, size: pit.ForecastSize) -> float:
    """Estimate the seconds of diagrams of forecasts of a size."""
    return n_diagrams * (_ONCE + _LEVEL * size.levels + size.rows * (_ROW + _NUMBER * size.width))


def times_with_weight(times: Sequence[str] | None, weights: Any) -> Sequence[str] | None:
    """Return the times of the rows with a positive weight, which are the rows of an evaluation."""
    if times is None or weights is None:
        return times
    return [time for time, weight in zip(times, np.asarray(weights), strict=True) if weight]


def drawn(request: DiagramRequest, rows: MeasuredForecasts, times: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the diagram of rows as JSON, like ``DiagramRequest.drawn``; ``times (n,)`` are for a fan."""
    definition = {"name": request.diagram.name, **request.options}
    also: dict[str, Any] = {"times": times} if request.diagram.name == "fan" else {}
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            picture = request.diagram.draw(rows, **also, **request.options)
        _check_drawable(picture)
    except CalibrationError as error:
        return {"data": None, "definition": definition, "problem": f"no diagram: {error.detail}"}
    return {"data": picture.to_document(), "definition": definition, "problem": picture.problem}


def _check_drawable(picture: Picture) -> None:
    numbers = [value for value in vars(picture).values() if isinstance(value, float | np.ndarray)]
    if not all(np.all(np.abs(number) <= _LARGEST) for number in numbers):
        raise InvalidOption.at("/diagram", f"has numbers beyond {_LARGEST:g}")
    if isinstance(picture, MeanVariance) and np.any(picture.predicted < 1.0 / _LARGEST):
        raise InvalidOption.at("/diagram", f"has variances below {1.0 / _LARGEST:g}")
