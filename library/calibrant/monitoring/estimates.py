"""Estimates of a model's performance on a window without labels, with intervals for the realised figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from scipy.special import chdtri, ndtri

from calibrant.calibrators import FitContext, Fitting
from calibrant.core.arguments import explained, refuse_misspelt
from calibrant.core.arrays import Compared
from calibrant.core.batch import Batch, Predictions, Scale
from calibrant.core.cells import Floats
from calibrant.core.errors import EmptyBatch, InvalidOption, ScaleMismatch, TooFewRows, WrongShape
from calibrant.core.inputs import predictions_for, read_rows, reduction_by_name
from calibrant.core.options import plain, read_fraction, read_seed
from calibrant.core.reductions import Event, event_probability, reduce, resolve_event
from calibrant.core.results import Framed, Table, n_rows
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.evidence import evidence, log_factors
from calibrant.monitoring.figures import Figures, binary_figures, class_figures
from calibrant.monitoring.tally import tally_of

#: Variation between labelled windows is added if Cochran's test rejects homogeneity at this level.
_HOMOGENEITY = 0.05
#: Figures without an upper limit of 1.
_UNLIMITED = ("log-loss",)
#: Labelled windows that an array is cut into, and the fewest rows of each.
_WINDOWS, _FEWEST = 10, 20
#: At least this many reference rows for each late row: the map's own error must not look like a change.
_REFERENCE_PER_LATE = 4


@dataclass(frozen=True)
class EstimatedFigure:
    """A figure estimated without labels.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        Prediction interval for the realised figure.
    sampling : float
        Standard deviation of the realised figure from the draw of labels alone.
    realised : float or None
        The figure from labels, once they are known.

    See Also
    --------
    PerformanceEstimate : Holds the figures of a window.

    Examples
    --------
    >>> from calibrant.monitoring.estimates import EstimatedFigure
    >>> EstimatedFigure(0.912, 0.89, 0.93, 0.01, realised=0.908).covered
    True
    """

    value: float
    low: float
    high: float
    sampling: float
    realised: float | None = None

    @property
    def covered(self) -> bool | None:
        """Whether the interval contains the realised figure; None if that is unknown.

        See Also
        --------
        PerformanceEstimator.realised : Adds realised figures.

        Examples
        --------
        >>> from calibrant import EstimatedFigure
        >>> EstimatedFigure(0.912, 0.91, 0.93, 0.01, realised=0.908).covered
        False
        """
        return None if self.realised is None else self.low <= self.realised <= self.high


@dataclass(frozen=True, eq=False, repr=False)
class PerformanceEstimate(Framed, Compared):
    """Performance of a window, estimated from its predictions.

    ``to_frame`` has a row for each figure, with the columns ``figure``, ``value``, ``low``, ``high``, ``sampling`` and
    ``realised``; none if the estimate is withheld.

    Attributes
    ----------
    n : int
        Number of rows of the window.
    figures : dict of str to EstimatedFigure
        ``accuracy``, ``auroc``, ``brier``, ``log-loss``, ``precision``, ``recall`` and ``f1``; undefined ones are left
        out. Empty if the estimate is withheld.
    confusion : ndarray, shape (K, K), or None
        Expected number of rows by class (row) and decision (column).
    confusion_low, confusion_high : ndarray, shape (K, K), or None
        Prediction intervals of these numbers.
    level : float
        Level of the intervals.
    withheld : str or None
        Why there is no estimate.

    See Also
    --------
    PerformanceEstimator.estimate : Creates this.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> p = np.random.default_rng(0).uniform(size=1000)
    >>> estimator = calibrant.fit_performance_estimator(p, np.random.default_rng(1).uniform(size=1000) < p)
    >>> sorted(estimator.estimate(p[:300]).figures)
    ['accuracy', 'auroc', 'brier', 'f1', 'log-loss', 'precision', 'recall']
    """

    n: int
    figures: Mapping[str, EstimatedFigure]
    confusion: Floats | None
    confusion_low: Floats | None
    confusion_high: Floats | None
    level: float
    withheld: str | None = None

    def _records(self) -> list[dict[str, Any]]:
        return [{"figure": name, **vars(figure)} for name, figure in self.figures.items()]

    def _table(self) -> Table:
        title = f"Estimated performance of {n_rows(self.n)} without labels"
        if self.withheld is not None:
            return Table(title, ["figure"], [], [f"withheld: {self.withheld}"])
        rows = [(name, at.value, at.low, at.high, at.realised) for name, at in self.figures.items()]
        notes = ["assumes that P(y | prediction) is that of the reference; a change of it is not seen"]
        return Table(title, ["figure", "value", "low", "high", "realised"], rows, notes)


@dataclass(frozen=True)
class _Window:
    """Predictions of a window with weights; ``labels (n,)`` for labelled windows."""

    predictions: Predictions
    w: Floats
    squares: Floats
    labels: Any = None
    class_names: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class PerformanceEstimator(Compared):
    """A calibration map of a reference period, with its error as estimated from labelled windows.

    ``fit_performance_estimator`` creates it; the constructor is not meant to be called directly.

    Attributes
    ----------
    map : CalibrationMap
        Map fitted to the whole reference period.
    without : tuple of CalibrationMap
        Maps fitted without one of the labelled windows.
    between : ndarray
        Variance of each figure between labelled windows, beyond sampling.
    threshold : float
        Predictions of one event of at least this value count as positive.
    n : int
        Rows of the reference period.
    effective : float
        Effective number of rows of the reference period: ``n``, or with weights (sum w)^2 / sum w^2.
    reduction : str
        Event whose probability the map calibrates, or ``canonical``.
    scale : {"probability", "logit"}
        Scale of the predictions.
    class_names : tuple of str or None
        Names of the classes, if they are known.

    See Also
    --------
    fit_performance_estimator : Fits this.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> p = np.random.default_rng(0).uniform(size=1000)
    >>> estimator = calibrant.fit_performance_estimator(p, np.random.default_rng(1).uniform(size=1000) < p)
    >>> estimator.map.method, len(estimator.without), estimator.n
    ('isotonic', 10, 1000)
    """

    map: CalibrationMap
    without: tuple[CalibrationMap, ...] = field(repr=False)
    between: Floats = field(repr=False)
    threshold: float
    n: int
    effective: float
    reduction: str
    scale: Scale
    class_names: tuple[str, ...] | None = None

    def estimate(
        self,
        predictions: Any,
        *,
        level: float = 0.95,
        late: tuple[Any, Any] | EventTally | None = None,
        alpha: float = 0.01,
    ) -> PerformanceEstimate:
        """Estimate the performance of a window from its predictions.

        Parameters
        ----------
        predictions : array_like, shape (n,) or (n, K), or EventTally
            Predictions of the window, as in the reference. The labels of a tally are not used.
        level : float, default 0.95
            Level of the prediction intervals, in (0, 1).
        late : (predictions, labels) or EventTally, optional
            Labelled rows that arrived since the reference. If they give evidence against the map, the estimate is
            withheld.
        alpha : float, default 0.01
            Level of that test, in (0, 1).

        Returns
        -------
        PerformanceEstimate
            Figures with prediction intervals, or the reason why they are withheld.

        Raises
        ------
        CalibrationError
            If an argument is invalid.

        See Also
        --------
        realised : Compares an estimate with labels.

        Notes
        -----
        Late labels are tested by betting on the calibrated probabilities (of the predicted class, for K classes). Only
        the latest rows are used, at most one for every four effective reference rows, so that the error of the map is
        small compared with the errors that the test can detect. O(n log n K), or O(cells) for a tally.

        Examples
        --------
        >>> import calibrant, numpy as np
        >>> p = np.random.default_rng(0).uniform(size=1000)
        >>> y = np.random.default_rng(1).uniform(size=1000) < p
        >>> estimator = calibrant.fit_performance_estimator(p, y)
        >>> found = estimator.estimate(p[:300]).figures["accuracy"]
        >>> bool(found.low < (y == (p >= 0.5))[:300].mean() < found.high)
        True
        >>> estimator.estimate(p[:300], late=(p, 1 - y)).withheld
        'labels that arrived later reject the calibration of the reference at alpha = 0.01'
        """
        level, alpha = read_fraction(level, "/level"), read_fraction(alpha, "/alpha")
        window = self._window(predictions)
        n = round(float(window.w.sum()))
        if late is not None and self._rejected(late, alpha):
            reason = f"labels that arrived later reject the calibration of the reference at alpha = {alpha:g}"
            return PerformanceEstimate(n, {}, None, None, None, level, reason)
        figures = _figures(self.map, window, self.threshold)
        parts = np.array([_figures(fitted, window, self.threshold).flat() for fitted in self.without])
        variance = figures.flat_variances() + _jackknife(parts) + self.between
        reach = float(ndtri(0.5 + level / 2.0)) * np.sqrt(variance)
        return _estimate(figures, reach, n, level)

    def realised(self, estimate: PerformanceEstimate, predictions: Any, labels: Any = None) -> PerformanceEstimate:
        """Add the realised figures to an estimate, once labels are known.

        Parameters
        ----------
        estimate : PerformanceEstimate
            Result of ``estimate`` for these rows.
        predictions : array_like, shape (n,) or (n, K), or EventTally
            The predictions of the window; a tally has the labels too.
        labels : array_like, shape (n,), optional
            Their labels, as in the reference.

        Returns
        -------
        PerformanceEstimate
            The estimate with ``realised`` set in its figures.

        Raises
        ------
        CalibrationError
            If the rows are invalid.

        See Also
        --------
        estimate : Estimates the figures.

        Examples
        --------
        >>> import calibrant, numpy as np
        >>> p = np.random.default_rng(0).uniform(size=1000)
        >>> y = np.random.default_rng(1).uniform(size=1000) < p
        >>> estimator = calibrant.fit_performance_estimator(p, y)
        >>> found = estimator.realised(estimator.estimate(p[:300]), p[:300], y[:300])
        >>> found.figures["accuracy"].covered
        True
        """
        window = self._window(predictions, labels)
        if window.labels is None:
            raise EmptyBatch.at("/labels", "are needed for the realised figures")
        truth = _realised(self.map, window, self.threshold)
        values = dict(zip(truth.names, truth.values.tolist(), strict=True))
        figures = {
            name: replace(figure, realised=values[name] if math.isfinite(values[name]) else None)
            for name, figure in estimate.figures.items()
        }
        return replace(estimate, figures=figures)

    def _window(self, predictions: Any, labels: Any = None) -> _Window:
        if isinstance(predictions, EventTally) and predictions.reduction != self.reduction:
            raise InvalidOption.at("/predictions", f"must be a tally of the event {self.reduction}")
        window = _read(predictions, labels, self.scale, self.reduction, known=self.class_names)
        self.map.check(window.predictions)
        return window

    def _rejected(self, late: tuple[Any, Any] | EventTally, alpha: float) -> bool:
        if not isinstance(late, EventTally) and (not isinstance(late, tuple | list) or len(late) != 2):
            raise InvalidOption.at("/late", "must be (predictions, labels), or a tally")
        window = self._window(late) if isinstance(late, EventTally) else self._window(*late)
        if window.labels is None:
            raise EmptyBatch.at("/late", "must have labels")
        c, y, counts = self.map.apply_checked(window.predictions), window.labels, window.w
        if c.ndim == 2:
            c, y = c.max(axis=1), (c.argmax(axis=1) == y).astype(np.int8)
        most = max(int(self.effective) // _REFERENCE_PER_LATE, 1)
        if counts.sum() > most and not isinstance(late, EventTally):
            c, y, counts = c[-most:], y[-most:], counts[-most:]
        elif counts.sum() > most:
            counts = np.floor(counts * (most / counts.sum()))
        filled = counts > 0
        counted = tally_of(
            np.clip(c[filled], 0.0, 1.0), y[filled].astype(np.int8), counts=counts[filled].astype(np.int64)
        )
        return evidence(log_factors(counted)[None]).level <= alpha


@explained
def fit_performance_estimator(
    predictions: Any,
    labels: Any = None,
    *,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    reduction: str | None = None,
    method: str | None = None,
    threshold: float = 0.5,
    windows: int = _WINDOWS,
    scale: Scale = "probability",
    seed: int = 0,
    **options: Any,
) -> PerformanceEstimator:
    """Learn from a labelled reference period how to estimate performance without labels.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K), or sequence of EventTally
        Predictions of the reference period in the order of time, or one tally per labelled window.
    labels, class_names, pos_label : optional
        Their labels (unless tallies are given) and names, as for ``evaluate``.
    weights, sample_weight : optional
        Covariate-shift weights, such as ``density_ratios`` makes for one window. Only their ratios matter.
    reduction : str, optional
        ``binary`` (default for (n,)), ``confidence``, or another event; ``canonical`` (default for (n, K)) for all
        classes.
    method : str, optional
        Calibrator; by default ``isotonic``, and ``sms`` for all classes.
    threshold : float, default 0.5
        Predictions of one event of at least this value count as positive. For all classes the decision is the largest
        probability.
    windows : int, default 10
        Number of consecutive labelled windows that arrays are cut into, from 2 to 100.
    scale : {"probability", "logit"}, default "probability"
        Scale of ``predictions``.
    seed : int, default 0
        Seed of the fits.
    **options : object
        Options of the method.

    Returns
    -------
    PerformanceEstimator
        Estimates the performance of windows.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or there are fewer than 20 rows for each window (``TooFewRows``).

    See Also
    --------
    density_ratios : Makes covariate-shift weights from features.

    Notes
    -----
    With calibrated probabilities every figure is a ratio of expected counts. The estimate assumes that P(y |
    prediction) is that of the reference (or P(y | features), with weights); it cannot detect a change of this
    distribution. The variance of a realised figure around its estimate has three parts: the draw of labels (first
    order), the error of the map (jackknife over the windows), and variation between labelled windows that these two do
    not explain (DerSimonian & Laird 1986, if Cochran's test rejects homogeneity at 5 %). W + 1 fits for W windows.

    With weights the error of the map is that of about (sum w)^2 / sum w^2 reference rows, the attribute ``effective``;
    the draw of labels is that of the window's own rows. Errors of the weights themselves are not in the intervals.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> p = np.random.default_rng(0).uniform(size=1000)
    >>> y = np.random.default_rng(1).uniform(size=1000) < p
    >>> estimator = calibrant.fit_performance_estimator(p, y)
    >>> round(estimator.estimate(p).figures["auroc"].value, 2)
    0.83
    >>> feature = np.random.default_rng(2).choice(["a", "b"], (1000, 1))
    >>> ratios = calibrant.density_ratios(feature, [["a"], ["a"], ["a"], ["b"]])
    >>> calibrant.fit_performance_estimator(p, y, weights=ratios).effective < 1000
    True
    """
    threshold, seed = read_fraction(threshold, "/threshold"), read_seed(seed)
    if sample_weight is not None and weights is not None:
        raise InvalidOption.at("/sample_weight", "is another name of weights; pass one of the two")
    weights = sample_weight if weights is None else weights
    how = {"weights": weights, "class_names": class_names, "pos_label": pos_label}
    parts = _labelled(predictions, labels, windows, scale, reduction, **how)
    event = _event_of(predictions, parts[0].predictions, reduction_by_name(reduction, parts[0].class_names))
    fitted_with: dict[str, Any] = {"method": method, "options": options, "seed": seed}
    try:
        estimator = _fitted(parts, event, threshold, weighted=weights is not None, **fitted_with)
    except InvalidOption:
        refuse_misspelt(
            "fit_performance_estimator", options, list(signature(fit_performance_estimator).parameters)[:-1]
        )
        raise
    return replace(estimator, scale=_scale_of(predictions, scale))


def estimator_of_event(event: Event, w: Floats, name: str, threshold: float) -> PerformanceEstimator:
    """Return the estimator of reference rows with covariate-shift weights ``w (n,)``, already reduced to an event.

    ``name`` is ``confidence`` or another event. Raises ``TooFewRows`` and ``OneClass``.
    """
    ratios = np.asarray(w / w.mean(), np.float64)
    whole = _Window(Predictions(np.asarray(event.p, np.float64), "probability"), ratios, ratios**2, event.y)
    parts = _cut(whole, _WINDOWS)
    return _fitted(parts, name, threshold, weighted=True)


def _fitted(
    parts: Sequence[_Window],
    event: str,
    threshold: float,
    *,
    weighted: bool,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> PerformanceEstimator:
    """Return the estimator of labelled windows."""
    whole = parts[0].predictions.n_classes is not None
    fitted_to = "canonical" if whole else "confidence" if event == "confidence" else "binary"
    fitting = Fitting.read(method or ("sms" if whole else "isotonic"), options or {}, fitted_to)
    context, fits = FitContext(seed), []
    for left_out in (None, *range(len(parts))):
        others = [part for j, part in enumerate(parts) if j != left_out]
        fits.append(fitting.run(_joined(others, weighted=weighted), context))
    estimated = [_figures(fit, part, threshold) for fit, part in zip(fits[1:], parts, strict=True)]
    realised = [_realised(fits[0], part, threshold) for part in parts]
    errors = np.array([figures.flat() - two.flat() for figures, two in zip(realised, estimated, strict=True)])
    sampling = np.array([figures.flat_variances() for figures in estimated])
    total = sum(float(part.w.sum()) for part in parts)
    effective = total**2 / sum(float(part.squares.sum()) for part in parts)
    n = sum(len(part.w) for part in parts) if weighted else round(total)
    # Of the error of the map in each window, from the same fits.
    moved = np.array(
        [_jackknife(np.array([_figures(fit, part, threshold).flat() for fit in fits[1:]])) for part in parts]
    )
    between = _between(errors, sampling, moved)
    names = parts[0].class_names
    return PerformanceEstimator(fits[0], tuple(fits[1:]), between, threshold, n, effective, event, "probability", names)


def _scale_of(predictions: Any, scale: Scale) -> Scale:
    return (
        predictions[0].scale if isinstance(predictions, Sequence) and isinstance(predictions[0], EventTally) else scale
    )


def _event_of(predictions: Any, read: Predictions, reduction: str | None) -> str:
    """Return the name of the event, or ``canonical``."""
    if isinstance(predictions, Sequence) and isinstance(predictions[0], EventTally):
        return str(predictions[0].reduction)
    return "canonical" if read.n_classes is not None else resolve_event(reduction, None)


def _labelled(
    predictions: Any,
    labels: Any,
    windows: int,
    scale: Scale,
    reduction: str | None,
    *,
    weights: Any,
    class_names: Any,
    pos_label: Any,
) -> list[_Window]:
    """Return the labelled windows of the reference."""
    if isinstance(predictions, EventTally):
        raise WrongShape.at("/predictions", "must be a sequence of tallies, one for each labelled window")
    if isinstance(predictions, Sequence) and len(predictions) and isinstance(predictions[0], EventTally):
        if weights is not None:
            raise InvalidOption.at("/weights", "cannot be combined with tallies")
        if len(predictions) < 2:
            raise TooFewRows.at("/predictions", "must have at least two tallies, one for each labelled window")
        return [_read(part, None, predictions[0].scale, predictions[0].reduction) for part in predictions]
    count = plain(windows)
    if type(count) is not int or not 2 <= count <= 100:
        raise InvalidOption.at("/windows", "must be an integer from 2 to 100")
    options = {"weights": weights, "class_names": class_names, "pos_label": pos_label}
    whole = _read(predictions, labels, scale, reduction, **options)
    if whole.labels is None:
        raise EmptyBatch.at("/labels", "are needed for the reference period")
    return _cut(whole, count)


def _cut(whole: _Window, count: int) -> list[_Window]:
    """Cut a labelled window into consecutive ones; rows without weight are left out. Raises ``TooFewRows``."""
    weighted_rows = np.flatnonzero(whole.w)
    n, least = len(weighted_rows), count * _FEWEST
    if n < least:
        weighted = "" if n == len(whole.w) else " of positive weight"
        raise TooFewRows.at("/predictions", f"has {n_rows(n)}{weighted}, but {count} windows need at least {least}")
    return [
        replace(
            whole,
            predictions=whole.predictions.rows(at),
            w=whole.w[at],
            squares=whole.squares[at],
            labels=whole.labels[at],
        )
        for at in (weighted_rows[n * j // count : n * (j + 1) // count] for j in range(count))
    ]


def _read(
    predictions: Any,
    labels: Any,
    scale: Scale,
    reduction: str | None,
    known: tuple[str, ...] | None = None,
    **options: Any,
) -> _Window:
    """Check a window; unless the whole vectors are wanted, it is reduced to the probabilities of an event.

    ``options`` are those of ``read_rows``, and ``known`` the names of the classes of the reference.
    """
    if isinstance(predictions, EventTally):
        if predictions.scale != scale:
            raise ScaleMismatch.at("/predictions", f"must be on the scale {scale}")
        event = predictions.event()
        w = np.ones(len(event)) if event.w is None else event.w
        return _Window(Predictions(event.p, "probability"), w, w, event.y)
    if labels is None:
        read = predictions_for(predictions, scale, known)
        w = np.ones(len(read))
        return _Window(_reduced(read, reduction), w, w)
    rows = read_rows(predictions, labels, scale=scale, known=known, **options)
    batch, reduction = rows.batch, reduction_by_name(reduction, rows.class_names)
    w = np.ones(len(batch)) if batch.weights is None else batch.weights / batch.weights.mean()
    if _of_vectors(reduction, batch.predictions):
        return _Window(batch.predictions, w, w**2, batch.labels, rows.class_names)
    event = reduce(batch, resolve_event(reduction, batch.predictions.n_classes))
    return _Window(_reduced(batch.predictions, reduction), w, w**2, event.y, rows.class_names)


def _of_vectors(reduction: str | None, predictions: Predictions) -> bool:
    return reduction == "canonical" or (reduction is None and predictions.n_classes is not None)


def _reduced(predictions: Predictions, reduction: str | None) -> Predictions:
    if _of_vectors(reduction, predictions):
        return predictions
    return Predictions(event_probability(predictions, resolve_event(reduction, predictions.n_classes)), "probability")


def _joined(parts: Sequence[_Window], *, weighted: bool) -> Batch:
    """Return the rows of several labelled windows as a batch to fit."""
    first = parts[0].predictions
    predictions = replace(
        first, given=np.concatenate([part.predictions.given for part in parts]), clipped=0, renormalised=0
    )
    w = np.concatenate([part.w for part in parts])
    labels = np.concatenate([part.labels for part in parts]).astype(np.int64)
    return Batch(predictions, labels, None if (w == 1.0).all() else w, "importance" if weighted else "frequency")


def _figures(map: CalibrationMap, window: _Window, threshold: float) -> Figures:
    return _of(map.apply_checked(window.predictions), window, threshold, confident=map.reduction == "confidence")


def _realised(map: CalibrationMap, window: _Window, threshold: float) -> Figures:
    """Return the same from labels; only the event and shape of the map matter."""
    labels = window.labels
    truth = np.eye(window.predictions.given.shape[1])[labels] if window.predictions.given.ndim == 2 else labels
    return _of(truth.astype(np.float64), window, threshold, confident=map.reduction == "confidence")


def _of(c: Floats, window: _Window, threshold: float, *, confident: bool) -> Figures:
    p = window.predictions.values.astype(np.float64, copy=False)
    if p.ndim == 2:
        return class_figures(c, p, p.argmax(axis=1), window.w, window.squares)
    decided = np.full(len(p), True) if confident else p >= threshold
    return binary_figures(c, p, decided, window.w, window.squares, of_confidence=confident)


def _jackknife(parts: Floats) -> Floats:
    """Return the delete-a-group jackknife variance of estimates without one group each, ``(W, F)``."""
    variance: Floats = np.square(parts - parts.mean(axis=0)).sum(axis=0) * (len(parts) - 1) / len(parts)
    return variance


def _between(errors: Floats, sampling: Floats, moved: Floats) -> Floats:
    """Return the variance between windows of ``errors (W, F)``, 0 if none is found.

    ``sampling`` are the variances of the draw of labels, and ``moved`` those of a map of all windows; the errors are of
    the maps of the other windows.
    """
    count = len(errors)
    expected = np.maximum(sampling, np.finfo(np.float64).tiny) + moved * count / (count - 1)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        weight = 1.0 / expected
        cochran = (np.square(errors) * weight).sum(axis=0)
        total = weight.sum(axis=0)
        variance = (cochran - count) / total
    rejected = (cochran > chdtri(count, _HOMOGENEITY)) & (sampling > 0.0).all(axis=0) & np.isfinite(variance)
    return np.where(rejected, np.maximum(np.nan_to_num(variance), 0.0), 0.0)


def _estimate(estimated: Figures, reach: Floats, n: int, level: float) -> PerformanceEstimate:
    count = len(estimated.names)
    low, high = estimated.flat() - reach, estimated.flat() + reach
    figures = {}
    for j, name in enumerate(estimated.names):
        if math.isfinite(estimated.values[j]):
            top = math.inf if name in _UNLIMITED else estimated.confusion.shape[0] * 1.0 if name == "brier" else 1.0
            ends = max(float(low[j]), 0.0), min(float(high[j]), top)
            figures[name] = EstimatedFigure(float(estimated.values[j]), *ends, math.sqrt(float(estimated.variances[j])))
    shape = estimated.confusion.shape
    lowest, highest = (np.clip(end[count:], 0.0, 1.0).reshape(shape) * n for end in (low, high))
    return PerformanceEstimate(n, figures, estimated.confusion * n, lowest, highest, level)
