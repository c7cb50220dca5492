"""PL, PL3 and their average in the catalogue: torch is loaded on the first fit that needs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.errors import requires
from calibrant.piecewise.options import AveragedOptions, PiecewiseOptions, check_rows
from calibrant.reductions import Event

_EVENT = "the probability of an event"


def _averaged(event: Event, context: FitContext, *, options: AveragedOptions) -> FittedCurve:
    with requires("torch", "averaged"):
        from calibrant.averaging.fitting import fit_averaged

    return fit_averaged(event.counted_rows, options, seed=context.seed, device=context.device)


def _check_averaged(event: Event, *, options: AveragedOptions) -> None:
    _check_piecewise(event, options=options.piecewise())


def _check_piecewise(event: Event, *, options: PiecewiseOptions) -> None:
    counted = slice(None) if event.w is None else event.w > 0
    check_rows(event.p[counted], event.y[counted], options)


def _piecewise(family: Literal["pl", "pl3"]) -> Callable[..., FittedCurve]:
    def fit_family(event: Event, context: FitContext, *, options: PiecewiseOptions) -> FittedCurve:
        with requires("torch", family):
            from calibrant.piecewise.fitting import fit_piecewise

        return fit_piecewise(family, event.counted_rows, options, seed=context.seed, device=context.device)

    return fit_family


def _seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    """Of one family, two of them in an average: cells grow with the root of n, up to some 50,000 rows."""
    own: AveragedOptions | PiecewiseOptions = options["options"]
    once = 0.04 + 1e-3 * math.sqrt(min(n, 50_000)) + 1e-7 * n
    return K * once * (2 if isinstance(own, AveragedOptions) else 4 if own.starts == "several" else 1)


METHODS = (
    Method(
        "pl",
        "Piecewise linear, number of pieces by cross-validation",
        "the mean over folds of curves c(p) linear between knots, knots and heights of least log loss",
        "Kangsepp, Valk & Kull (2022), section 4.1",
        Traits(
            _EVENT,
            "each model's knots and heights",
            "knots run from 0 to 1",
            "only with monotone",
            "of events only",
            "except at the knots",
        ),
        event=_piecewise("pl"),
        options=PiecewiseOptions,
        runs="job",
        on_device=True,
        seconds=_seconds,
        check=_check_piecewise,
    ),
    Method(
        "pl3",
        "Piecewise linear in logit-logit space, number of pieces by cross-validation",
        "the mean over folds of logistic(f(logit p)), f linear between knots, of least log loss",
        "Kangsepp, Valk & Kull (2022), section 4.2",
        Traits(
            _EVENT,
            "each model's knots and heights, logits",
            "knots run to logits of +-36.8; the logit clips there",
            "only with monotone",
            "of events only",
            "except at the knots",
        ),
        event=_piecewise("pl3"),
        options=PiecewiseOptions,
        runs="job",
        on_device=True,
        seconds=_seconds,
        check=_check_piecewise,
    ),
    Method(
        "averaged",
        "PL, PL3 and simpler maps weighed by out-of-fold losses, half and half with a Gaussian process",
        "logit c(p) linear in logit p between 1,067 places, where it is the average",
        "docs/explanation/averaging.md",
        Traits(
            _EVENT,
            "the places and their logits",
            "the places run to logits of +-36.8; the logit clips there",
            "no",
            "of events only",
            "except at the places",
        ),
        event=_averaged,
        options=AveragedOptions,
        runs="job",
        on_device=True,
        seconds=_seconds,
        check=_check_averaged,
    ),
)
