"""Adaptive conformal inference (Gibbs & Candès 2021): an error level that follows a stream of late labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.core.arguments import explained
from calibrant.core.arrays import array_of
from calibrant.core.errors import InvalidOption, NotANumber, WrongShape
from calibrant.core.options import plain, read_fraction

# **The update.** alpha_{t+1} = alpha_t + gamma (alpha - err_t), with err_t = 1 if set t does not have its label. A step
# does not depend on alpha_t, so that the labels of several rows, in any order, may be used at once:
#
#     alpha_{T+1} = alpha_1 + gamma (T alpha - misses).
#
# **The bound.** Sets of all classes for alpha_t <= 0 have no error, and empty sets for alpha_t >= 1 always have one.
# Then alpha_t is in [-gamma, 1 + gamma] if each label is known before the next set (Lemma 4.1), and with labels that
# are up to d rows late in [-(d + 1) gamma, 1 + (d + 1) gamma], because up to d sets were made before alpha_t crossed 0
# or 1. The sum above gives
#
#     |misses / T - alpha| <= (max(alpha_1, 1 - alpha_1) + (d + 1) gamma) / (T gamma)
#
# for every stream, also of an adversary (Proposition 4.1 for d = 0).


@dataclass(frozen=True)
class AdaptiveAlpha:
    """The error level for the next prediction sets of a stream; ``start_adaptive`` creates the first one.

    Objects are immutable: ``update`` returns the next state.

    Attributes
    ----------
    target : float
        Error level that the stream should have, in (0, 1).
    gamma : float
        Step: 0 < gamma; larger steps follow changes faster, and vary more.
    first : float
        Error level of the first sets.
    labels : int
        Number of labels so far.
    misses : int
        Number of sets that did not have their label.

    See Also
    --------
    start_adaptive : Starts a stream.

    Examples
    --------
    >>> import calibrant
    >>> state = calibrant.start_adaptive(0.1, gamma=0.01).update([True, False])
    >>> round(state.value, 6), state.labels, state.error
    (0.092, 2, 0.5)
    """

    target: float
    gamma: float
    first: float
    labels: int = 0
    misses: int = 0

    @property
    def value(self) -> float:
        """Error level of the next sets: up to 0 they must have all classes, and from 1 on none.

        See Also
        --------
        update : Moves it.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.start_adaptive(0.1).value
        0.1
        """
        return self.first + self.gamma * (self.labels * self.target - self.misses)

    @property
    def error(self) -> float | None:
        """Share of the sets that did not have their label; None without labels.

        See Also
        --------
        bound : How far it may be from the target.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.start_adaptive(0.1).update([True, True, False, True]).error
        0.25
        """
        return self.misses / self.labels if self.labels else None

    def bound(self, delay: int = 0) -> float:
        """Return the largest possible distance of ``error`` from the target, for every stream.

        Parameters
        ----------
        delay : int, default 0
            The most sets that are made after a set before its label is known.

        Returns
        -------
        float
            (max(first, 1 - first) + (delay + 1) gamma) / (labels gamma), and infinity without labels. It holds if sets
            have all classes for error levels up to 0, and none from 1 on.

        See Also
        --------
        error : The share that it bounds.

        Examples
        --------
        >>> import calibrant
        >>> round(calibrant.start_adaptive(0.1, gamma=0.01).update([True] * 1000).bound(), 4)
        0.091
        """
        if isinstance(delay, bool) or not isinstance(delay, int) or delay < 0:
            raise InvalidOption.at("/delay", "must be a whole number of rows, at least 0")
        if not self.labels:
            return math.inf
        return (max(self.first, 1.0 - self.first) + (delay + 1) * self.gamma) / (self.labels * self.gamma)

    def update(self, covered: Any) -> AdaptiveAlpha:
        """Return the state after the labels of some rows.

        Parameters
        ----------
        covered : bool, or array_like of bool, shape (n,)
            Whether the set of each row has its label; 0 and 1 are accepted. Their order does not matter.

        Returns
        -------
        AdaptiveAlpha
            The next state.

        Raises
        ------
        CalibrationError
            If ``covered`` is invalid.

        See Also
        --------
        value : Error level of the next sets.

        Examples
        --------
        >>> import calibrant
        >>> round(calibrant.start_adaptive(0.1, gamma=0.01).update(False).value, 6)
        0.091
        """
        values = array_of([covered] if isinstance(covered, bool | int | np.bool_) else covered, "covered")
        if values.ndim != 1:
            raise WrongShape.at("/covered", "must have shape (n,)")
        if values.dtype.kind not in "biuf" and len(values):
            raise NotANumber.at("/covered", "must be booleans or 0 and 1")
        bad = np.flatnonzero((values != 0) & (values != 1))
        if len(bad):
            raise InvalidOption.at(f"/covered/{bad[0]}", "must be 0 or 1")
        misses = int(np.count_nonzero(values == 0))
        return replace(self, labels=self.labels + len(values), misses=self.misses + misses)


@explained
def start_adaptive(alpha: float, *, gamma: float = 0.005, first: float | None = None) -> AdaptiveAlpha:
    """Start adaptive conformal inference: an error level that keeps the share of misses of a stream near a target.

    Parameters
    ----------
    alpha : float
        Error level that the stream should have, in (0, 1).
    gamma : float, default 0.005
        Step, in (0, 1]: that of Gibbs & Candès (2021).
    first : float, optional
        Error level of the first sets, in [0, 1]; by default ``alpha``.

    Returns
    -------
    AdaptiveAlpha
        The state before the first label.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    evaluate_sets : Evaluates prediction sets whose labels are known.

    Notes
    -----
    After each label alpha moves by ``gamma (alpha - miss)``. For every stream, also if its distribution changes, the
    share of misses differs from the target by at most ``bound()``. That does not bound the coverage at one time or in
    one group. Late labels make the bound larger; labels that never arrive are not counted.

    Examples
    --------
    >>> import calibrant
    >>> state = calibrant.start_adaptive(0.1, gamma=0.05)
    >>> for covered in [True, False, False]:
    ...     state = state.update(covered)
    >>> round(state.value, 3)
    0.015
    """
    target, step = read_fraction(alpha, "/alpha"), plain(gamma)
    if isinstance(step, bool) or not isinstance(step, int | float) or not 0.0 < step <= 1.0:
        raise InvalidOption.at("/gamma", "must be a number above 0, at most 1")
    begin = target if first is None else plain(first)
    if isinstance(begin, bool) or not isinstance(begin, int | float) or not 0.0 <= begin <= 1.0:
        raise InvalidOption.at("/first", "must be a number from 0 to 1")
    return AdaptiveAlpha(target, float(step), float(begin))
