"""Fitted calibration maps: their application, their documents, and the test of maps from other sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.applied import remember
from calibrant.core.arguments import explained
from calibrant.core.arrays import check_aligned, like
from calibrant.core.batch import Predictions, Scale, read_predictions, with_features
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument, InvalidOption, ScaleMismatch, UnknownReduction, WrongShape
from calibrant.core.features import Features, read_features
from calibrant.core.inputs import (
    listing,
    prediction_array,
    predictions_for,
    reduction_with_name,
    warn_of_probabilities,
)
from calibrant.core.reductions import event_logit, event_probability, resolve_event
from calibrant.core.results import Plotted, ShownMap, Table, map_table
from calibrant.maps.baselines import AccuracyConstant, PredictedClass
from calibrant.maps.curves import Curve, calibrated, logit_of
from calibrant.maps.documents import SETS, read_document, read_head
from calibrant.maps.ensemble import Ensemble, SmoothedVector, VectorIdentity
from calibrant.maps.ets import EnsembleTemperature
from calibrant.maps.families import CURVES
from calibrant.maps.isotonic import VennAbers
from calibrant.maps.linear_softmax import Dirichlet, MatrixScaling, VectorScaling
from calibrant.maps.order_preserving import OrderInvariant, OrderPreserving, OrderPreservingDiagonal
from calibrant.maps.ranks import OneVsRest, Ranks
from calibrant.maps.segments import Segments
from calibrant.maps.softmax_map import HiddenSoftmax, NetworkSoftmax, SoftmaxRegression
from calibrant.maps.temperature import Temperature
from calibrant.maps.transforms import Transform, transformed

#: Family name -> transform.
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
            SoftmaxRegression,
            HiddenSoftmax,
            NetworkSoftmax,
            Ensemble,
            VectorIdentity,
            SmoothedVector,
        )
    }
)
#: Family name -> fitted function.
FAMILIES: Mapping[str, type[Curve | Transform]] = MappingProxyType({**CURVES, **TRANSFORMS})
#: The reductions of maps of the whole vector: fitted to it at once, class by class, or rank by rank.
VECTORS = ("canonical", "classwise", "top-label", "ranks", "within-ranks")


def scored(reduction: str) -> str:
    """Return what the log loss and the Brier score of a fit with this reduction are of, in words."""
    return "the whole vector" if reduction in VECTORS else f"the event {reduction}"


def binned(reduction: str) -> str:
    """Return what the ECE of a fit with this reduction is of, in words."""
    return "the confidence" if reduction in VECTORS else f"the event {reduction}"


@dataclass(frozen=True, eq=False, repr=False)
class MapCore(ShownMap):
    """The fields of a calibration map, and its methods for predictions and features that are checked already."""

    method: str
    function: Curve | Transform
    reduction: str
    scale: Scale
    n_classes: int | None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    training_digest: str | None = None

    @property
    def of_vector(self) -> bool:
        """Whether this is a map of the whole vector, which returns ``(n, K)``."""
        return self.reduction in VECTORS

    @property
    def curve(self) -> Curve:
        """Curve of a map of one event; raises ``TypeError`` for a map of the whole vector."""
        if self.of_vector:
            raise TypeError("a map of the whole vector has no curve")
        curve: Any = self.function
        return curve  # type: ignore[no-any-return]

    def check(self, predictions: Predictions) -> None:
        """Raise ``ScaleMismatch``, ``WrongShape`` or ``InvalidOption`` unless predictions match the map."""
        check_scale(predictions, self.scale)
        fits = predictions.n_classes == self.n_classes or (predictions.n_classes is None and not self.of_vector)
        if not fits:
            wanted = (
                "(n,)" if self.n_classes is None else f"{'' if self.of_vector else '(n,) or '}(n, {self.n_classes})"
            )
            hint = "; of two columns, pass the second" if (predictions.n_classes, self.n_classes) == (2, None) else ""
            raise WrongShape.at(
                "/predictions", f"must have shape {wanted}, like those that the map was fitted to{hint}"
            )
        if isinstance(self.function, Segments):
            self.function.check_features(predictions.features, len(predictions))

    def apply_checked(self, predictions: Predictions, *, clip: bool = True) -> Floats:
        """Return the calibrated probabilities ``(n,)`` or ``(n, K)``, as ``apply`` does."""
        self.check(predictions)
        if self.of_vector:
            function: Any = self.function
            return transformed(function, predictions)
        event = _event_of(predictions, self.reduction)
        if isinstance(self.function, Segments):
            return self.function.of_rows(logit_of(event, self.function.clip), predictions.features)
        probabilities = calibrated(self.curve, event)
        return np.minimum(np.maximum(probabilities, 0.0), 1.0) if clip else probabilities

    def bounds_checked(self, predictions: Predictions) -> tuple[Floats, Floats]:
        """Return the lower and upper probabilities ``(n,)`` of a Venn-Abers map, as ``bounds`` does."""
        self.check(predictions)
        if not isinstance(self.function, VennAbers):
            raise InvalidOption.at("/bounds", "need a venn-abers map of one event")
        event = _event_of(predictions, self.reduction)
        if event.logit is None:
            return self.function.bounds(event.p)
        return self.function.bounds_of_logits(event.logit)

    def fallbacks_checked(self, features: Features | None) -> dict[str, Any]:
        """Count the fallbacks of features, as ``fallbacks`` does."""
        if not isinstance(self.function, Segments):
            if self.method == Segments.family:  # the identity, as earlier fits without terms were stored
                return {"rows": 0, "features": {}}
            raise InvalidOption.at("/features", f"are not used by {self.method}")
        return self.function.fallbacks(features, 0 if features is None else len(features))


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationMap(MapCore, Plotted):
    """Map the predictions of a model to calibrated probabilities.

    ``plot`` draws the calibrated probability by the given one: a curve, or one for each class or rank. Maps of the
    whole vector have no curve.

    ``fit`` and ``load`` create maps; the constructor is not meant to be called directly.

    Parameters
    ----------
    method : str
        Name of the calibrator.
    function : Curve or Transform
        Fitted function: a curve of the probability of one event, or a transform of the whole vector.
    reduction : str
        Event that the map calibrates, or ``canonical``, ``classwise``, ``top-label``, ``ranks`` or ``within-ranks``
        for a map of the whole vector.
    scale : {"probability", "logit"}
        Scale of the predictions.
    n_classes : int or None
        Number of classes K; None if the map was fitted to predictions of shape (n,).
    diagnostics : mapping, optional
        Diagnostics of the fit as plain JSON; they do not affect ``apply``.
    class_names : tuple of str, optional
        Names of the K classes in the order of the columns; for predictions of shape (n,), of the negative and the
        positive class.
    training_digest : str, optional
        Digest of the rows that the map was fitted to, by which in-sample evaluation is recognised.

    See Also
    --------
    fit : Fits a map.
    load : Reads a map from its document or file.

    Examples
    --------
    >>> import calibrant
    >>> fitted = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> fitted.method, fitted.reduction, fitted.scale, fitted.n_classes
    ('isotonic', 'binary', 'probability', None)
    """

    _familiar = MappingProxyType(
        {
            **dict.fromkeys(("calibrate", "predict", "predict_proba", "transform"), "apply(predictions)"),
            **dict.fromkeys(("dump", "to_file"), "save(path)"),
            **dict.fromkeys(("parameters", "params", "to_dict", "to_json"), "to_document()"),
            **dict.fromkeys(("T", "a", "b", "coef_", "intercept_", "temperature"), 'to_document()["parameters"]'),
            "fit": "calibrant.fit(method, predictions, labels), which returns a fitted map",
        }
    )
    _plot = "plots.results.plot_map"

    def __repr__(self) -> str:
        shown = {"method": self.method, "reduction": reduction_with_name(self.reduction, self.class_names)}
        shown |= {name: getattr(self, name) for name in ("scale", "n_classes", "class_names")}
        return f"CalibrationMap({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __call__(self, predictions: Any, *, clip: bool = True) -> Any:
        """Apply the map, as ``apply`` does."""
        return self.apply(predictions, clip=clip)

    def _table(self) -> Table:
        of_classes = "" if self.n_classes is None else f" of {self.n_classes} classes"
        takes = ("logits" if self.scale == "logit" else "probabilities") + of_classes
        rows = [
            ("reduction", reduction_with_name(self.reduction, self.class_names)),
            ("takes", takes),
            ("class names", ", ".join(self.class_names or ())),
            ("update", str(self.diagnostics.get("update", ""))),
        ]
        return map_table(self.method, rows, self.diagnostics)

    @overload
    def apply(
        self, predictions: npt.NDArray[Any] | Sequence[Any], *, clip: bool = True, features: Any = None
    ) -> Floats: ...
    @overload
    def apply(self, predictions: Any, *, clip: bool = True, features: Any = None) -> Any: ...
    def apply(self, predictions: Any, *, clip: bool = True, features: Any = None) -> Any:
        """Apply the map to predictions.

        Parameters
        ----------
        predictions : array_like, shape (n,) or (n, K)
            Predictions on the scale of the map. A map of one event also accepts the probabilities or logits of that
            event, (n,). If the columns of a frame are named after the classes of the map, they are taken in the order
            of the map.
        clip : bool, default True
            Whether to clip the values of a curve to [0, 1]. Splines, and binnings with ``slope="unit"``, may return
            values outside it.
        features : DataFrame, or mapping of str to array_like of shape (n,), optional
            Features of the rows, which a map of ``segments`` needs.

        Returns
        -------
        ndarray, Series or DataFrame, shape (n,) or (n, K)
            Calibrated probabilities, float64: (n,) for a map of one event, (n, K) for a map of the whole vector. For a
            Series or frame of pandas or polars, one of the same library with its index and names.

        Raises
        ------
        CalibrationError
            If the predictions are invalid, or their number of classes differs from that of the map.

        See Also
        --------
        bounds : Returns lower and upper probabilities of a Venn-Abers map.

        Notes
        -----
        For a ``confidence`` map the event is "the class predicted before calibration is correct".

        Examples
        --------
        >>> import calibrant
        >>> calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).apply([0.0, 0.5, 1.0])
        array([0. , 0.5, 1. ])
        """
        values, columns = prediction_array(predictions, self.class_names)
        check_aligned({"predictions": predictions, "features": features})
        checked = with_features(read_predictions(values, scale=self.scale), features)
        warn_of_probabilities(checked.given, self.scale)
        result = like(predictions, self.apply_checked(checked, clip=clip), columns)
        if self.training_digest is not None:
            remember(predictions, result, self.training_digest, self.class_names, self.scale)
        return result

    def fallbacks(self, features: Any) -> dict[str, Any]:
        """Count the rows whose features a map of segments does not know.

        Parameters
        ----------
        features : DataFrame, or mapping of str to array_like of shape (n,)
            Features of n rows, as for ``apply``.

        Returns
        -------
        dict
            ``rows``, how many rows have a fallback, and by feature how many are ``missing``, and ``unseen`` in the fit
            or ``outside`` its knots: of more than 8 distinct values, beyond their quantiles at 1 % and 99 %.

        Raises
        ------
        CalibrationError
            If the map has no features, or other ones.

        See Also
        --------
        apply : Categories that are unseen add nothing, and numbers outside count as the outer knot.

        Examples
        --------
        >>> import calibrant
        >>> predictions, labels, x = [0.2, 0.7] * 50, [0, 1, 1, 1] * 25, ["a", "b", "b", "a"] * 25
        >>> fitted = calibrant.fit("segments", predictions, labels, features={"x": x})
        >>> fitted.fallbacks({"x": ["a", "c", None]})
        {'rows': 2, 'features': {'x': {'missing': 1, 'unseen': 1}}}
        """
        return self.fallbacks_checked(read_features(features))

    def bounds(self, predictions: Any) -> tuple[Floats, Floats]:
        """Return the lower and upper probabilities of a Venn-Abers map.

        Parameters
        ----------
        predictions : array_like, shape (n,) or (n, K)
            As for ``apply``.

        Returns
        -------
        p0 : ndarray, shape (n,)
            Lower probabilities: isotonic regression with the row added under label 0.
        p1 : ndarray, shape (n,)
            Upper probabilities: isotonic regression with the row added under label 1.

        Raises
        ------
        CalibrationError
            If this is not a Venn-Abers map of one event, or the predictions are invalid.

        See Also
        --------
        apply : Merges the two into one probability.

        Examples
        --------
        >>> import calibrant
        >>> low, high = calibrant.fit("venn-abers", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).bounds([0.5])
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.333], [0.667])
        """
        return self.bounds_checked(predictions_for(predictions, self.scale, self.class_names))

    def _head(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("reduction", "scale", "n_classes")}
        return {"method": self.method, "family": self.function.family, **own}


@dataclass(frozen=True)
class _Event:
    """The probability of an event, and its logit if logits were given."""

    logit: Floats | None
    probability: Floats | None

    @property
    def p(self) -> Floats:
        return expit(self.logit) if self.probability is None else self.probability


def _event_of(predictions: Predictions, reduction: str) -> _Event:
    if predictions.given.ndim == 1:  # the event itself, whatever the reduction
        logits = predictions.logits
        return _Event(logits, predictions.given if logits is None else None)
    logit = event_logit(predictions, reduction)
    return _Event(logit, event_probability(predictions, reduction) if logit is None else None)


def check_scale(predictions: Predictions, scale: Scale) -> None:
    """Raise ``ScaleMismatch`` unless predictions are on the scale of a map."""
    if predictions.scale != scale:
        raise ScaleMismatch.at("/scale", f"is {predictions.scale}, but the map was fitted on {scale}")


def check_map(map: object) -> None:
    """Raise ``InvalidOption`` if this is neither a calibration map nor None."""
    if map is not None and not isinstance(map, CalibrationMap):
        raise InvalidOption.at("/map", "must be a calibration map; calibrant.load(path) reads one from a file")


def check_class_names(fitted: CalibrationMap | None, class_names: Sequence[str] | None, pointer: str = "/map") -> None:
    """Raise ``InvalidOption`` if rows and a map at ``pointer`` name their classes differently."""
    known = None if fitted is None else fitted.class_names
    if known is None or class_names is None or len(known) != len(class_names) or tuple(class_names) == known:
        return
    raise InvalidOption.at(
        pointer,
        f"has the classes {listing(known)}, but the rows have {listing(class_names)}; pass rows with the classes of "
        "the map, in the same order",
    )


@explained
def load(document: Mapping[str, Any] | str | Path) -> CalibrationMap:
    """Read a calibration map from its document or from a file.

    Parameters
    ----------
    document : mapping, str or pathlib.Path
        Document as written by ``CalibrationMap.to_document``, or path of a file as written by ``CalibrationMap.save``.

    Returns
    -------
    CalibrationMap
        The map.

    Raises
    ------
    InvalidDocument
        If the file holds no JSON, a field is missing or invalid, or the map does not return probabilities; the error
        names the first field.
    OSError
        If the file cannot be read.

    See Also
    --------
    fit : Fits a map.
    CalibrationMap.save : Writes the file.
    CalibrationMap.to_document : Returns the document.

    Examples
    --------
    >>> import calibrant
    >>> document = {"format": 1, "method": "identity", "family": "identity", "reduction": "binary",
    ...             "scale": "probability", "n_classes": None, "parameters": {}}
    >>> calibrant.load(document).apply([0.25])
    array([0.25])
    """
    loaded = read_map(document)
    try_map(loaded)
    return loaded


def read_map(document: Mapping[str, Any] | str | Path) -> CalibrationMap:
    """Read a map as ``load`` does, without trying whether its parameters overflow together."""
    document = read_document(document)
    if document.get("reduction") == SETS:
        raise InvalidDocument.at("/family", "is one of maps to prediction sets, which load_sets reads")
    head = read_head(document, FAMILIES)
    family, n_classes = head.family, head.n_classes
    reduction = _read_reduction(document, n_classes)
    of_vector = reduction in VECTORS
    if family not in (TRANSFORMS if of_vector else CURVES):
        raise InvalidDocument.at("/family", f"is not a family of maps with reduction {reduction}")
    function: Any
    if of_vector:
        function = TRANSFORMS[family].from_parameters(head.parameters, n_classes or 0)
    else:
        function = CURVES[family].from_parameters(head.parameters)
    return CalibrationMap(
        head.method, function, reduction, head.scale, n_classes, head.diagnostics, head.class_names, head.digest
    )


def _read_reduction(document: Mapping[str, Any], n_classes: int | None) -> str:
    reduction = document.get("reduction")
    if not isinstance(reduction, str):
        raise InvalidDocument.at("/reduction", "must be the name of a reduction")
    if reduction in VECTORS:
        if n_classes is None:
            raise InvalidDocument.at("/n_classes", f"must be an integer if the reduction is {reduction}")
        return reduction
    try:
        return resolve_event(reduction, n_classes)
    except UnknownReduction as error:
        raise InvalidDocument.at("/reduction", error.detail) from error


# --- Test that a map from an unknown source returns probabilities

#: Maps of more classes are rejected without a test.
MOST_CLASSES = 1_000_000
#: The outermost logits exceed those of every double below 1.
_LOGITS = np.array([-800.0, -40.0, -5.0, -0.1, 0.0, 0.1, 5.0, 40.0, 800.0])
_PROBABILITIES = np.concatenate([[0.0, 1e-300, 2.0**-53], np.arange(1, 256) / 256, [1.0 - 2.0**-53, 1.0]])
_ROUNDING = 1e-6


def try_map(fitted: CalibrationMap) -> None:
    """Apply a map to predictions across the whole range; raise ``InvalidDocument`` if it returns no probabilities.

    Every parameter of a document can be valid while the result overflows: weights of 1e308 give infinity minus
    infinity. Results must be finite and in [0, 1], and vectors must sum to 1 unless ``renormalise`` is False. O(K).
    """
    if fitted.n_classes is not None and fitted.n_classes > MOST_CLASSES:
        raise InvalidDocument.at("/n_classes", f"must be at most {MOST_CLASSES:,}")
    rows = _rows(fitted)
    features = fitted.function.unknown_rows(len(rows)) if isinstance(fitted.function, Segments) else None
    with np.errstate(all="ignore"):
        calibrated_rows = fitted.apply_checked(Predictions(rows, fitted.scale, features=features))
    inside = np.isfinite(calibrated_rows) & (calibrated_rows >= 0.0) & (calibrated_rows <= 1.0)
    sums = calibrated_rows.ndim == 2 and getattr(fitted.function, "renormalise", True)
    if not inside.all() or (sums and np.abs(calibrated_rows.sum(axis=1) - 1.0).max() > _ROUNDING):
        raise InvalidDocument.at("/parameters", "do not give probabilities")


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
