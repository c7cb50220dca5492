"""Coverage of central intervals given a group or a covariate, with one test of all groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.arrays import array_of, group_names, numbered_names
from calibrant.core.batch import Integers, read_numbers
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, LengthMismatch, NotFinite, TooFewRows, WrongShape
from calibrant.core.options import read_seed
from calibrant.core.results import n_rows
from calibrant.distributions import scores
from calibrant.distributions.forecasts import Forecasts, read_forecasts, read_observed, refuse
from calibrant.distributions.pit import p_of, transforms
from calibrant.measures.measure import MeasureResult

#: Simulated draws of the null distribution, the level of the bands, and the most groups.
_DRAWS, _BAND, _MOST_GROUPS = 5_000, 0.95, 1000


def conditional_coverage(
    observed: Any,
    by: Any,
    *,
    n_bins: int = 5,
    level: float | None = None,
    clusters: Any = None,
    seed: int = 0,
    **forecasts: Any,
) -> MeasureResult:
    """Measure the coverage of central intervals in each group, or in bins of a covariate.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes.
    by : array_like, shape (n,)
        Numbers, also as text, which are put in bins of about equal mass, or names of groups.
    n_bins : int, default 5
        Bins of a covariate, 2 to 100. Equal numbers are in the same bin.
    level : float, optional
        Level of the intervals. The default is 0.9, or that of the given intervals or of the widest given quantiles.
    clusters : array_like, shape (n,), optional
        Rows of a cluster may depend on each other.
    seed : int, default 0
        Seed of the randomised transforms and of the simulated null distribution.
    **forecasts
        ``mean`` and ``variance``, ``quantiles`` and ``levels``, ``samples``, or ``lower`` and ``upper``.

    Returns
    -------
    MeasureResult
        The largest difference between coverage and level in standard errors, and its p-value. The parts have for each
        bin its ``name``, ``rows``, ``coverage`` and the ``half_width`` of the simultaneous 95 % band around the level.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or there are fewer than 20 rows or clusters.

    See Also
    --------
    calibrant.evaluate_distribution : Its measure ``conditional-coverage`` is the same for ``by="column"``.

    Notes
    -----
    O(n log n). The null distribution is simulated with binomial counts, of fewer rows if those of a cluster depend
    on each other, by the variance between clusters.

    Examples
    --------
    >>> from calibrant.distributions.conditional import conditional_coverage
    >>> y, day = [0.0, 0.1, -0.1, 0.2, 3.0] * 8, ["weekday", "weekday", "weekday", "weekday", "sunday"] * 8
    >>> found = conditional_coverage(y, day, mean=[0.0] * 40, variance=[1.0] * 40)
    >>> found.parts["name"], found.parts["coverage"], found.p_value < 0.01
    (['sunday', 'weekday'], [0.0, 1.0], True)
    """
    read_seed(seed)
    own = level if forecasts.get("lower") is not None else None
    checked = read_forecasts(**forecasts, **({} if own is None else {"level": own}))
    y = read_observed(observed, checked)
    used = scores.level_of(checked) if level is None else level
    if not isinstance(used, float) or not 0.0 < used < 1.0:
        raise InvalidOption.at("/level", "must be a number above 0 and below 1")
    if type(n_bins) is not int or not 2 <= n_bins <= 100:
        raise InvalidOption.at("/n_bins", "must be an integer from 2 to 100")
    member, names = bins_of(read_covariate(by, len(y)), None, n_bins)
    numbers = None
    if clusters is not None:
        numbers = numbered_names(_names(clusters, "clusters", len(y)))[1]
    return coverage_in_bins(checked, y, member, names, level=used, clusters=numbers, seed=seed)


def read_covariate(by: Any, n: int) -> npt.NDArray[Any]:
    """Return the values of ``by``: floats, or names as objects. Text is numbers if all of it is. O(n)."""
    values = array_of(by, "by")
    if values.dtype.kind in "fiu":
        numbers = read_numbers(values, "/by")
        if numbers.ndim != 1:
            raise WrongShape.at("/by", "must have shape (n,)")
        refuse(~np.isfinite(numbers), "/by", "must be finite", NotFinite)
    else:
        names = np.array(_names(by, "by", n), dtype=object)
        try:
            numbers = names.astype(np.float64)
        except ValueError:
            return names
        if not np.isfinite(numbers).all():
            return names
    if len(numbers) != n:
        raise LengthMismatch.at("/by", f"has {n_rows(len(numbers))}, but the forecasts have {n:,}")
    return np.asarray(numbers, np.float64)


def bins_of(values: npt.NDArray[Any], w: Floats | None, n_bins: int) -> tuple[Integers, list[str]]:
    """Return the bin or group of each row and their names, by the values of ``read_covariate``. O(n log n)."""
    if values.dtype.kind == "f":
        return equal_bins(values, w, n_bins)
    distinct, member = numbered_names(values.tolist())
    if len(distinct) > _MOST_GROUPS:
        raise InvalidOption.at("/by", f"must name at most {_MOST_GROUPS} groups; of a covariate pass numbers")
    return member, distinct


def _names(values: Any, field: str, n: int) -> list[str]:
    names = group_names(values)
    if len(names) != n:
        raise LengthMismatch.at(f"/{field}", f"has {n_rows(len(names))}, but the forecasts have {n:,}")
    return names


def equal_bins(x: Floats, w: Floats | None, n_bins: int) -> tuple[Integers, list[str]]:
    """Return the bin of each row and the range of each bin: about equal mass, equal numbers together. O(n log n)."""
    distinct, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, w, len(distinct))
    middle = np.cumsum(mass) - 0.5 * mass
    bins = np.minimum((middle / mass.sum() * n_bins).astype(np.int64), n_bins - 1)
    bins = np.unique(bins, return_inverse=True)[1]
    ends = np.flatnonzero(np.diff(np.append(np.append(-1, bins), -1)))
    ranges = [(f"{distinct[a]:.6g}", f"{distinct[b - 1]:.6g}") for a, b in pairwise(ends.tolist())]
    names = [low if low == high else f"{low} to {high}" for low, high in ranges]
    return np.asarray(bins[place], np.int64), names


def coverage_in_bins(
    forecasts: Forecasts,
    y: Floats,
    member: Integers,
    names: list[str],
    *,
    level: float,
    w: Floats | None = None,
    squares: Floats | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    seed: int = 0,
) -> MeasureResult:
    """Return the coverage in each bin with bands, and the test of all bins; see ``conditional_coverage``.

    Outcomes are compared by the randomised transform, so that those of calibrated forecasts are covered with the
    probability ``level`` also by samples and by tied quantiles.
    """
    scores.central(forecasts, level)  # refuses a level that quantiles do not have
    ends = np.array([1.0 - level, 1.0 + level]) / 2.0
    row, u, weights = transforms(forecasts, y, ends, w if squares is None else None, seed=seed)
    member, clusters = member[row], None if clusters is None else clusters[row]
    weights = np.ones(len(y)) if w is None else w if weights is None else weights
    squares = weights if squares is None else squares
    # Half up to rounding: a quantile level such as 0.05 is not (1 - 0.9) / 2 exactly.
    inside = np.abs(u - 0.5) <= 0.5 * level + 1e-12
    B = len(names)
    rows = np.bincount(member, weights, B)
    independent = float(rows.sum()) if clusters is None else len(np.unique(clusters))
    if independent < 20:
        raise TooFewRows.at("/observed", "has fewer than 20 rows or clusters, which the test needs")
    share = np.bincount(member, weights * inside, B) / rows
    effective = rows * (rows / np.bincount(member, squares, B))
    if clusters is not None:
        sums = np.zeros((int(clusters.max()) + 1, B))
        np.add.at(sums, (clusters, member), weights * (inside - share[member]))
        plain = float(squares @ (share * (1.0 - share))[member])
        # The design effect: how much larger the variance is than that of independent rows, in all bins together.
        effect = float((sums * sums).sum()) / plain if plain > 0.0 else 1.0
        effective = effective / max(effect, 1.0 / float(effective.max()))
    counts = np.maximum(np.rint(effective), 1.0).astype(np.int64)
    drawn = np.random.default_rng(seed).binomial(counts, level, (_DRAWS, B)) / counts - level
    error = np.sqrt(level * (1.0 - level) / counts)
    sizes = (np.abs(drawn) / error).max(axis=1)
    value = float((np.abs(share - level) / error).max())
    return MeasureResult(
        value,
        p_value=p_of(value, sizes),
        parts={
            "name": names,
            "rows": rows.tolist(),
            "coverage": share.tolist(),
            "half_width": (float(np.quantile(sizes, _BAND)) * error).tolist(),
        },
        definition={"level": level},
    )
