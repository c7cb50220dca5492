"""A fitted calibration map: a curve, what it takes in, and its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from calibrant.batch import Predictions, Scale, read_predictions
from calibrant.cells import Floats
from calibrant.errors import InvalidDocument, ScaleMismatch, UnknownReduction, WrongShape
from calibrant.maps.averaged import Averaged
from calibrant.maps.beta import Beta
from calibrant.maps.curves import Curve
from calibrant.maps.identity import Identity
from calibrant.maps.isotonic import Isotonic
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear
from calibrant.maps.platt import Platt
from calibrant.reductions import event_probability, resolve_event

#: The document format that this version writes.
FORMAT = 1

#: Family name -> the curve that reads and applies its documents.
FAMILIES: Mapping[str, type[Curve]] = MappingProxyType(
    {
        curve.family: curve
        for curve in (Identity, Platt, Beta, Isotonic, PiecewiseLinear, LogitPiecewiseLinear, Averaged)
    }
)


@dataclass(frozen=True)
class CalibrationMap:
    """A fitted map from a model's predictions to calibrated probabilities of one event.

    ``method`` names the calibrator that fitted ``curve``; ``reduction``, ``scale`` and
    ``n_classes`` (None for 1-D) say what was fitted on; ``diagnostics`` is what the fit told,
    plain JSON, without influence on ``apply``.
    """

    method: str
    curve: Curve
    reduction: str
    scale: Scale
    n_classes: int | None
    diagnostics: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def apply(self, predictions: Any) -> Floats:
        """Calibrated probability of the map's event, float64 ``(n,)`` in [0, 1].

        Takes ``predictions`` as ``fit`` took them: on the map's scale, (n,) or (n, K) with the
        K of the fit. (n,) predictions are the event's own probability or logit. The event of a
        ``confidence`` map stays "the class predicted before calibration is right". Raises what
        ``calibrant.batch.read_predictions`` raises, and ``WrongShape`` for another K.
        """
        return self.apply_checked(read_predictions(predictions, scale=self.scale))

    def apply_checked(self, predictions: Predictions) -> Floats:
        """``apply`` to predictions that are already checked; they must be what the map takes."""
        self.check(predictions)
        return np.clip(self.curve(event_probability(predictions, self.reduction)), 0.0, 1.0)

    def check(self, predictions: Predictions) -> None:
        """Refuse predictions on another scale or of another K: ``ScaleMismatch``, ``WrongShape``."""
        if predictions.scale != self.scale:
            raise ScaleMismatch.at("/scale", f"is {predictions.scale}, where the map was fitted on {self.scale}")
        if predictions.n_classes is not None and predictions.n_classes != self.n_classes:
            wanted = "(n,)" if self.n_classes is None else f"(n,) or (n, {self.n_classes})"
            raise WrongShape.at("/predictions", f"must be {wanted}, as the map's fit took them")

    def to_document(self) -> dict[str, Any]:
        """The whole map as plain JSON: enough to apply it from its numbers alone."""
        return {
            "format": FORMAT,
            "method": self.method,
            "family": self.curve.family,
            "reduction": self.reduction,
            "scale": self.scale,
            "n_classes": self.n_classes,
            "parameters": self.curve.parameters(),
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
    if not isinstance(family, str) or family not in FAMILIES:
        raise InvalidDocument.at("/family", f"must be one of: {', '.join(FAMILIES)}")
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
    curve = FAMILIES[family].from_parameters(parameters or {})
    return CalibrationMap(method, curve, _read_reduction(document, n_classes), scale, n_classes, diagnostics)


def _read_reduction(document: Mapping[str, Any], n_classes: int | None) -> str:
    reduction = document.get("reduction")
    if not isinstance(reduction, str):
        raise InvalidDocument.at("/reduction", "must be a reduction's name")
    try:
        return resolve_event(reduction, n_classes)
    except UnknownReduction as error:
        raise InvalidDocument.at("/reduction", error.detail) from error
