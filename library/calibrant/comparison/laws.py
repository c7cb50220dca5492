"""Power laws between calibration error and classification error over batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from calibrant.comparison.comparison import Comparison, Contestant, Entrant, errors_of, line_up, reduction_of
from calibrant.comparison.results import Of
from calibrant.core.batch import Batch, read_classes, restrict
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidOption
from calibrant.core.options import read_fraction
from calibrant.core.progress import Progress, reporting, step
from calibrant.core.reductions import Subject
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.deviations import deviations
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import PROPER, MeasureRequest, answers

#: The fewest batches of a power law.
LEAST_BATCHES = 5
#: Resamples without a power law are left out, up to this fraction.
_LOST = 0.1
#: The least range of the logarithms of different classification errors.
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class Point:
    """Errors of one batch.

    Attributes
    ----------
    error : float
        Classification error.
    calibration : float
        Calibration error.
    error_draws, calibration_draws : ndarray of shape (resamples,) or None
        Deviations of the two in the same resamples of the rows; None if the measure is not resampled.

    See Also
    --------
    power_law : Fits a power law to several batches.

    Examples
    --------
    >>> from calibrant.comparison import Point
    >>> Point(0.1, 0.02).error_draws is None
    True
    """

    error: float
    calibration: float
    error_draws: Floats | None = None
    calibration_draws: Floats | None = None


@dataclass(frozen=True)
class PowerLaw:
    """Power law ``calibration = factor * error ** exponent``.

    Attributes
    ----------
    exponent : float or None
        Exponent of the classification error; None if there is no law.
    factor : float or None
        Factor of the power law.
    interval : tuple of float or None
        Confidence interval of the exponent.
    used : tuple of int
        Indices of the batches with both errors above 0.
    problem : str or None
        Why there is no law or no interval.

    See Also
    --------
    power_law : Fits a power law.

    Examples
    --------
    >>> from calibrant.comparison import Point, power_law
    >>> power_law([Point(0.1, 0.02)]).problem
    'no power law: 1 of 1 batches has both errors above 0, but at least 5 are needed'
    """

    exponent: float | None
    factor: float | None
    interval: tuple[float, float] | None
    used: tuple[int, ...]
    problem: str | None = None


def power_law(
    points: Sequence[Point],
    *,
    level: float = 0.95,
    over: Literal["rows", "batches"] = "rows",
    resamples: int = 1000,
    seed: int = 0,
) -> PowerLaw:
    """Fit a power law of calibration error as a function of classification error over batches.

    Parameters
    ----------
    points : sequence of Point
        One point for each of several independent batches.
    level : float, default 0.95
        Level of the interval of the exponent, in (0, 1).
    over : {"rows", "batches"}, default "rows"
        What the interval resamples: the rows of each batch, or the batches.
    resamples, seed : int
        Number of resamples of batches, from 100 to 100,000, and their seed. Those of rows are in the points.

    Returns
    -------
    PowerLaw
        Exponent and factor; None if fewer than five batches remain, or all have the same classification error.

    Raises
    ------
    InvalidOption
        If ``level`` is not a number between 0 and 1, or ``over``, ``resamples`` or ``seed`` is invalid.

    See Also
    --------
    PowerLaws : Collects the points of several batches.

    Notes
    -----
    The law is the least squares line through (log x, log y) (Minderer et al. 2021, Figure 11). Batches with an error
    that is not above 0, or not finite, are left out. Debiased values may be negative; leaving those out biases the law
    upward. The interval is the percentile bootstrap over the rows within each batch, with the batches fixed, or over
    the batches, as the points of the paper's figure vary. It is None if more than a tenth of the resamples have an
    error that is not above 0, or a single classification error. O(batches x resamples).

    Examples
    --------
    >>> from calibrant.comparison import Point, power_law
    >>> law = power_law([Point(x, 0.5 * x**2) for x in (0.05, 0.1, 0.2, 0.3, 0.4)])
    >>> round(law.exponent, 6), round(law.factor, 6), law.interval
    (2.0, 0.5, None)
    """
    level, resampling = read_fraction(level, "/level"), Resampling.read(None, resamples, seed)
    if over not in ("rows", "batches"):
        raise InvalidOption.at("/over", "must be rows or batches")
    used = tuple(i for i, point in enumerate(points) if 0.0 < point.error < np.inf and 0.0 < point.calibration < np.inf)
    if len(used) < LEAST_BATCHES:
        known = f"{len(used)} of {len(points)} batches {'has' if len(used) == 1 else 'have'} both errors above 0"
        needed = f"no power law: {known}, but at least {LEAST_BATCHES} are needed"
        return PowerLaw(None, None, None, used, needed)
    usable = [points[i] for i in used]
    x, y = np.log([p.error for p in usable]), np.log([p.calibration for p in usable])
    if np.ptp(x) < _LEAST_SPREAD:
        return PowerLaw(None, None, None, used, "no power law: all batches have the same classification error")
    exponent = float(_slopes(x, y))
    factor = float(np.exp(y.mean() - exponent * x.mean()))
    interval, problem = _interval(usable, level) if over == "rows" else _interval_over(x, y, level, resampling)
    return PowerLaw(exponent, factor, interval, used, problem)


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return the slopes ``(...,)`` of least squares lines through ``x, y (..., b)``."""
    off = x - x.mean(axis=-1, keepdims=True)
    slopes: Floats = (off * y).sum(axis=-1) / (off * off).sum(axis=-1)
    return slopes


def _interval(points: Sequence[Point], level: float) -> tuple[tuple[float, float] | None, str | None]:
    moved = [(p.error_draws, p.calibration_draws) for p in points]
    drawn = [(error, calibration) for error, calibration in moved if error is not None and calibration is not None]
    if len(drawn) < len(points):
        return None, "no interval: the measure cannot be resampled on every batch"
    x = np.stack([p.error + error for p, (error, _) in zip(points, drawn, strict=True)], axis=-1)
    y = np.stack([p.calibration + draws for p, (_, draws) in zip(points, drawn, strict=True)], axis=-1)
    known = (x > 0.0).all(axis=-1) & (y > 0.0).all(axis=-1)
    if known.mean() < 1.0 - _LOST:
        return None, "no interval: too many resamples have an error that is not above 0"
    return _quantiles(_slopes(np.log(x[known]), np.log(y[known])), level), None


def _interval_over(
    x: Floats, y: Floats, level: float, resampling: Resampling
) -> tuple[tuple[float, float] | None, str | None]:
    """Return the interval of the slope of ``x, y (b,)`` over resamples of the batches."""
    chosen = resampling.generator().integers(len(x), size=(resampling.resamples, len(x)))
    known = np.ptp(x[chosen], axis=1) >= _LEAST_SPREAD
    if known.mean() < 1.0 - _LOST:
        return None, "no interval: too many resamples have a single classification error"
    return _quantiles(_slopes(x[chosen[known]], y[chosen[known]]), level), None


def _quantiles(slopes: Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(slopes, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


# --- The power laws of each contestant and each calibration error

#: The name of the map of an evaluation with a map.
AFTER = "after"
_ACCURACY = read_requests(["accuracy"])[0]


@dataclass(frozen=True)
class CalibrationLaw:
    """Power law of one contestant by one measure.

    Attributes
    ----------
    law : PowerLaw
        The power law.
    of : {"value", "debiased"}
        Which values were used: debiased ones if every batch has one above 0.
    plain : PowerLaw
        Power law of the values that are not debiased, as in the paper's Figure 11; ``law`` if ``of`` is ``value``.

    See Also
    --------
    PowerLaws : Computes these laws.

    Examples
    --------
    >>> from calibrant.comparison import CalibrationLaw, Point, power_law
    >>> law = power_law([Point(x, 0.5 * x) for x in (0.1, 0.2, 0.3, 0.4, 0.5)])
    >>> CalibrationLaw(law, "value", law).of
    'value'
    """

    law: PowerLaw
    of: Of
    plain: PowerLaw


@dataclass(frozen=True)
class _Observation:
    """One contestant on one batch by one measure: errors with the draws of the value, and of the debiased value."""

    error: Point | None
    value: float | None
    debiased: float | None
    debiased_draws: Floats | None


@dataclass
class PowerLaws:
    """Collect batches for power laws, without keeping their rows.

    Parameters
    ----------
    task : Evaluation or Comparison
        Measures, and the map or maps.

    See Also
    --------
    power_law : Fits a law to given points.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.core.batch import read_batch
    >>> from calibrant.comparison import PowerLaws
    >>> from calibrant.evaluation import Evaluation
    >>> from calibrant.measures.catalogue import read_requests
    >>> laws = PowerLaws(Evaluation(read_requests(["ece"])))
    >>> laws.add(read_batch(np.linspace(0.01, 0.99, 50), np.arange(50) % 2))
    >>> laws.laws()["uncalibrated"]["ece"].law.exponent is None
    True
    """

    task: Evaluation | Comparison
    _observed: dict[tuple[str, str], list[_Observation]] = field(default_factory=dict, init=False)
    _batches: int = field(default=0, init=False)

    def add(self, batch: Batch, progress: Progress | None = None) -> None:
        """Add a batch; its resamples are independent of those of other batches.

        Parameters
        ----------
        batch : Batch
            Checked rows.
        progress : callable, optional
            Called as ``progress(done, total, stage)``.

        See Also
        --------
        laws : Returns the power laws.

        Examples
        --------
        >>> from calibrant.core.batch import read_batch
        >>> from calibrant.comparison import PowerLaws
        >>> from calibrant.evaluation import Evaluation
        >>> from calibrant.measures.catalogue import read_requests
        >>> laws = PowerLaws(Evaluation(read_requests(["ece"])))
        >>> laws.add(read_batch([0.1, 0.9, 0.4], [0, 1, 1]))
        """
        with reporting(progress):
            self._add(batch)

    def _add(self, batch: Batch) -> None:
        evaluation, contestants = _parts(self.task)
        resampling = replace(evaluation.resampling, seed=(evaluation.resampling.seed + self._batches) % (2**32 - 1))
        self._batches += 1
        if evaluation.classes is not None:
            batch, _ = restrict(batch, read_classes(evaluation.classes, batch.predictions.n_classes))
            evaluation = replace(evaluation, classes=None)
        steps, reduction = 2 + len(contestants), reduction_of(evaluation, contestants, batch)
        with step(0, steps, "maps"):
            lineup = line_up(batch, reduction, contestants)
        requests = [request for request in evaluation.measures if _is_calibration_error(request)]
        for i, (name, entrant) in enumerate(lineup.entrants.items(), 1):
            with step(i, steps, f"power law of {name}"):
                for key, observed in _measured(entrant, lineup.ordered(name), requests, resampling):
                    self._observed.setdefault((name, key), []).append(observed)

    def laws(self) -> dict[str, dict[str, CalibrationLaw]]:
        """Return the power law of each contestant and each calibration error.

        Returns
        -------
        dict of str to dict of str to CalibrationLaw
            Laws by the name of the contestant and the key of the measure.

        See Also
        --------
        add : Adds a batch.

        Examples
        --------
        >>> from calibrant.comparison import PowerLaws
        >>> from calibrant.evaluation import Evaluation
        >>> from calibrant.measures.catalogue import read_requests
        >>> PowerLaws(Evaluation(read_requests(["ece"]))).laws()
        {}
        """
        level = _parts(self.task)[0].resampling.level or 0.95
        by_contestant: dict[str, dict[str, CalibrationLaw]] = {}
        for (name, key), observed in self._observed.items():
            by_contestant.setdefault(name, {})[key] = _law(observed, level)
        return by_contestant


def _parts(task: Evaluation | Comparison) -> tuple[Evaluation, tuple[Contestant, ...]]:
    """Return the evaluation without its map, and the maps."""
    if isinstance(task, Comparison):
        return task.evaluation, task.contestants
    if task.map is None:
        return task, ()
    return replace(task, map=None), (Contestant(AFTER, task.map, task.training),)


def _measured(
    entrant: Entrant, rows: Subject, requests: Sequence[MeasureRequest], resampling: Resampling
) -> Iterator[tuple[str, _Observation]]:
    """Yield one contestant on one batch, by every calibration error."""
    error, plain = errors_of(entrant.subject)[0], replace(resampling, level=None)
    moved = None if error is None else _draws(_ACCURACY, 1.0 - error, rows, resampling, False)
    for request in requests:
        result = answers([request], entrant.subject, plain)[request.key]
        draws = corrected = None
        if result.value is not None:
            draws = _draws(request, result.value, rows, resampling, False)
            corrected = draws if result.debiased is None else _draws(request, result.value, rows, resampling, True)
        # The deviations of the error are those of the accuracy, negated.
        point = None if error is None else Point(error, 0.0, None if moved is None else -moved, draws)
        yield request.key, _Observation(point, result.value, result.debiased, corrected)


def _is_calibration_error(request: MeasureRequest) -> bool:
    """Return whether the measure is a calibration error: smaller is better, and it is not a proper score."""
    return request.measure.better == "smaller" and request.measure.family != PROPER


def _draws(
    request: MeasureRequest, value: float, rows: Subject, resampling: Resampling, debiased: bool
) -> Floats | None:
    try:
        return deviations(request, value, rows, resampling, debiased=debiased).draws
    except CalibrationError:
        return None


def _law(observed: Sequence[_Observation], level: float) -> CalibrationLaw:
    plain = power_law([_point(batch, batch.value) for batch in observed], level=level)
    if not all(batch.debiased is not None and batch.debiased > 0.0 for batch in observed):
        return CalibrationLaw(plain, "value", plain)
    points = [_point(batch, batch.debiased) for batch in observed]
    moved = [
        replace(point, calibration_draws=batch.debiased_draws) for point, batch in zip(points, observed, strict=True)
    ]
    return CalibrationLaw(power_law(moved, level=level), "debiased", plain)


def _point(observed: _Observation, value: float | None) -> Point:
    """Return the point; without a value it is at (0, 0), which ``power_law`` leaves out."""
    if observed.error is None or value is None:
        return Point(0.0, 0.0)
    return replace(observed.error, calibration=value)
