"""The catalogue of calibrators: name -> options, and how its curve is fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from calibrant.averaging.options import AveragedOptions
from calibrant.batch import Batch, Scale, read_batch
from calibrant.cells import WeightsKind
from calibrant.errors import InvalidOption, UnknownMethod
from calibrant.maps.beta import fit_beta
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.curves import Curve
from calibrant.maps.identity import Identity
from calibrant.maps.isotonic import fit_isotonic
from calibrant.maps.platt import fit_platt
from calibrant.piecewise.options import PiecewiseOptions, check_rows
from calibrant.reductions import Event, reduce, resolve_event

#: Told between the steps of a long fit: done, total, stage. What it raises ends the fit.
Progress = Callable[[int, int, str], None]
Fitted = tuple[Curve, dict[str, Any]]


@dataclass(frozen=True)
class NoOptions:
    """A calibrator without options."""


@dataclass(frozen=True)
class PlattOptions:
    """``target_smoothing``: Platt's own targets, which keep separable data finite."""

    target_smoothing: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.target_smoothing, bool):
            raise InvalidOption.at("/target_smoothing", "must be true or false")


@dataclass(frozen=True)
class FitContext:
    """What a fit is given beside its data and options."""

    seed: int
    device: str
    progress: Progress | None


def _accept(event: Event, options: Any) -> None:
    """Nothing to refuse that the fit itself would not refuse at once."""


@dataclass(frozen=True)
class Method:
    """An entry of the catalogue.

    ``runs`` says whether the service fits it inline or as a job; ``check`` refuses, before a job
    is made of it, an event that the fit would refuse.
    """

    name: str
    title: str
    source: str
    runs: Literal["inline", "job"]
    options: type[Any]
    fit: Callable[[Event, Any, FitContext], Fitted]
    check: Callable[[Event, Any], None] = _accept

    def read_options(self, options: Mapping[str, Any], *, where: str = "") -> Any:
        """Check options by name; raises ``InvalidOption`` naming the first that is wrong, below ``where``."""
        known = [f.name for f in dataclasses.fields(self.options)]
        if any(name not in known for name in options):
            raise InvalidOption.at(
                where, f"hold one that {self.name} does not know; it knows: {', '.join(known) or 'none'}"
            )
        # JSON has no tuples.
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        try:
            return self.options(**values)
        except InvalidOption as error:
            raise error.under(where) from None


def _identity(event: Event, options: NoOptions, context: FitContext) -> Fitted:
    return Identity(), {}


def _platt(event: Event, options: PlattOptions, context: FitContext) -> Fitted:
    return fit_platt(event.cells, target_smoothing=options.target_smoothing), {}


def _isotonic(event: Event, options: NoOptions, context: FitContext) -> Fitted:
    return fit_isotonic(event.cells), {}


def _beta(event: Event, options: NoOptions, context: FitContext) -> Fitted:
    return fit_beta(event.cells), {}


def _averaged(event: Event, options: AveragedOptions, context: FitContext) -> Fitted:
    from calibrant.averaging.fitting import fit_averaged  # as above

    return fit_averaged(
        event.counted_rows, options, seed=context.seed, device=context.device, progress=context.progress
    )


def _check_averaged(event: Event, options: AveragedOptions) -> None:
    _check_piecewise(event, options.piecewise())


def _check_piecewise(event: Event, options: PiecewiseOptions) -> None:
    counted = slice(None) if event.w is None else event.w > 0
    check_rows(event.p[counted], event.y[counted], options)


def _piecewise(family: Literal["pl", "pl3"]) -> Callable[[Event, PiecewiseOptions, FitContext], Fitted]:
    def fit_family(event: Event, options: PiecewiseOptions, context: FitContext) -> Fitted:
        from calibrant.piecewise.fitting import fit_piecewise  # torch is loaded on the first fit that needs it

        curve, diagnostics = fit_piecewise(
            family, event.counted_rows, options, seed=context.seed, device=context.device, progress=context.progress
        )
        return curve, dict(diagnostics)

    return fit_family


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Method("identity", "The predictions as they are", "", "inline", NoOptions, _identity),
            Method("platt", "Logistic curve on the logit", "Platt (1999)", "inline", PlattOptions, _platt),
            Method(
                "beta",
                "Curves between two Beta densities",
                "Kull, Silva Filho & Flach (2017)",
                "inline",
                NoOptions,
                _beta,
            ),
            Method("isotonic", "Best non-decreasing map", "Zadrozny & Elkan (2002)", "inline", NoOptions, _isotonic),
            Method(
                "pl",
                "Piecewise linear, number of pieces by cross-validation",
                "Kangsepp, Valk & Kull (2022), section 4.1",
                "job",
                PiecewiseOptions,
                _piecewise("pl"),
                _check_piecewise,
            ),
            Method(
                "pl3",
                "Piecewise linear in logit-logit space, number of pieces by cross-validation",
                "Kangsepp, Valk & Kull (2022), section 4.2",
                "job",
                PiecewiseOptions,
                _piecewise("pl3"),
                _check_piecewise,
            ),
            Method(
                "averaged",
                "PL, PL3 and simpler maps weighed by out-of-fold losses, half and half with a Gaussian process",
                "docs/averaged.md",
                "job",
                AveragedOptions,
                _averaged,
                _check_averaged,
            ),
        )
    }
)


def read_method(method: object) -> Method:
    """Find a calibrator by name; raises ``UnknownMethod``."""
    if not isinstance(method, str) or method not in METHODS:
        raise UnknownMethod.at("/method", f"must be one of: {', '.join(METHODS)}")
    return METHODS[method]


def fit(
    method: str,
    predictions: Any,
    labels: Any,
    *,
    reduction: str | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = "frequency",
    scale: Scale = "probability",
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
    **options: Any,
) -> CalibrationMap:
    """Fit a calibration map to predictions and labels.

    Parameters
    ----------
    method : a name of ``calibrant.METHODS``
    predictions : (n,) P(Y=1), or (n, K) by class; probabilities or logits, as ``scale`` says
    labels : (n,) integers, 0 or 1, or 0 to K - 1
    reduction : the event calibrated: ``binary`` (default for 1-D), ``confidence`` (default for
        (n, K)), ``class:k``, ``top:r`` or ``within-top:r``
    weights : (n,), at least 0
    weights_kind : ``frequency``, a weight of 2 is the row twice, or ``importance``, only ratios matter
    seed : draws the folds and the random starts, wherever the method has them
    device : ``cpu`` or ``cuda``, for the methods that run on torch
    progress : called with (done, total, stage) between the steps of a long fit; may raise to end it
    options : the method's own

    Raises
    ------
    CalibrationError
        of the first thing wrong: ``UnknownMethod``, ``InvalidOption``, ``OneClass``, ``OnePrediction``, ``TooFewRows``,
        ``NotConverged`` and those of ``calibrant.batch``

    Examples
    --------
    >>> import calibrant
    >>> fitted = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> fitted.apply([0.0, 0.5, 1.0])
    array([0. , 0.5, 1. ])
    """
    entry = read_method(method)
    read_seed(seed)
    checked = entry.read_options(options)
    batch = read_batch(predictions, labels, weights, scale=scale, kind=weights_kind)
    return fit_batch(entry, batch, checked, reduction=reduction, context=FitContext(seed, device, progress))


def fit_batch(
    method: Method, batch: Batch, options: Any, *, reduction: str | None, context: FitContext
) -> CalibrationMap:
    """``fit`` on a batch and options that are already checked."""
    n_classes = batch.predictions.n_classes
    name = resolve_event(reduction, n_classes)
    curve, diagnostics = method.fit(reduce(batch, name), options, context)
    return CalibrationMap(method.name, curve, name, batch.predictions.scale, n_classes, diagnostics)


def check_batch(method: Method, batch: Batch, options: Any, *, reduction: str | None) -> None:
    """Raise what ``fit_batch`` would raise of this batch, as far as that is known without fitting."""
    method.check(reduce(batch, resolve_event(reduction, batch.predictions.n_classes)), options)


def read_seed(seed: object) -> int:
    """Check a seed: an integer in [0, 2^32 - 1), one below the generator's range so that seed + 1 fits."""
    if type(seed) is not int or not 0 <= seed < 2**32 - 1:
        raise InvalidOption.at("/seed", "must be an integer from 0 to 4294967294")
    return seed
