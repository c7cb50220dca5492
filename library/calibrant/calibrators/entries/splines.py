"""Splines, Venn-Abers predictors and piecewise polynomials by differential evolution in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.errors import InvalidOption
from calibrant.maps.cumulative_spline import Boundary
from calibrant.maps.isotonic import Merge, fit_venn_abers
from calibrant.maps.piecewise_polynomial import MOST_SEGMENTS, Degree, check_library, fit_pl_de
from calibrant.maps.spline import CANDIDATES, Select, choose_knots, fit_spline
from calibrant.options import OFF, Option
from calibrant.reductions import Event

_EVENT = "the probability of an event; of logits their logistic function"


def _spline(
    event: Event,
    context: FitContext,
    *,
    knots: int | None,
    boundary: Boundary,
    constrained: bool,
    select: Select,
    folds: int,
) -> FittedCurve:
    _check_spline(event, knots=knots, boundary=boundary)
    losses: dict[str, Any] = {}
    if knots is None:
        knots, by_knots = choose_knots(
            event.sorted_rows,
            event.kind,
            boundary,
            constrained=constrained,
            folds=folds,
            select=select,
            seed=context.seed,
        )
        losses = {"held_out_losses": by_knots}
    curve, found = fit_spline(event.cells, knots, boundary, constrained=constrained)
    return curve, found | losses


def _check_spline(event: Event, *, knots: int | None, boundary: Boundary, **_options: Any) -> None:
    if knots == 3 and boundary == "cubic":
        raise InvalidOption.at("/knots", "must be at least 4 where the boundary is cubic")


def _spline_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    fits = 1 if options["knots"] is not None else 1 + options["folds"] * len(CANDIDATES)
    return (1.5e-7 + 1e-7 * fits * (2 if options["constrained"] else 1)) * n * K


def _venn_abers(event: Event, context: FitContext, *, merge: Merge) -> FittedCurve:
    return fit_venn_abers(event.cells, merge=merge), {}


def _pl_de(
    event: Event, context: FitContext, *, degree: Degree, segments: int | None, max_segments: int | None, folds: int
) -> FittedCurve:
    return fit_pl_de(
        event.sorted_rows,
        event.kind,
        degree=degree,
        segments=segments,
        most=max_segments,
        folds=folds,
        seed=context.seed,
    )


def _check_pl_de(event: Event, **_options: Any) -> None:
    check_library()


def _pl_de_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    most = options["max_segments"] or MOST_SEGMENTS[options["degree"]]
    fits = 1 if options["segments"] is not None else options["folds"] * (most - 1)
    return fits * (1.0 + 2e-3 * n) * K


METHODS = (
    Method(
        "spline",
        "Slope of a spline through the cumulative label minus score",
        "c(s) = s + D'(t) at each score of the fit, linear between; t its fractile, D the cubic spline of least "
        "squares to the cumulative label minus score, with evenly spaced knots (null: 3 to 14 by cross-validation); "
        "constrained keeps c in [0, 1]",
        "Gupta et al. (2021), section 4",
        Traits(_EVENT, "up to 4,096 scores and their values", "constant", "no", "of events only", "no"),
        event=_spline,
        options={
            "knots": Option(6, choices=(None,), low=3, high=64, whole=True),
            "boundary": Option("natural", choices=("natural", "parabolic", "cubic")),
            "constrained": OFF,
            "select": Option("brier", choices=("brier", "log-loss")),
            "folds": Option(10, low=2, high=100),
        },
        seconds=_spline_seconds,
        check=_check_spline,
    ),
    Method(
        "venn-abers",
        "Inductive Venn-Abers predictor",
        "p0 and p1: isotonic regressions with the score itself added under label 0 and under 1, merged to "
        "p1 / (1 - p0 + p1) for log loss or p1 + p0^2 / 2 - p1^2 / 2 for the Brier score; valid only where the "
        "classifier saw none of the rows of the fit",
        "Vovk, Petej & Fedorova (2015)",
        Traits(
            _EVENT,
            "scores and the steps of p0 and p1 at and between them",
            "constant; p0 and p1 differ by what one more row could say",
            "yes, in steps",
            "of events only",
            "no",
        ),
        event=_venn_abers,
        options={"merge": Option("log-loss", choices=("log-loss", "brier"))},
        seconds=lambda n, K, _options: 6e-6 * n * K,
    ),
    Method(
        "pl-de",
        "Piecewise polynomial by differential evolution",
        "the continuous piecewise polynomial of degree 1 or 2 of least squared error, breaks by differential evolution "
        "(package pwlf, the extra pl-de), as many segments (null: 1 to max_segments, itself 7 or, of degree 2, 5, by "
        "cross-validation) as given",
        "Jekel & Venter (2019); Kangsepp, Valk & Kull (2022), PL_DE",
        Traits(
            _EVENT,
            "breaks and each segment's coefficients",
            "the end segments go on",
            "no",
            "of events only",
            "except at the breaks",
        ),
        event=_pl_de,
        options={
            "degree": Option(1, choices=(1, 2)),
            "segments": Option(None, choices=(None,), low=1, high=20, whole=True),
            "max_segments": Option(None, choices=(None,), low=1, high=20, whole=True),
            "folds": Option(10, low=2, high=100),
        },
        runs="job",
        seconds=_pl_de_seconds,
        check=_check_pl_de,
    ),
)
