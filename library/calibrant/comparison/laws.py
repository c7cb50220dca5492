"""Power laws between calibration error and classification error over batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrant.batch import Batch, read_classes, restrict
from calibrant.cells import Floats
from calibrant.comparison.comparison import Comparison, Contestant, Entrant, Of, errors_of, line_up, reduction_of
from calibrant.errors import CalibrationError
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.deviations import deviations
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest, answers
from calibrant.progress import Progress, reporting, step
from calibrant.reductions import Subject

#: Fewer batches than this give no law.
LEAST_BATCHES = 5
#: Resamples whose law does not exist are left out, up to this share.
_LOST = 0.1


@dataclass(frozen=True)
class Point:
    """One batch: its classification ``error``, its ``calibration`` error, and by how much the same resamples of its
    rows move each, ``(resamples,)``; None where the measure has no resamples.
    """

    error: float
    calibration: float
    error_draws: Floats | None = None
    calibration_draws: Floats | None = None


@dataclass(frozen=True)
class PowerLaw:
    """``calibration = factor * error ** exponent``, over the batches ``used`` by their places in what was given.

    ``exponent`` and ``factor`` are None where ``problem`` says why there is no law; ``interval`` is the exponent's.
    """

    exponent: float | None
    factor: float | None
    interval: tuple[float, float] | None
    used: tuple[int, ...]
    problem: str | None = None


def power_law(points: Sequence[Point], *, level: float = 0.95) -> PowerLaw:
    """The power law y = a x^k of calibration error y and classification error x over batches.

    The line of least squares through (log x, log y) (Minderer et al. 2021, Figure 11). Batches whose error or
    calibration error is not above 0 have no logarithm and are left out; of debiased values, which may be negative, that
    leaves out batches that show no miscalibration, and biases the law upward there.

    Parameters
    ----------
    points : one a batch, of independent batches
    level : in (0, 1) of the exponent's interval

    Returns
    -------
    PowerLaw
        without exponent where fewer than five batches remain, or all have one error; its interval holds the exponents
        between the quantiles of those of resampled rows (percentile bootstrap: rows within each batch, the batches
        themselves held fixed), and is None where over a tenth of the resamples have an error that is not above 0

    Notes
    -----
    O(batches x resamples).

    Examples
    --------
    >>> law = power_law([Point(x, 0.5 * x**2) for x in (0.05, 0.1, 0.2, 0.3, 0.4)])
    >>> round(law.exponent, 6), round(law.factor, 6), law.interval
    (2.0, 0.5, None)
    """
    used = tuple(i for i, point in enumerate(points) if point.error > 0.0 and point.calibration > 0.0)
    if len(used) < LEAST_BATCHES:
        known = f"{len(used)} of {len(points)} batches have both errors above 0"
        return PowerLaw(None, None, None, used, f"no power law: {known}, and it takes {LEAST_BATCHES}")
    kept = [points[i] for i in used]
    x, y = np.log([p.error for p in kept]), np.log([p.calibration for p in kept])
    if np.ptp(x) < 1e-9:
        return PowerLaw(None, None, None, used, "no power law: all batches have the same classification error")
    exponent = float(_slopes(x, y))
    factor = float(np.exp(y.mean() - exponent * x.mean()))
    interval, problem = _interval(kept, level)
    return PowerLaw(exponent, factor, interval, used, problem)


def _slopes(x: Floats, y: Floats) -> Floats:
    """Slopes ``(...,)`` of the lines of least squares through ``x, y (..., b)``."""
    off = x - x.mean(axis=-1, keepdims=True)
    slopes: Floats = (off * y).sum(axis=-1) / (off * off).sum(axis=-1)
    return slopes


def _interval(points: Sequence[Point], level: float) -> tuple[tuple[float, float] | None, str | None]:
    moved = [(p.error_draws, p.calibration_draws) for p in points]
    drawn = [(error, calibration) for error, calibration in moved if error is not None and calibration is not None]
    if len(drawn) < len(points):
        return None, "no interval: the measure has no resamples on every batch"
    x = np.stack([p.error + error for p, (error, _) in zip(points, drawn, strict=True)], axis=-1)
    y = np.stack([p.calibration + draws for p, (_, draws) in zip(points, drawn, strict=True)], axis=-1)
    known = (x > 0.0).all(axis=-1) & (y > 0.0).all(axis=-1)
    if known.mean() < 1.0 - _LOST:
        return None, "no interval: in too many resamples a batch's error is not above 0"
    low, high = np.quantile(_slopes(np.log(x[known]), np.log(y[known])), [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return (float(low), float(high)), None


# --- The power laws of each contestant and each calibration error

#: The name of the map of an evaluation with one.
AFTER = "after"
_ACCURACY = read_requests(["accuracy"])[0]


@dataclass(frozen=True)
class CalibrationLaw:
    """A power law, and ``of`` which values: debiased ones where every batch has one above 0."""

    law: PowerLaw
    of: Of


@dataclass(frozen=True)
class _Seen:
    """One contestant on one batch by one measure."""

    error: Point | None
    value: float | None
    debiased: float | None


@dataclass
class PowerLaws:
    """Collects batches, one at a time, of an evaluation or comparison; keeps sums of them, never their rows."""

    task: Evaluation | Comparison
    _seen: dict[tuple[str, str], list[_Seen]] = field(default_factory=dict)
    _batches: int = 0

    def add(self, batch: Batch, progress: Progress | None = None) -> None:
        """Add a checked batch; its draws are independent of those of the others."""
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
        requests = [request for request in evaluation.measures if _obeys(request)]
        for i, (name, entrant) in enumerate(lineup.entrants.items(), 1):
            with step(i, steps, f"power law of {name}"):
                for key, seen in _measured(entrant, lineup.ordered(name), requests, resampling):
                    self._seen.setdefault((name, key), []).append(seen)

    def laws(self) -> dict[str, dict[str, CalibrationLaw]]:
        """The law of each contestant by each measure of calibration error, by name and key."""
        level = _parts(self.task)[0].resampling.level or 0.95
        found: dict[str, dict[str, CalibrationLaw]] = {}
        for (name, key), seen in self._seen.items():
            found.setdefault(name, {})[key] = _law(seen, level)
        return found


def _parts(task: Evaluation | Comparison) -> tuple[Evaluation, tuple[Contestant, ...]]:
    """The evaluation without its map, and the maps."""
    if isinstance(task, Comparison):
        return task.evaluation, task.contestants
    if task.map is None:
        return task, ()
    return replace(task, map=None), (Contestant(AFTER, task.map, task.training),)


def _measured(
    entrant: Entrant, rows: Subject, requests: Sequence[MeasureRequest], resampling: Resampling
) -> Iterator[tuple[str, _Seen]]:
    """One contestant on one batch, by every measure of calibration error."""
    error, plain = errors_of(entrant.subject)[0], replace(resampling, level=None)
    moved = None if error is None else _draws(_ACCURACY, 1.0 - error, rows, resampling, False)
    for request in requests:
        found = answers([request], entrant.subject, plain)[request.key]
        mended = found.debiased is not None
        draws = None if found.value is None else _draws(request, found.value, rows, resampling, mended)
        # The accuracy's deviations, the other way round, are the error's.
        point = None if error is None else Point(error, 0.0, None if moved is None else -moved, draws)
        yield request.key, _Seen(point, found.value, found.debiased)


def _obeys(request: MeasureRequest) -> bool:
    """Whether it is a calibration error: smaller is better, and it holds no refinement."""
    return request.measure.better == "smaller" and request.measure.family != "Proper scores"


def _draws(
    request: MeasureRequest, value: float, rows: Subject, resampling: Resampling, debiased: bool
) -> Floats | None:
    try:
        return deviations(request, value, rows, resampling, debiased=debiased).draws
    except CalibrationError:
        return None


def _law(seen: Sequence[_Seen], level: float) -> CalibrationLaw:
    debiased = all(s.debiased is not None and s.debiased > 0.0 for s in seen)
    of: Of = "debiased" if debiased else "value"
    points = [_point(s, s.debiased if debiased else s.value) for s in seen]
    return CalibrationLaw(power_law(points, level=level), of)


def _point(seen: _Seen, value: float | None) -> Point:
    """The point; one that is not known lies where it is left out."""
    if seen.error is None or value is None:
        return Point(0.0, 0.0)
    return replace(seen.error, calibration=value)
