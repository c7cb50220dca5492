"""Catalogue entries of PL, PL3 and their average; their engine is loaded on the first fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from calibrant.averaging.vectors import estimated_seconds, fit_averaged_vector
from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.calibrators.smoothing import FittedTransform
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Classes, Event, Vector
from calibrant.maps.averaged import Averaged, mirrored
from calibrant.maps.ensemble import Ensemble
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear
from calibrant.maps.ranks import OneVsRest
from calibrant.piecewise.options import AVERAGED_CHOICES, CHOICES, AveragedOptions, PiecewiseOptions, check_rows

_EVENT = "the probability of an event"


def _averaged(event: Event, context: FitContext, *, options: AveragedOptions) -> FittedCurve:
    from calibrant.averaging.fitting import fit_averaged

    return fit_averaged(event.counted_rows, options, seed=context.seed, device=context.device)


def _averaged_vector(vector: Vector, context: FitContext, *, options: AveragedOptions) -> FittedTransform:
    if vector.n_classes == 2:
        curve, diagnostics = _averaged(next(Classes(vector).events(range(1, 2))), context, options=options)
        return OneVsRest((mirrored(curve), curve), True, bool(options.keep_order)), diagnostics
    _check_averaged(vector, options=options)
    return fit_averaged_vector(vector, folds=_folds(options), keep_order=bool(options.keep_order), seed=context.seed)


def _folds(options: AveragedOptions) -> int:
    """Return the folds of a fit of the whole vector."""
    return 5 if options.folds is None else options.folds


def _check_averaged(subject: Event | Vector, *, options: AveragedOptions) -> None:
    if isinstance(subject, Event):
        _check_piecewise(subject, options=options.piecewise())
    elif subject.n_classes > 2 and options.candidates is not None:
        raise InvalidOption.at("/candidates", "must be null for vectors of more than two classes")


def _check_piecewise(event: Event, *, options: PiecewiseOptions) -> None:
    counted = slice(None) if event.w is None else event.w > 0
    check_rows(event.key[counted], event.y[counted], options)


def _piecewise(family: Literal["pl", "pl3"]) -> Callable[..., FittedCurve]:
    def fit_family(event: Event, context: FitContext, *, options: PiecewiseOptions) -> FittedCurve:
        from calibrant.piecewise.fitting import fit_piecewise

        return fit_piecewise(family, event.counted_rows, options, seed=context.seed, device=context.device)

    return fit_family


def _seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    """Estimate the seconds; the number of cells grows with the root of n, up to about 50,000 rows."""
    own: AveragedOptions | PiecewiseOptions = options["options"]
    if isinstance(own, AveragedOptions) and K > 2:
        return estimated_seconds(n, K, _folds(own))
    once = 0.015 + 7e-4 * math.sqrt(min(n, 50_000)) + 8e-8 * n
    return K * once * (2 if isinstance(own, AveragedOptions) else 5 if own.starts == "several" else 1)


METHODS = (
    Method(
        "pl",
        "Piecewise linear (PL), with the number of pieces from cross-validation",
        "the mean over folds of piecewise linear curves c(p), whose knots and heights minimise the log loss",
        "Kangsepp, Valk & Kull (2022), section 4.1",
        Traits(
            _EVENT,
            "knots range from 0 to 1; of logits, slightly further",
            "only with monotone",
            "for events only",
            "except at the knots",
        ),
        maps=(PiecewiseLinear,),
        event=_piecewise("pl"),
        options=CHOICES,
        grouped=PiecewiseOptions,
        runs="job",
        on_device=True,
        seconds=_seconds,
        check=_check_piecewise,
    ),
    Method(
        "pl3",
        "Piecewise linear in logit-logit space (PL3), with the number of pieces from cross-validation",
        "the mean over folds of logistic(f(logit p)), with f piecewise linear, that minimises the log loss",
        "Kangsepp, Valk & Kull (2022), section 4.2",
        Traits(
            _EVENT,
            "logits of probabilities are clipped to +-36.8; given logits have any size",
            "only with monotone",
            "for events only",
            "except at the knots",
        ),
        maps=(LogitPiecewiseLinear,),
        event=_piecewise("pl3"),
        options=CHOICES,
        grouped=PiecewiseOptions,
        runs="job",
        on_device=True,
        seconds=_seconds,
        check=_check_piecewise,
    ),
    Method(
        "averaged",
        "Average of many maps, weighted by out-of-fold losses",
        "for an event, the average of PL, PL3, simpler curves and a Gaussian process: logit c(p) is the average at "
        "1,067 knots, of logits more, increasing unless keep_order is false, and linear in logit p between them. For "
        "the whole vector, a mixture of temperature scaling, svs, sms, vector, matrix and multinomial scaling, "
        "isotonic regression, from 5,000 rows on of up to 20 classes a small network, and the identity, and of their "
        "log-linear pool. The predictions are left as they are unless the out-of-fold log loss improves",
        "docs/explanation/averaging.md",
        Traits(
            "the probability of an event, or the whole vector: logits, or logarithms of probabilities",
            "logits of probabilities are clipped to +-36.8; given logits have any size",
            "for events, unless keep_order is false",
            "for events, and if keep_order is true",
            "except at the knots",
        ),
        maps=(
            Averaged,
            Ensemble,
        ),
        event=_averaged,
        vector=_averaged_vector,
        options=AVERAGED_CHOICES,
        grouped=AveragedOptions,
        runs="job",
        on_device=True,
        seconds=_seconds,
        check=_check_averaged,
    ),
)
