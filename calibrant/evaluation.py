"""Evaluation: the measures of a batch, as given and after a map, overall and by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch, Predictions, Scale, read_batch
from calibrant.errors import InvalidOption, LengthMismatch, WrongShape
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import MeasureRequest, MeasureResult, read_requests
from calibrant.measures.intervals import Resampling
from calibrant.reductions import Event, reduce, resolve

#: The rows of each group, by name.
Members = dict[str, npt.NDArray[np.int64]]

#: At most so many groups, with names of at most so many characters.
MAX_GROUPS, MAX_NAME = 1000, 256


@dataclass(frozen=True)
class Report:
    """What ``evaluate`` answers.

    ``n`` rows; ``clipped`` and ``renormalised`` of them were mended within the tolerance;
    ``measures`` by key; ``after`` the same after the map, if one was given; ``groups`` by name.
    """

    n: int
    reduction: str
    clipped: int
    renormalised: int
    measures: Mapping[str, MeasureResult]
    after: Mapping[str, MeasureResult] | None = None
    groups: Mapping[str, GroupReport] | None = None


@dataclass(frozen=True)
class GroupReport:
    """The measures of one group's rows."""

    n: int
    measures: Mapping[str, MeasureResult]
    after: Mapping[str, MeasureResult] | None = None


@dataclass(frozen=True)
class Evaluation:
    """An evaluation asked for: everything but the rows, checked."""

    measures: tuple[MeasureRequest, ...]
    reduction: str | None = None
    map: CalibrationMap | None = None
    resampling: Resampling | None = None

    def check(self, batch: Batch, groups: Sequence[str] | None = None) -> tuple[str, Members | None]:
        """The full name of the reduction, and the rows of each group; raises what ``run`` would, without measuring."""
        n_classes = batch.predictions.n_classes
        asked = self.reduction
        if asked is None and self.map is not None and (n_classes is None or n_classes == self.map.n_classes):
            asked = self.map.reduction
        name = resolve(asked, n_classes)
        if self.map is not None and n_classes is not None and name != self.map.reduction:
            raise WrongShape.at("/reduction", f"must be the map's, {self.map.reduction}")
        if self.map is not None:
            self.map.check(batch.predictions)
        return name, None if groups is None else _members(groups, len(batch))

    def run(self, batch: Batch, groups: Sequence[str] | None = None) -> Report:
        """Answer for a checked batch; ``groups (n,)`` are names."""
        name, members = self.check(batch, groups)
        event = reduce(batch, name)
        calibrated = None if self.map is None else self._calibrated(event, batch.predictions, self.map)
        return Report(
            len(batch),
            name,
            batch.predictions.clipped,
            batch.predictions.renormalised,
            self._answers(event),
            None if calibrated is None else self._answers(calibrated),
            None if members is None else self._by_group(event, calibrated, members),
        )

    def _calibrated(self, event: Event, predictions: Predictions, fitted: CalibrationMap) -> Event:
        return Event(fitted.apply_checked(predictions), event.y, event.w, event.kind)

    def _answers(self, event: Event) -> dict[str, MeasureResult]:
        return {request.key: request.compute(event, self.resampling) for request in self.measures}

    def _by_group(self, event: Event, calibrated: Event | None, members: Members) -> dict[str, GroupReport]:
        reports = {}
        for name, chosen in members.items():
            after = None if calibrated is None else self._answers(_rows(calibrated, chosen))
            reports[name] = GroupReport(len(chosen), self._answers(_rows(event, chosen)), after)
        return reports


def _members(groups: Sequence[str], n: int) -> Members:
    """The rows of each group, by name. O(n log n)."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise WrongShape.at("/groups", "must be an array of names")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {len(groups)} rows where /predictions has {n}")
    number: dict[str, int] = {}
    member = np.empty(n, dtype=np.int64)
    for i, name in enumerate(groups):
        if not isinstance(name, str) or len(name) > MAX_NAME:
            raise InvalidOption.at(f"/groups/{i}", f"must be a string of at most {MAX_NAME} characters")
        member[i] = number.setdefault(str(name), len(number))
    if len(number) > MAX_GROUPS:
        raise InvalidOption.at("/groups", f"must name at most {MAX_GROUPS} groups")
    order = np.argsort(member, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
    return dict(sorted(zip(number, parts, strict=True)))


def _rows(event: Event, chosen: npt.NDArray[np.int64]) -> Event:
    return Event(event.p[chosen], event.y[chosen], None if event.w is None else event.w[chosen], event.kind)


def evaluate(
    predictions: Any,
    labels: Any,
    *,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | None = None,
    weights: Any = None,
    groups: Sequence[str] | None = None,
    map: CalibrationMap | None = None,
    interval: float | None = None,
    resamples: int = 1000,
    scale: Scale = "probability",
    seed: int = 0,
) -> Report:
    """Measure how well predictions are calibrated.

    Parameters
    ----------
    predictions : (n,) P(Y=1), or (n, K) by class; probabilities or logits, as ``scale`` says
    labels : (n,) integers, 0 or 1, or 0 to K - 1
    measures : names, or objects of a name, options and ``as``; by default ``ece``,
        ``ece-equal-width``, ``ece-sweep`` and ``ks``
    reduction : the event: ``binary`` (default for 1-D), ``confidence`` (default for (n, K)), ``class:k``
    weights : (n,), at least 0; a weight of 2 is the row twice
    groups : (n,) names; the report is then also given for the rows of each
    map : applied first; the report then holds before and after
    interval : level of the intervals, in (0, 1); None for none
    resamples, seed : of the bootstrap behind the intervals

    Returns
    -------
    Report
        ``report.measures[key].value``, ``.debiased`` where defined, ``.interval``, ``.p_value``

    Raises
    ------
    CalibrationError
        of the first thing wrong with the arguments

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["ks"])
    >>> round(report.measures["ks"].value, 3)
    0.25
    """
    asked = Evaluation(read_requests(measures), reduction, map, Resampling.read(interval, resamples, seed))
    return asked.run(read_batch(predictions, labels, weights, scale=scale), groups)
