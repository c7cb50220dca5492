"""Softmax regressions, temperature scaling and isotonic regression, fitted outside folds and to all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats, take
from calibrant.core.errors import CalibrationError, NotConverged, OneClass, OutOfRange, TooFewRows
from calibrant.core.progress import check, report
from calibrant.core.reductions import Vector
from calibrant.core.results import n_rows
from calibrant.core.validation import GAIN_FOLDS, fold_of_rows, mean_gain
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.maps.isotonic import Isotonic
from calibrant.maps.ranks import OneVsRest
from calibrant.maps.softmax_design import Design
from calibrant.maps.softmax_map import HiddenSoftmax, SoftmaxRegression, smoothed_logits
from calibrant.maps.softmax_solver import Penalty, Solution, minimise
from calibrant.maps.temperature import VectorLogits, optimal_temperature
from calibrant.maps.transforms import Transform, blocks_of_rows, logarithms, logits_block

#: Relative accuracy of the fits outside folds, of the last fit, and of one in single precision.
_ROUGH, _FINE = 1e-6, 1e-10
_ROUGH_SINGLE = 1e-8
#: Relative accuracy of fits for the gain alone, with few numbers, and with more than ``_FEW_FOR_GAIN``.
_ROUGH_GAIN, _ROUGHER_GAIN, _FEW_FOR_GAIN = 1e-5, 1e-4, 1 << 18
#: Classes up to which the gain of SMS is that of all folds, and numbers up to which there is a gain.
_FEW_CLASSES, _FEW_NUMBERS = 32, 1 << 22
#: Elements of a matrix in single precision from which sums use it too.
_SINGLE = 1 << 23


@dataclass(frozen=True)
class MemberRows:
    """Rows of a fit: logits ``z (K, n)``, probabilities ``p (K, n)``, labels, and weights ``w (n,)`` that count rows.

    Row ``fold[i]`` is held out of one of ``folds`` fits; ``prior (K,)`` are the smoothed frequencies of the labels.
    ``logits`` tells whether logits were given; ``clusters (n,)`` are numbers of clusters, if there are any.
    """

    z: Floats
    labels: Integers
    w: Floats
    fold: Integers
    folds: int
    prior: Floats
    logits: bool = False
    clusters: Integers | None = None

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
        outside = np.where(self.fold == np.arange(self.folds)[:, None], 0.0, self.w)
        shares: Floats = outside / outside.sum(axis=1, keepdims=True)
        return shares

    @cached_property
    def fold_masses(self) -> Floats:
        """Total weights of the rows outside each fold: ``(folds,)``."""
        masses: Floats = self.w.sum() - np.bincount(self.fold, self.w, minlength=self.folds)
        return masses

    def held_out(self, of_folds: Floats) -> Floats:
        """Return the values ``(K, n)`` of each row from the fit that held it out, of ``(folds, K, n)``."""
        values: Floats = np.take_along_axis(of_folds, self.fold[None, None, :], axis=0)[0]
        return values

    def temperature(self, smoothing: float) -> float:
        """Return the optimal temperature of smoothed predictions, or 1 if there is none."""
        u = Form(1.0, smoothing, self.prior).features(self.z)
        return _temperature(VectorLogits(np.ascontiguousarray(u.T), self.labels), self.w)

    def own(self, values: Floats) -> Floats:
        """Return the value of the label of each row, ``(n,)``."""
        return values[self.labels, np.arange(len(self))]


def log_softmax(scores: Floats) -> Floats:
    """Return the log softmax over the second axis from the end."""
    logs: Floats = scores - scores.max(axis=-2, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=-2, keepdims=True))
    return logs


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
        if not self.squares:
            return u
        with np.errstate(over="ignore"):  # infinite features are refused
            return np.concatenate([u, u * u / 4.0, q.T])

    def map(self, theta: Floats) -> SoftmaxRegression:
        """Return the map with the parameters ``(K, d + 1)`` or ``(K, 2)`` of the features."""
        K = len(theta)
        regression = SoftmaxRegression(
            self.temperature, self.smoothing, self.prior, theta[:, :K] * self.scale, theta[:, -1].copy()
        )
        if theta.shape[1] == 2 and K > 1:
            return replace(regression, weights=theta[:, 0] * self.scale)
        if self.squares:
            return replace(
                regression,
                squares=theta[:, K : 2 * K] * self.scale**2,
                probabilities=theta[:, 2 * K : 3 * K].copy(),
            )
        return regression


@dataclass(frozen=True)
class Member:
    """A member: ``held_out (K, n)`` are its out-of-fold log probabilities, and ``refit`` fits it to other rows."""

    name: str
    held_out: Floats
    refit: Callable[[MemberRows], Transform]


def structured_penalty(K: int, *, diagonal: bool) -> Floats:
    """Return the strengths of SVS and SMS for the total log loss, in the shape of the parameters."""
    if diagonal:
        return np.full((K, 2), float(K))
    strengths = np.full((K, K + 1), float(K * (K - 1)))
    strengths[np.arange(K), np.arange(K)] = K
    strengths[:, -1] = K
    return strengths


def identity_start(K: int, width: int) -> Floats:
    """Return the parameters of softmax(u): weight 1 of each class on its own feature."""
    theta = np.zeros((K, width))
    if width == 2 and K > 1:
        theta[:, 0] = 1.0
    else:
        theta[np.arange(K), np.arange(K)] = 1.0
    return theta


@dataclass(frozen=True)
class RegressionMember:
    """A member that is a softmax regression; ``ridge`` times the mean squared feature penalises its parameters."""

    name: str
    smoothing: float = 0.0
    diagonal: bool = False
    ridge: float | None = None
    squares: bool = False

    def form(self, rows: MemberRows) -> Form:
        """Return the features, at the scale of the optimal temperature."""
        temperature = rows.temperature(self.smoothing)
        if self.ridge is None:  # SVS and SMS: smoothed after temperature scaling
            return _structured_form(temperature, float(rows.w.sum()), rows.n_classes)
        return Form(1.0, self.smoothing, rows.prior, 1.0 / temperature, self.squares)

    def fit(self, rows: MemberRows) -> Member:
        """Fit outside each fold."""
        form = self.form(rows)
        design = Design(form.features(rows.z), rows.labels, rows.n_classes, self.diagonal)
        theta = self.solved(design, rows.fold_weights, rows.fold_masses, _ROUGH).theta
        middle = theta.mean(axis=0)
        held_out = rows.held_out(log_softmax(design.scores(design.x, theta)))

        return Member(self.name, held_out, lambda others: self.refit(others, middle, form)[0])

    def refit(
        self, rows: MemberRows, start: Floats | None = None, form: Form | None = None
    ) -> tuple[SoftmaxRegression, Solution]:
        """Fit to all rows; return the map and the solution of the solver."""
        form = self.form(rows) if form is None else form
        design = Design(form.features(rows.z), rows.labels, rows.n_classes, self.diagonal)
        mass = float(rows.w.sum())
        solution = self.solved(design, rows.w[None] / mass, np.array([mass]), _FINE, start)
        return form.map(solution.theta[0]), solution

    def solved(
        self, design: Design, w: Floats, masses: Floats, tolerance: float, start: Floats | None = None
    ) -> Solution:
        """Minimise with the weights ``w (S, n)`` of S fits and their sums before they were normalised."""
        centre = identity_start(*design.shape)
        if self.ridge is None:
            strength = structured_penalty(design.n_classes, diagonal=self.diagonal)
        else:
            mean = w.mean(axis=0)
            size = 1.0 if self.diagonal else float(np.einsum("dn,dn,n->", design.x, design.x, mean)) / len(design.x)
            strength = np.full(design.shape, self.ridge * max(size, 1e-300))
        penalty = Penalty(strength / masses[:, None, None], centre[None])
        begin = np.repeat((centre if start is None else start)[None], len(w), axis=0)
        return minimise(design, w, penalty, begin, tolerance=tolerance)


#: Hidden units, the range of their offsets, and the smoothing of probabilities.
_HIDDEN, _RANGE, _LEAST_SMOOTHING = 60, 1.5, 1e-4


@dataclass(frozen=True)
class HiddenLayer:
    """A member that is a softmax regression on a layer of random hidden units, with a ridge penalty in nats.

    The classes get their random weights in the order of their mean features, so that permuting the classes permutes
    the map.
    """

    name: str
    ridge: float

    def fit(self, rows: MemberRows) -> Member:
        """Fit outside each fold."""
        empty = self._features(rows)
        design = Design(np.ascontiguousarray(empty.features(rows.z.T).T), rows.labels, rows.n_classes)
        start = np.zeros((rows.folds, *design.shape))
        theta = minimise(
            design, rows.fold_weights, self._penalty(design, rows.fold_masses), start, tolerance=1e-6
        ).theta
        middle = theta.mean(axis=0)

        def refit(others: MemberRows) -> Transform:
            same = Design(np.ascontiguousarray(empty.features(others.z.T).T), others.labels, others.n_classes)
            mass = float(others.w.sum())
            penalty = self._penalty(same, np.array([mass]))
            of_others = minimise(same, others.w[None] / mass, penalty, middle[None], tolerance=1e-9).theta[0]
            return replace(empty, weights=of_others[:, :-1], intercepts=of_others[:, -1].copy())

        return Member(self.name, rows.held_out(log_softmax(design.scores(design.x, theta))), refit)

    def _features(self, rows: MemberRows) -> HiddenSoftmax:
        K, share = rows.n_classes, rows.w / rows.w.sum()
        smoothing = 0.0 if rows.logits else _LEAST_SMOOTHING
        u, _ = smoothed_logits(rows.z.T, 1.0, smoothing, rows.prior)
        u -= u.mean(axis=1, keepdims=True)
        centre = share @ u
        spread = np.sqrt(share @ (u - centre) ** 2)
        random = np.random.default_rng(0)
        hidden = random.standard_normal((_HIDDEN, K)) / np.sqrt(K)
        offsets = random.uniform(-_RANGE, _RANGE, _HIDDEN)
        spread = np.where(spread > 0.0, spread, 1.0)
        place = np.argsort(np.argsort(centre, kind="stable"), kind="stable")
        weights = np.zeros((K, K + _HIDDEN))
        return HiddenSoftmax(smoothing, rows.prior, centre, spread, hidden[:, place], offsets, weights, np.zeros(K))

    def _penalty(self, design: Design, masses: Floats) -> Penalty:
        strength = np.full(design.shape, self.ridge)
        strength[:, -1] *= 1e-3
        return Penalty(strength / masses[:, None, None], np.zeros(()))


def fit_structured(
    vector: Vector, *, diagonal: bool, seed: int | None = 0
) -> tuple[SoftmaxRegression, Solution, dict[str, Any] | None]:
    """Fit SVS, or SMS without ``diagonal``, and its cross-fitted gain.

    The gain is None for very many numbers, and without a ``seed``. That of SMS of many classes is of the rows of one
    fold, and its fit starts in single precision. Many numbers in single precision are not copied to double precision.
    """
    logits, w = vector.logits, vector.counted
    values, labels, clusters = vector.p if logits is None else logits, vector.labels, vector.clusters
    if w is not None and not w.all():
        values, labels, clusters, w = values[w > 0.0], labels[w > 0.0], take(clusters, w > 0.0), w[w > 0.0]
    n, K = values.shape
    counts = np.ones(n) if w is None else w
    mass = float(counts.sum())
    form = _structured_form(_temperature(VectorLogits(values, labels, logits is None), w), mass, K)
    single = values.dtype == np.float32 and values.size > _SINGLE
    number: type[Any] = np.float32 if single else np.float64
    x = np.empty((K, n), number)
    for rows in blocks_of_rows(values):
        check()
        z = values[rows].astype(number)
        if logits is None:
            logarithms(z)
        x[:, rows] = smoothed_logits(z, form.temperature, form.smoothing, form.prior)[0].T
    design = Design(x, labels, K, diagonal)
    member = RegressionMember("sms", diagonal=diagonal)
    share, masses, start = counts[None] / mass, np.array([mass]), None
    fast = None if values.size > _FEW_NUMBERS else _in_single(design)
    if fast is not None and not diagonal and K > _FEW_CLASSES:
        with suppress(CalibrationError):
            start = member.solved(fast, share, masses, _ROUGH_SINGLE).theta[0]
    solution = member.solved(design, share, masses, _ROUGH_SINGLE if single else _FINE, start)
    gain = None
    if fast is not None and seed is not None and n >= GAIN_FOLDS:
        with suppress(CalibrationError):  # outside a fold, or in single precision
            order, fold = _order(values, labels, w, clusters), np.empty(n, np.int64)
            fold[order] = fold_of_rows(n, GAIN_FOLDS, seed, take(clusters, order))
            gains = _own_loss(values, labels, logits is None) - _losses_outside(member, fast, counts, fold)
            held = np.isfinite(gains)
            gain = mean_gain(gains[held], counts[held], take(clusters, held), GAIN_FOLDS)
    return form.map(solution.theta[0]), solution, gain


def _in_single(design: Design) -> Design | None:
    """Return the design in single precision, or None if a feature is too large for it."""
    with np.errstate(over="ignore"), suppress(OutOfRange):
        return replace(design, x=design.x.astype(np.float32))
    return None


def _losses_outside(member: RegressionMember, design: Design, counts: Floats, fold: Integers) -> Floats:
    """Return the log loss of each row from a fit outside its fold, or NaN: many classes are fitted outside one fold."""
    folds = GAIN_FOLDS if design.diagonal or design.n_classes <= _FEW_CLASSES else 1
    outside = np.where(fold == np.arange(folds)[:, None], 0.0, counts)
    masses = outside.sum(axis=1)
    tolerance = _ROUGH_GAIN if design.x.size <= _FEW_FOR_GAIN else _ROUGHER_GAIN
    theta = member.solved(design, outside / masses[:, None], masses, tolerance).theta
    held = np.flatnonzero(fold < folds)
    losses = np.full(len(fold), np.nan)
    losses[held] = design.rows(held).losses(theta)[fold[held], np.arange(len(held))]
    return losses


def _own_loss(values: Floats, labels: Integers, probabilities: bool) -> Floats:
    """Return the log loss of each row ``(n,)``, of probabilities of at least 2^-52."""
    if probabilities:
        own_p = values[np.arange(len(labels)), labels].astype(np.float64)
        return -np.log(np.maximum(own_p, PROBABILITY_CLIP))
    losses = np.empty(len(labels))
    for rows in blocks_of_rows(values):
        z = logits_block(values[rows], False)
        own = log_softmax(z.T)[labels[rows], np.arange(len(z))]
        losses[rows] = -np.maximum(own, np.log(PROBABILITY_CLIP))
    return losses


def _structured_form(temperature: float, mass: float, K: int) -> Form:
    """Return the features of SVS and SMS: temperature scaling, mixed with 1 / K at the weight of one row."""
    return Form(temperature, 1.0 / (mass + 1.0), np.full(K, 1.0 / K))


def _temperature(logits: VectorLogits, w: Floats | None) -> float:
    """Return the optimal temperature, or 1 if there is none."""
    try:
        return optimal_temperature(logits, w).value
    except CalibrationError:
        return 1.0


def temperature_member(rows: MemberRows) -> Member:
    """Fit temperature scaling, mixed with the weight of one row with the uniform distribution (as in SMS)."""
    K, n = rows.n_classes, len(rows)

    def fitted(of: MemberRows) -> SoftmaxRegression:
        return _structured_form(of.temperature(0.0), float(of.w.sum()), K).map(identity_start(K, 2))

    held_out = np.empty((K, n))
    for fold in range(rows.folds):
        out = rows.fold == fold
        outside = replace(rows, z=rows.z[:, ~out], labels=rows.labels[~out], w=rows.w[~out], fold=rows.fold[~out])
        held_out[:, out] = np.log(fitted(outside)(rows.z[:, out].T)).T
    return Member("temperature", held_out, fitted)


def isotonic_member(rows: MemberRows) -> Member:
    """Fit isotonic regression to each class against the others, with a row of frequency 1 / K added to each block."""
    K = rows.n_classes
    orders = [np.argsort(rows.p[k], kind="stable") for k in range(K)]
    held_out = np.empty((K, len(rows)))
    for fold in range(rows.folds):
        out = rows.fold == fold
        curves = _isotonic(rows, ~out, orders)
        held_out[:, out] = np.log(curves(rows.p[:, out].T)).T

    def refit(others: MemberRows) -> Transform:
        return _isotonic(others, np.ones(len(others), bool))

    return Member("isotonic", held_out, refit)


def _isotonic(rows: MemberRows, is_inside: Integers, orders: list[Integers] | None = None) -> OneVsRest:
    curves = []
    for k in range(rows.n_classes):
        p = rows.p[k]
        order = np.argsort(p, kind="stable") if orders is None else orders[k]
        order = order[is_inside[order]]
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


def choose(candidates: Sequence[RegressionMember], rows: MemberRows) -> tuple[RegressionMember, float]:
    """Return the candidate with the smallest out-of-fold log loss, and that loss; raise ``NotConverged`` for none."""
    share, best = rows.w / rows.w.sum(), None
    for i, candidate in enumerate(candidates):
        report(i, len(candidates) + 1, "strengths outside folds")
        with suppress(NotConverged):
            loss = -float(share @ rows.own(candidate.fit(rows).held_out))
            if best is None or loss < best[1]:
                best = candidate, loss
    if best is None:
        raise NotConverged("no softmax regression converged outside the folds")
    return best


# --- Rows


def rows_of(vector: Vector, folds: int, seed: int) -> MemberRows:
    """Return the rows with weight, with folds that do not depend on the order of the rows or of the classes."""
    values = vector.p if vector.logits is None else vector.logits
    labels, w, clusters = vector.labels, vector.counted, vector.clusters
    if w is not None and not w.all():
        values, labels, clusters, w = values[w > 0.0], labels[w > 0.0], take(clusters, w > 0.0), w[w > 0.0]
    n, K = values.shape
    if n < folds:
        raise TooFewRows.at("/predictions", f"have {n_rows(n)} with weight, but {folds} folds need at least {folds}")
    if len(np.unique(labels)) < 2:
        raise OneClass.at("/labels", "contain one class, but a fit needs at least two")
    order = _order(values, labels, w, clusters)
    z = np.ascontiguousarray(logits_block(values[order], vector.logits is None).T)
    counts = np.ones(n) if w is None else w[order]
    frequencies = np.bincount(labels, counts[np.argsort(order)], minlength=K) + 1.0
    return MemberRows(
        z,
        labels[order],
        counts,
        fold_of_rows(n, folds, seed, take(clusters, order)),
        folds,
        frequencies / frequencies.sum(),
        vector.logits is not None,
        take(clusters, order),
    )


def _order(values: Floats, labels: Integers, w: Floats | None, clusters: Integers | None) -> Integers:
    """Return an order of the rows that permuting rows does not change, nor permuting classes, but for ties.

    Ties are rows with the same sorted predictions, the same one for their label, weight and group.
    """
    apart = np.cos(np.arange(values.shape[1]))
    ranked = np.sort(values.astype(np.float64), axis=1)
    keys = [ranked @ apart, values[np.arange(len(labels)), labels]]
    return np.lexsort([values @ apart, labels, *(key for key in (clusters, w) if key is not None), *keys])


def drawn(rows: MemberRows, most: int, seed: int) -> MemberRows:
    """Return at most ``most`` rows, drawn without replacement."""
    if len(rows) <= most:
        return rows
    chosen = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
    of_rows = replace(rows, labels=rows.labels[chosen], w=rows.w[chosen], fold=rows.fold[chosen])
    return replace(of_rows, z=rows.z[:, chosen], clusters=take(rows.clusters, chosen))
