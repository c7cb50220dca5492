"""The contestants of a comparison on one batch: the predictions as they came, and after each map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from calibrant.batch import Batch, Integers
from calibrant.cells import Floats
from calibrant.errors import CalibrationError, InvalidOption, Offence
from calibrant.evaluation import Evaluation, calibrated
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import answers
from calibrant.measures.scores import mean_over_rows
from calibrant.progress import SILENT, Rising
from calibrant.reductions import Classes, Event, Subject, Vector, resolve, subject, whole_vector

#: The name of the predictions as they came.
RAW = "uncalibrated"
#: At most so many maps are compared.
MAX_MAPS = 20

_ACCURACY, _BRIER = read_requests(["accuracy", "brier"])


@dataclass(frozen=True)
class Contestant:
    """A map with the name that it is compared under, and what is known of its fit."""

    name: str
    map: CalibrationMap
    training: Training = UNKNOWN


@dataclass(frozen=True)
class Entrant:
    """A contestant on one batch: what is asked of it, before and after it what scores compare (an event or the whole
    vector), and whether it was fitted to these rows. ``contestant`` is None of the predictions as they came.
    """

    name: str
    subject: Subject
    contestant: Contestant | None = None
    before: Event | Vector | None = None
    after: Event | Vector | None = None
    in_sample: bool | None = None


@dataclass(frozen=True)
class Lineup:
    """All entrants by name, the raw one first, on the same rows; ``order`` are the numbers of those of some weight, in
    an order that does not depend on the one they came in: along it their resamples are paired.
    """

    entrants: Mapping[str, Entrant] = field(default_factory=dict)
    order: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def ordered(self, name: str) -> Subject:
        """The subject of an entrant along the order."""
        return self.entrants[name].subject.rows(self.order)


def read_contestants(maps: Mapping[str, CalibrationMap], trained: Mapping[str, Training]) -> tuple[Contestant, ...]:
    """Check the maps of a comparison by name: 1 to 20, none of them called ``uncalibrated``."""
    if not isinstance(maps, Mapping) or not 1 <= len(maps) <= MAX_MAPS:
        raise InvalidOption.at("/maps", f"must be 1 to {MAX_MAPS} calibration maps by name")
    for name, fitted in maps.items():
        if name == RAW:
            raise InvalidOption.at("/maps", f"cannot be called {RAW}: that is the predictions as they came")
        if not isinstance(fitted, CalibrationMap):
            raise InvalidOption.at("/maps", "must be calibration maps")
    return tuple(Contestant(name, fitted, trained.get(name, UNKNOWN)) for name, fitted in maps.items())


def reduction_of(evaluation: Evaluation, contestants: tuple[Contestant, ...], batch: Batch) -> str:
    """The full name of the reduction under which all contestants are asked; raises where one cannot be.

    Where none is asked for it is that of the first map of one event, else the batch's default. O(1).
    """
    asked, n_classes = evaluation.reduction, batch.predictions.n_classes
    for contestant in contestants:
        fitted = contestant.map
        if asked is None and not fitted.of_vector and n_classes in (None, fitted.n_classes):
            asked = fitted.reduction
    if not contestants:
        return evaluation.check(batch)[0]
    name = resolve(asked, n_classes)
    for i, contestant in enumerate(contestants):
        try:
            replace(evaluation, map=contestant.map, reduction=name).check(batch)
        except CalibrationError as error:
            raise type(error)(error.detail, [Offence(f"/maps/{i}", error.detail)]) from error
    return name


def line_up(batch: Batch, name: str, contestants: tuple[Contestant, ...], told: Rising = SILENT) -> Lineup:
    """Apply every map to the batch, under the reduction ``name``. O(contestants x the map + n log n)."""
    asked = subject(batch, name)
    entrants = {RAW: Entrant(RAW, asked)}
    for i, contestant in enumerate(contestants):
        told(i, len(contestants), contestant.name)
        made, before, after = calibrated(asked, batch, name, contestant.map, told)
        seen = contestant.training.saw(batch)
        entrants[contestant.name] = Entrant(contestant.name, made, contestant, before, after, seen)
    order = (
        whole_vector(batch).order() if batch.predictions.n_classes or not isinstance(asked, Event) else asked.order()
    )
    if batch.weights is not None:
        order = order[batch.weights[order] > 0.0]
    return Lineup(entrants, order)


def errors_of(asked: Subject) -> tuple[float | None, float | None]:
    """The classification error, 1 less the accuracy, and the Brier score."""
    found = answers([_ACCURACY, _BRIER], asked, PLAIN)
    accuracy = found["accuracy"].value
    return None if accuracy is None else 1.0 - accuracy, found["brier"].value


def apart(one: Subject, two: Subject, *, mean: bool) -> float:
    """How far the predictions of two entrants on the same rows are apart: on the mean, or at most.

    No gap between mean label and mean prediction differs by more, nor by much more does what noise adds to their size:
    contestants that nearly agree share their bias. O(n K).
    """
    p, q, w = _predicted(one), _predicted(two), (one.vector if isinstance(one, Classes) else one).w
    off = np.abs(p - q).reshape(len(p), -1)
    if not mean:
        return float(off.max(initial=0.0))
    return mean_over_rows(off.mean(axis=1), w)


def _predicted(asked: Subject) -> Floats:
    return asked.vector.p if isinstance(asked, Classes) else asked.p
