"""The catalogue of calibrators, and fits of one event, of the whole vector, class by class, or rank by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.calibrators.entries import binnings, events, piecewise, segments, splines, updates, vectors
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
from calibrant.calibrators.smoothing import is_extreme, smoothed_fits
from calibrant.core.arguments import explained, refuse_misspelt
from calibrant.core.batch import Batch, InputScale, Integers
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.device import read_device
from calibrant.core.digest import digest, sample_of
from calibrant.core.errors import (
    CalibrationError,
    InvalidOption,
    MissingExtra,
    UnknownMethod,
    UnknownReduction,
)
from calibrant.core.inputs import (
    are_classes,
    check_named_event,
    read_rows,
    reduction_by_name,
    warn_of_certain,
    warn_of_few,
)
from calibrant.core.options import OFF, ON, Catalogue, Option, known_name, plain, read_seed, read_values
from calibrant.core.progress import Progress, report, reporting, step
from calibrant.core.reductions import Vector, naming_reductions, reduce, resolve_event, whole_vector
from calibrant.core.validation import GAIN_FOLDS, batch_parts, divided_batch, folds_of, mean_gain
from calibrant.maps.calibration_map import VECTORS, CalibrationMap
from calibrant.maps.curves import PROBABILITY_CLIP, Curve
from calibrant.maps.families import curves_document, read_curves
from calibrant.maps.parameters import read_array
from calibrant.maps.transforms import Transform, blocks_of_rows, check_classes, transformed

#: Names that other libraries use -> names here.
FAMILIAR: Mapping[str, str] = MappingProxyType(
    {
        "beta-calibration": "beta",
        "ensemble-temperature-scaling": "ets",
        "hist": "histogram",
        "histogram-binning": "histogram",
        "ir": "isotonic",
        "isotonic-regression": "isotonic",
        "logistic": "platt",
        "logistic-calibration": "platt",
        "matrix-scaling": "matrix",
        "logistic-recalibration": "update",
        "none": "identity",
        "prior-correction": "prior-shift",
        "pav": "isotonic",
        "pava": "isotonic",
        "platt-scaling": "platt",
        "sigmoid": "platt",
        "temp": "temperature",
        "temperature-scaling": "temperature",
        "ts": "temperature",
        "vector-scaling": "vector",
    }
)

#: Methods of ``fit_distribution`` alone, whose catalogue is above this package.
_OF_FORECASTS = (
    *("conformal", "location-scale", "quantile-recalibration", "std-isotonic"),
    *("variance-isotonic", "variance-platt", "variance-scaling"),
)
#: The catalogue of calibrators by name.
METHODS: Catalogue[Method] = Catalogue(
    "method",
    {
        entry.name: entry
        for group in (events, binnings, splines, piecewise, vectors, updates, segments)
        for entry in group.METHODS
    },
    FAMILIAR,
    {
        "auto": "is unknown; calibrant.report(predictions, labels) recommends one",
        **dict.fromkeys(("lac", "aps", "raps", "crc"), "gives prediction sets: use fit_sets"),
        **dict.fromkeys(_OF_FORECASTS, "is for predictive distributions of a number: use fit_distribution"),
    },
    public="METHODS",
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
    entry = METHODS.get(known_name(method, METHODS, FAMILIAR)) if isinstance(method, str) else None
    if entry is None:
        raise UnknownMethod.at("/method", METHODS.explanation(method))
    return entry


@dataclass(frozen=True)
class Fitting:
    """Checked options of ``fit``, without the rows; ``wrapping`` holds the options that the reduction adds.

    Errors of options that depend on the rows name places below ``where``.
    """

    method: Method
    options: Mapping[str, Any]
    reduction: str | None = None
    wrapping: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""

    @classmethod
    def read(cls, method: object, options: Mapping[str, Any], reduction: object = None, *, where: str = "") -> Fitting:
        """Check the names of method and reduction and the options; errors name places below ``where``.

        An option of both the reduction and the method, ``keep_order``, is given to both.
        """
        entry = read_method(method)
        if reduction is not None and not isinstance(reduction, str):
            raise UnknownReduction.at("/reduction", "must be the name of a reduction")
        wrappers = WRAPPERS.get(reduction or "", {})
        wrapping = read_values({k: v for k, v in options.items() if k in wrappers}, wrappers, entry.name, where=where)
        shared = {k: v for k, v in options.items() if k not in wrappers or k in entry.options}
        own = entry.read_options(shared, where=where)
        return cls(entry, own, reduction, wrapping, where)

    def resolve(self, n_classes: int | None) -> str:
        """Return the full name of the reduction, by default ``canonical`` if the method maps whole vectors."""
        name, entry = self.reduction, self.method
        if name is None:
            of_vector = n_classes is not None and entry.vector is not None
            name = "canonical" if of_vector else "binary" if n_classes is None else "confidence"
        if name in VECTORS and n_classes is None:
            raise UnknownReduction.at(
                "/reduction", "must be binary, confidence or class:k for predictions of shape (n,)"
            )
        name = name if name in VECTORS else resolve_event(name, n_classes)
        of_event = entry.event if name in OF_CURVES else entry.event or entry.featured
        if (entry.vector if name == "canonical" else of_event) is None:
            if entry.featured is not None:
                wanted = "must be a reduction to one event, as the terms are those of one event"
            elif entry.event is None:
                wanted = "must be canonical, with predictions of shape (n, K)"
            else:
                wanted = "must be a reduction to one event, or classwise, top-label, ranks or within-ranks"
            raise UnknownReduction.at("/reduction", f"{wanted}, for method {entry.name}")
        return name

    def check(self, batch: Batch) -> None:
        """Raise what ``run`` would raise for this batch, as far as it is known without fitting."""
        name = self.resolve(batch.predictions.n_classes)
        if name in VECTORS and name != "canonical":
            if name == "classwise":
                check_classes(whole_vector(batch))
            return
        subject = whole_vector(batch) if name == "canonical" else reduce(batch, name)
        try:
            if self.method.check is not None:
                with naming_reductions(subject):
                    self.method.check(subject, **self.options)
        except InvalidOption as error:
            is_row = any(offence.pointer.startswith("/features") for offence in error.offences)
            raise (error if is_row else error.under(self.where)) from None

    def seconds(self, batch: Batch, smoothing: float | None = None) -> float:
        """Estimate the seconds of ``run``, in a context with this ``smoothing``."""
        parts = batch_parts(batch)
        n, n_classes = len(batch) if parts is None else len(parts.row), batch.predictions.n_classes
        name = self.resolve(n_classes)
        fits = 1.0
        if smoothing is None and self.method.logarithms and is_extreme(whole_vector(batch)):
            fits = smoothed_fits(chooses=self.method.chooses(n_classes or 1, self.options), options=self.options)
        if name == "canonical":
            return fits * self.method.seconds(n, n_classes or 1, self.options)
        curves = curves_under(name, self.wrapping, n_classes or 1) if name in OF_CURVES else 1
        features = batch.predictions.features
        width = 1 if features is None or self.method.featured is None else len(features.columns)
        return fits * curves * self.method.seconds(n, width, self.options)

    def run(self, batch: Batch, context: FitContext) -> CalibrationMap:
        """Fit to a checked batch; ``part`` and ``join`` give the same map in several parts."""
        with reporting(context.progress):
            return self._run(batch, context)

    def _run(self, batch: Batch, context: FitContext) -> CalibrationMap:
        name, batch = self.resolve(batch.predictions.n_classes), divided_batch(batch)
        if name in OF_CURVES:
            fits = self._curves(batch)
            curves = fits.fitted(range(len(fits)), context, len(fits) + 1)
            with step(len(fits), len(fits) + 1):
                return self._joined(fits, curves, diagnose=context.diagnose)
        if name == "canonical":
            vector = whole_vector(batch)
            transform, diagnostics = self.method.transform(vector, context, self.options)
            with step(999, 1000):  # the fit takes almost all of the time
                if context.diagnose and self.method.traits.keeps_top_label != "yes":
                    diagnostics |= _accuracies(vector, transform)
                report(1, 1, "done")
            return self._made(transform, diagnostics, batch)
        event = reduce(batch, name)
        with naming_reductions(event):
            return self._made(*self.method.curve(event, context, self.options), batch)

    def parts(self, batch: Batch, *, most: int = MOST_PARTS, least: float = LEAST_SECONDS) -> int:
        """Return the number of parts of the fit: at most ``most``, of at least about ``least`` estimated seconds each.

        It is 1 if the map cannot be fitted in parts. O(1).
        """
        n_classes = batch.predictions.n_classes
        name = self.resolve(n_classes)
        if name not in OF_CURVES:
            return 1
        curves = curves_under(name, self.wrapping, n_classes or 1)
        return count_parts(curves, self.seconds(batch), most=most, least=least)

    def part(self, batch: Batch, part: int, parts: int, context: FitContext) -> dict[str, Any]:
        """Fit part ``part`` (from 0) of ``parts`` of a map of several curves; return the curves as plain JSON.

        Progress is that of the part alone. Raises what ``run`` would raise for these classes or ranks.
        """
        fits = self._curves(batch)
        chosen = curves_of(part, parts, len(fits))
        with reporting(context.progress):
            return {"curves": curves_document(fits.fitted(chosen, context, len(chosen)))}

    def join(
        self, batch: Batch, documents: Sequence[Mapping[str, Any]], progress: Progress | None = None
    ) -> CalibrationMap:
        """Return the map from the results of ``part`` for every part, in order: bit for bit that of ``run``.

        Raises ``InvalidDocument`` if curves are invalid or missing. O(n K) times the cost of a curve.
        """
        fits = self._curves(batch)
        of_parts = [curve for i, part in enumerate(documents) for curve in read_array(part, "curves", where=f"/{i}")]
        with reporting(progress):
            return self._joined(fits, read_curves({"curves": of_parts}, len(fits), len(fits)))

    def _curves(self, batch: Batch) -> CurveFits:
        name = self.resolve(batch.predictions.n_classes)
        if name not in OF_CURVES:
            raise TypeError(f"a map under {name} cannot be fitted in parts")
        return CurveFits(self.method, self.options, name, self.wrapping, divided_batch(batch))

    def _joined(self, fits: CurveFits, curves: tuple[Curve, ...], *, diagnose: bool = True) -> CalibrationMap:
        transform = fits.together(curves)
        diagnostics = _accuracies(fits.vector, transform) if diagnose else {}
        report(1, 1, "done")
        return self._made(transform, diagnostics, fits.batch)

    def _made(self, function: Curve | Transform, diagnostics: dict[str, Any], batch: Batch) -> CalibrationMap:
        predictions = batch.predictions
        name = self.resolve(predictions.n_classes)
        return CalibrationMap(self.method.name, function, name, predictions.scale, predictions.n_classes, diagnostics)


def _accuracies(vector: Vector, function: Any) -> dict[str, Any]:
    """Return the accuracy on the rows of the fit, before and after the map."""
    report(0, 1, "accuracy")
    values = vector.p if vector.logits is None else vector.logits
    before, after = np.empty((2, len(vector)), bool)
    for part in blocks_of_rows(values, 16):
        rows = vector.rows(np.arange(len(vector))[part])
        before[part] = values[part].argmax(axis=1) == rows.labels
        after[part] = transformed(function, rows).argmax(axis=1) == rows.labels
    return {"accuracy_before": _share(before, vector.w), "accuracy_after": _share(after, vector.w)}


def _share(right: Integers | Floats, w: Floats | None) -> float:
    return float(np.average(right, weights=w))


# --- The cross-fitted gain: how much the log loss of new rows is expected to fall

#: The most rows, drawn at random from more.
_MOST_ROWS = 5000
#: The most estimated seconds of fits outside the folds that choose strengths and smoothing again, and of other fits.
_MOST_SECONDS, _MOST_SECONDS_KEPT = 0.3, 0.9
#: Options that a fit chooses by cross-validation; the chosen values are in its diagnostics.
_STRENGTHS = ("strength", "intercept_strength")
#: The warning of a map that does not improve.
_NO_GAIN = "the cross-fitted log loss does not improve: the map may do harm on new rows"
_UNCHANGED = "no improvement was found, so the map leaves the predictions as they are"


def _cross_fitted_gain(
    fitting: Fitting, batch: Batch, seed: int, diagnostics: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the mean decrease of the log loss per row, in nats, and its standard error over rows.

    Each row is predicted by a map fitted to the other folds. If choosing takes long, these fits keep the strengths and
    the smoothing in the ``diagnostics`` of the fit to all rows. None for slow methods without a chosen strength, and if
    a fit outside a fold fails.
    """
    batch = divided_batch(batch)
    if len(batch) > _MOST_ROWS:
        batch = batch.rows(np.sort(np.random.default_rng(seed).choice(len(batch), _MOST_ROWS, replace=False)))
    if not fitting.method.improves:
        return None
    context = FitContext(seed, diagnose=False)
    if GAIN_FOLDS * fitting.seconds(batch) > _MOST_SECONDS:
        context = replace(context, smoothing=diagnostics.get("smoothing"))
        strengths = {
            name: diagnostics[name]
            for name in _STRENGTHS
            if fitting.options.get(name, 0.0) is None and diagnostics.get(name)
        }
        fitting = replace(fitting, options={**fitting.options, **strengths})
        if not strengths and GAIN_FOLDS * fitting.seconds(batch, context.smoothing) > _MOST_SECONDS_KEPT:
            return None
    batch = batch.rows(whole_vector(batch).order())
    try:
        fold = folds_of(whole_vector(batch), GAIN_FOLDS, seed)
        gain = np.zeros(len(batch))
        for held_out in range(GAIN_FOLDS):
            inside = np.flatnonzero(fold == held_out)
            fitted = fitting.run(batch.rows(np.flatnonzero((fold >= 0) & (fold != held_out))), context)
            gain[inside] = _gains(fitted, batch.rows(inside))
    except (CalibrationError, MissingExtra):
        return None
    return mean_gain(gain, batch.weights, batch.clusters, GAIN_FOLDS, batch.weights_kind)


def _warning_of(gain: dict[str, Any], fitted: CalibrationMap) -> dict[str, str]:
    """Return the warning of a map without a gain, if any, by its name in the diagnostics."""
    if fitted.function.family in ("identity", "vector-identity") or fitted.diagnostics.get("terms") == []:
        return {"warning": _UNCHANGED}
    return {"warning": _NO_GAIN} if gain["log_loss"] <= 0.0 else {}


def _gains(fitted: CalibrationMap, rows: Batch) -> Floats:
    """Return the increase of the log probability of what happened in each row."""
    after = fitted.apply_checked(rows.predictions)
    if fitted.of_vector:
        vector = whole_vector(rows)
        own = np.arange(len(rows)), rows.labels
        before, after = vector.p[own].astype(np.float64), after[own]
    else:
        event = reduce(rows, fitted.reduction)
        before = np.where(event.y == 1, event.p, 1.0 - event.p)
        after = np.where(event.y == 1, after, 1.0 - after)
    return np.log(np.maximum(after, PROBABILITY_CLIP)) - np.log(np.maximum(before, PROBABILITY_CLIP))


# --- Fits of callers


def with_training(
    fitted: CalibrationMap,
    batch: Batch,
    options: Mapping[str, Any],
    seed: int,
    class_names: tuple[str, ...] | None = None,
) -> CalibrationMap:
    """Return the map with its cross-fitted gain, the digest of its rows, its options and seed, and names of classes."""
    stated = {name: list(value) if isinstance(value, tuple) else plain(value) for name, value in options.items()}
    sample = sample_of(batch)
    of_rows: dict[str, Any] = {} if sample is None else {"sample": sample}
    of_rows |= {} if batch.weights is None else {"weights_kind": batch.weights_kind}
    diagnostics = {**fitted.diagnostics, "fit": {"options": stated, "seed": seed, **of_rows}}
    gain = diagnostics.get("held_out_gain")
    if gain is None:
        gain = _cross_fitted_gain(Fitting.read(fitted.method, options, fitted.reduction), batch, seed, diagnostics)
    if gain is not None:
        diagnostics |= {"held_out_gain": gain} | _warning_of(gain, fitted)
    return replace(fitted, diagnostics=diagnostics, training_digest=digest(batch), class_names=class_names)


@explained
def fit(
    method: str,
    predictions: Any,
    labels: Any = None,
    *,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    clusters: Any = None,
    features: Any = None,
    scale: InputScale = "probability",
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
    **options: Any,
) -> CalibrationMap:
    """Fit a calibration map to predictions and labels.

    Parameters
    ----------
    method : str
        Name in ``calibrant.METHODS``.
    predictions : array_like, shape (n,) or (n, K)
        P(Y = 1), or one column per class: an array, list, tensor, Series, frame or dictionaries.
    labels : array_like, shape (n,)
        0 or 1, booleans, or 0 to K - 1. Other values are accepted with ``class_names`` or ``pos_label``, or if the
        column names of ``predictions`` are the labels.
    reduction : str, optional
        Event to calibrate: ``binary`` (default for (n,)), ``confidence``, ``class:k``, ``top:r`` or ``within-top:r``.
        For the whole vector: ``canonical``, ``classwise`` (one curve per class), ``top-label`` (one curve for the
        predicted class), ``ranks`` or ``within-ranks`` (one curve per rank). The default for (n, K) is ``canonical``
        if the method maps vectors, and ``confidence`` if not.
    class_names : sequence, optional
        Labels of the classes in the order of the columns, such as ``estimator.classes_``; for (n,), of the negative and
        the positive class. The map keeps them.
    pos_label : str, int or bool, optional
        Label of class 1, for two classes. Unnamed columns ``(n, 2)`` are in the order of the sorted labels in any case.
    weights, sample_weight : array_like, shape (n,), optional
        Non-negative weights of the losses of the rows, not all 0. ``sample_weight`` is an alias of ``weights``.
    weights_kind : {"importance", "frequency"}, default "importance"
        Only the ratios of importance weights matter; they count as (sum w)^2 / sum w^2 rows where a fit counts rows.
        Frequency weights are whole numbers of equal rows.
    clusters : array_like, shape (n,), or frame, optional
        Cluster of each row, such as its patient. Rows of a cluster are in the same fold of every cross-validation.
    features : DataFrame, or mapping of str to array_like of shape (n,), optional
        Features of the rows, by which ``segments`` tells them apart.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of ``predictions``.
    seed : int, default 0
        Seed of folds and random starts, if the method uses them.
    device : str, default "cpu"
        ``cpu``; with the extra ``torch`` a GPU: ``cuda``, ``cuda:1`` or ``auto``, for ``pl``, ``averaged`` and others.
    progress : callable, optional
        Called as ``progress(done, total, stage)`` during long fits; an exception that it raises ends the fit.
    **options : object
        Options of the method. ``classwise`` adds ``renormalise`` and ``keep_order``, ``top-label`` adds ``keep_order``,
        and ``ranks`` and ``within-ranks`` add ``keep_order`` and ``n_ranks``.

    Returns
    -------
    CalibrationMap
        The fitted map.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or the data do not determine the map: ``OneClass``, ``MissingClass``,
        ``OnePrediction``, ``TooFewRows`` or ``NotConverged``.

    See Also
    --------
    load : Reads a map from its document.
    CalibrantClassifier : Fits a map to the predictions of a scikit-learn classifier.

    Examples
    --------
    >>> import calibrant
    >>> isotonic = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> isotonic.apply([0.0, 0.5, 1.0])
    array([0. , 0.5, 1. ])
    """
    if not isinstance(method, str):
        raise UnknownMethod.at("/method", 'must be the name of a calibrator: fit("platt", predictions, labels)')
    read_seed(seed)
    device = read_device(device)
    rows = read_rows(
        predictions,
        labels,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        clusters=clusters,
        features=features,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
    )
    rows.warn_of_kind()
    warn_of_few(rows.batch)
    if rows.batch.predictions.scale == "probability" and not are_classes(rows.batch.predictions.given):
        warn_of_certain(rows.batch.predictions.given)
    batch, event = rows.batch, reduction_by_name(reduction, rows.class_names)
    check_named_event(event, rows.class_names, batch.predictions.n_classes)
    try:
        fitting = Fitting.read(method, options, event)
    except InvalidOption:
        refuse_misspelt("fit", options, list(signature(fit).parameters)[:-1])
        raise
    if features is not None and fitting.method.featured is None:
        raise InvalidOption.at("/features", f"are not used by {fitting.method.name}; segments uses them")
    fitted = fitting.run(batch, FitContext(seed, device, progress))
    return with_training(fitted, batch, options, seed, rows.class_names)


@explained
def update(predictions: Any, labels: Any = None, **arguments: Any) -> CalibrationMap:
    """Update a model on new rows: not at all, its intercept, or its intercept and slope, as tests choose.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        Predictions of the model for the new rows.
    labels : array_like, shape (n,)
        Their labels.
    **arguments : object
        Further arguments of ``fit``, such as ``weights``, ``scale`` and ``reduction``.

    Returns
    -------
    CalibrationMap
        ``fit("update", predictions, labels)``. Its ``diagnostics`` have the chosen ``update``, the
        ``likelihood_ratios`` and ``p_values`` of the tests, and the ``shrinkage``.

    Raises
    ------
    CalibrationError
        As for ``fit``: ``OneClass``, or ``NotConverged`` if the labels are separable.

    See Also
    --------
    fit : Fits a map of any method; ``METHODS["update"]`` defines the tests.
    shift_prior : Corrects predictions for a known base rate.

    Examples
    --------
    >>> import calibrant
    >>> predictions, labels = [0.2] * 400 + [0.7] * 200, ([1] * 4 + [0] * 6) * 40 + ([1] * 9 + [0]) * 20
    >>> updated = calibrant.update(predictions, labels)
    >>> updated.diagnostics["update"], updated.apply([0.2, 0.7]).round(2)
    ('intercept', array([0.42, 0.87]))
    """
    return fit("update", predictions, labels, **arguments)
