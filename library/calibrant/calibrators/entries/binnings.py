"""Binnings and kernel densities in the catalogue."""

from __future__ import annotations

from collections.abc import Callable

from calibrant.binning import Binning
from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.maps.kde import fit_kde
from calibrant.maps.steps import Slope, fit_bbq, fit_cross_validated, fit_histogram, fit_scaling_binning, fit_sweep
from calibrant.options import ON, Option
from calibrant.reductions import Event

_EVENT = "the probability of an event; of logits their logistic function"
_BINS = "where bins start, and their heights; of unit slope their shifts"
_OUTSIDE = "the first bin reaches down to 0, the last up to 1"
_ROOFS = "; of unit slope p + the bin's share of positives - its mean prediction, clipped to [0, 1] at apply"
_N_BINS = Option(15)
_UNIT = Option("unit", choices=("unit", "flat"))


def _histogram(event: Event, context: FitContext, *, binning: Binning, n_bins: int, slope: Slope) -> FittedCurve:
    return fit_histogram(event.cells, binning, n_bins, slope), {}


def _sweep(event: Event, context: FitContext, *, slope: Slope) -> FittedCurve:
    curve, count = fit_sweep(event.cells, slope)
    return curve, {"bins": count}


def _cross_validated(binning: Binning) -> Callable[..., FittedCurve]:
    def fit_binning(event: Event, context: FitContext, *, slope: Slope) -> FittedCurve:
        curve, count, losses = fit_cross_validated(event, binning, slope)
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


_CROSS_VALIDATED: tuple[tuple[str, Binning], ...] = (("es-cv", "equal-mass"), ("ew-cv", "equal-width"))

METHODS = (
    Method(
        "histogram",
        "Histogram binning",
        "c(p) = the share of positives of p's bin, of n_bins of equal mass or equal width; an equal-width bin without "
        f"rows has the height of the nearest with rows{_ROOFS}; without rows p",
        "Zadrozny & Elkan (2001); unit slope: Kangsepp, Valk & Kull (2022), section 2.2",
        Traits(_EVENT, _BINS, _OUTSIDE, "no", "of events only", "no"),
        event=_histogram,
        options={
            "binning": Option("equal-mass", choices=("equal-mass", "equal-width")),
            "n_bins": _N_BINS,
            "slope": Option("flat", choices=("flat", "unit")),
        },
    ),
    Method(
        "es-sweep",
        "Equal-mass binning, as many bins as keep shares of positives from falling",
        f"histogram binning with the largest b such that 1, 2, ..., b equal-mass bins have no falling shares{_ROOFS}",
        "Roelofs et al. (2022); Kangsepp, Valk & Kull (2022), section 2.2",
        Traits(_EVENT, _BINS, _OUTSIDE, "with flat slope, in steps", "of events only", "no"),
        event=_sweep,
        options={"slope": _UNIT},
    ),
    *(
        Method(
            name,
            f"{binning.capitalize()} binning, number of bins by cross-validation",
            f"histogram binning with 1 to 40 {binning} bins, those of least squared error on held-out rows of 10 "
            f"folds, or fewer within 0.1 % of it{_ROOFS}",
            "Kangsepp, Valk & Kull (2022), sections 2.2 and C.2",
            Traits(_EVENT, _BINS, _OUTSIDE, "no", "of events only", "no"),
            event=_cross_validated(binning),
            options={"slope": _UNIT},
            seconds=lambda n, K, _: 0.05 + 1.5e-6 * n * K,
        )
        for name, binning in _CROSS_VALIDATED
    ),
    Method(
        "bbq",
        "Bayesian binning into quantiles",
        "the mean over equal-mass binnings, weighed by their marginal likelihood, of the posterior mean share of "
        "positives of p's bin; the prior of a binning is worth 2 rows about the middles of its bins",
        "Naeini, Cooper & Hauskrecht (2015)",
        Traits(_EVENT, "where steps start, and their heights", _OUTSIDE, "no", "of events only", "no"),
        event=_bbq,
        seconds=lambda n, K, _: 0.01 + 6e-7 * n * K,
    ),
    Method(
        "scaling-binning",
        "Platt scaling, then the mean of its outputs in bins",
        "c(p) = the mean, over the rows of its bin, of q(p) = logistic(slope logit(p) + intercept) of least log loss; "
        "n_bins bins of equal mass along q",
        "Kumar, Liang & Ma (2019)",
        Traits(
            _EVENT,
            "slope, intercept; where bins of q start, and their heights",
            "the logit clips at 2^-52; " + _OUTSIDE,
            "where slope > 0, in steps",
            "of events only",
            "no",
        ),
        event=_scaling_binning,
        options={"n_bins": _N_BINS, "target_smoothing": ON},
    ),
    Method(
        "kde",
        "Share of positives by kernel densities",
        "c(p) = mean label x density of the positives' predictions at p / density of all predictions at p, triweight "
        "kernels of one bandwidth, mirrored at 0 and 1, on a grid of 7,447 points; linear between them",
        "Zhang, Kailkhura & Han (2020)",
        Traits(
            _EVENT,
            "knots and shares",
            "constant beyond the first and the last grid point; without density the share on the left",
            "no",
            "of events only",
            "except at the knots",
        ),
        event=_kde,
        seconds=lambda n, K, _: 0.02 + 3e-7 * n * K,
    ),
)
