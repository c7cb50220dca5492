"""Fit of the average of maps of the whole vector: members, their out-of-fold predictions, and the combination."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.averaging.members import (
    Form,
    HiddenLayer,
    Member,
    MemberRows,
    RegressionMember,
    drawn,
    identity_start,
    isotonic_member,
    rows_of,
    temperature_member,
)
from calibrant.averaging.network import NetworkMember, training_seconds
from calibrant.core.batch import Integers, softmax_in_place
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError
from calibrant.core.progress import check, report, step
from calibrant.core.reductions import Vector
from calibrant.core.validation import mean_gain
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.maps.ensemble import Ensemble, VectorIdentity
from calibrant.maps.transforms import Transform, in_order_of

#: The most probabilities used to choose the combination, and the most features of the last fit; from more, rows are
#: drawn at random.
_CHOICE, _LAST = 1 << 20, 1 << 25
#: From this many classes on, members with fewer parameters are used, and none with a matrix.
_MANY, _VERY_MANY = 50, 150
#: Up to this many classes a member has squares and probabilities as features.
_FEW = 10
#: Up to this many classes there are members with hidden units.
_HIDDEN = 20
#: From this many rows on a network is trained.
_TRAINED = 5_000
#: Amounts of smoothing toward the class frequencies.
_LITTLE, _MUCH = 0.001, 0.03
_AMOUNTS = (0.001, 0.03, 0.1, 0.3)
#: An amount that only temperature scaling is tried with.
_MOST = 0.9
#: Members in the log-linear pool: the best ones, and these.
_POOLED, _ALWAYS = 8, ("isotonic", "temperature")
#: Differences of total held-out losses in nats that change the odds by a factor of e, and penalties in nats.
_ODDS, _OF_POOL, _OF_MIXTURE = 4.0, 3.0, 5.0
#: Weights below this are dropped.
_LEAST = 0.02
#: The least logarithm of a probability of a member.
_FLOOR = float(np.log(PROBABILITY_CLIP))


# --- Members


def _members(n_classes: int, n: int) -> list[RegressionMember | HiddenLayer | NetworkMember]:
    """Return the softmax regressions and networks that are tried for this number of classes and of rows."""
    network = [NetworkMember("network")] if _trains(n, n_classes) else []
    diagonals: list[RegressionMember | HiddenLayer | NetworkMember] = [
        RegressionMember("svs", diagonal=True),
        *(RegressionMember(f"vector, smoothing {a:g}", a, diagonal=True, ridge=1e-3) for a in _AMOUNTS),
        *(RegressionMember(f"temperature, smoothing {a:g}", a, diagonal=True, ridge=1e9) for a in (*_AMOUNTS, _MOST)),
    ]
    if n_classes >= _VERY_MANY:
        return diagonals
    plain: tuple[float, ...] = (1e-4, 0.01, 0.3, 10.0)
    smoothed: tuple[tuple[float, float], ...] = ((_LITTLE, 0.3), (_MUCH, 1.0), (_MUCH, 30.0))
    if n_classes >= _MANY:
        plain, smoothed = (10.0, 100.0, 1000.0), ((_MUCH, 100.0),)
    squares = (0.003, 0.3) if n_classes <= _FEW else ()
    return [
        *diagonals,
        RegressionMember("sms"),
        *(RegressionMember(f"matrix, ridge {ridge:g}", ridge=ridge) for ridge in plain),
        *(RegressionMember(f"matrix, smoothing {a:g}, ridge {ridge:g}", a, ridge=ridge) for a, ridge in smoothed),
        *(RegressionMember(f"squares, ridge {ridge:g}", ridge=ridge, squares=True) for ridge in squares),
        *(
            HiddenLayer(f"hidden layer, ridge {ridge:g}", ridge)
            for ridge in ((0.3, 1.0) if n_classes <= _HIDDEN else ())
        ),
        *network,
    ]


def estimated_seconds(n: int, n_classes: int, folds: int) -> float:
    """Estimate the seconds of ``fit_averaged_vector``."""
    chosen = min(n, _CHOICE // n_classes)
    trained = training_seconds(chosen, n_classes, folds + 1) if _trains(chosen, n_classes) else 0.0
    return 0.1 + 2e-5 * min(n * n_classes, _CHOICE) + 4e-6 * n * n_classes + trained


def _trains(n: int, n_classes: int) -> bool:
    """Return whether a network is trained on so many rows."""
    return n >= _TRAINED and n_classes <= _HIDDEN


# --- The fit


@dataclass(frozen=True)
class Combination:
    """Weights of the members: ``mixture (M,)``, exponents ``pool (M,)`` of the pool, and its share.

    ``gain (n,)`` is the increase of the log probability of the label of each row over the identity. The predictions of
    the members are out of fold; the weights are fitted to all rows with weight.
    """

    mixture: Floats
    pool: Floats
    pool_share: float
    gain: Floats


def combine(members: Sequence[Member], rows: MemberRows) -> Combination:
    """Return the weights of the members from their out-of-fold predictions; the first member is the identity.

    Four predictions are averaged: the log-linear pool of the best members, the mixture of all members, the mixture of
    all members and the pool, and the best member. Their weights are proportional to exp(-(L + penalty) / 4), with L the
    total held-out log loss in nats.
    """
    own = np.stack([rows.own(member.held_out) for member in members])
    losses = -(own @ rows.w)
    ranked = list(np.argsort(losses, kind="stable")[:_POOLED])
    ranked += [i for i, m in enumerate(members) if m.name in _ALWAYS and i not in ranked]
    exponents, pooled = log_pool([members[i].held_out for i in ranked], rows.labels, rows.w, least=_LEAST)
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
    combined = (shares / shares.sum()) @ weights
    combined[combined < _LEAST] = 0.0
    combined /= combined.sum()
    gain = np.log(combined @ shape) + with_pool.max(axis=0) - own[0]
    return Combination(combined[:-1], pool, float(combined[-1]), gain)


def _cross_fitted_gain(
    members: Sequence[Member], weighed: Sequence[Member], rows: MemberRows, *, keep_order: bool
) -> Floats:
    """Return the gain ``(n,)`` of each row, from weights of the ``weighed`` members fitted outside its fold."""
    gain = np.empty(len(rows))
    for fold in range(rows.folds):
        out = rows.fold == fold
        combination = combine(weighed, replace(rows, w=np.where(out, 0.0, rows.w)))
        gain[out] = (
            _gain_in_order(members, combination, rows, np.flatnonzero(out)) if keep_order else combination.gain[out]
        )
    return gain


def _in_order(member: Member, rows: MemberRows) -> Member:
    """Return the member with out-of-fold predictions sorted to preserve the order of the classes of each row."""
    return replace(member, held_out=np.ascontiguousarray(in_order_of(member.held_out.T, rows.z.T).T))


def _gain_in_order(members: Sequence[Member], combination: Combination, rows: MemberRows, some: Integers) -> Floats:
    """Return the gain of ``some`` rows if the calibrated values of a row are sorted to preserve the classes' order."""
    pooled = np.zeros((len(some), rows.n_classes))
    mixed = np.zeros_like(pooled)
    for member, share, exponent in zip(members, combination.mixture, combination.pool, strict=True):
        logarithms = np.maximum(member.held_out[:, some].T, _FLOOR)
        mixed += share * np.exp(logarithms)
        pooled += exponent * logarithms
    mixed += combination.pool_share * softmax_in_place(pooled)
    own = np.arange(len(some)), rows.labels[some]
    ordered = in_order_of(mixed, np.ascontiguousarray(rows.z[:, some].T))[own]
    return np.log(np.maximum(ordered, PROBABILITY_CLIP)) - members[0].held_out[:, some].T[own]


def fit_averaged_vector(
    vector: Vector, *, folds: int = 5, keep_order: bool = False, seed: int = 0
) -> tuple[Transform, dict[str, Any]]:
    """Fit the average of maps of the whole vector; return the map and the diagnostics of the fit.

    The scale of the features, one temperature, comes from all rows; everything else, the weights of the members
    too, is fitted outside the folds. The map is the identity if the mean gain is not positive. Raises ``TooFewRows``
    and ``OneClass``.
    """
    whole = rows_of(vector, folds, seed)
    chosen = drawn(whole, _CHOICE // whole.n_classes, seed)
    tried = _members(whole.n_classes, len(chosen))
    total = len(tried) + 3
    identity = Form(1.0, 0.0, whole.prior).map(identity_start(whole.n_classes, 2))
    clipped = np.log(np.maximum(chosen.p, PROBABILITY_CLIP))
    members = [Member("identity", clipped, lambda _: identity), temperature_member(chosen), isotonic_member(chosen)]
    for i, candidate in enumerate(tried):
        with step(i + 1, total, candidate.name), suppress(CalibrationError):  # no convergence, or squares are too large
            members.append(candidate.fit(chosen))
    report(total - 2, total, "combination")
    last = drawn(whole, _LAST // (3 * whole.n_classes), seed)
    with step(total - 1, total, "all rows"):
        return average_of(members, chosen, last, folds, keep_order=keep_order)


def average_of(
    members: Sequence[Member], chosen: MemberRows, last: MemberRows, folds: int, *, keep_order: bool
) -> tuple[Transform, dict[str, Any]]:
    """Return the average of members with the best weights, fitted to the rows ``last``, and the diagnostics.

    A member whose fit to these rows fails, though those outside the folds did not, is left out, and the weights of the
    others are found again. The first member is the identity, which is returned if the mean gain is not positive.
    """
    members = list(members)
    while True:
        combination, diagnostics = _chosen(members, chosen, folds, keep_order=keep_order)
        if diagnostics["held_out_gain"]["log_loss"] <= 0.0:
            return VectorIdentity(), diagnostics
        used = [
            i
            for i, pooled in enumerate(combination.pool * combination.pool_share)
            if combination.mixture[i] > 0.0 or pooled > 0.0
        ]
        fitted: list[Transform] = []
        with suppress(CalibrationError):
            for i, index in enumerate(used):
                with step(i, len(used), members[index].name):
                    fitted.append(members[index].refit(last))
        if len(fitted) == len(used):
            maps = tuple(fitted)
            return Ensemble(
                maps, combination.mixture[used], combination.pool[used], combination.pool_share, keep_order
            ), diagnostics
        del members[used[len(fitted)]]


def _chosen(
    members: Sequence[Member], rows: MemberRows, folds: int, *, keep_order: bool
) -> tuple[Combination, dict[str, Any]]:
    """Return the weights of the members, of which the first is the identity, and the diagnostics of the fit."""
    weighed = [_in_order(member, rows) for member in members] if keep_order else members
    combination = combine(weighed, rows)
    share = rows.w / rows.w.sum()
    gain = _cross_fitted_gain(members, weighed, rows, keep_order=keep_order)
    diagnostics: dict[str, Any] = {
        "folds": folds,
        "held_out_losses": {m.name: -float(share @ rows.own(m.held_out)) for m in members},
        "weights": {m.name: float(w) for m, w in zip(members, combination.mixture, strict=True) if w > 0.0},
        "exponents": {m.name: float(w) for m, w in zip(members, combination.pool, strict=True) if w > 0.0},
        "pool_share": combination.pool_share,
        "held_out_log_loss": -float(share @ (rows.own(members[0].held_out) + gain)),
        "held_out_gain": mean_gain(gain, rows.w, rows.clusters, folds),
    }
    return combination, diagnostics


# --- Combinations of probabilities: the log-linear pool, and mixtures by expectation maximisation

#: Strength of the penalty that pulls the exponents of the pool toward equal ones, in nats.
_EQUAL = 20.0
#: Pseudo-count of each part of a mixture, the most steps, and the change of a weight at which steps end.
_PRIOR, _MOST_STEPS, _CHANGE = 0.01, 400, 1e-6
#: Newton steps of the pool, and the expected decrease at which they end.
_NEWTON, _DECREASE = 50, 1e-10


def log_pool(parts: Sequence[Floats], labels: Integers, w: Floats, *, least: float = 0.0) -> tuple[Floats, Floats]:
    """Return exponents ``(M,)`` and ln of the pooled probability of each label ``(n,)``.

    The pool of log probabilities ``parts``, each ``(K, n)``, is softmax(sum_m a_m part_m). The exponents a >= 0
    minimise the log loss with the weights ``w (n,)`` plus 20 |a - 1 / M|^2 in nats, by projected Newton steps.
    Exponents below ``least`` then become 0. O(n K M^2) per step.
    """
    logs = np.maximum(np.stack(parts), np.log(PROBABILITY_CLIP))
    M, _, n = logs.shape
    share, strength = w / w.sum(), _EQUAL / float(w.sum())
    own, rows = logs[:, labels, np.arange(n)], np.arange(n)

    def at(exponents: Floats) -> tuple[float, Floats, Floats]:
        scores = np.tensordot(exponents, logs, 1)
        scores -= scores.max(axis=0)
        label = scores[labels, rows]
        np.exp(scores, out=scores)
        total = scores.sum(axis=0)
        of_label = label - np.log(total)
        return float(strength * ((exponents - 1.0 / M) ** 2).sum() - share @ of_label), scores / total, of_label

    exponents = np.full(M, 1.0 / M)
    value, p, _ = at(exponents)
    for _ in range(_NEWTON):
        check()
        means = np.einsum("kn,mkn->mn", p, logs)
        gradient = (means - own) @ share + 2.0 * strength * (exponents - 1.0 / M)
        spread = logs * (p * share)
        hessian = np.tensordot(spread, logs, axes=([1, 2], [1, 2])) - (means * share) @ means.T
        hessian += 2.0 * strength * np.eye(M)
        step = _projected(exponents, gradient, hessian)
        if gradient @ step < _DECREASE:
            break
        size = 1.0
        while True:
            trial = np.maximum(exponents - size * step, 0.0)
            new = at(trial)
            if new[0] < value or size < 1e-6:
                break
            size /= 2.0
        if new[0] >= value:
            break
        exponents, (value, p, _) = trial, new
    large = np.where(exponents < least, 0.0, exponents)
    return large, at(large)[2]


def _projected(exponents: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Return Newton's step in the exponents that are free: those at 0 which the step would reduce are fixed."""
    fixed = np.zeros(len(exponents), bool)
    for _ in range(len(exponents)):
        step, free = np.zeros(len(exponents)), ~fixed
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        more = fixed | ((exponents <= 0.0) & (step > 0.0))
        if (more == fixed).all() or more.all():
            break
        fixed = more
    return step


def mixture_by_em(parts: Floats, w: Floats) -> Floats:
    """Return mixture weights ``(M,)`` for the probabilities ``parts (M, n)`` of the labels, by EM. O(n M) per step."""
    weights = np.full(len(parts), 1.0 / len(parts))
    for _ in range(_MOST_STEPS):
        new: Floats = weights * (parts @ (w / (weights @ parts))) + _PRIOR
        new /= new.sum()
        if np.abs(new - weights).max() < _CHANGE:
            return new
        weights = new
    return weights
