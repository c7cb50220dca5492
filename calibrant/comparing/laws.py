"""The power laws of several batches: for each contestant and each calibration error asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from calibrant.batch import Batch, read_classes, restrict
from calibrant.cells import Floats
from calibrant.comparing.comparison import Comparison, Of
from calibrant.comparing.lineup import Contestant, errors_of, line_up, reduction_of
from calibrant.comparing.power_law import Point, PowerLaw, power_law
from calibrant.errors import CalibrationError
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.deviations import deviations
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest, answers
from calibrant.progress import Progress, Rising
from calibrant.reductions import Subject

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

    asked: Evaluation | Comparison
    _seen: dict[tuple[str, str], list[_Seen]] = field(default_factory=dict)
    _batches: int = 0

    def add(self, batch: Batch, progress: Progress | None = None) -> None:
        """Take in a checked batch; its draws are independent of those of the others."""
        evaluation, contestants = _parts(self.asked)
        resampling = replace(evaluation.resampling, seed=(evaluation.resampling.seed + self._batches) % (2**32 - 1))
        self._batches += 1
        if evaluation.classes is not None:
            batch, _ = restrict(batch, read_classes(evaluation.classes, batch.predictions.n_classes))
            evaluation = replace(evaluation, classes=None)
        told, steps = Rising(progress), 2 + len(contestants)
        name = reduction_of(evaluation, contestants, batch)
        lineup = line_up(batch, name, contestants, told.share(0, steps, "maps"))
        for i, (name, entrant) in enumerate(lineup.entrants.items(), 1):
            resampling = replace(resampling, told=told.share(i, steps, f"power law of {name}"))
            plain = replace(resampling, level=None)
            rows = lineup.ordered(name)
            error = errors_of(entrant.subject)[0]
            moved = None if error is None else _draws(_ACCURACY, 1.0 - error, rows, resampling, False)
            for request in filter(_obeys, evaluation.measures):
                found = answers([request], entrant.subject, plain)[request.key]
                mended = found.debiased is not None
                draws = None if found.value is None else _draws(request, found.value, rows, resampling, mended)
                # The accuracy's deviations, the other way round, are the error's.
                point = None if error is None else Point(error, 0.0, None if moved is None else -moved, draws)
                seen = _Seen(point, found.value, found.debiased)
                self._seen.setdefault((name, request.key), []).append(seen)

    def laws(self) -> dict[str, dict[str, CalibrationLaw]]:
        """The law of each contestant by each measure of calibration error, by name and key."""
        level = _parts(self.asked)[0].resampling.level or 0.95
        found: dict[str, dict[str, CalibrationLaw]] = {}
        for (name, key), seen in self._seen.items():
            found.setdefault(name, {})[key] = _law(seen, level)
        return found


def _parts(asked: Evaluation | Comparison) -> tuple[Evaluation, tuple[Contestant, ...]]:
    """The evaluation without its map, and the maps."""
    if isinstance(asked, Comparison):
        return asked.evaluation, asked.contestants
    if asked.map is None:
        return asked, ()
    return replace(asked, map=None), (Contestant(AFTER, asked.map, asked.training),)


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
