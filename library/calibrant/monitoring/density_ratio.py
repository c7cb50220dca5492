"""Ratios of the density of a window to that of a reference period, from the features of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from calibrant.core.arguments import explained
from calibrant.core.arrays import array_of, is_frame
from calibrant.core.cells import Floats
from calibrant.core.errors import EmptyBatch, InvalidOption, NotConverged, NotFinite, WrongShape
from calibrant.core.inputs import listing
from calibrant.core.options import plain

#: Numeric features are cut into at most this many intervals; levels beyond this many most frequent ones are pooled.
_INTERVALS, _LEVELS = 32, 64
#: Strength of the ridge penalty, in rows: a level seen in few rows keeps a ratio close to 1.
_RIDGE = 1.0
_STEPS, _TOLERANCE = 50, 1e-8
#: Rows that are expanded into indicators at once.
_ROWS = 8192


@explained
def density_ratios(reference: Any, window: Any, *, largest: float = 50.0) -> Floats:
    """Weight the rows of a reference period so that their features are distributed as in a window.

    Parameters
    ----------
    reference : array_like or frame, shape (n, D)
        Features of the rows of the reference period, numbers or strings.
    window : array_like or frame, shape (m, D)
        The same features of the rows of the window. The columns of frames are matched by name.
    largest : float, default 50.0
        Larger ratios are set to this value before they are scaled. At least 1.

    Returns
    -------
    ndarray, shape (n,)
        Ratio of the densities at each reference row, with mean 1, for the ``weights`` of
        ``fit_performance_estimator``.

    Raises
    ------
    CalibrationError
        If the features have no rows, different columns (``WrongShape``), or infinite values (``NotFinite``).

    See Also
    --------
    fit_performance_estimator : Estimates performance without labels.

    Notes
    -----
    A logistic regression tells rows of the window from those of the reference, and its odds times n / m are the ratio
    (Sugiyama et al. 2012, section 4). Numeric features with more than 32 values are cut at common quantiles, and every
    interval or level has a coefficient of its own, with a ridge penalty; missing values are a level. The ratio is thus
    a product of one factor per feature. It assumes that P(y | features) did not change. O((n + m) L^2) per step of
    Newton's method, for L levels in all.

    Examples
    --------
    >>> import calibrant
    >>> ratios = calibrant.density_ratios([["a"], ["a"], ["b"], ["b"]], [["a"], ["a"], ["a"], ["b"]])
    >>> bool(ratios[0] > 1 > ratios[2]), round(float(ratios.mean()), 9)
    (True, 1.0)
    """
    most = plain(largest)
    if isinstance(most, bool) or not isinstance(most, int | float) or not 1.0 <= most < np.inf:
        raise InvalidOption.at("/largest", "must be a finite number of at least 1")
    if is_frame(reference) and is_frame(window):
        window = _same_columns(reference, window)
    before, after = _columns(reference, "/reference"), _columns(window, "/window")
    if len(before) != len(after):
        raise WrongShape.at("/window", f"must have the {len(before)} columns of /reference")
    codes = [_codes(old, new, j) for j, (old, new) in enumerate(zip(before, after, strict=True))]
    sizes = [int(code.max()) + 1 for code in codes]
    positions = np.stack(codes, axis=1) + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    n = len(before[0])
    in_window = np.arange(len(positions)) >= n
    score = _scores(positions, sum(sizes), in_window)[:n]
    ratio = np.minimum(np.exp(np.clip(score, -50.0, 50.0)) * (n / (len(positions) - n)), most)
    weights: Floats = ratio / ratio.mean()
    return weights


def _same_columns(reference: Any, window: Any) -> Any:
    """Return the window with its columns in the order of the reference; raises ``WrongShape`` for other names."""
    names = list(reference.columns)
    if sorted(map(str, names)) != sorted(map(str, window.columns)):
        raise WrongShape.at("/window", f"must have the columns of /reference: {listing([str(name) for name in names])}")
    return window[names]


def _columns(features: Any, pointer: str) -> list[npt.NDArray[Any]]:
    """Return the columns of a matrix or frame; frames keep the type of each."""
    if is_frame(features):
        columns = [np.asarray(features[name]) for name in features.columns]
    else:
        values = array_of(features, pointer[1:])
        if values.ndim != 2:
            reshaped = f"np.reshape({pointer[1:]}, (-1, 1))"
            raise WrongShape.at(pointer, f"must have shape (n, D); of one feature, pass {reshaped}")
        columns = list(values.T)
    if not columns:
        raise WrongShape.at(pointer, "must have at least one column")
    if not len(columns[0]):
        raise EmptyBatch.at(pointer, "has no rows")
    return columns


def _codes(old: npt.NDArray[Any], new: npt.NDArray[Any], column: int) -> npt.NDArray[np.int64]:
    """Return the interval or level of each row of both; 0 is a missing value."""
    if old.dtype.kind in "biuf" and new.dtype.kind in "biuf":
        both = np.concatenate([old, new]).astype(np.float64)
        for values, where in ((old, "reference"), (new, "window")):
            infinite = np.flatnonzero(np.isinf(values))
            if len(infinite):
                raise NotFinite.at(f"/{where}/{infinite[0]}/{column}", "must be a finite number or NaN")
        present = both[~np.isnan(both)]
        distinct = np.unique(present)
        if len(distinct) > _INTERVALS:
            cuts = np.unique(np.quantile(present, np.arange(1, _INTERVALS) / _INTERVALS))
        else:
            cuts = distinct[1:]
        return np.where(np.isnan(both), 0, 1 + np.searchsorted(cuts, both, side="right"))
    texts = np.array(["" if x is None or x != x else f"={x}" for x in [*old.tolist(), *new.tolist()]])
    levels, code, count = np.unique(texts, return_inverse=True, return_counts=True)
    if len(levels) > _LEVELS:
        frequent = np.argsort(-count, kind="stable")[: _LEVELS - 1]
        place = np.full(len(levels), len(frequent))
        place[frequent] = np.arange(len(frequent))
        code = place[code]
    return np.asarray(code, dtype=np.int64).ravel()


def _scores(positions: npt.NDArray[np.int64], size: int, y: npt.NDArray[np.bool_]) -> Floats:
    """Return the log-odds of a ridge logistic regression on indicators, by Newton's method with step halving."""
    theta, intercept_free = np.zeros(size + 1), np.append(np.full(size, _RIDGE), 0.0)

    def scores(at: Floats) -> Floats:
        log_odds: Floats = at[positions].sum(axis=1) + at[-1]
        return log_odds

    def loss(at: Floats, f: Floats) -> float:
        return float((np.logaddexp(0.0, f) - y * f).sum() + intercept_free @ at**2 / 2.0)

    f = scores(theta)
    now = loss(theta, f)
    for _ in range(_STEPS):
        c = expit(f)
        hessian, gradient = np.diag(intercept_free), intercept_free * theta
        for start in range(0, len(y), _ROWS):
            rows = slice(start, start + _ROWS)
            x = np.zeros((len(positions[rows]), size + 1))
            np.put_along_axis(x, positions[rows], 1.0, axis=1)
            x[:, -1] = 1.0
            hessian += x.T @ (x * (c[rows] * (1.0 - c[rows]))[:, None])
            gradient += x.T @ (c[rows] - y[rows])
        step = cho_solve(cho_factor(hessian + 1e-10 * np.eye(size + 1)), gradient)
        length = 1.0
        while length > 1e-6:
            moved = theta - length * step
            f = scores(moved)
            after = loss(moved, f)
            if after <= now:
                break
            length /= 2.0
        theta, fallen, now = moved, now - after, after
        if fallen <= _TOLERANCE * max(now, 1.0):
            return f
    raise NotConverged("the regression of window against reference did not converge")
