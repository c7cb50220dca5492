"""Catalogue entries of splines, Venn-Abers predictors and piecewise polynomials by differential evolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.core.errors import InvalidOption
from calibrant.core.options import OFF, Option
from calibrant.core.reductions import Event
from calibrant.core.validation import TOLERANCE
from calibrant.maps.averaged import Averaged
from calibrant.maps.cumulative_spline import Boundary, Of
from calibrant.maps.curves import check_outcomes
from calibrant.maps.isotonic import VennAbers, fit_venn_abers
from calibrant.maps.natural_spline import fit_mli_spline
from calibrant.maps.piecewise_polynomial import MOST_SEGMENTS, Degree, PiecewisePolynomial, fit_pl_de
from calibrant.maps.spline import CANDIDATES, Select, Spline, choose_knots, fit_spline

_EVENT = "the probability of an event, or its logit"
#: The simplest candidate within this fraction of the smallest held-out loss is chosen; with 0 the best.
_TOLERANCE = Option(TOLERANCE, low=0.0, high=1.0, real=True)


def _spline(
    event: Event,
    context: FitContext,
    *,
    knots: int | None,
    boundary: Boundary,
    of: Of,
    constrained: bool,
    select: Select,
    folds: int,
    tolerance: float,
) -> FittedCurve:
    _check_knots(knots, boundary)
    losses: dict[str, Any] = {}
    if knots is None:
        knots, by_knots = choose_knots(
            event.sorted_rows,
            event.kind,
            boundary,
            of=of,
            constrained=constrained,
            folds=folds,
            select=select,
            tolerance=tolerance,
            seed=context.seed,
        )
        losses = {"held_out_losses": by_knots}
    curve, diagnostics = fit_spline(event.cells, knots, boundary, of=of, constrained=constrained)
    return curve, diagnostics | losses


def _check_spline(
    event: Event,
    *,
    knots: int | None,
    boundary: Boundary,
    of: Of,
    constrained: bool,
    select: Select,
    folds: int,
    tolerance: float,
) -> None:
    _check_knots(knots, boundary)


def _check_knots(knots: int | None, boundary: Boundary) -> None:
    if knots == 3 and boundary == "cubic":
        raise InvalidOption.at("/knots", "must be at least 4 with the boundary cubic")


def _spline_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    fits = 1 if options["knots"] is not None else 1 + options["folds"] * len(CANDIDATES)
    return (1.5e-7 + 1e-7 * fits * (2 if options["constrained"] else 1)) * n * K


def _pl_de(
    event: Event,
    context: FitContext,
    *,
    degree: Degree,
    segments: int | None,
    max_segments: int | None,
    folds: int,
    tolerance: float,
) -> FittedCurve:
    return fit_pl_de(
        event.of_probabilities().sorted_rows,  # as the curve is one of p, which may be equal for distinct logits
        event.kind,
        degree=degree,
        segments=segments,
        most=max_segments,
        folds=folds,
        tolerance=tolerance,
        seed=context.seed,
    )


def _pl_de_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    most: int = options["max_segments"] or MOST_SEGMENTS[options["degree"]]
    if options["segments"] is not None:
        return float((0.02 * options["segments"] + 3e-6 * n) * K)
    # Trials cost O(segments), and their number increases with the number of breaks.
    return float((3e-4 * most**3 + 4e-8 * most**2 * n) * (options["folds"] + 1) * K)


def _mli_spline(event: Event, context: FitContext, *, folds: int) -> FittedCurve:
    check_outcomes(event.cells)
    return fit_mli_spline(event.counted_rows, folds=folds, seed=context.seed)


METHODS = (
    Method(
        "mli-spline",
        "Logistic regression on a natural cubic spline of the logit",
        "logit c(p) is a natural cubic spline of logit p, limited to +-16, with knots at 30 quantiles; the ridge "
        "penalty on its coefficients is chosen by the held-out log loss",
        "Lucena (2018), arXiv 1809.07751",
        Traits(_EVENT, "linear in the logit", "no", "for events only", "yes"),
        maps=(Averaged,),
        event=_mli_spline,
        options={"folds": Option(5, low=2, high=100)},
        seconds=lambda n, K, _: (0.08 + 1e-6 * n) * K,
    ),
    Method(
        "spline",
        "Spline calibration: slope of a spline fitted to the cumulative label minus score",
        "c(s) = s + D'(t) at each score s of the fit, and linear between them; t is the fractile of s, and D the least "
        "squares cubic spline of the cumulative label minus score with evenly spaced knots (null: 3 to 14, chosen by "
        "cross-validation). With of label, D is the spline of the cumulative label and c(s) = D'(t), as in the paper's "
        "text; the published code uses the difference. constrained keeps c in [0, 1]",
        "Gupta et al. (2021), section 4",
        Traits(_EVENT, "constant", "no", "for events only", "no"),
        maps=(Spline,),
        event=_spline,
        options={
            "knots": Option(6, choices=(None,), low=3, high=64, whole=True),
            "boundary": Option("natural", choices=("natural", "parabolic", "cubic")),
            "of": Option("difference", choices=("difference", "label")),
            "constrained": OFF,
            "select": Option("brier", choices=("brier", "log-loss")),
            "folds": Option(10, low=2, high=100),
            "tolerance": _TOLERANCE,
        },
        seconds=_spline_seconds,
        check=_check_spline,
    ),
    Method(
        "venn-abers",
        "Inductive Venn-Abers predictor",
        "p0 and p1 are isotonic regressions with the score itself added under label 0 and under label 1, merged to "
        "p1 / (1 - p0 + p1) for the log loss or p1 + p0^2 / 2 - p1^2 / 2 for the Brier score; valid only if the "
        "classifier was not trained on the rows of the fit",
        "Vovk, Petej & Fedorova (2015)",
        Traits(_EVENT, "constant; p0 and p1 differ by the effect of one row", "yes, in steps", "for events only", "no"),
        maps=(VennAbers,),
        event=lambda event, context, *, merge: (fit_venn_abers(event.cells, merge=merge), {}),
        options={"merge": Option("log-loss", choices=("log-loss", "brier"))},
        seconds=lambda n, K, _options: 6e-6 * n * K,
    ),
    Method(
        "pl-de",
        "Piecewise polynomial by differential evolution",
        "the continuous piecewise polynomial of degree 1 or 2 that minimises the squared error, with breaks from "
        "differential evolution; the number of segments is given, or (null) from 1 to max_segments by "
        "cross-validation; by default max_segments is 7, or 5 for degree 2",
        "Jekel & Venter (2019); Kangsepp, Valk & Kull (2022), PL_DE",
        Traits(_EVENT, "the outer segments are extended", "no", "for events only", "except at the breaks"),
        maps=(PiecewisePolynomial,),
        event=_pl_de,
        options={
            "degree": Option(1, choices=(1, 2)),
            "segments": Option(None, choices=(None,), low=1, high=20, whole=True),
            "max_segments": Option(None, choices=(None,), low=1, high=20, whole=True),
            "folds": Option(10, low=2, high=100),
            "tolerance": _TOLERANCE,
        },
        runs="job",
        seconds=_pl_de_seconds,
    ),
)
