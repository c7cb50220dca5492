"""P-values of cumulative calibration errors by drawing labels from the predictions: y* ~ p, p fixed.

Of B draws, (1 + the number with at least the error seen) / (B + 1), which is valid for any number of rows (Davison &
Hinkley 1997, section 4.2). Frequency weights are repeated rows, drawn as one number a cell or row; where they are no
whole number, of one of the two next to it. Importance weights draw each row once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from calibrant.cells import Floats
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.simulated import label_shares, whole_rows
from calibrant.progress import report
from calibrant.reductions import Classes, Event

#: Which size of a path of cumulative differences: its largest, its range, or that of its end.
Kind = Literal["ks", "kuiper", "end"]
#: Rows times resamples that one pass draws.
_AREA = 1 << 22


def size_of(high: Floats, low: Floats, end: Floats, kind: Kind) -> Floats:
    """The size of paths that start at 0, from their highest and lowest points and their ends."""
    above, below = np.maximum(high, 0.0), np.minimum(low, 0.0)
    sizes = {"ks": np.maximum(above, -below), "kuiper": above - below, "end": np.maximum(end, -end)}
    found: Floats = sizes[kind]
    return found


def event_p_value(event: Event, kind: Kind, error: float, resampling: Resampling) -> float:
    """Share of label draws of an event with at least this error. O(B n)."""
    random = resampling.generator()
    return _share(resampling, error, len(event), lambda size: _event_sizes(event, kind, size, random))


def parts_p_value(parts: list[tuple[float, Event]], kind: Kind, error: float, resampling: Resampling) -> float:
    """As ``event_p_value``, of the sum of the errors of events on rows of their own, each times its share."""
    random = resampling.generator()

    def sizes(size: int) -> Floats:
        drawn: Floats = np.sum([share * _event_sizes(event, kind, size, random) for share, event in parts], axis=0)
        return drawn

    return _share(resampling, error, sum(len(event) for _, event in parts), sizes)


def classes_p_value(classes: Classes, kind: Kind, resampling: Resampling) -> float:
    """As ``event_p_value``, of the mean error of the classes, whose labels a draw takes from the whole vector.

    O(B n K) time and O(n K) memory: one pass over the cells of all classes for each draw.
    """
    vector = classes.in_order().vector
    random, K = resampling.generator(), vector.n_classes
    p = vector.p.astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    w = np.ones(len(p)) if vector.w is None else vector.w
    place, first = _places(vector.p)
    expected = _sums(place.ravel(), (p * w[:, None]).ravel(), int(first[-1]))

    def size(labelled: Floats) -> float:
        path = np.cumsum(labelled - expected)
        before = np.concatenate(([0.0], path[first[1:-1] - 1]))  # what the classes before have added up
        high, low = (extreme.reduceat(path, first[:-1]) - before for extreme in (np.maximum, np.minimum))
        return float(size_of(high, low, path[first[1:] - 1] - before, kind).mean())

    def drawn(draws: int) -> Floats:
        many = (_labelled(p, w, place, random, repeated) for _ in range(draws))
        return np.array([size(found) for found in many])

    repeated = vector.kind == "frequency" and vector.w is not None
    seen = _sums(place[np.arange(len(p)), vector.labels], w, int(first[-1]))
    return _share(resampling, size(seen), len(p) * K, drawn)


def _share(resampling: Resampling, error: float, area: int, sizes: Callable[[int], Floats]) -> float:
    """(1 + the draws whose size reaches the error) / (B + 1), drawn so many at a time as memory allows."""
    most = max(1, _AREA // area)
    count = 0
    for start in range(0, resampling.resamples, most):
        report(start, resampling.resamples, "labels drawn")
        drawn = sizes(min(most, resampling.resamples - start))
        count += int(np.count_nonzero(drawn >= error * (1.0 - 1e-12)))
    return (1 + count) / (resampling.resamples + 1)


def _event_sizes(event: Event, kind: Kind, draws: int, random: np.random.Generator) -> Floats:
    """The errors of so many draws: ``(draws,)``."""
    cells, rows = event.cells, event.sorted_rows
    if event.kind == "frequency" or rows.w is None:
        path = np.cumsum((label_shares(cells, cells.p, draws, random) - cells.p) * cells.w, axis=1)
    else:
        ends = np.append(np.flatnonzero(np.diff(rows.p)), len(rows) - 1)
        path = np.cumsum(((random.random((draws, len(rows))) < rows.p) - rows.p) * rows.w, axis=1)[:, ends]
    return size_of(path.max(axis=1), path.min(axis=1), path[:, -1], kind) / cells.mass


def _places(p: Floats) -> tuple[Integers, Integers]:
    """The number of each probability's cell ``(n, K)``, class after class, and the first of each class ``(K + 1,)``."""
    place, first = np.empty(p.shape, dtype=np.int64), [0]
    for k in range(p.shape[1]):
        distinct, own = np.unique(p[:, k], return_inverse=True)
        place[:, k] = own + first[-1]
        first.append(first[-1] + len(distinct))
    return place, np.array(first)


def _labelled(p: Floats, w: Floats, place: Integers, random: np.random.Generator, repeated: bool) -> Floats:
    """The weight of the rows that one draw labels with the cell's class: ``(cells,)``."""
    cells = int(place.max()) + 1
    if repeated:
        trials = whole_rows(w, 1, random)[0]
        shares = random.multinomial(trials, p) / trials[:, None]
        return _sums(place.ravel(), (shares * w[:, None]).ravel(), cells)
    label = np.minimum((np.cumsum(p, axis=1) <= random.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)
    return _sums(place[np.arange(len(p)), label], w, cells)


def _sums(place: Integers, weights: Floats, cells: int) -> Floats:
    return np.bincount(place, weights, minlength=cells).astype(np.float64, copy=False)
