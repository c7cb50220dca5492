"""Catalogue entries of binnings and kernel densities."""

from __future__ import annotations

from collections.abc import Callable

from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.core.binning import Binning
from calibrant.core.options import ON, Option
from calibrant.core.reductions import Event
from calibrant.core.validation import TOLERANCE
from calibrant.maps.kde import Kde, fit_kde
from calibrant.maps.platt import Platt
from calibrant.maps.steps import (
    Roofs,
    ScalingBinning,
    Slope,
    Steps,
    fit_bbq,
    fit_cross_validated,
    fit_histogram,
    fit_scaling_binning,
    fit_sweep,
)

_EVENT = "the probability of an event, or its logit"
_OUTSIDE = "the first bin extends to 0, the last to 1"
_ROOFS = "; with unit slope p + observed frequency - mean prediction of the bin, clipped to [0, 1] by apply"
_N_BINS = Option(15)
_UNIT = Option("unit", choices=("unit", "flat"))


def _histogram(event: Event, context: FitContext, *, binning: Binning, n_bins: int, slope: Slope) -> FittedCurve:
    return fit_histogram(event.cells, binning, n_bins, slope), {}


def _sweep(binning: Binning) -> Callable[..., FittedCurve]:
    def fit_binning(event: Event, context: FitContext, *, slope: Slope) -> FittedCurve:
        curve, count = fit_sweep(event, binning, slope)
        return curve, {"bins": count}

    return fit_binning


def _cross_validated(binning: Binning) -> Callable[..., FittedCurve]:
    def fit_binning(event: Event, context: FitContext, *, slope: Slope, tolerance: float) -> FittedCurve:
        curve, count, losses = fit_cross_validated(event, binning, slope, tolerance)
        return curve, {"bins": count, "held_out_losses": {str(b): float(loss) for b, loss in enumerate(losses, 1)}}

    return fit_binning


def _bbq(event: Event, context: FitContext) -> FittedCurve:
    curve, diagnostics = fit_bbq(event.cells)
    return curve, dict(diagnostics)


def _scaling_binning(event: Event, context: FitContext, *, n_bins: int, target_smoothing: bool) -> FittedCurve:
    return fit_scaling_binning(event.cells, n_bins=n_bins, target_smoothing=target_smoothing), {}


def _kde(event: Event, context: FitContext) -> FittedCurve:
    curve, bandwidth = fit_kde(event.cells)
    return curve, {"bandwidth": bandwidth}


#: The prefix of the names of methods that choose a number of bins, and their bins.
_BINNINGS: tuple[tuple[str, Binning], ...] = (("es", "equal-mass"), ("ew", "equal-width"))
_EMPTY = {"equal-mass": "", "equal-width": ", ignoring empty bins, at most 4,096"}

METHODS = (
    Method(
        "histogram",
        "Histogram binning",
        "c(p) = the observed frequency in the bin of p, with n_bins bins of equal mass or equal width; an equal-width "
        f"bin without rows has the height of the nearest bin with rows{_ROOFS}, or p in a bin without rows",
        "Zadrozny & Elkan (2001); unit slope: Kangsepp, Valk & Kull (2022), section 2.2",
        Traits(_EVENT, _OUTSIDE, "no", "for events only", "no"),
        maps=(
            Steps,
            Roofs,
        ),
        event=_histogram,
        options={
            "binning": Option("equal-mass", choices=("equal-mass", "equal-width")),
            "n_bins": _N_BINS,
            "slope": Option("flat", choices=("flat", "unit")),
        },
    ),
    *(
        Method(
            f"{prefix}-sweep",
            f"{binning.capitalize()} binning with the number of bins from a monotonic sweep",
            f"histogram binning with the largest b such that 1, 2, ..., b {binning} bins all have non-decreasing "
            f"observed frequencies{_EMPTY[binning]}{_ROOFS}",
            "Roelofs et al. (2022); Kangsepp, Valk & Kull (2022), section 2.2",
            Traits(_EVENT, _OUTSIDE, "with flat slope, in steps", "for events only", "no"),
            maps=(
                Roofs,
                Steps,
            ),
            event=_sweep(binning),
            options={"slope": _UNIT},
        )
        for prefix, binning in _BINNINGS
    ),
    *(
        Method(
            f"{prefix}-cv",
            f"{binning.capitalize()} binning with the number of bins from cross-validation",
            f"histogram binning with 1 to 40 {binning} bins: the number that minimises the squared error on held-out "
            f"rows of 10 folds, or the fewest within the fraction tolerance of the minimum{_ROOFS}",
            "Kangsepp, Valk & Kull (2022), sections 2.2 and C.2",
            Traits(_EVENT, _OUTSIDE, "no", "for events only", "no"),
            maps=(
                Roofs,
                Steps,
            ),
            event=_cross_validated(binning),
            options={"slope": _UNIT, "tolerance": Option(TOLERANCE, low=0.0, high=1.0, real=True)},
            seconds=lambda n, K, _: 0.05 + 1.5e-6 * n * K,
        )
        for prefix, binning in _BINNINGS
    ),
    Method(
        "bbq",
        "Bayesian binning into quantiles",
        "the average over equal-mass binnings, weighted by their marginal likelihood, of the posterior mean of the "
        "frequency in the bin of p; the prior of a binning counts as 2 rows around the midpoints of its bins",
        "Naeini, Cooper & Hauskrecht (2015)",
        Traits(_EVENT, _OUTSIDE, "no", "for events only", "no"),
        maps=(Steps,),
        event=_bbq,
        seconds=lambda n, K, _: 0.01 + 6e-7 * n * K,
    ),
    Method(
        "scaling-binning",
        "Platt scaling, followed by binning of its outputs",
        f"c(p) = the mean of q over the rows of the bin of q(p), with q(p) = {Platt.formula} that "
        "minimises the log loss and n_bins bins of q of equal mass",
        "Kumar, Liang & Ma (2019)",
        Traits(
            _EVENT, "probabilities are clipped at 2^-52; " + _OUTSIDE, "if slope > 0, in steps", "for events only", "no"
        ),
        maps=(ScalingBinning,),
        event=_scaling_binning,
        options={"n_bins": _N_BINS, "target_smoothing": ON},
    ),
    Method(
        "kde",
        "Observed frequency from kernel densities",
        "c(p) = mean label x density of the predictions of positives / density of all predictions at p, with triweight "
        "kernels of the same bandwidth, mirrored at 0 and 1, on a grid of 7,447 points; linear between them",
        "Zhang, Kailkhura & Han (2020)",
        Traits(
            _EVENT,
            "constant beyond the first and last grid point; without density, the last value to the left",
            "no",
            "for events only",
            "except at the knots",
        ),
        maps=(Kde,),
        event=_kde,
        seconds=lambda n, K, _: 0.02 + 3e-7 * n * K,
    ),
)
