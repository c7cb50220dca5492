"""Recalibration of forecasts in the order of time, from outcomes that were known when each forecast was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from calibrant.core.arguments import explained, refuse_unknown
from calibrant.core.arrays import Compared, array_of, check_aligned, days_of, made_and_known, times_of, with_gaps
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidOption, LengthMismatch, NotANumber, NotFinite, OutOfRange
from calibrant.core.options import Option, read_values
from calibrant.distributions.forecasts import ARGUMENTS, Forecasts, read_forecasts, read_observed, refuse_huge
from calibrant.distributions.maps.distribution_map import Support, check_support, clipped
from calibrant.distributions.maps.scales import ForecastScale, backward, check_scale, forward, median_of, quantiles_at
from calibrant.distributions.maps.tables import normal_of, table_of

#: Outcomes that were known for more half-lives than this are not used.
WINDOW = 10.0
#: Lower levels of the central intervals whose widths are compared with the errors.
_INNER, _OUTER = 0.25, 0.05
#: Widths are multiplied or divided by at most this.
_MOST = 3.0
#: The smallest number above 0, for variances that would become 0.
_SMALLEST = np.nextafter(0.0, 1.0)
#: Seconds of a day, the unit of half-lives of dates.
_DAY = 86_400.0
#: Estimated seconds of each distinct time, of each outcome that it uses, and of each row.
_ROUND_SECONDS, _USE_SECONDS, _ROW_SECONDS = 6e-5, 4e-8, 1e-6
_SETTINGS = {
    "shift": Option(0.7, low=0.0, high=1.0, real=True),
    "widen": Option(0.75, low=0.0, high=2.0, real=True),
    "narrow": Option(0.375, low=0.0, high=2.0, real=True),
}


@dataclass(frozen=True, eq=False)
class AdaptiveForecasts(Compared):
    """Forecasts that were recalibrated in chronological order.

    Attributes
    ----------
    forecasts : Forecasts
        The recalibrated forecasts, in the order of the rows.
    shifts : ndarray, shape (n,)
        Shift of the median of each row, on the scale.
    factors : ndarray, shape (n,)
        Factor of the width of each row, on the scale.
    n_known : ndarray, shape (n,)
        Number of outcomes that each row was recalibrated from; rows with 0 are unchanged.

    See Also
    --------
    recalibrate_in_order : Returns it.

    Examples
    --------
    >>> import calibrant
    >>> found = calibrant.recalibrate_in_order([9.0, 9.0], [0, 2], [1, 3], half_life=1.0, mean=[5.0, 5.0],
    ...                                        variance=[1.0, 1.0])
    >>> found.n_known.tolist(), found.forecasts.mean.round(1).tolist()
    ([0, 1], [5.0, 7.8])
    """

    forecasts: Forecasts
    shifts: Floats = field(repr=False)
    factors: Floats = field(repr=False)
    n_known: Integers = field(repr=False)


@explained
def recalibrate_in_order(
    observed: Any,
    made: Any,
    known: Any,
    *,
    half_life: float | timedelta,
    horizon: Any = None,
    scale: ForecastScale = "identity",
    support: Support = (None, None),
    shift: float = 0.7,
    widen: float = 0.75,
    narrow: float = 0.375,
    **forecasts: Any,
) -> AdaptiveForecasts:
    """Recalibrate forecasts in time order, using only outcomes that were known when each forecast was made.

    On the scale ``scale``, the median moves by ``shift`` times the median error of recent forecasts of the shortest
    horizon, and the width is multiplied by a power of the ratio of recent errors to predicted widths.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes; NaN if an outcome is not known yet.
    made, known : array_like, shape (n,)
        Times at which each forecast was made and its outcome became known: dates, or numbers in any unit, also as
        text. ``known`` must be later than ``made``, and may be missing for outcomes that are not known yet. A forecast
        is recalibrated only with outcomes known by the time it was made.
    half_life : float or timedelta
        Time after which an outcome counts half: in days for dates, otherwise in the unit of ``made``. Outcomes known
        for more than ten half-lives are not used.
    horizon : array_like, shape (n,), optional
        How far ahead each row forecasts: numbers or lengths of time. The median error is computed from the outcomes in
        use with the shortest horizon.
    scale : {"identity", "log1p"}, default "identity"
        Scale of errors and widths; log1p is ln(1 + x).
    support : tuple of (float or None, float or None), default (None, None)
        Lowest and highest possible outcome. Quantiles are clipped to it.
    shift : float in [0, 1], default 0.7
        Fraction of the median error by which forecasts are shifted.
    widen, narrow : float in [0, 2], default 0.75 and 0.375
        Exponent of the ratio: ``widen`` if the ratio is above 1, ``narrow`` if it is below 1. Larger powers track
        faster and are more volatile.
    **forecasts : array_like
        Forecasts by name, as for ``fit_distribution``.

    Returns
    -------
    AdaptiveForecasts
        Recalibrated forecasts, of the same kind, or quantiles if samples were given.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    fit_distribution : Fits one map to all rows.

    Notes
    -----
    For the central 50 % and 90 % intervals, each error that remains after the shift is divided by the distance from the
    median to the end of the interval on the same side. The weighted 0.5 and 0.9 quantiles of these quotients are the
    factors at which past intervals would have had their nominal coverage, limited to 1/9 to 9. The ratio is their
    geometric mean. Weights halve with each half-life, and widths are multiplied or divided by at most 3. The defaults
    are from weekly influenza forecasts of 2023-24 (``docs/benchmarks/flusight.md``). O(n Q) plus O(k) at each distinct
    time with k outcomes in use.

    Examples
    --------
    >>> import calibrant
    >>> found = calibrant.recalibrate_in_order([9.0, 9.0], [0, 2], [1, 3], half_life=1.0, mean=[5.0, 5.0],
    ...                                        variance=[1.0, 1.0])
    >>> found.shifts.round(2).tolist(), found.factors.round(2).tolist()
    ([0.0, 2.8], [1.0, 2.72])
    """
    known_names = ["observed", "made", "known", "half_life", "scale", "support", *ARGUMENTS]
    refuse_unknown("recalibrate_in_order", forecasts, known_names)
    return read_in_order(
        observed,
        made,
        known,
        half_life=half_life,
        horizon=horizon,
        scale=scale,
        support=support,
        settings={"shift": shift, "widen": widen, "narrow": narrow},
        **forecasts,
    ).recalibrated()


def read_in_order(
    observed: Any,
    moments: Any,
    known: Any,
    *,
    half_life: float | timedelta,
    horizon: Any,
    scale: ForecastScale,
    support: Support,
    settings: Mapping[str, float],
    **forecasts: Any,
) -> ForecastsInOrder:
    """Check the arguments of ``recalibrate_in_order``."""
    times_of_rows = {"made": moments, "known": known, "horizon": horizon}
    columns = {name: value for name, value in forecasts.items() if name != "levels"}
    check_aligned({"observed": observed, **times_of_rows, **columns})
    checked = read_forecasts(**forecasts)
    n = len(checked)
    check_scale(scale, checked.kind)
    values = read_values(dict(settings), _SETTINGS, "recalibrate_in_order")
    low_high = check_support(support, InvalidOption)
    times, until, life = _times(moments, known, half_life, n)
    steps = _steps(horizon, n)
    y, usable = _outcomes(observed, checked)
    refuse_huge(checked, y)
    return ForecastsInOrder(checked, y, times, until, usable & ~np.isnan(until), life, steps, scale, low_high, values)


@dataclass(frozen=True)
class ForecastsInOrder:
    """Checked forecasts of n outcomes ``y``, when they were made and known, and how they are recalibrated."""

    given: Forecasts
    y: Floats
    times: Floats
    until: Floats
    usable: npt.NDArray[np.bool_]
    life: float
    steps: Floats | None
    scale: ForecastScale
    support: Support
    settings: Mapping[str, Any]

    def _rounds(self) -> tuple[Integers, Floats, Integers]:
        """Return outcomes in the order in which they were known, distinct times, and the outcomes in use at each."""
        order = np.flatnonzero(self.usable)[np.argsort(self.until[self.usable], kind="stable")]
        distinct = np.unique(self.times)
        ends = np.searchsorted(self.until[order], [distinct - WINDOW * self.life, distinct], side="right")
        return order, distinct, ends.T

    def seconds(self) -> float:
        """Estimate the seconds of ``recalibrated``."""
        _, distinct, ends = self._rounds()
        n_used = float((ends[:, 1] - ends[:, 0]).sum())
        return _ROUND_SECONDS * len(distinct) + _USE_SECONDS * n_used + _ROW_SECONDS * len(self.given)

    def recalibrated(self) -> AdaptiveForecasts:
        """Return the recalibrated forecasts."""
        forecasts, scale, n = self.given, self.scale, len(self.given)
        table = table_of(forecasts)
        g = forward(table.q, scale, "quantiles")
        centre = median_of(g, table.levels)
        error = np.where(self.usable, forward(self.y, scale), centre) - centre
        widths = _Widths.of(g, table.levels, centre)
        shifts, counts, quotients = np.zeros(n), np.zeros(n, np.int64), np.ones((len(widths.coverages), n))
        order, distinct, ends = self._rounds()
        by_time = np.argsort(self.times, kind="stable")
        edges = np.searchsorted(self.times[by_time], distinct)
        until, steps = self.until[order], None if self.steps is None else self.steps[order]
        ratios, n_ratios = np.empty((len(widths.coverages), len(order))), 0
        by_error, by_ratio = _Sorted(error[order]), [_Sorted(sorted_ratios) for sorted_ratios in ratios]
        for now, (first, last), here in zip(distinct, ends.tolist(), np.split(by_time, edges[1:]), strict=True):
            if first == last:
                continue
            # the errors that remained after the shift that each past forecast got
            new = order[n_ratios:last]
            ratios[:, n_ratios:last], n_ratios = widths.ratios(new, error[new] - shifts[new]), last
            weights = np.exp2((until[first:last] - now) / self.life)
            used = by_error.between(first, last)
            if steps is not None:
                used = used[steps[used] == steps[first:last].min()]
            shifts[here] = self.settings["shift"] * by_error.quantile(used, weights[used - first], 0.5)
            counts[here] = last - first
            for i, (sorted_ratios, coverage) in enumerate(zip(by_ratio, widths.coverages, strict=True)):
                used = sorted_ratios.between(first, last)
                quotients[i, here] = sorted_ratios.quantile(used, weights[used - first], coverage)
        power = np.log(np.clip(quotients, 1.0 / _MOST**2, _MOST**2)).mean(axis=0)
        power *= np.where(power > 0.0, self.settings["widen"], self.settings["narrow"])
        factors = np.clip(np.exp(power), 1.0 / _MOST, _MOST)
        if forecasts.kind == "normal":
            normal = normal_of(forecasts.mean + shifts, np.maximum(forecasts.variance * factors**2, _SMALLEST))
            return AdaptiveForecasts(normal, shifts, factors, counts)
        middle = centre[:, None]
        spread = backward(middle + shifts[:, None] + factors[:, None] * (g - middle), scale)
        normal = table.with_values(np.where(counts[:, None] > 0, spread, table.q)).forecasts()
        return AdaptiveForecasts(clipped(normal, self.support), shifts, factors, counts)


@dataclass(frozen=True)
class _Widths:
    """Distances ``(C, n)`` from the median down and up to the ends of central intervals, and their coverages."""

    down: Floats
    up: Floats
    coverages: tuple[float, ...]

    @classmethod
    def of(cls, g: Floats, levels: Floats, centre: Floats) -> _Widths:
        """Return the widths of the 50 % and 90 % intervals, or of the given one if it is all there is."""
        inside = [tail for tail in (_INNER, _OUTER) if levels[0] <= tail + 1e-9 and levels[-1] >= 1.0 - tail - 1e-9]
        tails = inside if len(levels) > 2 and inside else [float(min(levels[0], 1.0 - levels[-1]))]
        ends = [quantiles_at(g, levels, ndtri([tail, 1.0 - tail]), "flat") for tail in tails]
        return cls(
            np.stack([centre - end[:, 0] for end in ends]),
            np.stack([end[:, 1] - centre for end in ends]),
            tuple(1.0 - 2.0 * tail for tail in tails),
        )

    def ratios(self, rows: Integers, error: Floats) -> Floats:
        """Return the factor of each interval ``(C, k)`` that would have ended at the outcomes of these rows."""
        width = np.where(error > 0.0, self.up[:, rows], self.down[:, rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(error == 0.0, 0.0, np.abs(error) / width)


class _Sorted:
    """Positions of values ``(m,)`` in a moving range, in the order of the values.

    They are kept from one range to the next: O(k) for k positions, as Timsort merges them with the new ones.
    """

    def __init__(self, values: Floats) -> None:
        self._values, self._held, self._last = values, np.empty(0, np.int64), 0

    def between(self, first: int, last: int) -> Integers:
        """Return the positions from ``first`` to before ``last``, neither of which decreases between calls."""
        new = np.arange(max(first, self._last), last)
        held = np.concatenate([self._held[self._held >= first], new])
        self._held, self._last = held[self._values[held].argsort(kind="stable")], last
        return self._held

    def quantile(self, at: Integers, weights: Floats, share: float) -> float:
        """Return the smallest value with at least this share of the weight at or below it."""
        cumulative = weights.cumsum()
        return float(self._values[at[min(cumulative.searchsorted(share * cumulative[-1]), len(at) - 1)]])


def _outcomes(observed: Any, forecasts: Forecasts) -> tuple[Floats, npt.NDArray[np.bool_]]:
    values = with_gaps(observed)
    if values.dtype.kind not in "fiu":
        return read_observed(observed, forecasts), np.ones(len(forecasts), np.bool_)
    missing = np.isnan(values.astype(np.float64))
    return read_observed(np.where(missing, 0.0, values), forecasts), ~missing


def _times(moments: Any, known: Any, half_life: Any, n: int) -> tuple[Floats, Floats, float]:
    """Return the times as numbers and the half-life in their unit; ``known`` is NaN for outcomes not known yet."""
    times, until, are_dates = made_and_known(moments, known)
    _check_times(times, "made", n)
    _check_times(until, "known", n, gaps=True)
    _refuse(times >= until, "known", "must be later than made", OutOfRange)
    life = days_of(half_life) if are_dates else half_life
    numbers = (int, float, np.integer, np.floating)
    if isinstance(life, bool) or not isinstance(life, numbers) or not 0.0 < float(life) < np.inf:
        raise InvalidOption.at("/half_life", "must be a finite number above 0")
    return times, until, float(life) * (_DAY if are_dates else 1.0)


def _steps(horizon: Any, n: int) -> Floats | None:
    if horizon is None:
        return None
    lengths = array_of(horizon, "horizon")
    if lengths.dtype.kind in "mO":
        horizon = [
            days_of(length) for length in lengths.astype("timedelta64[us]" if lengths.dtype.kind == "m" else object)
        ]
    steps, kind = times_of(horizon, "horizon")
    _check_times(steps, "horizon", n)
    if kind != "numbers":
        raise NotANumber.at("/horizon", "must be numbers or lengths of time")
    return steps


def _check_times(times: Floats, field: str, n: int, *, gaps: bool = False) -> None:
    if times.shape != (n,):
        raise LengthMismatch.at(f"/{field}", f"must have shape ({n},), like the forecasts")
    _refuse(np.isinf(times) if gaps else ~np.isfinite(times), field, "must be finite", NotFinite)


def _refuse(bad: npt.NDArray[np.bool_], field: str, wanted: str, error: type[CalibrationError]) -> None:
    """Raise an error that names the first of the bad rows, if there are any, and counts the others."""
    rows = np.flatnonzero(bad)
    if len(rows):
        others = f", like that of {len(rows) - 1} other row{'s' if len(rows) > 2 else ''}" if len(rows) > 1 else ""
        raise error.at(f"/{field}/{rows[0]}", f"{wanted}{others}")
