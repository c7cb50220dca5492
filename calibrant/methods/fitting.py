"""Fitting calibration maps: one event, the whole vector, class by class, or rank by rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.asked import OFF, ON, Option, read_values
from calibrant.batch import Batch, Integers, Scale, read_batch
from calibrant.cells import Floats, WeightsKind
from calibrant.errors import InvalidOption, UnknownReduction
from calibrant.maps.calibration_map import VECTORS, CalibrationMap
from calibrant.maps.constant import Constant
from calibrant.maps.curves import Curve
from calibrant.maps.one_vs_rest import OneVsRest
from calibrant.maps.ranks import Ranks
from calibrant.maps.transforms import Transform, check_classes, transformed
from calibrant.methods.catalogue import read_method
from calibrant.methods.method import FitContext, Method, Progress
from calibrant.reductions import Classes, Event, Vector, reduce, resolve_event, whole_vector

_KEEP = {"keep_order": OFF}
_RANKED = {**_KEEP, "n_ranks": Option(None, choices=(None,), low=1, whole=True)}
#: The options that a reduction adds to the method's own.
WRAPPERS: Mapping[str, Mapping[str, Option]] = {
    "classwise": {"renormalise": ON, **_KEEP},
    "top-label": _KEEP,
    "ranks": _RANKED,
    "within-ranks": _RANKED,
}


@dataclass(frozen=True)
class Fitting:
    """A fit asked for: everything but the rows, checked. ``wrapping`` holds the options that the reduction adds."""

    method: Method
    options: Mapping[str, Any]
    reduction: str | None = None
    wrapping: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, method: object, options: Mapping[str, Any], reduction: object = None, *, where: str = "") -> Fitting:
        """Check a method's name, a reduction's and options; places are told below ``where``."""
        entry = read_method(method)
        if reduction is not None and not isinstance(reduction, str):
            raise UnknownReduction.at("/reduction", "must be a name")
        wrappers = WRAPPERS.get(reduction or "", {})
        wrapping = read_values({k: v for k, v in options.items() if k in wrappers}, wrappers, entry.name, where=where)
        own = entry.read_options({k: v for k, v in options.items() if k not in wrappers}, where=where)
        return cls(entry, own, reduction, wrapping)

    def resolve(self, n_classes: int | None) -> str:
        """The reduction's full name: by default ``canonical`` where the method maps whole vectors of (n, K)."""
        asked, entry = self.reduction, self.method
        if asked is None:
            of_vector = n_classes is not None and entry.vector is not None
            asked = "canonical" if of_vector else "binary" if n_classes is None else "confidence"
        if asked in VECTORS and n_classes is None:
            raise UnknownReduction.at("/reduction", "of predictions (n,) must be binary, confidence or class:k")
        name = asked if asked in VECTORS else resolve_event(asked, n_classes)
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
        n, K = len(batch), batch.predictions.n_classes or 1
        name = self.resolve(batch.predictions.n_classes)
        if name == "canonical":
            return self.method.seconds(n, K, self.options)
        curves = {"classwise": K, "ranks": K, "within-ranks": K}.get(name, 1)
        return curves * self.method.seconds(n, 1, self.options)

    def run(self, batch: Batch, context: FitContext) -> CalibrationMap:
        """Fit to a checked batch."""
        n_classes = batch.predictions.n_classes
        name = self.resolve(n_classes)
        function: Curve | Transform
        if name in VECTORS:
            vector = whole_vector(batch)
            function, told = self._vector(name, vector, batch, context)
            if self.method.traits.keeps_top_label != "yes" or name != "canonical":
                told |= _accuracies(vector, function)
        else:
            function, told = self._curve(reduce(batch, name), context)
        return CalibrationMap(self.method.name, function, name, batch.predictions.scale, n_classes, told)

    def _curve(self, event: Event, context: FitContext) -> tuple[Curve, dict[str, Any]]:
        return self.method.curve(event, context, self.options)

    def _vector(self, name: str, vector: Vector, batch: Batch, context: FitContext) -> tuple[Transform, dict[str, Any]]:
        if name == "canonical":
            if self.method.vector is None:
                raise TypeError(f"{self.method.name} fits no vector")
            return self.method.vector(vector, context, **self.options)
        if name == "classwise":
            check_classes(vector)
            events = enumerate(Classes(vector).events())
            found = [self._curve(e, _part(context, k, vector.n_classes, "class"))[0] for k, e in events]
            return OneVsRest(tuple(found), self.wrapping["renormalise"], self.wrapping["keep_order"]), {}
        within, K = name == "within-ranks", vector.n_classes
        most = K - 1 if within else K  # all classes together are certain
        count = 1 if name == "top-label" else min(self.wrapping["n_ranks"] or most, most)
        curves = []
        for rank in range(1, count + 1):
            event = reduce(batch, f"within-top:{rank}" if within else f"top:{rank}")
            curves.append(self._rank(event, _part(context, rank - 1, count, "rank")))
        return Ranks(tuple(curves), within, self.wrapping["keep_order"]), {}

    def _rank(self, event: Event, context: FitContext) -> Curve:
        """A rank's curve; where the rank is never right, or always, (k + 1/2) / (m + 1) for k right of m."""
        cells = event.cells
        counted = cells.mass / float(cells.w2.sum()) if cells.kind == "importance" else 1.0
        positives, mass = float(cells.cumulative_wy[-1]) * counted, cells.mass * counted
        if 0.0 < positives < mass:
            return self._curve(event, context)[0]
        return Constant((positives + 0.5) / (mass + 1.0))


def _part(context: FitContext, done: int, parts: int, what: str) -> FitContext:
    """The context of one part of a fit, which tells its progress as a share of the whole."""
    tell = context.progress
    if tell is None:
        return context
    return replace(context, progress=lambda d, t, stage: tell(done * t + d, parts * t, f"{what} {done + 1}: {stage}"))


def _accuracies(vector: Vector, function: Any) -> dict[str, Any]:
    """How often the likeliest class is right on the rows of the fit, before and after."""
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
    asked = Fitting.read(method, options, reduction)
    read_seed(seed)
    batch = read_batch(predictions, labels, weights, scale=scale, kind=weights_kind)
    return asked.run(batch, FitContext(seed, device, progress))


def read_seed(seed: object) -> int:
    """Check a seed: an integer in [0, 2^32 - 1), one below the generator's range so that seed + 1 fits."""
    if type(seed) is not int or not 0 <= seed < 2**32 - 1:
        raise InvalidOption.at("/seed", "must be an integer from 0 to 4294967294")
    return seed
