"""Cumulative calibration errors: the gaps between labels and predictions added up along the predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.stats import norm as normal

from calibrant.cells import Cells, Floats
from calibrant.measures.intervals import Distance, Integers, Resampling, joined, row_scale
from calibrant.measures.simulated import label_shares
from calibrant.reductions import Event, Vector

Kind = Literal["ks", "kuiper"]
#: Terms of the series below; for x from 0.02 to 1.5 the rest is below 1e-16.
_TERMS = np.arange(64)
#: Blocks on which the cumulative difference is resampled.
_BLOCKS = 512
#: Rows times resamples that one pass of the resampling test draws.
_AREA = 1 << 22


def ks_error(cells: Cells) -> float:
    """Largest absolute cumulative difference between predictions and labels, in [0, 1].

    max_i |D_i|, D_i = (1/m) sum_{j<=i} w_j (y_j - p_j) over rows sorted by prediction (Gupta et
    al. 2021, eq. 6). Smaller is better, 0 at best. D is read at the end of each tie, since inside
    one it would depend on the order of the rows; the published code reads it there too. O(m).
    """
    return float(np.abs(cells.cumulative_wy - cells.cumulative_wp).max()) / cells.mass


def kuiper_error(cells: Cells) -> float:
    """Range of the cumulative difference, max_i D_i - min_i D_i with D_0 = 0, in [0, 1]. O(m).

    As ``ks_error``, but the largest gap over any interval of predictions: it sees errors that cancel (Kuiper 1960;
    Tygert 2021 for calibration).
    """
    path = cells.cumulative_wy - cells.cumulative_wp
    return float(path.max() - path.min()) / cells.mass


def end_value(cells: Cells) -> float:
    """Mean label less mean prediction, the cumulative difference at its end: below 0 predictions are too high."""
    return float(cells.cumulative_wy[-1] - cells.cumulative_wp[-1]) / cells.mass


def chance_spread(cells: Cells) -> float:
    """Standard deviation of the cumulative difference's end under calibration: sqrt(sum w^2 p (1 - p)) / m."""
    w2 = cells.w if cells.kind == "frequency" else cells.w2
    return float(np.sqrt(w2 @ (cells.p * (1.0 - cells.p)))) / cells.mass


def ks_p_value(cells: Cells, error: float) -> float:
    """Probability that a calibrated classifier shows at least this KS error, by the asymptotic law.

    Under calibration the scaled cumulative difference tends to a Brownian motion in the time
    sum w^2 p (1 - p), free at its end, so the statistic m D / sqrt(sum w^2 p (1 - p)) has the law
    of sup |B|: 1 - (4/pi) sum_k (-1)^k / (2k + 1) exp(-(2k + 1)^2 pi^2 / (8 x^2)) (Erdos & Kac
    1946); Kolmogorov's law is that of a bridge, tied at both ends, and does not apply. O(m).
    """
    return tail(error, chance_spread(cells), supremum_tail)


def kuiper_p_value(cells: Cells, error: float) -> float:
    """As ``ks_p_value``, by the law of the range of Brownian motion."""
    return tail(error, chance_spread(cells), range_tail)


def tail(error: float, spread: float, law: Callable[[float], float]) -> float:
    """Probability of at least this error by a law of error / spread; without any spread, any error refutes."""
    if spread == 0.0:  # every prediction is 0 or 1: any gap at all refutes it
        return 1.0 if error == 0.0 else 0.0
    return float(law(error / spread))


def supremum_tail(x: float) -> float:
    """P(sup over [0, 1] of |B| > x) for a Brownian motion B.

    1 less Erdos & Kac's series; beyond 1.5 by reflection, 4 sum_k (-1)^k (1 - Phi((2k + 1) x)), which keeps small
    probabilities accurate relative to themselves.
    """
    if x < 0.02:
        return 1.0
    odd = 2 * _TERMS + 1
    if x > 1.5:
        return float(4.0 * np.sum((-1.0) ** _TERMS[:8] * normal.sf(odd[:8] * x)))
    inside = (4.0 / np.pi) * np.sum((-1.0) ** _TERMS / odd * np.exp(-((odd * np.pi) ** 2) / (8.0 * x * x)))
    return float(np.clip(1.0 - inside, 0.0, 1.0))


def range_tail(x: float) -> float:
    """P(max - min over [0, 1] of B > x) for a Brownian motion B.

    The range's density is 8 sum_k (-1)^(k - 1) k^2 phi(k x) (Feller 1951, eq. 3.6), so the tail is
    8 sum_k (-1)^(k - 1) k (1 - Phi(k x)); below 0.3 it is 1 to double precision.
    """
    if x < 0.3:
        return 1.0
    k = np.arange(1, int(40.0 / x) + 2)
    return float(np.clip(8.0 * np.sum(np.where(k % 2 == 1, 1.0, -1.0) * k * normal.sf(k * x)), 0.0, 1.0))


def resampled_p_value(event: Event, kind: Kind, error: float, resampling: Resampling) -> float:
    """Share of label draws y* ~ Bernoulli(p), p fixed, with at least this error: (1 + #) / (B + 1). O(B n).

    Frequency weights are repeated rows, drawn as one Binomial number a cell (where they are no whole number, of one of
    the two next to it); importance weights draw each row.
    """
    random, cells, reached = resampling.generator(), event.cells, 0
    rows = event.sorted_rows
    ends = np.append(np.flatnonzero(np.diff(rows.p)), len(rows) - 1)
    most = max(1, _AREA // len(rows))
    for start in range(0, resampling.resamples, most):
        size = min(most, resampling.resamples - start)
        if event.kind == "frequency" or rows.w is None:
            path = np.cumsum((label_shares(cells, cells.p, size, random) - cells.p) * cells.w, axis=1)
        else:
            path = np.cumsum(((random.random((size, len(rows))) < rows.p) - rows.p) * rows.w, axis=1)[:, ends]
        high, low = np.maximum(path.max(axis=1), 0.0), np.minimum(path.min(axis=1), 0.0)
        sizes = (high - low if kind == "kuiper" else np.maximum(high, -low)) / cells.mass
        reached += int(np.count_nonzero(sizes >= error * (1.0 - 1e-12)))
    return (1 + reached) / (resampling.resamples + 1)


def ks_by_predicted_class(vector: Vector) -> tuple[float, list[float | None]]:
    """KS(f) = E[KS(f, C)]: the KS errors of the confidence among the rows predicted k, weighted by their share.

    Gruber & Buettner (2022), appendix C. Neither the top-label KS error nor bounded by the top-label TCE_1, which
    ``ks`` under confidence is. Also the error of each class, None where it is never predicted. O(n log n + n K).
    """
    total = 0.0
    errors: list[float | None] = [None] * vector.n_classes
    event = vector.confidence()
    for k, share, chosen in _predicted_classes(vector):
        errors[k] = found = ks_error(event.rows(chosen).cells)
        total += share * found
    return total, errors


def _predicted_classes(vector: Vector) -> list[tuple[int, float, Integers]]:
    """Each class that is predicted, with the share of its rows and their numbers."""
    w = np.ones(len(vector)) if vector.w is None else vector.w
    mass = float(w.sum())
    rows = ((k, np.flatnonzero(vector.predicted == k)) for k in np.unique(vector.predicted).tolist())
    return [(k, float(w[own].sum()) / mass, own) for k, own in rows if w[own].any()]


def by_class_distance(vector: Vector) -> Distance:
    """The cumulative differences of all predicted classes, whose sizes add up by their shares."""
    classes, event = _predicted_classes(vector), vector.confidence()
    parts = [_on_rows(cumulative_distance(event.rows(own), "ks"), own) for _, _, own in classes]
    shares = np.array([share for _, share, _ in classes])
    return joined(parts, lambda sizes: sizes @ shares)


def _on_rows(distance: Distance, rows: Integers) -> Distance:
    return replace(distance, noise=lambda group, groups: distance.noise(group[rows], groups))


def cumulative_distance(event: Event, kind: Kind) -> Distance:
    """The cumulative difference at the ends of at most 512 blocks of equal mass.

    |sup |D| - sup |D_true|| is at most sup |D - D_true|, so the interval covers at least at its level.
    """
    cells = event.cells
    ends = np.unique(np.searchsorted(cells.cumulative_w, cells.mass * np.arange(1, _BLOCKS + 1) / _BLOCKS))
    ends = np.unique(np.append(np.clip(ends, 1, len(cells)), len(cells)))
    path = (cells.cumulative_wy - cells.cumulative_wp) / cells.mass
    last = cells.p[ends - 1]

    def noise(group: Integers, groups: int) -> Floats:
        place = np.searchsorted(last, event.p, side="left")
        off = (event.y - event.p) * row_scale(event.w, event.kind)
        sums = np.bincount(group * len(ends) + place, off, groups * len(ends)).reshape(groups, len(ends))
        cumulated: Floats = np.cumsum(sums, axis=1) / cells.mass
        return cumulated

    def size(u: Floats) -> Floats:
        high, low = np.maximum(u.max(axis=-1), 0.0), np.minimum(u.min(axis=-1), 0.0)
        found: Floats = high - low if kind == "kuiper" else np.maximum(high, -low)
        return found

    return Distance(path[ends], noise, size)
