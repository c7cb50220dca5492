"""A small trained network as a member: hidden units and a softmax regression on positions between quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.averaging.members import Member, MemberRows, drawn, log_softmax
from calibrant.core.batch import Integers, softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged
from calibrant.core.progress import check, report
from calibrant.maps.softmax_map import NetworkSoftmax, smoothed_logits
from calibrant.maps.transforms import Transform, blocks_of_rows

#: Hidden units, intervals between quantiles of each class, and the smoothing of predictions.
_UNITS, _INTERVALS, _SMOOTHING = 64, 16, 1e-4
#: Knots of a class are at least this share of the standard deviation of its logarithms apart.
_APART = 1e-3
#: The least standard deviation that logarithms are divided by.
_LEAST_SPREAD = 1e-2
#: Rows of a step, passes over the rows, and the most steps.
_BATCH, _PASSES, _MOST_STEPS = 256, 20, 3_000
#: The largest size of a step, after how many steps it is reached, and the decay toward the start, as shares of a step.
_RATE, _WARM, _DECAY = 0.02, 50, 0.1
#: Shares of the past in the moving averages of gradients and their squares (Adam), and what is added to the root.
_MEAN, _SQUARE, _TINY = 0.9, 0.99, 1e-8
#: The most probabilities of the rows of a fit, and digits of the parameters after the point.
_MOST, _DIGITS = 1 << 20, 6
#: Seconds of a step of one network, apart and for each product of a row.
_OF_STEP, _OF_PRODUCT = 5e-5, 3.5e-10


def training_seconds(n: int, n_classes: int, networks: int) -> float:
    """Estimate the seconds to train networks on n rows."""
    products = _BATCH * (_INTERVALS + 1) * n_classes * (_UNITS + n_classes)
    return networks * min(_PASSES * (n // _BATCH), _MOST_STEPS) * (_OF_STEP + _OF_PRODUCT * products)


@dataclass(frozen=True)
class NetworkMember:
    """A member that is a trained network, started at temperature scaling.

    The features are the standardised logarithms of smoothed predictions and, for each class, their positions between
    17 quantiles (piecewise linear encodings: Gorishniy, Rubachev & Babenko 2022, arXiv 2203.05556, section 3.2.1). 64
    rectified hidden units and all features feed a softmax. Adam (Kingma & Ba 2015) with decoupled decay toward the
    start (Loshchilov & Hutter 2019) and rates that fall along a cosine takes 20 passes in random batches, at most
    3,000 steps. Classes are numbered by their mean logarithms, so that permuting the classes permutes the map.
    """

    name: str

    def fit(self, rows: MemberRows) -> Member:
        """Fit outside each fold, all folds at once; raise ``NotConverged`` if a number overflows."""
        own = _InOrder.of(rows)
        features = own.features(own.rows)
        trained = _train(features, own.rows, own.start(), own.rows.fold != np.arange(rows.folds)[:, None])
        held_out = np.empty(rows.z.shape)
        for fold in range(rows.folds):
            out = np.flatnonzero(rows.fold == fold)
            scores = _scores(features[out], trained, fold)
            held_out[np.ix_(own.classes, out)] = log_softmax(scores.T)
        return Member(self.name, held_out, lambda others: self.refit(own, others))

    def refit(self, own: _InOrder, others: MemberRows) -> Transform:
        """Fit to all rows, at most 2^20 probabilities of them, from the same knots."""
        rows = _ordered(drawn(others, _MOST // others.n_classes, 0), own.classes)
        return own.map(_train(own.features(rows), rows, own.start(), np.ones((1, len(rows)), bool)))


@dataclass(frozen=True)
class _InOrder:
    """Rows with ``classes`` in the order of their mean logarithms, and how features of predictions are standardised.

    ``empty`` has the knots, and ``centre`` and ``spread (K,)`` standardise the centred logarithms of classes in order.
    """

    classes: Integers
    rows: MemberRows
    empty: NetworkSoftmax
    temperature: float
    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: MemberRows) -> _InOrder:
        """Return the order and the features of these rows."""
        K, share = rows.n_classes, rows.w / rows.w.sum()
        u, _ = smoothed_logits(rows.z.T, 1.0, _SMOOTHING, rows.prior)
        centre = share @ (u - u.mean(axis=1, keepdims=True))
        classes = np.argsort(centre, kind="stable")
        u = np.ascontiguousarray(u[:, classes])
        moved = u - u.mean(axis=1, keepdims=True)
        centre = share @ moved
        spread = np.maximum(np.sqrt(share @ (moved - centre) ** 2), _LEAST_SPREAD)
        knots = np.array([_knots(u[:, k], _APART * spread[k]) for k in range(K)])
        none = np.zeros(0)
        empty = NetworkSoftmax(_SMOOTHING, rows.prior[classes], knots, none, none, none, none)
        return cls(classes, _ordered(rows, classes), empty, rows.temperature(0.0), centre, spread)

    def features(self, rows: MemberRows) -> Floats:
        """Return the features ``(n, d)``; positions are centred too."""
        values = np.empty((len(rows), self.empty.knots.size))
        K = rows.n_classes
        for part in blocks_of_rows(values):
            v = self.empty.features(rows.z[:, part].T)
            v[:, :K] = (v[:, :K] - self.centre) / self.spread
            v[:, K:] -= 0.5
            values[part] = v
        return values

    def start(self) -> list[Floats]:
        """Return the parameters at the start: temperature scaling, and random hidden units that have no effect."""
        d, K, random = self.empty.knots.size, len(self.classes), np.random.default_rng(0)
        direct = np.zeros((d, K))
        direct[np.arange(K), np.arange(K)] = self.spread / self.temperature
        hidden = random.standard_normal((d, _UNITS)) * np.sqrt(2.0 / d)
        offsets = random.uniform(-0.5, 0.5, (1, _UNITS))
        return [hidden, offsets, np.zeros((_UNITS, K)), direct, (self.centre / self.temperature)[None]]

    def map(self, trained: list[Floats]) -> NetworkSoftmax:
        """Return the map of a network: features that are not standardised, classes in their own order, few digits."""
        hidden, offsets, units, direct, intercepts = (part[0] for part in trained)
        K, knots = len(self.classes), self.empty.knots
        scale = np.append(1.0 / self.spread, np.ones(knots.size - K))
        shift = np.append(-self.centre / self.spread, np.full(knots.size - K, -0.5))
        place = np.argsort(self.classes)
        steps = np.arange(knots.shape[1] - 1)
        columns = np.append(place, (K + place[:, None] * len(steps) + steps).ravel())
        weights = np.hstack([(direct * scale[:, None])[columns].T, units.T])[place]
        return NetworkSoftmax(
            _SMOOTHING,
            self.empty.prior[place],
            knots[place],
            (hidden * scale[:, None])[columns].T.round(_DIGITS),
            (offsets[0] + shift @ hidden).round(_DIGITS),
            weights.round(_DIGITS),
            (intercepts[0] + shift @ direct)[place].round(_DIGITS),
        )


def _ordered(rows: MemberRows, classes: Integers) -> MemberRows:
    """Return the rows with the classes in this order."""
    place = np.argsort(classes)
    return replace(rows, z=np.ascontiguousarray(rows.z[classes]), labels=place[rows.labels], prior=rows.prior[classes])


def _knots(u: Floats, apart: float) -> Floats:
    """Return 17 quantiles of logarithms ``u (n,)``; without those that are close to one before, the last repeats."""
    knots = np.quantile(u, np.linspace(0.0, 1.0, _INTERVALS + 1))
    distinct = [knots[0]]
    for knot in knots[1:]:
        if knot - distinct[-1] > apart:
            distinct.append(knot)
    return np.array(distinct + distinct[-1:] * (_INTERVALS + 1 - len(distinct)))


def _scores(features: Floats, trained: Sequence[Floats], network: int) -> Floats:
    """Return the scores ``(n, K)`` of one of several networks."""
    hidden, offsets, units, direct, intercepts = (part[network] for part in trained)
    scores: Floats = np.maximum(features @ hidden + offsets, 0.0) @ units + features @ direct + intercepts
    return scores


def _train(features: Floats, rows: MemberRows, start: list[Floats], is_inside: npt.NDArray[np.bool_]) -> list[Floats]:
    """Return the parameters of F networks, each trained on the rows that are ``kept (F, n)`` for it.

    O(F K t D) per row of a step, for t knots and D hidden units. Raises ``NotConverged`` if a number is not finite.
    """
    random, places = np.random.default_rng(0), [np.flatnonzero(rows_of_network) for rows_of_network in is_inside]
    in_pass = max(1, len(rows) // _BATCH)
    steps = min(_PASSES * in_pass, _MOST_STEPS)
    parameters = [np.repeat(part[None], len(is_inside), axis=0) for part in start]
    means, squares = ([np.zeros_like(part) for part in parameters] for _ in range(2))
    anchors: list[Floats | float | None] = [0.0, None, 0.0, start[3], None]
    w = rows.w / rows.w.mean()
    with np.errstate(over="ignore", invalid="ignore"):  # a number that is not finite is refused in the end
        for t in range(1, steps + 1):
            batch = (t - 1) % in_pass
            if batch == 0:
                report(t - 1, steps, "passes")
                order = np.stack([np.resize(random.permutation(place), in_pass * _BATCH) for place in places])
            check()
            some = order[:, batch * _BATCH : (batch + 1) * _BATCH]
            rate = _RATE * 0.5 * (1.0 + np.cos(np.pi * t / steps)) * min(1.0, t / _WARM)
            for i, gradient in enumerate(_gradients(parameters, features[some], rows.labels[some], w[some])):
                means[i] += (1.0 - _MEAN) * (gradient - means[i])
                squares[i] += (1.0 - _SQUARE) * (gradient * gradient - squares[i])
                change = means[i] / (1.0 - _MEAN**t) / (np.sqrt(squares[i] / (1.0 - _SQUARE**t)) + _TINY)
                anchor = anchors[i]
                if anchor is not None:
                    change += _DECAY * (parameters[i] - anchor)
                parameters[i] -= rate * change
    if not all(np.isfinite(part).all() for part in parameters):
        raise NotConverged("the network did not converge")
    return parameters


def _gradients(parameters: Sequence[Floats], x: Floats, labels: Integers, w: Floats) -> tuple[Floats, ...]:
    """Return the gradients of the mean log loss of a batch for each network, ``x (F, B, d)``; by backpropagation."""
    hidden, offsets, units, direct, intercepts = parameters
    sums = x @ hidden + offsets
    active = np.maximum(sums, 0.0)
    residual = active @ units + x @ direct + intercepts
    softmax_in_place(residual.reshape(-1, residual.shape[2]))
    np.put_along_axis(
        residual, labels[:, :, None], np.take_along_axis(residual, labels[:, :, None], axis=2) - 1.0, axis=2
    )
    residual *= w[:, :, None] / w.shape[1]
    of_sums = residual @ units.swapaxes(1, 2)
    of_sums *= sums > 0.0
    transposed = x.swapaxes(1, 2)
    return (
        transposed @ of_sums,
        of_sums.sum(axis=1, keepdims=True),
        active.swapaxes(1, 2) @ residual,
        transposed @ residual,
        residual.sum(axis=1, keepdims=True),
    )
