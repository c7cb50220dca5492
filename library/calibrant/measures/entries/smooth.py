"""Smooth calibration errors in the catalogue."""

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
        "int |(1/n) sum_i (p_i - y_i) K_s(t, p_i)| dt over [0, 1], K_s the Gaussian of width s reflected at 0 and 1, "
        f"at the s that equals it, sought from {NARROWEST:g} on; or at the bandwidth given",
        "Blasiok & Nakkiran (2023)",
        0.0,
        1.0,
        "O(n + grid log grid)",
        event=_smooth,
        options={"bandwidth": Option("fixed-point", choices=("fixed-point",), low=NARROWEST, high=1, real=True)},
        seconds=lambda n, _classes, _options: 4e-8 * n + 5e-3,
        distance=_smooth_distance,
    ),
    Measure(
        "kde-ece",
        "Calibration error by kernel densities",
        _FAMILY,
        "int |x - share(x)|^norm density(x) dx over [0, 1], or pointwise the mean of |share(p_i) - p_i|^norm; share "
        "= min(mean y x density of positives / density, 1), triweight kernel of standard deviation std(p of positives) "
        "(2n)^(-1/5) for both, mirrored at 0 and 1; where there is no density, share is carried on along the grid, not "
        "along the rows; no root; smoothing biases it, so that calibrated predictions do not tend to 0",
        "Zhang, Kailkhura & Han (2020)",
        0.0,
        1.0,
        "O(n + grid log grid)",
        needs="positives of different predictions",
        event=_kde,
        options={"form": Option("integral", choices=("integral", "pointwise")), "norm": Option(1, choices=(1, 2))},
        seconds=lambda n, _classes, _options: 2e-7 * n + 1e-2,
        distance=lambda event, _, **options: kde_distance(event, **options),
    ),
)
