"""Entries of the catalogue of calibrators, and fits of several curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from calibrant.calibrators.smoothing import (
    FittedTransform,
    fit_cross_fitted,
    fit_curve_with,
    fit_smoothed_curve,
    fit_smoothed_vector,
    fit_vector_with,
    is_extreme,
)
from calibrant.core.batch import Batch
from calibrant.core.choices import Runs
from calibrant.core.errors import CalibrationError, InvalidOption
from calibrant.core.options import Described, Option, read_values
from calibrant.core.progress import Progress, report, step
from calibrant.core.reductions import Classes, Event, Vector, reduce, whole_vector
from calibrant.maps.curves import Constant, Curve
from calibrant.maps.ranks import OneVsRest, Ranks
from calibrant.maps.softmax_device import passes_on
from calibrant.maps.transforms import Transform, check_classes

#: A fitted curve, and the diagnostics of the fit.
FittedCurve = tuple[Curve, dict[str, Any]]


@dataclass(frozen=True)
class FitContext:
    """Seed, device and callback of a fit; an exception of ``progress`` ends the fit.

    ``bound`` is the held-out log loss of another fit, and a fit that is clearly worse may raise ``Outdone``.
    Without ``diagnose``, diagnostics that take time are left out: accuracies, and gains of fits inside this one.
    ``smoothing`` is the amount of smoothing of methods that take logarithms; None chooses one for exact zeros and ones.
    """

    seed: int = 0
    device: str = "cpu"
    progress: Progress | None = None
    bound: float = math.inf
    smoothing: float | None = None
    diagnose: bool = True


@dataclass(frozen=True)
class Traits:
    """Properties of the maps of a method, as short texts."""

    takes: str
    outside: str
    monotone: str
    keeps_top_label: str
    differentiable: str


def _chooses(_n_classes: int, options: Mapping[str, Any]) -> bool:
    """Return whether a fit with folds has no strength given."""
    return "folds" in options and options.get("strength") is None


@dataclass(frozen=True, repr=False)
class MethodCore(Described):
    """The fields of an entry of ``calibrant.METHODS``, which ``Method`` describes, and what fits with them."""

    name: str
    title: str
    definition: str
    source: str
    traits: Traits
    maps: tuple[type[Curve | Transform], ...]
    event: Callable[..., FittedCurve] | None = None
    vector: Callable[..., FittedTransform] | None = None
    #: Fits a curve to an event with features, if ``event`` is None.
    featured: Callable[..., FittedCurve] | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    grouped: type[Any] | None = None
    runs: Runs = "inline"
    #: Whether the fit uses the device of the context.
    on_device: bool = False
    #: Whether the distance of the map from the identity is used as a measure of calibration.
    evaluates: bool = True
    #: Whether the map is to improve predictions of rows like those of the fit, so that its cross-fitted gain is known.
    improves: bool = True
    #: Whether it takes logarithms, so that predictions of exactly 0 or 1 are smoothed.
    logarithms: bool = False
    #: Whether a fit to vectors of K classes with these options chooses a strength by ``held_out_log_loss``.
    chooses: Callable[[int, Mapping[str, Any]], bool] = _chooses
    #: Estimated seconds of a fit to n rows of K classes, or with K features, with these options.
    seconds: Callable[[int, int, Mapping[str, Any]], float] = lambda n, K, _options: 3e-7 * n * K
    check: Callable[..., None] | None = None

    @property
    def parameters(self) -> str:
        """Names of the parameters of the maps, with their shapes, in the order of the document.

        >>> import calibrant
        >>> calibrant.METHODS["platt"].parameters, calibrant.METHODS["matrix"].parameters
        ('slope, intercept', 'weights (K rows of K), intercepts (K)')
        """
        listed = [
            ", ".join(
                f"{name} ({parameter.shape})" if parameter.shape else name
                for name, parameter in function.known_parameters().items()
            )
            for function in self.maps
        ]
        return "; or ".join(dict.fromkeys(listed)) or "none"

    def read_options(self, options: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
        """Check options; return all, as arguments of ``event`` and ``vector``. Errors name places below ``where``."""
        values = read_values(options, self.options, self.name, where=where)
        if self.grouped is None:
            return values
        tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        try:
            return {"options": self.grouped(**tuples)}
        except InvalidOption as error:
            raise error.under(where) from None

    def curve(self, event: Event, context: FitContext, options: Mapping[str, Any]) -> FittedCurve:
        """Fit a curve to an event, with the result of ``read_options``; returns it with the diagnostics of the fit."""
        of_event = self.event or self.featured
        if of_event is None:
            raise TypeError(f"{self.name} cannot be fitted to an event")
        fit = partial(of_event, context=context, **options)
        if self.logarithms and context.smoothing is not None:
            return fit_curve_with(fit, event, context.smoothing)
        if self.logarithms and is_extreme(event):
            return fit_smoothed_curve(fit, event, context.seed)
        return fit(event)

    def transform(self, vector: Vector, context: FitContext, options: Mapping[str, Any]) -> FittedTransform:
        """Fit a transform to whole vectors, with the result of ``read_options``; returns it with its diagnostics."""
        if self.vector is None:
            raise TypeError(f"{self.name} cannot be fitted to whole vectors")
        fit = partial(self.vector, **options)
        with passes_on(context.device):
            if self.logarithms and context.smoothing is not None:
                return fit_vector_with(lambda moved: fit(moved, context), vector, context.smoothing)
            if not (self.logarithms and is_extreme(vector)):
                return fit(vector, context)
            if self.chooses(vector.n_classes, options):
                return fit_cross_fitted(lambda moved, bound: fit(moved, replace(context, bound=bound)), vector)
            return fit_smoothed_vector(lambda moved: fit(moved, context), vector, context.seed)


@dataclass(frozen=True, repr=False)
class Method(MethodCore):
    """Entry of ``calibrant.METHODS``.

    Attributes
    ----------
    name, title : str
        Name in requests, and title.
    definition, source : str
        Formula, and the papers that define it.
    traits : Traits
        What the maps accept, and whether they are monotone and differentiable.
    maps : tuple of type
        Fitted functions, which state their formula and parameters.
    event, vector : callable or None
        Fit a curve to an event, and a transform to the whole vector; None if not defined.
    featured : callable or None
        Fits a curve to an event whose rows have features; None if the method does not use them.
    options : mapping of str to Option
        Options by name.
    grouped : type or None
        Dataclass of the options, which the fit takes as the argument ``options``; None if they are its arguments.
    runs : {"inline", "job"}
        Whether the service may fit it within a request.
    on_device : bool
        Whether the fit uses the device.
    logarithms : bool
        Whether it takes logarithms, so that predictions of exactly 0 or 1 are smoothed.
    chooses : callable
        Whether a fit to vectors of K classes chooses a strength; its held-out log loss is then in the diagnostics.
    evaluates : bool
        Whether the distance of the map from the identity is used as a measure of calibration.
    improves : bool
        Whether the map is to improve predictions of rows like those of the fit, so that its cross-fitted gain is known.
    seconds : callable
        Estimates the seconds of a fit.
    check : callable or None
        Raises, before a fit, some of the errors that the fit would raise.

    See Also
    --------
    fit : Fits a map.

    Examples
    --------
    >>> import calibrant
    >>> method = calibrant.METHODS["platt"]
    >>> method.title, method.traits.monotone
    ('Platt scaling', 'if slope > 0')
    """


def fit_curve(method: Method, event: Event) -> FittedCurve:
    """Fit to an event with the default options."""
    return method.curve(event, FitContext(), method.read_options({}))


# --- Fits of several curves, one for each class or rank, in parts
#
# A part is a range of consecutive curves. It depends only on the batch, the options and the seed, not on other parts.
# Parts can be fitted anywhere and in any order, and give the same curves as a fit in one process.

#: The reductions under which a map consists of curves of events.
OF_CURVES = ("classwise", "top-label", "ranks", "within-ranks")
#: The most parts of a fit, and the fewest estimated seconds of a part.
MOST_PARTS, LEAST_SECONDS = 32, 0.25


def count_parts(curves: int, seconds: float, *, most: int = MOST_PARTS, least: float = LEAST_SECONDS) -> int:
    """Return the number of parts for curves that take ``seconds`` in total, with at least ``least`` seconds per part.

    Examples
    --------
    >>> count_parts(100, 2.2), count_parts(100, 0.1), count_parts(100, 500.0), count_parts(3, 500.0)
    (8, 1, 32, 3)
    """
    return int(max(1, min(most, curves, seconds / least)))


def curves_of(part: int, parts: int, curves: int) -> range:
    """Return the curves of one part; the sizes of parts differ by at most 1.

    Examples
    --------
    >>> [curves_of(part, 3, 10) for part in range(3)]
    [range(0, 3), range(3, 6), range(6, 10)]
    """
    if not 0 <= part < parts <= curves:
        raise ValueError("parts are numbered from 0, and each has at least one curve")
    return range(curves * part // parts, curves * (part + 1) // parts)


def curves_under(reduction: str, wrapping: Mapping[str, Any], n_classes: int) -> int:
    """Return the number of curves of a map of K classes under this reduction, with the options that it adds."""
    if reduction in ("classwise", "top-label"):
        return n_classes if reduction == "classwise" else 1
    most = n_classes - 1 if reduction == "within-ranks" else n_classes  # all K classes together have probability 1
    return int(min(wrapping["n_ranks"] or most, most))


@dataclass(frozen=True)
class CurveFits:
    """The curves of a fit to one batch, under one of ``OF_CURVES``; ``wrapping`` holds the options of the reduction."""

    method: Method
    options: Mapping[str, Any]
    reduction: str
    wrapping: Mapping[str, Any]
    batch: Batch

    def __len__(self) -> int:
        return curves_under(self.reduction, self.wrapping, self.batch.predictions.n_classes or 1)

    @cached_property
    def vector(self) -> Vector:
        """The batch as whole vectors."""
        return whole_vector(self.batch)

    def fitted(self, chosen: range, context: FitContext, steps: int) -> tuple[Curve, ...]:
        """Fit the curves of some classes or ranks, each one of ``steps``; errors name the class or rank."""
        curves = []
        for part, (name, event) in enumerate(self._events(chosen)):
            with step(part, steps, name):
                try:
                    curves.append(self._curve(event, context))
                except CalibrationError as error:
                    raise type(error)(f"{name}: {error.detail}", error.offences) from error
        report(len(chosen), steps, "curves")
        return tuple(curves)

    def together(self, curves: tuple[Curve, ...]) -> Transform:
        """Return the transform of all curves, in the order of the classes or ranks."""
        keep_order: bool = self.wrapping["keep_order"]
        if self.reduction == "classwise":
            return OneVsRest(curves, self.wrapping["renormalise"], keep_order)
        return Ranks(curves, self.reduction == "within-ranks", keep_order)

    def _events(self, chosen: range) -> Iterator[tuple[str, Event]]:
        if self.reduction == "classwise":
            check_classes(self.vector)
            yield from zip((f"class {k}" for k in chosen), Classes(self.vector).events(chosen), strict=True)
            return
        prefix = "within-top" if self.reduction == "within-ranks" else "top"
        for rank in chosen:
            yield f"rank {rank + 1}", reduce(self.batch, f"{prefix}:{rank + 1}")

    def _curve(self, event: Event, context: FitContext) -> Curve:
        """Fit a curve; a rank that is never or always correct gets (k + 1/2) / (m + 1) for k of m correct."""
        if self.reduction != "classwise":
            cells = event.cells
            counted = cells.rows_per_weight
            positives, mass = float(cells.cumulative_wy[-1]) * counted, cells.mass * counted
            if not 0.0 < positives < mass:
                return Constant((positives + 0.5) / (mass + 1.0))
        return self.method.curve(event, context, self.options)[0]
