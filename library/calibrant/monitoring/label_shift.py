"""Class frequencies of an unlabelled window under label shift, and the calibration map corrected for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from scipy.special import chdtrc, chdtri, ndtri

from calibrant.calibrators import FitContext, Fitting
from calibrant.core.arguments import explained
from calibrant.core.arrays import Compared
from calibrant.core.batch import Batch, Integers, Predictions, Scale
from calibrant.core.cells import Floats
from calibrant.core.errors import TooFewRows, UnknownMethod, WrongShape
from calibrant.core.inputs import predictions_for, read_rows
from calibrant.core.options import read_fraction, read_seed
from calibrant.core.results import Framed, Table, n_rows, plain_json
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.linear_softmax import MatrixScaling, VectorScaling
from calibrant.maps.softmax_map import SoftmaxRegression

#: Steps of EM, and the largest change of a class frequency in the last one.
_STEPS, _TOLERANCE = 5_000, 1e-8
#: Frequencies below this fraction of 1 / n are 0 up to the rounding of EM, and the least weight of a corrected map.
_ZERO, _LEAST = 1e-2, 1e-9
#: Groups of the jackknife over the reference, and parts of the confidence in the test of the assumption.
_GROUPS, _PARTS = 10, 3
#: Fewest expected rows of a cell of the test.
_EXPECTED = 10.0


@dataclass(frozen=True, eq=False, repr=False)
class LabelShift(Framed, Compared):
    """Class frequencies of an unlabelled window, under the assumption that only they differ from the reference.

    ``to_frame`` has a row for each class, with the columns ``class`` (name, or number from 0), ``reference``,
    ``estimated``, ``low``, ``high`` and ``bbse``; missing values if the estimate is withheld.

    Attributes
    ----------
    n : int
        Number of rows of the window.
    reference : ndarray, shape (K,)
        Class frequencies of the reference.
    estimated, low, high : ndarray, shape (K,), or None
        Estimated class frequencies of the window with confidence intervals; None if withheld.
    bbse : ndarray, shape (K,), or None
        Estimate from predicted classes alone; None if the confusion matrix is singular or the estimate is withheld.
    p_value : float
        P-value of the test that the window is a mixture of the classes of the reference.
    level : float
        Level of the intervals.
    map : CalibrationMap or None
        Map for the reference, corrected for the class frequencies of the window; None if withheld.
    withheld : str or None
        Why there is no estimate.
    class_names : tuple of str or None
        Names of the classes, if they are known.

    See Also
    --------
    estimate_label_shift, estimate_event_shift : Create this.

    Examples
    --------
    >>> import calibrant
    >>> logits, labels, _ = calibrant.logistic_normal(2000, n_classes=3, seed=1)
    >>> found = calibrant.estimate_label_shift(logits[:1000], labels[:1000], logits[1000:], scale="logit")
    >>> found.weights.shape, found.map.method
    ((3,), 'sms')
    """

    n: int
    reference: Floats
    estimated: Floats | None
    low: Floats | None
    high: Floats | None
    bbse: Floats | None
    p_value: float
    level: float
    map: CalibrationMap | None = field(default=None)
    withheld: str | None = None
    class_names: tuple[str, ...] | None = None

    @property
    def weights(self) -> Floats | None:
        """Ratios of estimated frequencies to those of the reference, ``(K,)``; None if withheld.

        See Also
        --------
        estimate_label_shift : Estimates the frequencies.

        Examples
        --------
        >>> import numpy as np
        >>> from calibrant import LabelShift
        >>> q = np.array([0.2, 0.8])
        >>> LabelShift(9, np.array([0.4, 0.6]), q, q, q, None, 0.5, 0.95).weights.round(3).tolist()
        [0.5, 1.333]
        """
        return None if self.estimated is None else self.estimated / self.reference

    def _records(self) -> list[dict[str, Any]]:
        names = self.class_names or range(len(self.reference))
        columns = {name: getattr(self, name) for name in ("reference", "estimated", "low", "high", "bbse")}
        return [
            {"class": name, **{key: None if values is None else float(values[k]) for key, values in columns.items()}}
            for k, name in enumerate(names)
        ]

    def _document(self) -> dict[str, Any]:
        document = plain_json(replace(self, map=None))
        del document["class_names"]
        return {**document, "map": None if self.map is None else self.map.to_document()}

    def _table(self) -> Table:
        title = f"Class frequencies of {n_rows(self.n)} without labels"
        if self.estimated is None or self.low is None or self.high is None:
            return Table(title, ["class"], [], [f"withheld: {self.withheld}"])
        bbse = [None] * len(self.reference) if self.bbse is None else self.bbse.tolist()
        columns = (self.reference.tolist(), self.estimated.tolist(), self.low.tolist(), self.high.tolist(), bbse)
        names = self.class_names or tuple(map(str, range(len(self.reference))))
        rows = [(name, *values) for name, *values in zip(names, *columns, strict=True)]
        notes = ["assumes that only class frequencies changed, and not the predictions of a class"]
        return Table(title, ["class", "reference", "estimated", "low", "high", "BBSE"], rows, notes)


@explained
def estimate_label_shift(
    reference: Any,
    labels: Any,
    predictions: Any,
    *,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    method: str = "sms",
    level: float = 0.95,
    alpha: float = 0.001,
    scale: Scale = "probability",
    seed: int = 0,
    **options: Any,
) -> LabelShift:
    """Estimate the class frequencies of a window without labels, and correct a calibration map for them.

    Parameters
    ----------
    reference : array_like, shape (n, K)
        Predictions of the reference period.
    labels : array_like, shape (n,)
        Their labels, with at least ten rows of every class.
    predictions : array_like, shape (m, K)
        Predictions of the window.
    class_names, pos_label : optional
        As for ``evaluate``.
    method : str, default "sms"
        Calibrator with an intercept for each class: ``sms``, ``svs``, ``multinomial``, ``vector``, ``matrix``,
        ``matrix-odir``, ``dirichlet-l2`` or ``dirichlet-odir``.
    level : float, default 0.95
        Level of the confidence intervals, in (0, 1).
    alpha : float, default 0.001
        The estimate is withheld if the test of its assumption has a smaller p-value. In (0, 1).
    scale : {"probability", "logit"}, default "probability"
        Scale of the predictions.
    seed : int, default 0
        Seed of the fits, and of the groups of the jackknife.
    **options : object
        Options of the method.

    Returns
    -------
    LabelShift
        Class frequencies with intervals, the check by BBSE, and the corrected map; or why they are withheld.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or a class of the reference has fewer than ten rows (``TooFewRows``).

    See Also
    --------
    fit_performance_estimator : Estimates performance if P(y | prediction) did not change.

    Notes
    -----
    Label shift means that P(prediction | class) is that of the reference. Then the frequencies have the likelihood
    prod_i sum_k q_k c_ik / p_k for calibrated c and reference frequencies p, which EM maximises (Saerens et al. 2002)
    on bias-corrected calibration (Alexandari et al. 2020); p are the means of c over the reference. BBSE solves the
    equations of the predicted classes (Lipton et al. 2018). Intervals combine the information of the window with a
    jackknife over ten groups of the reference; for a class without estimated rows, the upper end is from the likelihood
    towards it. A chi-square test compares rows by predicted class and confidence with the estimated mixture of the
    reference's classes, with the noise of both. Eleven fits, and O(m K) per step of EM.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> logits, labels, _ = calibrant.logistic_normal(6000, n_classes=3, seed=0)
    >>> rows = np.arange(3000, 6000)
    >>> rows = rows[(labels[rows] != 1) | (rows % 4 == 0)]  # three quarters of class 1 are missing
    >>> found = calibrant.estimate_label_shift(logits[:3000], labels[:3000], logits[rows], scale="logit")
    >>> bool(found.low[1] < np.mean(labels[rows] == 1) < found.high[1]), bool(found.weights[1] < 0.6)
    (True, True)
    """
    level, alpha, seed = read_fraction(level, "/level"), read_fraction(alpha, "/alpha"), read_seed(seed)
    rows = read_rows(reference, labels, class_names=class_names, pos_label=pos_label, scale=scale)
    if rows.batch.predictions.n_classes is None:
        other = "of one event, pass tallies to estimate_event_shift"
        raise WrongShape.at("/reference", f"must have shape (n, K); {other}")
    batch, window = rows.batch, predictions_for(predictions, scale, rows.class_names)
    if window.n_classes != batch.predictions.n_classes and batch.predictions.n_classes is not None:
        raise WrongShape.at("/predictions", f"must have the {batch.predictions.n_classes} columns of /reference")
    shift = shift_of_window(fit_vector_reference(batch, method, options, seed), window, level, alpha)
    return replace(shift, class_names=rows.class_names)


_WITH_INTERCEPTS = (SoftmaxRegression, MatrixScaling, VectorScaling)


@dataclass(frozen=True)
class VectorReference:
    """What estimates need of a reference: its rows, their class ``frequencies (K,)``, and fits.

    ``fitted`` is the fit to all rows; ``groups`` are the fits without each group of the jackknife. Each has its mean
    calibrated probabilities, ``(K,)``.
    """

    batch: Batch
    frequencies: Floats
    fitted: tuple[CalibrationMap, Floats]
    groups: tuple[tuple[CalibrationMap, Floats], ...]


def fit_vector_reference(
    batch: Batch, method: str = "sms", options: Mapping[str, Any] | None = None, seed: int = 0
) -> VectorReference:
    """Return the fits to a reference; raises ``CalibrationError``. Eleven fits."""
    K = _check(batch)
    fitting = Fitting.read(method, dict(options or {}), "canonical")
    fitting.check(batch)
    fitted = _fit(fitting, batch, seed)
    if not isinstance(fitted[0].function, _WITH_INTERCEPTS):
        raise UnknownMethod.at("/method", "must be a calibrator with an intercept for each class")
    frequencies = np.bincount(batch.labels, minlength=K) / len(batch)
    return VectorReference(batch, frequencies, fitted, _of_groups(fitting, batch, seed))


def shift_of_window(reference: VectorReference, window: Predictions, level: float, alpha: float) -> LabelShift:
    """Return the estimate for a window with rows. O(n K) per step of EM."""
    frequencies, fitted = reference.frequencies, reference.fitted[0]
    q, ratios = _estimated(reference.fitted, window)
    p_value = _misfit(reference.batch, frequencies, window.values.astype(np.float64), q)
    if p_value < alpha:
        reason = f"the predictions are not a mixture of those of the reference's classes (p = {p_value:.2g})"
        return LabelShift(len(window), frequencies, None, None, None, None, p_value, level, withheld=reason)
    of_groups = np.array([_estimated(fitted_to_group, window)[0] for fitted_to_group in reference.groups])
    low, high = _interval(q, ratios, of_groups, level)
    function = cast(SoftmaxRegression | MatrixScaling | VectorScaling, fitted.function)
    corrected = replace(
        fitted,
        function=replace(function, intercepts=_shifted(function.intercepts, q, frequencies)),
        diagnostics={**fitted.diagnostics, "class_frequencies": q.tolist()},
        training_digest=None,
    )
    bbse = _bbse(reference.batch, window.values)
    return LabelShift(len(window), frequencies, q, low, high, bbse, p_value, level, corrected)


#: Number of classes that are shown.
_SHOWN = 20


def most_changed(estimated: Sequence[float], reference: Sequence[float]) -> list[int]:
    """Return the classes to show: the 20 whose frequencies changed most, ascending."""
    changes = [abs(now - other) for now, other in zip(estimated, reference, strict=True)]
    return sorted(sorted(range(len(changes)), key=lambda k: -changes[k])[:_SHOWN])


def _check(batch: Batch) -> int:
    K = batch.predictions.n_classes
    if K is None:
        raise WrongShape.at("/reference", "must have shape (n, K)")
    counts = np.bincount(batch.labels, minlength=K)
    few = np.flatnonzero(counts < _GROUPS)
    if len(few):
        raise TooFewRows.at(
            "/labels", f"need at least {_GROUPS} rows of every class; class {few[0]} has {counts[few[0]]}"
        )
    return K


def class_frequencies(calibrated: Floats, reference: Floats) -> Floats:
    """Return the most likely class frequencies ``(K,)`` of rows, by EM (Saerens et al. 2002).

    ``calibrated (n, K)`` are calibrated under the class frequencies ``reference (K,)``, which are positive. O(n K) per
    step.
    """
    return _maximised(calibrated / reference, reference)


def _maximised(ratios: Floats, start: Floats) -> Floats:
    q = start / start.sum()
    for _ in range(_STEPS):
        moved = q * ((1.0 / (ratios @ q)) @ ratios) / len(ratios)
        moved /= moved.sum()
        done = float(np.abs(moved - q).max()) < _TOLERANCE
        q = moved
        if done:
            break
    q[q < _ZERO / len(ratios)] = 0.0
    shares: Floats = q / q.sum()
    return shares


def _fit(fitting: Fitting, batch: Batch, seed: int) -> tuple[CalibrationMap, Floats]:
    """Return a fit and its mean calibrated probabilities."""
    fitted = fitting.run(batch, FitContext(seed))
    return fitted, np.maximum(fitted.apply_checked(batch.predictions).mean(axis=0), np.finfo(np.float64).tiny)


def _estimated(fit: tuple[CalibrationMap, Floats], window: Predictions) -> tuple[Floats, Floats]:
    """Return the class frequencies of the window, and calibrated probabilities divided by those of the reference."""
    fitted, mean = fit
    ratios = np.maximum(fitted.apply_checked(window), np.finfo(np.float64).tiny) / mean
    return _maximised(ratios, mean), ratios


def _of_groups(fitting: Fitting, batch: Batch, seed: int) -> tuple[tuple[CalibrationMap, Floats], ...]:
    """Return the fits without each of the groups of the reference.

    Groups are drawn within classes, so that every class stays.
    """
    group = np.empty(len(batch), dtype=np.int64)
    random = np.random.default_rng(seed)
    for k in range(int(batch.labels.max()) + 1):
        rows = np.flatnonzero(batch.labels == k)
        group[random.permutation(rows)] = np.arange(len(rows)) % _GROUPS
    return tuple(_fit(fitting, batch.rows(group != left_out), seed) for left_out in range(_GROUPS))


def _interval(q: Floats, ratios: Floats, groups: Floats, level: float) -> tuple[Floats, Floats]:
    """Return confidence limits of class frequencies; see the notes of ``estimate_label_shift``."""
    reach = float(ndtri(0.5 + level / 2.0))
    scores = ratios / (ratios @ q)[:, None]
    inside = np.flatnonzero(q)
    information = scores[:, inside].T @ scores[:, inside]
    # The inverse on the tangent of the simplex, with an orthonormal basis of vectors of sum 0.
    basis = np.linalg.svd(np.ones((1, len(inside))))[2][1:].T
    covariance = basis @ np.linalg.pinv(basis.T @ information @ basis) @ basis.T
    variance = np.zeros(len(q))
    variance[inside] = covariance.diagonal()
    variance += np.square(groups - groups.mean(axis=0)).sum(axis=0) * (_GROUPS - 1) / _GROUPS
    low, high = q - reach * np.sqrt(variance), q + reach * np.sqrt(variance)
    drop = float(chdtri(1, 1.0 - level)) / 2.0
    for k in np.flatnonzero(q == 0.0):
        high[k] = max(high[k], _towards(scores[:, k] - 1.0, drop))
    if len(inside) == 1:  # the simplex has no tangent there; the frequency is 1 minus that of another class
        low[inside] = np.minimum(low[inside], 1.0 - np.delete(high, inside).max())
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _towards(slope: Floats, drop: float) -> float:
    """Return the step t in [0, 1] at which sum log(1 + t slope) is ``drop`` below its value at 0, by bisection."""
    low, high = 0.0, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2.0
        if float(np.log1p(middle * slope).sum()) > -drop:
            low = middle
        else:
            high = middle
    return high


def _bbse(batch: Batch, window: Floats) -> Floats | None:
    """Return class frequencies from predicted classes (Lipton et al. 2018), clipped at 0."""
    K = window.shape[1]
    joint = np.zeros((K, K))
    np.add.at(joint, (batch.predictions.values.argmax(axis=1), batch.labels), 1.0 / len(batch))
    predicted = np.bincount(window.argmax(axis=1), minlength=K) / len(window)
    try:
        weights = np.linalg.solve(joint, predicted)
    except np.linalg.LinAlgError:
        return None
    q = np.maximum(weights, 0.0) * joint.sum(axis=0)
    return q / q.sum() if np.isfinite(q).all() and q.sum() > 0.0 else None


def _cell_of(values: Floats, cuts: Floats) -> Integers:
    """Return the predicted class and part of the confidence of each row, as one number."""
    predicted, confidence = values.argmax(axis=1), values.max(axis=1)
    cells: Integers = predicted * _PARTS + (confidence[:, None] >= cuts[:, predicted].T).sum(axis=1)
    return cells


def _misfit(batch: Batch, frequencies: Floats, window: Floats, q: Floats) -> float:
    """Return the p-value of the chi-square test that rows by cell are the mixture q of the reference's classes.

    Both sides are noisy: the covariance is that of the shares in the window plus that of the shares by class in the
    reference. Neighbouring cells are joined until each is expected to have ten rows. The degrees of freedom do not
    subtract the estimated frequencies, so the test is on the safe side.
    """
    values, K = batch.predictions.values.astype(np.float64), len(frequencies)
    confidence, predicted = values.max(axis=1), values.argmax(axis=1)
    at = np.arange(1, _PARTS) / _PARTS
    cuts = np.array(
        [
            np.quantile(confidence[predicted == k], at) if (predicted == k).any() else np.ones(_PARTS - 1)
            for k in range(K)
        ]
    ).T
    counts = np.zeros((K * _PARTS, K))
    np.add.at(counts, (_cell_of(values, cuts), batch.labels), 1.0)
    return mixture_p_value(counts, np.bincount(_cell_of(window, cuts), minlength=K * _PARTS), q)


def mixture_p_value(counts: Floats, window: Floats | Integers, q: Floats) -> float:
    """Return the p-value that the rows of a window by cell, ``(C,)``, are the mixture ``q (K,)`` of the classes.

    ``counts (C, K)`` are the rows of the reference by cell and class. See ``_misfit``.
    """
    m = float(window.sum())
    observed = window / m
    by_class = counts / counts.sum(axis=0)
    joined = _joined_cells(m * (by_class @ q))
    by_class, observed = joined @ by_class, joined @ observed
    expected = by_class @ q
    covariance = (np.diag(expected) - np.outer(expected, expected)) / m
    for k, rows in enumerate(counts.sum(axis=0)):
        share = (by_class[:, k] * rows + 1.0) / (rows + len(expected))  # a count of 0 is uncertain too
        covariance += q[k] ** 2 * (np.diag(share) - np.outer(share, share)) / rows
    apart = observed - expected
    statistic = float(apart @ np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ apart)
    freedom = len(observed) - 1
    return float(chdtrc(freedom, statistic)) if freedom else 1.0


def _joined_cells(expected: Floats) -> Floats:
    """Return the matrix that joins neighbouring cells with few expected rows: ``(joined, cells)``."""
    groups, current, total = [], [], 0.0
    for cell, rows in enumerate(expected.tolist()):
        current.append(cell)
        total += rows
        if total >= _EXPECTED:
            groups.append(current)
            current, total = [], 0.0
    if groups:
        groups[-1].extend(current)
    else:
        groups.append(current)
    joined = np.zeros((len(groups), len(expected)))
    for row, cells in enumerate(groups):
        joined[row, cells] = 1.0
    return joined


def _shifted(intercepts: Floats, q: Floats, frequencies: Floats) -> Floats:
    """Return intercepts plus the logarithm of the ratios of frequencies, which multiplies the odds by them."""
    return intercepts + np.log(np.maximum(q / frequencies, _LEAST))
