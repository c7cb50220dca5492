"""Fit of the average of maps of the whole vector: members, their out-of-fold predictions, and the combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from calibrant.averaging.pooling import log_pool, mixture_by_em
from calibrant.batch import Integers, softmax_in_place
from calibrant.cells import Floats
from calibrant.errors import CalibrationError, OneClass, TooFewRows
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.maps.ensemble import Ensemble, VectorIdentity
from calibrant.maps.isotonic import Isotonic
from calibrant.maps.ranks import OneVsRest
from calibrant.maps.softmax_map import SoftmaxRegression, smoothed_logits
from calibrant.maps.softmax_solver import Design, Penalty, minimise
from calibrant.maps.temperature import VectorLogits, optimal_temperature
from calibrant.maps.transforms import Transform, logits_block
from calibrant.progress import report, step
from calibrant.reductions import Vector
from calibrant.validation import fold_of_rows

#: The most probabilities used to choose the combination, and the most features of the last fit; from more, rows are
#: drawn at random.
_CHOICE, _LAST = 1 << 20, 1 << 25
#: From this many classes on, members with fewer parameters are used, and none with a matrix.
_MANY, _VERY_MANY = 50, 150
#: Up to this many classes a member has squares and probabilities as features.
_FEW = 10
#: Amounts of smoothing toward the class frequencies.
_LITTLE, _MUCH = 0.001, 0.03
#: Members in the log-linear pool: the best ones, and these.
_POOLED, _ALWAYS = 8, ("isotonic", "temperature")
#: Differences of total held-out losses in nats that change the odds by a factor of e, and penalties in nats.
_ODDS, _OF_POOL, _OF_MIXTURE = 4.0, 3.0, 5.0
#: Weights below this are dropped.
_LEAST = 1e-3
#: Relative accuracy of the fits outside folds, and of the last fit.
_ROUGH, _FINE = 1e-8, 1e-12


@dataclass(frozen=True)
class Rows:
    """Rows of a fit: logits ``z (K, n)``, probabilities ``p (K, n)``, labels, and weights ``w (n,)`` that count rows.

    Row ``fold[i]`` is held out of one of ``folds`` fits; ``prior (K,)`` are the smoothed frequencies of the labels.
    """

    z: Floats
    labels: Integers
    w: Floats
    fold: Integers
    folds: int
    prior: Floats

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.z)

    @cached_property
    def p(self) -> Floats:
        """Probabilities ``(K, n)``."""
        return np.exp(log_softmax(self.z))

    @cached_property
    def fold_weights(self) -> Floats:
        """Weights of the fits outside each fold, each with sum 1: ``(folds, n)``."""
        kept = np.where(self.fold == np.arange(self.folds)[:, None], 0.0, self.w)
        found: Floats = kept / kept.sum(axis=1, keepdims=True)
        return found

    @cached_property
    def fold_masses(self) -> Floats:
        """Total weights of the rows outside each fold: ``(folds,)``."""
        return self.w.sum() - np.bincount(self.fold, self.w, minlength=self.folds)

    def held_out(self, of_folds: Floats) -> Floats:
        """Return the values ``(K, n)`` of each row from the fit that held it out, of ``(folds, K, n)``."""
        found: Floats = np.take_along_axis(of_folds, self.fold[None, None, :], axis=0)[0]
        return found

    def temperature(self, smoothing: float) -> float:
        """Return the optimal temperature of smoothed predictions, or 1 if there is none."""
        u = Form(1.0, smoothing, self.prior).features(self.z)
        try:
            return optimal_temperature(VectorLogits(np.ascontiguousarray(u.T), self.labels), self.w).value
        except CalibrationError:
            return 1.0

    def own(self, values: Floats) -> Floats:
        """Return the value of the label of each row, ``(n,)``."""
        return values[self.labels, np.arange(len(self))]


def log_softmax(scores: Floats) -> Floats:
    """Return the log softmax over the second axis from the end."""
    found = scores - scores.max(axis=-2, keepdims=True)
    found -= np.log(np.exp(found).sum(axis=-2, keepdims=True))
    return found


# --- Members


@dataclass(frozen=True)
class Form:
    """Features of a softmax regression: u = ln of smoothed predictions times ``scale``, and with ``squares`` more."""

    temperature: float
    smoothing: float
    prior: Floats
    scale: float = 1.0
    squares: bool = False

    def features(self, z: Floats) -> Floats:
        """Return the features ``(d, n)`` of logits ``z (K, n)``."""
        u, q = smoothed_logits(z.T, self.temperature, self.smoothing, self.prior)
        u = np.ascontiguousarray(u.T) * self.scale
        return np.concatenate([u, u * u / 4.0, q.T]) if self.squares else u

    def map(self, theta: Floats) -> SoftmaxRegression:
        """Return the map with the parameters ``(K, d + 1)`` or ``(K, 2)`` of the features."""
        K = len(theta)
        found = SoftmaxRegression(
            self.temperature, self.smoothing, self.prior, theta[:, :K] * self.scale, theta[:, -1].copy()
        )
        if theta.shape[1] == 2 and K > 1:
            return replace(found, weights=theta[:, 0] * self.scale)
        if self.squares:
            return replace(
                found,
                squares=theta[:, K : 2 * K] * self.scale**2,
                probabilities=theta[:, 2 * K : 3 * K].copy(),
            )
        return found


@dataclass(frozen=True)
class Member:
    """A member: ``held_out (K, n)`` are its out-of-fold log probabilities, and ``refit`` fits it to other rows."""

    name: str
    held_out: Floats
    refit: Callable[[Rows], Transform]


def structured_penalty(K: int, *, diagonal: bool) -> Floats:
    """Return the strengths of SVS and SMS for the total log loss, in the shape of the parameters."""
    if diagonal:
        return np.full((K, 2), float(K))
    found = np.full((K, K + 1), float(K * (K - 1)))
    found[np.arange(K), np.arange(K)] = K
    found[:, -1] = K
    return found


def identity_start(K: int, width: int) -> Floats:
    """Return the parameters of softmax(u): weight 1 of each class on its own feature."""
    found = np.zeros((K, width))
    if width == 2 and K > 1:
        found[:, 0] = 1.0
    else:
        found[np.arange(K), np.arange(K)] = 1.0
    return found


@dataclass(frozen=True)
class Regression:
    """A member that is a softmax regression; ``ridge`` times the mean squared feature penalises its parameters."""

    name: str
    smoothing: float = 0.0
    diagonal: bool = False
    ridge: float | None = None
    squares: bool = False

    def form(self, rows: Rows) -> Form:
        """Return the features, at the scale of the optimal temperature."""
        temperature = rows.temperature(self.smoothing)
        if self.ridge is None:  # SVS and SMS: smoothed after temperature scaling
            K = rows.n_classes
            return Form(temperature, 1.0 / (float(rows.w.sum()) + 1.0), np.full(K, 1.0 / K))
        return Form(1.0, self.smoothing, rows.prior, 1.0 / temperature, self.squares)

    def fit(self, rows: Rows) -> Member:
        """Fit outside each fold."""
        form = self.form(rows)
        design = Design(form.features(rows.z), rows.labels, rows.n_classes, self.diagonal)
        theta = self._fitted(design, rows.fold_weights, rows.fold_masses, _ROUGH)
        middle = theta.mean(axis=0)
        held_out = rows.held_out(log_softmax(design.scores(design.x, theta)))

        def refit(others: Rows) -> Transform:
            same = Design(form.features(others.z), others.labels, others.n_classes, self.diagonal)
            mass = float(others.w.sum())
            return form.map(self._fitted(same, others.w[None] / mass, np.array([mass]), _FINE, middle)[0])

        return Member(self.name, held_out, refit)

    def _fitted(
        self, design: Design, w: Floats, masses: Floats, tolerance: float, start: Floats | None = None
    ) -> Floats:
        centre = identity_start(*design.shape)
        if self.ridge is None:
            strength = structured_penalty(design.n_classes, diagonal=self.diagonal)
        else:
            size = 1.0 if self.diagonal else float(np.einsum("dn,dn->", design.x, design.x)) / design.x.size
            strength = np.full(design.shape, self.ridge * max(size, 1e-300))
        penalty = Penalty(strength / masses[:, None, None], centre[None])
        begin = np.repeat((centre if start is None else start)[None], len(w), axis=0)
        return minimise(design, w, penalty, begin, tolerance=tolerance).theta


def temperature_member(rows: Rows) -> Member:
    """Fit temperature scaling, mixed with the weight of one row with the uniform distribution (as in SMS)."""
    K, n = rows.n_classes, len(rows)
    form = SoftmaxRegression(1.0, 0.0, np.full(K, 1.0 / K), np.ones(K), np.zeros(K))

    def fitted(of: Rows) -> SoftmaxRegression:
        return replace(form, temperature=of.temperature(0.0), smoothing=1.0 / (float(of.w.sum()) + 1.0))

    held_out = np.empty((K, n))
    for fold in range(rows.folds):
        out = rows.fold == fold
        outside = replace(rows, z=rows.z[:, ~out], labels=rows.labels[~out], w=rows.w[~out], fold=rows.fold[~out])
        held_out[:, out] = np.log(fitted(outside)(rows.z[:, out].T)).T
    return Member("temperature", held_out, fitted)


def isotonic_member(rows: Rows) -> Member:
    """Fit isotonic regression to each class against the others, with a row of frequency 1 / K added to each block."""
    K = rows.n_classes
    orders = [np.argsort(rows.p[k], kind="stable") for k in range(K)]
    held_out = np.empty((K, len(rows)))
    for fold in range(rows.folds):
        out = rows.fold == fold
        curves = _isotonic(rows, ~out, orders)
        held_out[:, out] = np.log(curves(rows.p[:, out].T)).T

    def refit(others: Rows) -> Transform:
        return _isotonic(others, np.ones(len(others), bool))

    return Member("isotonic", held_out, refit)


def _isotonic(rows: Rows, kept: Integers, orders: list[Integers] | None = None) -> OneVsRest:
    curves = []
    for k in range(rows.n_classes):
        p = rows.p[k]
        order = np.argsort(p, kind="stable") if orders is None else orders[k]
        order = order[kept[order]]
        scores, w = p[order], rows.w[order]
        first = np.flatnonzero(np.append(True, scores[1:] > scores[:-1]))
        mass = np.add.reduceat(w, first)
        positives = np.add.reduceat(w * (rows.labels[order] == k), first)
        ends = scipy.optimize.isotonic_regression(positives / mass, weights=mass).blocks[:-1]
        heights = (np.add.reduceat(positives, ends) + 1.0 / rows.n_classes) / (np.add.reduceat(mass, ends) + 1.0)
        last = np.append(ends[1:], len(first)) - 1
        heights = np.maximum.accumulate(heights)
        at = np.column_stack([ends, last]).ravel()
        distinct = np.append(True, at[1:] > at[:-1])
        curves.append(Isotonic(scores[first][at][distinct], np.repeat(heights, 2)[distinct]))
    return OneVsRest(tuple(curves), True, False)


def _members(n_classes: int) -> list[Regression]:
    """Return the softmax regressions that are tried for this number of classes."""
    diagonals = [
        Regression("svs", diagonal=True),
        Regression("vector, smoothing 0.001", _LITTLE, diagonal=True, ridge=1e-3),
        Regression("vector, smoothing 0.03", _MUCH, diagonal=True, ridge=1e-3),
        Regression("temperature, smoothing 0.001", _LITTLE, diagonal=True, ridge=1e9),
    ]
    if n_classes >= _VERY_MANY:
        return diagonals
    plain, smoothed = (1e-4, 0.01, 0.3, 10.0), ((_LITTLE, 0.3), (_MUCH, 1.0), (_MUCH, 30.0))
    if n_classes >= _MANY:
        plain, smoothed = (10.0, 100.0, 1000.0), ((_MUCH, 100.0),)
    squares = (0.003, 0.3) if n_classes <= _FEW else ()
    return [
        *diagonals,
        Regression("sms"),
        *(Regression(f"matrix, ridge {ridge:g}", ridge=ridge) for ridge in plain),
        *(Regression(f"matrix, smoothing {a:g}, ridge {ridge:g}", a, ridge=ridge) for a, ridge in smoothed),
        *(Regression(f"squares, ridge {ridge:g}", ridge=ridge, squares=True) for ridge in squares),
    ]


# --- The fit


@dataclass(frozen=True)
class Combination:
    """Weights of the members: ``mixture (M,)``, exponents ``pool (M,)`` of the pool, and its share.

    ``gain`` is the increase of the log probability of the label of each row over the identity, out of fold.
    """

    mixture: Floats
    pool: Floats
    pool_share: float
    gain: Floats


def combine(members: Sequence[Member], rows: Rows) -> Combination:
    """Return the weights of the members from their out-of-fold predictions; the first member is the identity.

    Four predictions are averaged: the log-linear pool of the best members, the mixture of all members, the mixture of
    all members and the pool, and the best member. Their weights are proportional to exp(-(L + penalty) / 4), with L the
    total held-out log loss in nats.
    """
    own = np.stack([rows.own(member.held_out) for member in members])
    losses = -(own @ rows.w)
    ranked = list(np.argsort(losses, kind="stable")[:_POOLED])
    ranked += [i for i, m in enumerate(members) if m.name in _ALWAYS and i not in ranked]
    exponents, pooled = log_pool([members[i].held_out for i in ranked], rows.labels, rows.w)
    pool = np.zeros(len(members))
    pool[ranked] = exponents
    with_pool = np.vstack([own, pooled])
    shape = np.exp(with_pool - with_pool.max(axis=0))
    mixture, mixed = mixture_by_em(shape[:-1], rows.w), mixture_by_em(shape, rows.w)
    best = np.zeros(len(own))
    best[int(losses.argmin())] = 1.0
    weights = np.array([np.append(np.zeros(len(own)), 1.0), mixed, np.append(mixture, 0.0), np.append(best, 0.0)])
    penalties = np.array([_OF_POOL, _OF_POOL, _OF_MIXTURE, 0.0])
    totals = -(np.log(weights @ shape) + with_pool.max(axis=0)) @ rows.w + penalties
    shares = np.exp(-(totals - totals.min()) / _ODDS)
    given = (shares / shares.sum()) @ weights
    pool[pool < _LEAST] = 0.0
    given[given < _LEAST] = 0.0
    given /= given.sum()
    gain = np.log(given @ shape) + with_pool.max(axis=0) - own[0]
    return Combination(given[:-1], pool, float(given[-1]), gain)


def fit_averaged_vector(
    vector: Vector, *, folds: int = 5, keep_order: bool = False, seed: int = 0
) -> tuple[Transform, dict[str, Any]]:
    """Fit the average of maps of the whole vector; return the map and the diagnostics of the fit.

    The scale of the features, one temperature, comes from all rows; everything else is fitted outside the folds. The
    map is the identity if the mean out-of-fold gain is not positive. Raises ``TooFewRows`` and ``OneClass``.
    """
    whole = rows_of(vector, folds, seed)
    chosen = _drawn(whole, _CHOICE // whole.n_classes, seed)
    tried = _members(whole.n_classes)
    total = len(tried) + 3
    identity = SoftmaxRegression(
        1.0, 0.0, np.full(whole.n_classes, 1.0 / whole.n_classes), np.ones(whole.n_classes), np.zeros(whole.n_classes)
    )
    clipped = np.maximum(np.log(np.maximum(chosen.p, PROBABILITY_CLIP)), np.log(PROBABILITY_CLIP))
    members = [Member("identity", clipped, lambda _: identity), temperature_member(chosen), isotonic_member(chosen)]
    for i, one in enumerate(tried):
        report(i + 1, total, one.name)
        members.append(one.fit(chosen))
    report(total - 2, total, "combination")
    found = combine(members, chosen)
    share = chosen.w / chosen.w.sum()
    mean = float(share @ found.gain)
    error = float(np.sqrt(share @ (found.gain - mean) ** 2 / max(float(chosen.w.sum()) - 1.0, 1.0)))
    diagnostics: dict[str, Any] = {
        "folds": folds,
        "members": [
            {
                "name": member.name,
                "held_out_log_loss": -float(share @ chosen.own(member.held_out)),
                "mixture": float(found.mixture[i]),
                "pool": float(found.pool[i]),
            }
            for i, member in enumerate(members)
        ],
        "pool_share": found.pool_share,
        "held_out_log_loss": -float(share @ (chosen.own(clipped) + found.gain)),
        "held_out_gain": {"log_loss": mean, "standard_error": error},
    }
    if mean <= 0.0:
        return VectorIdentity(), diagnostics
    last = _drawn(whole, _LAST // (3 * whole.n_classes), seed)
    used = [i for i in range(len(members)) if found.mixture[i] > 0.0 or (found.pool[i] > 0.0 and found.pool_share > 0.0)]
    fitted = []
    with step(total - 1, total, "all rows"):
        for i, index in enumerate(used):
            report(i, len(used), members[index].name)
            fitted.append(members[index].refit(last))
    ensemble = Ensemble(tuple(fitted), found.mixture[used], found.pool[used], found.pool_share, keep_order)
    return ensemble, diagnostics


def rows_of(vector: Vector, folds: int, seed: int) -> Rows:
    """Return the rows with weight, with folds that do not depend on the order of the rows or of the classes."""
    given = vector.p if vector.logits is None else vector.logits
    labels, w = vector.labels, vector.counted
    if w is not None and not w.all():
        given, labels, w = given[w > 0.0], labels[w > 0.0], w[w > 0.0]
    n, K = given.shape
    if n < folds:
        raise TooFewRows.at("/predictions", f"have {n} rows with weight, but {folds} folds need at least {folds}")
    if len(np.unique(labels)) < 2:
        raise OneClass.at("/labels", "contain one class, but a fit needs at least two")
    order = _order(given, labels, w)
    z = np.ascontiguousarray(logits_block(given[order], vector.logits is None).T)
    counts = np.ones(n) if w is None else w[order]
    frequencies = np.bincount(labels, counts[np.argsort(order)], minlength=K) + 1.0
    return Rows(z, labels[order], counts, fold_of_rows(n, folds, seed), folds, frequencies / frequencies.sum())


def _order(given: Floats, labels: Integers, w: Floats | None) -> Integers:
    """Return an order of the rows that permuting rows or classes does not change, up to rows alike."""
    ranked = np.sort(given.astype(np.float64), axis=1)
    keys = [ranked @ np.cos(np.arange(ranked.shape[1])), given[np.arange(len(labels)), labels]]
    return np.lexsort([*([] if w is None else [w]), *keys])


def _drawn(rows: Rows, most: int, seed: int) -> Rows:
    """Return at most ``most`` rows, drawn without replacement."""
    if len(rows) <= most:
        return rows
    chosen = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
    return replace(rows, z=rows.z[:, chosen], labels=rows.labels[chosen], w=rows.w[chosen], fold=rows.fold[chosen])
