"""The catalogue of calibrators, and fits: of one event, of the whole vector, class by class, or rank by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.batch import Batch, Integers, Scale, read_batch
from calibrant.calibrators.entries import binnings, events, piecewise, splines, vectors
from calibrant.calibrators.method import (
    LEAST_SECONDS,
    MOST_PARTS,
    OF_CURVES,
    CurveFits,
    FitContext,
    Method,
    count_parts,
    curves_of,
    curves_under,
)
from calibrant.cells import Floats, WeightsKind
from calibrant.errors import UnknownMethod, UnknownReduction
from calibrant.maps.calibration_map import VECTORS, CalibrationMap
from calibrant.maps.curves import Curve, read_array
from calibrant.maps.families import curves_document, read_curves
from calibrant.maps.transforms import Transform, check_classes, transformed
from calibrant.options import OFF, ON, Option, read_seed, read_values
from calibrant.progress import Progress, report, reporting, step
from calibrant.reductions import Vector, reduce, resolve_event, whole_vector

#: The catalogue of calibrators by name.
METHODS: Mapping[str, Method] = MappingProxyType(
    {entry.name: entry for group in (events, binnings, splines, piecewise, vectors) for entry in group.METHODS}
)

_KEEP = {"keep_order": OFF}
_RANKED = {**_KEEP, "n_ranks": Option(None, choices=(None,), low=1, whole=True)}
#: The options that a reduction adds to the method's own.
WRAPPERS: Mapping[str, Mapping[str, Option]] = {
    "classwise": {"renormalise": ON, **_KEEP},
    "top-label": _KEEP,
    "ranks": _RANKED,
    "within-ranks": _RANKED,
}


def read_method(method: object) -> Method:
    """Find a calibrator by name; raises ``UnknownMethod``."""
    if not isinstance(method, str) or method not in METHODS:
        raise UnknownMethod.at("/method", f"must be one of: {', '.join(METHODS)}")
    return METHODS[method]


@dataclass(frozen=True)
class Fitting:
    """The checked options of ``fit``, without the rows. ``wrapping`` holds the options that the reduction adds."""

    method: Method
    options: Mapping[str, Any]
    reduction: str | None = None
    wrapping: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, method: object, options: Mapping[str, Any], reduction: object = None, *, where: str = "") -> Fitting:
        """Check a method's name, a reduction's and options; errors name places below ``where``."""
        entry = read_method(method)
        if reduction is not None and not isinstance(reduction, str):
            raise UnknownReduction.at("/reduction", "must be a name")
        wrappers = WRAPPERS.get(reduction or "", {})
        wrapping = read_values({k: v for k, v in options.items() if k in wrappers}, wrappers, entry.name, where=where)
        own = entry.read_options({k: v for k, v in options.items() if k not in wrappers}, where=where)
        return cls(entry, own, reduction, wrapping)

    def resolve(self, n_classes: int | None) -> str:
        """The reduction's full name: by default ``canonical`` where the method maps whole vectors of (n, K)."""
        name, entry = self.reduction, self.method
        if name is None:
            of_vector = n_classes is not None and entry.vector is not None
            name = "canonical" if of_vector else "binary" if n_classes is None else "confidence"
        if name in VECTORS and n_classes is None:
            raise UnknownReduction.at("/reduction", "of predictions (n,) must be binary, confidence or class:k")
        name = name if name in VECTORS else resolve_event(name, n_classes)
        if (entry.vector if name == "canonical" else entry.event) is None:
            others = "canonical, and needs (n, K)" if entry.event is None else "one of an event, or made of events"
            raise UnknownReduction.at("/reduction", f"of {entry.name} must be {others}")
        return name

    def check(self, batch: Batch) -> None:
        """Raise what ``run`` would raise of this batch, as far as that is known without fitting."""
        name = self.resolve(batch.predictions.n_classes)
        if name == "canonical":
            self.method.check(whole_vector(batch), **self.options)
        elif name not in VECTORS:
            self.method.check(reduce(batch, name), **self.options)
        elif name == "classwise":
            check_classes(whole_vector(batch))

    def seconds(self, batch: Batch) -> float:
        """Estimated seconds of ``run``."""
        n, n_classes = len(batch), batch.predictions.n_classes
        name = self.resolve(n_classes)
        if name == "canonical":
            return self.method.seconds(n, n_classes or 1, self.options)
        curves = curves_under(name, self.wrapping, n_classes or 1) if name in OF_CURVES else 1
        return curves * self.method.seconds(n, 1, self.options)

    def run(self, batch: Batch, context: FitContext) -> CalibrationMap:
        """Fit to a checked batch: in one go what ``part`` and ``join`` do bit by bit."""
        with reporting(context.progress):
            return self._run(batch, context)

    def _run(self, batch: Batch, context: FitContext) -> CalibrationMap:
        name = self.resolve(batch.predictions.n_classes)
        if name in OF_CURVES:
            fits = self._curves(batch)
            curves = fits.fitted(range(len(fits)), context, len(fits) + 1)
            with step(len(fits), len(fits) + 1):
                return self._joined(fits, curves)
        if name == "canonical":
            if self.method.vector is None:
                raise TypeError(f"{self.method.name} fits no vector")
            vector = whole_vector(batch)
            transform, found = self.method.vector(vector, context, **self.options)
            with step(999, 1000):  # the fit was all but the last thousandth
                if self.method.traits.keeps_top_label != "yes":
                    found |= _accuracies(vector, transform)
                report(1, 1, "done")
            return self._made(transform, found, batch)
        return self._made(*self.method.curve(reduce(batch, name), context, self.options), batch)

    def parts(self, batch: Batch, *, most: int = MOST_PARTS, least: float = LEAST_SECONDS) -> int:
        """Into how many parts the fit goes: at most ``most``, of at least about ``least`` estimated seconds each.

        It is 1 where the map is one piece, which has no ``part``. O(1).
        """
        n_classes = batch.predictions.n_classes
        name = self.resolve(n_classes)
        if name not in OF_CURVES:
            return 1
        curves = curves_under(name, self.wrapping, n_classes or 1)
        return count_parts(curves, self.seconds(batch), most=most, least=least)

    def part(self, batch: Batch, part: int, parts: int, context: FitContext) -> dict[str, Any]:
        """Fit one part of ``parts`` of a map that is made of curves, the first being 0, as plain JSON.

        Its progress is its own, from nothing to all. Raises what ``run`` would raise of these classes or ranks.
        """
        fits = self._curves(batch)
        chosen = curves_of(part, parts, len(fits))
        with reporting(context.progress):
            return {"curves": curves_document(fits.fitted(chosen, context, len(chosen)))}

    def join(
        self, batch: Batch, documents: Sequence[Mapping[str, Any]], progress: Progress | None = None
    ) -> CalibrationMap:
        """The map that ``run`` would give, bit for bit, of what ``part`` gave for every part, in order.

        Raises ``InvalidDocument`` where curves are damaged, or missing. O(n K) times a curve's cost.
        """
        fits = self._curves(batch)
        given = [curve for i, part in enumerate(documents) for curve in read_array(part, "curves", where=f"/{i}")]
        with reporting(progress):
            return self._joined(fits, read_curves({"curves": given}, len(fits), len(fits)))

    def _curves(self, batch: Batch) -> CurveFits:
        name = self.resolve(batch.predictions.n_classes)
        if name not in OF_CURVES:
            raise TypeError(f"a map under {name} is fitted in one piece")
        return CurveFits(self.method, self.options, name, self.wrapping, batch)

    def _joined(self, fits: CurveFits, curves: tuple[Curve, ...]) -> CalibrationMap:
        transform = fits.together(curves)
        found = _accuracies(fits.vector, transform)
        report(1, 1, "done")
        return self._made(transform, found, fits.batch)

    def _made(self, function: Curve | Transform, diagnostics: dict[str, Any], batch: Batch) -> CalibrationMap:
        given = batch.predictions
        name = self.resolve(given.n_classes)
        return CalibrationMap(self.method.name, function, name, given.scale, given.n_classes, diagnostics)


def _accuracies(vector: Vector, function: Any) -> dict[str, Any]:
    """How often the likeliest class is right on the rows of the fit, before and after."""
    report(0, 1, "accuracy")
    after = transformed(function, vector).argmax(axis=1)
    return {
        "accuracy_before": _share(vector.predicted == vector.labels, vector.w),
        "accuracy_after": _share(after == vector.labels, vector.w),
    }


def _share(right: Integers | Floats, w: Floats | None) -> float:
    return float(np.average(right, weights=w))


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
        (n, K)), ``class:k``, ``top:r`` or ``within-top:r``; or of the whole vector ``canonical`` (default for (n, K)
        where the method maps vectors), ``classwise`` (one curve a class), ``top-label`` (of the likeliest class, the
        others share the rest), ``ranks`` or ``within-ranks`` (one curve a rank)
    weights : (n,), at least 0
    weights_kind : ``frequency``, a weight of 2 is the row twice, or ``importance``, only ratios matter
    seed : draws the folds and the random starts, wherever the method has them
    device : ``cpu`` or ``cuda``, for the methods that run on torch
    progress : called with (done, total, stage) between the steps of a long fit; may raise to end it
    options : the method's own, and ``keep_order``, ``renormalise`` and ``n_ranks`` of a reduction made of events

    Raises
    ------
    CalibrationError
        of the first thing wrong: ``UnknownMethod``, ``UnknownReduction``, ``InvalidOption``, ``OneClass``,
        ``MissingClass``, ``OnePrediction``, ``TooFewRows``, ``NotConverged`` and those of ``calibrant.batch``

    Examples
    --------
    >>> import calibrant
    >>> fitted = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> fitted.apply([0.0, 0.5, 1.0])
    array([0. , 0.5, 1. ])
    """
    fitting = Fitting.read(method, options, reduction)
    read_seed(seed)
    batch = read_batch(predictions, labels, weights, scale=scale, kind=weights_kind)
    return fitting.run(batch, FitContext(seed, device, progress))
