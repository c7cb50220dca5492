"""Starting points of fits: knots from backward elimination, and knots at quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, logit

from calibrant.core.cells import Floats
from calibrant.maps.curves import CurvePlaces, Predicted
from calibrant.piecewise.arrays import placed
from calibrant.piecewise.families import Family, abscissa, valid_heights
from calibrant.piecewise.options import PiecewiseOptions
from calibrant.piecewise.solver import Models

#: Nodes of the initial curve of the elimination, at least twice the largest model.
_NODES = 32
#: Heights of PL are clipped here.
_HEIGHT_CLIP = 1e-3
_LEAST_SHARE = 1e-4
#: Curvature, in rows, that keeps the initial curve close to the identity in regions without rows.
_RIDGE = 1e-2
_NEWTON_STEPS = 3


def starting_models(
    family: Family,
    cells: Predicted,
    w: Floats,
    wy: Floats,
    outer: tuple[float, float],
    counts: tuple[int, ...],
    options: PiecewiseOptions,
    device: str,
) -> tuple[Models, int]:
    """Return models for each number of pieces, line of the data and start, and the number of starts.

    ``w`` and ``wy (L, C)`` are the masses of each line at the cells, in rows, and ``outer`` the outer nodes. The name
    of a model is its index in the order (number of pieces, line, start).
    """
    size, lines = max(counts), len(w)
    sources = [{count: _at_quantiles(family, cells, w, wy, outer, count) for count in counts}]
    if options.starts == "several":
        sources.append(_eliminate(family, cells, w, wy, outer, counts))
    starts = len(sources)
    batch = (len(counts), lines, starts, size + 1)
    knots, heights = np.empty(batch), np.empty(batch)
    for i, count in enumerate(counts):
        for j, source in enumerate(sources):
            x, h = source[count]
            knots[i, :, j, : count + 1], heights[i, :, j, : count + 1] = x, h
            knots[i, :, j, count:], heights[i, :, j, count:] = x[:, -1:], h[:, -1:]
    widths = np.log(np.maximum(np.diff(knots) / np.ptp(outer), _LEAST_SHARE))
    line = np.broadcast_to(np.arange(lines)[None, :, None], batch[:-1]).reshape(-1)
    valid = np.arange(size)[None, :] < np.array(counts)[:, None]
    raw = valid_heights(family, heights.reshape(-1, size + 1), monotone=options.monotone)
    everywhere = np.repeat(valid, lines * starts, axis=0)
    parts: tuple[Any, ...] = (raw, widths.reshape(-1, size), line, everywhere, np.arange(len(line)))
    models = Models(*(placed(part, device) for part in parts))
    return models, starts


def _at_quantiles(
    family: Family, cells: Predicted, w: Floats, wy: Floats, outer: tuple[float, float], count: int
) -> tuple[Floats, Floats]:
    """Return the published start: knots at quantiles of the predictions, and the identity as curve.

    If a constant has a smaller log loss than the identity, PL3 starts from it: at logits of 40 the logistic function is
    so flat that no step would gain anything.
    """
    reached = np.cumsum(w, axis=1) - w / 2
    inner = np.arange(1, count) / count
    every = [
        abscissa(family, _interpolated(inner * total, at, cells))
        for at, total in zip(reached, w.sum(axis=1), strict=True)
    ]
    bounds = np.ones((len(w), 1))
    knots = np.hstack([bounds * outer[0], np.stack(every), bounds * outer[1]])
    if family == "pl":
        return knots, knots.clip(_HEIGHT_CLIP, 1.0 - _HEIGHT_CLIP)
    x, mass, positives = abscissa(family, cells), w.sum(axis=1), wy.sum(axis=1)
    constant = logit((positives + 0.5) / (mass + 1.0))
    as_is = w @ np.logaddexp(0.0, x) - wy @ x
    worse = as_is > mass * np.logaddexp(0.0, constant) - positives * constant
    return knots, np.where(worse[:, None], constant[:, None], knots)


def _interpolated(x: Floats, at: Floats, cells: Predicted) -> CurvePlaces:
    """Interpolate probabilities linearly between ``at (C,)``; those of logits are not rounded."""
    if cells.logit is None:
        return CurvePlaces(np.interp(x, at, cells.p))
    place = np.interp(x, at, np.arange(len(at)))
    low = place.astype(np.intp)
    high, share = np.minimum(low + 1, len(at) - 1), place - low
    with np.errstate(divide="ignore"):  # of cells themselves
        above, below = (
            np.logaddexp(np.log1p(-share) + log_expit(z[low]), np.log(share) + log_expit(z[high]))
            for z in (cells.logit, -cells.logit)
        )
    return CurvePlaces.at_logits(above - below)


def _eliminate(
    family: Family, cells: Predicted, w: Floats, wy: Floats, outer: tuple[float, float], counts: tuple[int, ...]
) -> dict[int, tuple[Floats, Floats]]:
    """Return knots and raw heights ``(L, count + 1)`` from backward elimination of the knots of an initial curve.

    Close to the initial curve the loss is quadratic in its heights, with covariance S. Removing a knot
    requires equal slopes on its two sides: a linear condition on the heights, with the cost of conditioning a
    normal vector on it. In each step the knot with the smallest cost is removed, and S and the heights get a
    rank-one update. The knots of a smaller model are a subset of those of a larger one. O(L (C K^2 + K^3)) for
    K nodes.
    """
    nodes = _nodes(family, cells, w.sum(axis=0), outer, max(_NODES, 2 * max(counts)))
    heights, covariance = _fine_curve(family, abscissa(family, cells), w, wy, nodes)
    state = _Elimination.of(nodes, heights, covariance)
    curves = {}
    for remaining in range(len(nodes) - 2, -1, -1):
        if remaining + 1 in counts:
            curves[remaining + 1] = state.curve(nodes)
        if remaining:
            state.remove_cheapest()
    if family == "pl":
        curves = {count: (x, h.clip(_HEIGHT_CLIP, 1.0 - _HEIGHT_CLIP)) for count, (x, h) in curves.items()}
    return curves


def _nodes(family: Family, cells: Predicted, mass: Floats, outer: tuple[float, float], count: int) -> Floats:
    """Return about ``count`` knots: half at quantiles, half evenly spaced in asin sqrt p; and the ends."""
    half = count // 2
    reached = (np.cumsum(mass) - mass / 2) / mass.sum()
    quantiles = _interpolated(np.arange(1, half) / half, reached, cells)
    spaced = CurvePlaces(np.sin(np.pi / 2 * np.arange(1, half + 1) / (half + 1)) ** 2)
    x = np.unique(np.concatenate([abscissa(family, places) for places in (quantiles, spaced)]))
    low, high = outer
    least = (high - low) * _LEAST_SHARE
    apart = [low]
    for value in x:
        if value - apart[-1] > least and high - value > least:
            apart.append(float(value))
    return np.array([*apart, high])


def _fine_curve(family: Family, x: Floats, w: Floats, wy: Floats, nodes: Floats) -> tuple[Floats, Floats]:
    """Fit heights ``(L, K)`` at the nodes to each line; also return their covariance ``(L, K, K)``."""
    hats = np.empty((len(nodes), len(x)))
    for i, unit in enumerate(np.eye(len(nodes))):
        hats[i] = np.interp(x, nodes, unit)
    ridge = _RIDGE * np.eye(len(nodes))
    heights: Floats = np.tile(nodes, (len(w), 1))
    covariance: Floats = np.empty((len(w), len(nodes), len(nodes)))
    for _ in range(_NEWTON_STEPS):
        f = heights @ hats
        c = np.clip(expit(f) if family == "pl3" else f, 2e-2, 1 - 2e-2)
        variance = c * (1.0 - c)
        weight = w * variance if family == "pl3" else w / variance
        response = weight * f + (wy - w * c if family == "pl3" else (wy - w * f) / variance)
        matrix = (hats * weight[:, None, :]) @ hats.T + ridge
        covariance = np.linalg.inv(matrix).astype(np.float64, copy=False)
        moved = (covariance @ (response @ hats.T + _RIDGE * nodes)[:, :, None])[:, :, 0]
        heights = heights + np.clip(moved - heights, -4.0, 4.0)
    return heights, covariance


@dataclass
class _Elimination:
    """State of the elimination for all lines: ``bend (L, K-2)`` are the changes of slope at the inner nodes.

    ``spread (L, K-2, K-2)`` is the covariance of the bends, and ``shared (L, K, K-2)`` that of heights and bends.
    """

    heights: Floats
    bend: Floats
    spread: Floats
    shared: Floats
    kept: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, nodes: Floats, heights: Floats, covariance: Floats) -> _Elimination:
        inverse = 1.0 / np.diff(nodes)
        rows = np.arange(len(nodes) - 2)
        bends = np.zeros((len(nodes) - 2, len(nodes)))
        bends[rows, rows] = inverse[:-1]
        bends[rows, rows + 1] = -inverse[:-1] - inverse[1:]
        bends[rows, rows + 2] = inverse[1:]
        shared = covariance @ bends.T
        remaining = np.ones((len(heights), len(rows)), dtype=bool)
        return cls(heights, heights @ bends.T, bends @ shared, shared, remaining)

    def remove_cheapest(self) -> None:
        """Remove the knot with the smallest cost from each line."""
        lines = np.arange(len(self.bend))
        own = np.maximum(np.diagonal(self.spread, axis1=1, axis2=2), 1e-300)
        gone = np.where(self.kept, self.bend * self.bend / own, np.inf).argmin(axis=1)
        variance = own[lines, gone]
        column = self.spread[lines, :, gone]
        share = self.bend[lines, gone] / variance
        with_heights = self.shared[lines, :, gone]
        self.heights = self.heights - with_heights * share[:, None]
        self.bend = self.bend - column * share[:, None]
        scaled = (column / variance[:, None])[:, None, :]
        self.shared = self.shared - with_heights[:, :, None] * scaled
        self.spread = self.spread - column[:, :, None] * scaled
        self.kept[lines, gone] = False

    def curve(self, nodes: Floats) -> tuple[Floats, Floats]:
        """Return the remaining knots and their heights."""
        at = np.ones((len(self.kept), len(nodes)), dtype=bool)
        at[:, 1:-1] = self.kept
        shape = (len(at), -1)
        return np.broadcast_to(nodes, at.shape)[at].reshape(shape), self.heights[at].reshape(shape)
