"""How far off the optimal temperature may be, and temperatures that rows have not seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.cells import Floats, Outcomes
from calibrant.maps.tempering import Logits, OptimalTemperature
from calibrant.measures.confidence import weighted_mean
from calibrant.measures.intervals import row_scale
from calibrant.reductions import Event, Vector


def standard_error(found: OptimalTemperature, event: Event | Vector) -> float:
    """Standard error of log T by the sandwich: the rows' slopes over the curvature. Rows of a pooled batch are one."""
    moved = row_scale(event.w, event.kind) * temperature_influence(found, event.w) / found.value
    mass = float(len(event)) if event.w is None else float(event.w.sum())
    per_row = event.per_row if isinstance(event, Event) else 1
    return float(np.linalg.norm(moved.reshape(-1, per_row).sum(axis=1))) / mass


def temperature_influence(found: OptimalTemperature, w: Floats | None) -> Floats:
    """By how much each row moves the temperature: ``(n,)``, of weighted mean 0. O(n)."""
    slope = found.slope - weighted_mean(found.slope, w)
    return slope * (found.value**2 / weighted_mean(found.curvature, w))


def outcomes_of(subject: Event | Vector) -> Outcomes:
    """Whether the event came true, or, of a vector, whether the class predicted is right: ``(n,)``."""
    return subject.y if isinstance(subject, Event) else (subject.predicted == subject.labels).astype(np.int8)


def with_temperature(subject: Event | Vector, logits: Logits, temperature: Floats) -> Event:
    """The event with its logits divided by ``temperature (n,)``; of a vector, that the class predicted is right."""
    p = logits.scaled(1.0 / temperature)
    if isinstance(subject, Event):
        return replace(subject, p=p, logit=None)
    return Event(p, outcomes_of(subject), subject.w, subject.kind, decided=True)
