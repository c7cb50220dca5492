"""A fitted calibration map: a curve, what it takes in, and its document; and a trial of maps from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from calibrant.batch import Predictions, Scale, read_predictions
from calibrant.cells import Floats
from calibrant.errors import InvalidDocument, InvalidOption, ScaleMismatch, UnknownReduction, WrongShape
from calibrant.maps.baselines import AccuracyConstant, PredictedClass
from calibrant.maps.curves import Curve
from calibrant.maps.ets import EnsembleTemperature
from calibrant.maps.families import CURVES
from calibrant.maps.isotonic import VennAbers
from calibrant.maps.linear_softmax import Dirichlet, MatrixScaling, VectorScaling
from calibrant.maps.order_preserving import OrderInvariant, OrderPreserving, OrderPreservingDiagonal
from calibrant.maps.ranks import OneVsRest, Ranks
from calibrant.maps.temperature import Temperature
from calibrant.maps.transforms import Transform, transformed
from calibrant.reductions import event_probability, resolve_event

#: The document format that this version writes.
FORMAT = 1

#: Family name -> the transform that reads and applies its documents.
TRANSFORMS: Mapping[str, type[Transform]] = MappingProxyType(
    {
        transform.family: transform
        for transform in (
            Temperature,
            OneVsRest,
            Ranks,
            VectorScaling,
            MatrixScaling,
            Dirichlet,
            EnsembleTemperature,
            OrderPreservingDiagonal,
            OrderInvariant,
            OrderPreserving,
            AccuracyConstant,
            PredictedClass,
        )
    }
)
#: The reductions of maps of the whole vector: what was fitted on it at once, class by class, or rank by rank.
VECTORS = ("canonical", "classwise", "top-label", "ranks", "within-ranks")


@dataclass(frozen=True)
class CalibrationMap:
    """A fitted map from a model's predictions to calibrated probabilities.

    ``method`` names the calibrator that fitted ``function``: a curve of the probability of one event, or, where
    ``reduction`` is one of ``VECTORS``, a transform of the whole vector; ``scale`` and ``n_classes`` (None for 1-D) say
    what was fitted on; ``diagnostics`` of the fit are plain JSON, without influence on ``apply``.
    """

    method: str
    function: Curve | Transform
    reduction: str
    scale: Scale
    n_classes: int | None
    diagnostics: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def apply(self, predictions: Any, *, clip: bool = True) -> Floats:
        """Calibrated probabilities, float64: ``(n,)`` of the map's event, or ``(n, K)`` of a map of the whole vector.

        Takes ``predictions`` as ``fit`` took them: on the map's scale, (n,) or (n, K) with the
        K of the fit. (n,) predictions are the event's own probability or logit. The event of a
        ``confidence`` map stays "the class predicted before calibration is right". Without ``clip`` a curve's values
        beyond [0, 1], which binnings of unit slope and splines have, are left. Raises what
        ``calibrant.batch.read_predictions`` raises, and ``WrongShape`` for another K.
        """
        return self.apply_checked(read_predictions(predictions, scale=self.scale), clip=clip)

    def apply_checked(self, predictions: Predictions, *, clip: bool = True) -> Floats:
        """``apply`` to predictions that are already checked; they must be what the map takes."""
        self.check(predictions)
        if self.of_vector:
            function: Any = self.function
            return transformed(function, predictions)
        found = self.curve(event_probability(predictions, self.reduction))
        return np.minimum(np.maximum(found, 0.0), 1.0) if clip else found

    def bounds(self, predictions: Any) -> tuple[Floats, Floats]:
        """The pair p0 <= p1 that a Venn-Abers map merges, ``(n,)`` each, of what ``apply`` takes.

        Raises ``InvalidOption`` for another map, and what ``apply`` raises.
        """
        return self.bounds_checked(read_predictions(predictions, scale=self.scale))

    def bounds_checked(self, predictions: Predictions) -> tuple[Floats, Floats]:
        """``bounds`` of predictions that are already checked."""
        self.check(predictions)
        if not isinstance(self.function, VennAbers):
            raise InvalidOption.at("/bounds", "are of venn-abers maps of one event alone")
        return self.function.bounds(event_probability(predictions, self.reduction))

    @property
    def curve(self) -> Curve:
        """The curve of a map of one event."""
        if self.of_vector:
            raise TypeError("a map of the whole vector has no curve")
        curve: Any = self.function
        return curve  # type: ignore[no-any-return]

    @property
    def of_vector(self) -> bool:
        """Whether it maps the whole vector."""
        return self.reduction in VECTORS

    def check(self, predictions: Predictions) -> None:
        """Refuse predictions on another scale or of another K: ``ScaleMismatch``, ``WrongShape``."""
        if predictions.scale != self.scale:
            raise ScaleMismatch.at("/scale", f"is {predictions.scale}, where the map was fitted on {self.scale}")
        fits = predictions.n_classes == self.n_classes or (predictions.n_classes is None and not self.of_vector)
        if not fits:
            wanted = (
                "(n,)" if self.n_classes is None else f"{'' if self.of_vector else '(n,) or '}(n, {self.n_classes})"
            )
            raise WrongShape.at("/predictions", f"must be {wanted}, as the map's fit took them")

    def to_document(self) -> dict[str, Any]:
        """The whole map as plain JSON: enough to apply it from its numbers alone."""
        return {
            "format": FORMAT,
            "method": self.method,
            "family": self.function.family,
            "reduction": self.reduction,
            "scale": self.scale,
            "n_classes": self.n_classes,
            "parameters": self.function.parameters(),
            "diagnostics": dict(self.diagnostics),
        }


def load(document: Mapping[str, Any]) -> CalibrationMap:
    """Read a map from its document, every field checked.

    Raises ``InvalidDocument`` naming the first damaged field.

    >>> load({"format": 1, "method": "identity", "family": "identity", "reduction": "binary",
    ...       "scale": "probability", "n_classes": None, "parameters": {}}).apply([0.25])
    array([0.25])
    """
    if not isinstance(document, Mapping):
        raise InvalidDocument.at("", "must be an object")
    if type(document.get("format")) is not int or document["format"] != FORMAT:
        raise InvalidDocument.at("/format", f"must be {FORMAT}")
    family = document.get("family")
    if not isinstance(family, str) or family not in (*CURVES, *TRANSFORMS):
        raise InvalidDocument.at("/family", f"must be one of: {', '.join((*CURVES, *TRANSFORMS))}")
    method = document.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidDocument.at("/method", "must be a calibrator's name")
    scale: Any = document.get("scale")
    if scale not in get_args(Scale):
        raise InvalidDocument.at("/scale", "must be one of: probability, logit")
    n_classes = document.get("n_classes")
    if n_classes is not None and (type(n_classes) is not int or n_classes < 2):
        raise InvalidDocument.at("/n_classes", "must be null or an integer of at least 2")
    parameters, diagnostics = document.get("parameters"), document.get("diagnostics", {})
    for name, value in (("parameters", parameters), ("diagnostics", diagnostics)):
        if not isinstance(value, dict):
            raise InvalidDocument.at(f"/{name}", "must be an object")
    reduction = _read_reduction(document, n_classes)
    of_vector = reduction in VECTORS
    if family not in (TRANSFORMS if of_vector else CURVES):
        raise InvalidDocument.at("/family", f"is not one of maps under {reduction}")
    function: Any
    if of_vector:
        function = TRANSFORMS[family].from_parameters(parameters or {}, n_classes or 0)
    else:
        function = CURVES[family].from_parameters(parameters or {})
    return CalibrationMap(method, function, reduction, scale, n_classes, diagnostics)


def _read_reduction(document: Mapping[str, Any], n_classes: int | None) -> str:
    reduction = document.get("reduction")
    if not isinstance(reduction, str):
        raise InvalidDocument.at("/reduction", "must be a reduction's name")
    if reduction in VECTORS:
        if n_classes is None:
            raise InvalidDocument.at("/n_classes", f"must be an integer where the reduction is {reduction}")
        return reduction
    try:
        return resolve_event(reduction, n_classes)
    except UnknownReduction as error:
        raise InvalidDocument.at("/reduction", error.detail) from error


# --- Trying a map of unknown origin: does it return probabilities

#: A map of more classes is not tried, and refused.
MOST_CLASSES = 100_000
#: The outermost logits are beyond those of every double below 1.
_LOGITS = np.array([-800.0, -40.0, -5.0, -0.1, 0.0, 0.1, 5.0, 40.0, 800.0])
_PROBABILITIES = np.concatenate([[0.0, 1e-300, 2.0**-53], np.arange(1, 256) / 256, [1.0 - 2.0**-53, 1.0]])
_ROUNDING = 1e-6


def try_map(fitted: CalibrationMap) -> None:
    """Apply a map to predictions from end to end; raises ``InvalidDocument`` where something else comes out.

    Each number of a document may be within its range, and their products be none: weights of 1e308 give infinity
    minus infinity. What comes out must be finite and in [0, 1], and of the whole vector have sum 1. O(K).
    """
    if fitted.n_classes is not None and fitted.n_classes > MOST_CLASSES:
        raise InvalidDocument.at("/n_classes", f"must be at most {MOST_CLASSES}")
    with np.errstate(all="ignore"):
        found = fitted.apply_checked(Predictions(_rows(fitted), fitted.scale))
    inside = np.isfinite(found) & (found >= 0.0) & (found <= 1.0)
    if not inside.all() or (found.ndim == 2 and np.abs(found.sum(axis=1) - 1.0).max() > _ROUNDING):
        raise InvalidDocument.at("/parameters", "hold numbers of which no probabilities come out")


def _rows(fitted: CalibrationMap) -> Floats:
    logits = fitted.scale == "logit"
    if not fitted.of_vector:
        return _LOGITS if logits else _PROBABILITIES
    K = fitted.n_classes or 2
    first, last, ramp = np.zeros(K), np.zeros(K), np.arange(K, dtype=np.float64)
    first[0] = last[-1] = 800.0 if logits else 1.0
    if logits:
        return np.array([first, last, -first, np.zeros(K), ramp / K])
    return np.array([first, last, np.full(K, 1.0 / K), ramp / ramp.sum()])
