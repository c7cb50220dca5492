"""Accuracy, confidence gap, AUROC, and the standard error of the optimal temperature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.cells import Cells, Floats, Outcomes
from calibrant.errors import OneClass
from calibrant.maps.temperature import Logits, OptimalTemperature
from calibrant.measures.intervals import row_scale
from calibrant.measures.scores import mean_over_rows
from calibrant.reductions import Event, Vector

# --- Accuracy, confidence gap and AUROC


def right(event: Event) -> Floats:
    """Return 1 for correct decisions and 0 for others: ``(n,)``. Without a decision, it is p >= 1/2."""
    return event.confidence().y.astype(np.float64)


def overconfidence(event: Event) -> Floats:
    """Return the confidence minus correctness of each row ``(n,)``, in [-1, 1]; a mean above 0 is overconfident."""
    claim = event.confidence()
    return claim.p - claim.y


def overconfidence_spread(event: Event) -> float:
    """Return the standard deviation of the mean of ``overconfidence`` for calibrated predictions. O(n).

    sqrt(sum w^2 p (1 - p)) / m, with w instead of w^2 for frequency weights. The events of one row of a pooled batch
    are one draw of a class: sum_k s_k y_k, with s_k = 1 if p_k >= 1/2 and -1 otherwise, has variance
    1 - (sum_k s_k p_k)^2.
    """
    w = np.ones(len(event)) if event.w is None else event.w
    square = w if event.kind == "frequency" else w * w
    if event.per_row == 1:
        variance = square @ (event.p * (1.0 - event.p))
    else:
        signed = np.where(event.p >= 0.5, event.p, -event.p).reshape(-1, event.per_row).sum(axis=1)
        variance = square[:: event.per_row] @ np.maximum(1.0 - signed**2, 0.0)
    return float(np.sqrt(variance)) / float(w.sum())


def auroc(cells: Cells) -> float:
    """Return the area under the receiver operating characteristic, in [0, 1]; larger is better, 1/2 is random.

    It is the fraction of pairs of a positive and a negative in which the positive has the larger prediction; ties count
    half (Hanley & McNeil 1982). The weight of a pair is the product of its weights. Raises ``OneClass`` if there is no
    such pair. O(m).
    """
    positives, negatives = _outcomes(cells)
    negative = cells.w - cells.wy
    below = (cells.cumulative_w - cells.cumulative_wy)[:-1]
    return float(cells.wy @ (below + negative / 2.0)) / (positives * negatives)


def auroc_influence(event: Event) -> Floats:
    """Return the influence of each row on the AUROC: ``(n,)``, weighted mean 0. O(n log n).

    From the structural components of DeLong, DeLong & Clarke-Pearson (1988): the fraction of negatives below a
    positive, or of positives above a negative (ties count half), minus the AUROC, divided by the frequency of the
    outcome.
    """
    cells = event.cells
    positives, negatives = _outcomes(cells)
    below = ((cells.cumulative_w - cells.cumulative_wy)[:-1] + (cells.w - cells.wy) / 2.0) / negatives
    above = (cells.cumulative_wy[-1] - cells.cumulative_wy[:-1] - cells.wy / 2.0) / positives
    # A row of weight 0 has no cell; its influence is not used.
    cell = np.minimum(np.searchsorted(cells.p, event.p), len(cells) - 1)
    area, mass = auroc(cells), cells.mass
    found: Floats = np.where(
        event.y == 1, (below[cell] - area) * (mass / positives), (above[cell] - area) * (mass / negatives)
    )
    return found


def _outcomes(cells: Cells) -> tuple[float, float]:
    """Return the mass of positives and of negatives."""
    positives = float(cells.cumulative_wy[-1])
    if positives <= 0.0 or not (cells.wy < cells.w).any():
        raise OneClass.at("/labels", "contain one outcome, but ranking needs both")
    return positives, float((cells.w - cells.wy).sum())


# --- Standard error of the optimal temperature, and out-of-fold temperatures


def standard_error(found: OptimalTemperature, event: Event | Vector) -> float:
    """Return the sandwich standard error of log T; pooled events of one row are dependent."""
    moved = row_scale(event.w, event.kind) * temperature_influence(found, event.w) / found.value
    mass = float(len(event)) if event.w is None else float(event.w.sum())
    per_row = event.per_row if isinstance(event, Event) else 1
    return float(np.linalg.norm(moved.reshape(-1, per_row).sum(axis=1))) / mass


def temperature_influence(found: OptimalTemperature, w: Floats | None) -> Floats:
    """Return the influence of each row on the temperature: ``(n,)``, weighted mean 0. O(n)."""
    slope = found.slope - mean_over_rows(found.slope, w)
    return slope * (found.value**2 / mean_over_rows(found.curvature, w))


def outcomes_of(subject: Event | Vector) -> Outcomes:
    """Return the outcomes of an event, or for a vector whether the predicted class is correct: ``(n,)``."""
    return subject.y if isinstance(subject, Event) else (subject.predicted == subject.labels).astype(np.int8)


def with_temperature(subject: Event | Vector, logits: Logits, temperature: Floats) -> Event:
    """Return the event after division by ``temperature (n,)``; for a vector, that the predicted class is correct."""
    p = logits.scaled(1.0 / temperature)
    if isinstance(subject, Event):
        return replace(subject, p=p, logit=None)
    return Event(p, outcomes_of(subject), subject.w, subject.kind, decided=True)
