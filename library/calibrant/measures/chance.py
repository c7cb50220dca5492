"""P-values of cumulative calibration errors from labels drawn from the predictions.

The p-value is (1 + the number of B draws with at least the observed error) / (B + 1), which is valid for any number of
rows (Davison & Hinkley 1997, section 4.2). Frequency weights are repeated rows, drawn together for each cell or row;
non-integer weights are rounded up or down at random. With importance weights the label of each row is drawn once, and
errors are scaled to the variance of ``chance_variances``, since such weights may depend on the label.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Floats, chance_variances
from calibrant.core.progress import report
from calibrant.core.reductions import Classes, Event
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.simulated import observed_frequencies, whole_rows

#: Size of a path of cumulative differences: largest absolute value, range, or absolute value of its end.
Kind = Literal["ks", "kuiper", "end"]
#: Rows times resamples of one pass.
_AREA = 1 << 22


def size_of(high: Floats, low: Floats, end: Floats, kind: Kind) -> Floats:
    """Return the size of paths that start at 0, from their maxima, minima and ends."""
    above, below = np.maximum(high, 0.0), np.minimum(low, 0.0)
    sizes = {"ks": np.maximum(above, -below), "kuiper": above - below, "end": np.maximum(end, -end)}
    return sizes[kind]


def event_p_value(event: Event, kind: Kind, error: float, resampling: Resampling) -> float:
    """Return the p-value of this error of an event. O(B n)."""
    random = resampling.generator()
    return drawn_p_value(resampling, error, len(event), lambda size: _event_sizes(event, kind, size, random))


def parts_p_value(parts: list[tuple[float, Event]], kind: Kind, error: float, resampling: Resampling) -> float:
    """Return the p-value of the weighted sum of the errors of events on disjoint rows."""
    random = resampling.generator()

    def sizes(size: int) -> Floats:
        drawn: Floats = np.sum([share * _event_sizes(event, kind, size, random) for share, event in parts], axis=0)
        return drawn

    return drawn_p_value(resampling, error, sum(len(event) for _, event in parts), sizes)


def classes_p_value(classes: Classes, kind: Kind, resampling: Resampling) -> float:
    """Return the p-value of the mean error of the classes, with labels drawn from the whole vector.

    O(B n K) time and O(n K) memory: one pass over the cells of all classes per draw.
    """
    vector = classes.in_order().vector
    random, K = resampling.generator(), vector.n_classes
    p = vector.p.astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    w = np.ones(len(p)) if vector.w is None else vector.w
    place, first = _places(vector.p)
    expected = _sums(place.ravel(), (p * w[:, None]).ravel(), int(first[-1]))

    def size(labelled: Floats, scale: Floats | float = 1.0) -> float:
        path = np.cumsum(labelled - expected)
        before = np.concatenate(([0.0], path[first[1:-1] - 1]))  # cumulative sum over the previous classes
        high, low = (extreme.reduceat(path, first[:-1]) - before for extreme in (np.maximum, np.minimum))
        return float((scale * size_of(high, low, path[first[1:] - 1] - before, kind)).mean())

    def drawn(draws: int) -> Floats:
        many = (_labelled(p, w, place, random, repeated) for _ in range(draws))
        return np.array([size(drawn_labels, scale) for drawn_labels in many])

    repeated = vector.kind == "frequency" and vector.w is not None
    scale: Floats | float = 1.0
    if vector.kind == "importance":
        scale = np.array([_inflation(p[:, k], vector.labels == k, w) for k in range(K)])
    observed = _sums(place[np.arange(len(p)), vector.labels], w, int(first[-1]))
    return drawn_p_value(resampling, size(observed), len(p) * K, drawn)


def drawn_p_value(resampling: Resampling, error: float, area: int, sizes: Callable[[int], Floats]) -> float:
    """Return (1 + the number of draws with at least this error) / (B + 1), drawn in blocks that fit in memory."""
    most = max(1, _AREA // area)
    count = 0
    for start in range(0, resampling.resamples, most):
        report(start, resampling.resamples, "labels drawn")
        drawn = sizes(min(most, resampling.resamples - start))
        count += int(np.count_nonzero(drawn >= error * (1.0 - 1e-12)))
    return (1 + count) / (resampling.resamples + 1)


def _event_sizes(event: Event, kind: Kind, draws: int, random: np.random.Generator) -> Floats:
    """Return the errors of the draws: ``(draws,)``."""
    cells, rows = event.cells, event.sorted_rows
    if event.kind == "frequency" or rows.w is None:
        path = np.cumsum((observed_frequencies(cells, cells.p, draws, random) - cells.p) * cells.w, axis=1)
    else:
        ends = np.append(np.flatnonzero(rows.key[1:] != rows.key[:-1]), len(rows) - 1)
        path = np.cumsum(((random.random((draws, len(rows))) < rows.p) - rows.p) * rows.w, axis=1)[:, ends]
        path *= _inflation(rows.p, rows.y, rows.w)
    return size_of(path.max(axis=1), path.min(axis=1), path[:, -1], kind) / cells.mass


def _inflation(p: Floats, y: npt.NDArray[Any], w: Floats) -> float:
    """Return the standard deviation of sum w (y - p) relative to that of labels drawn from ``p (n,)``."""
    w2 = w * w
    drawn = float(w2 @ (p * (1.0 - p)))
    return math.sqrt(float(chance_variances(p, w, w2, w2 * y, "importance").sum()) / drawn) if drawn > 0.0 else 1.0


def _places(p: Floats) -> tuple[Integers, Integers]:
    """Return the cell of each probability ``(n, K)``, numbered by class, and the first of each class ``(K + 1,)``."""
    place, first = np.empty(p.shape, dtype=np.int64), [0]
    for k in range(p.shape[1]):
        distinct, own = np.unique(p[:, k], return_inverse=True)
        place[:, k] = own + first[-1]
        first.append(first[-1] + len(distinct))
    return place, np.array(first)


def _labelled(p: Floats, w: Floats, place: Integers, random: np.random.Generator, repeated: bool) -> Floats:
    """Draw labels once; return the weight of the rows with the class of each cell: ``(cells,)``."""
    cells = int(place.max()) + 1
    if repeated:
        trials = whole_rows(w, 1, random)[0]
        shares = random.multinomial(trials, p) / trials[:, None]
        return _sums(place.ravel(), (shares * w[:, None]).ravel(), cells)
    label = np.minimum((np.cumsum(p, axis=1) <= random.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)
    return _sums(place[np.arange(len(p)), label], w, cells)


def _sums(place: Integers, weights: Floats, cells: int) -> Floats:
    return np.bincount(place, weights, minlength=cells).astype(np.float64, copy=False)
