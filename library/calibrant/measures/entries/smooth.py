"""Catalogue entries of smooth calibration errors."""

from __future__ import annotations

from calibrant.measures.density import Form, kde_distance, kde_ece
from calibrant.measures.intervals import Distance, Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.measures.smooth import NARROWEST, smooth_distance, smooth_ece
from calibrant.options import Option
from calibrant.reductions import Event

_FAMILY = "Smooth calibration errors"


def _fixed(bandwidth: float | str) -> float | None:
    return None if isinstance(bandwidth, str) else float(bandwidth)


def _smooth(event: Event, _: Resampling, *, bandwidth: float | str) -> MeasureResult:
    value, sigma = smooth_ece(event, _fixed(bandwidth))
    return MeasureResult(value, parts={"bandwidth": sigma})


def _smooth_distance(event: Event, _: Resampling, *, bandwidth: float | str) -> Distance:
    return smooth_distance(event, _fixed(bandwidth))


def _kde(event: Event, _: Resampling, *, form: Form, norm: int) -> MeasureResult:
    value, bandwidth = kde_ece(event, form, norm)
    return MeasureResult(value, parts={"bandwidth": bandwidth})


MEASURES = (
    Measure(
        "smooth-ece",
        "Smooth calibration error",
        _FAMILY,
        "int |(1/n) sum_i (p_i - y_i) K_s(t, p_i)| dt over [0, 1], with K_s the Gaussian of width s reflected at 0 and "
        f"1, at the fixed point where it equals s (at least {NARROWEST:g}), or at the given bandwidth",
        "Blasiok & Nakkiran (2023)",
        0.0,
        1.0,
        "O(n + grid log grid)",
        event=_smooth,
        options={"bandwidth": Option("fixed-point", choices=("fixed-point",), low=NARROWEST, high=1, real=True)},
        seconds=lambda n, _classes, _options: 4e-8 * n + 5e-3,
        distance=_smooth_distance,
        resample_seconds=lambda _n, _options: 5e-5,
    ),
    Measure(
        "kde-ece",
        "Calibration error by kernel densities",
        _FAMILY,
        "int |x - c(x)|^norm density(x) dx over [0, 1], or pointwise the mean of |c(p_i) - p_i|^norm, without a root; "
        "c = min(mean y x density of positives / density, 1), both with a triweight kernel of standard deviation std(p "
        "of positives) (2n)^(-1/5), mirrored at 0 and 1. Where the density vanishes, c has its last value to the left "
        "on the grid. Smoothing biases the value: it does not tend to 0 for calibrated predictions",
        "Zhang, Kailkhura & Han (2020)",
        0.0,
        1.0,
        "O(n + grid log grid)",
        needs="positives with different predictions",
        event=_kde,
        options={"form": Option("integral", choices=("integral", "pointwise")), "norm": Option(1, choices=(1, 2))},
        seconds=lambda n, _classes, _options: 2e-7 * n + 1e-2,
        distance=lambda event, _, **options: kde_distance(event, **options),
        resample_seconds=lambda _n, _options: 2.5e-4,
    ),
)
