"""Predictive distributions of a number: apply maps of them, also in the order of time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from calibrant.client.answers import MapSummary
from calibrant.client.calls.maps import Applied, applied
from calibrant.client.errors import unreadable
from calibrant.client.frames import ArrayLike, ForecastArguments
from calibrant.client.packing import NPZ, Array, unpack
from calibrant.client.retries import Patience
from calibrant.client.rows import with_forecast_rows
from calibrant.client.steps import Answer, Steps
from calibrant.core.arrays import days_of, made_and_known, times_of, with_gaps
from calibrant.core.errors import InvalidOption

if TYPE_CHECKING:
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.forecasts import Forecasts


@overload
def calibrate_distribution(
    patience: Patience, map: str | MapSummary, *, seed: int = 0, **forecasts: Unpack[ForecastArguments]
) -> Steps[Forecasts]: ...
@overload
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    seed: int = 0,
    return_map: Literal[True],
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Applied]: ...
@overload
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    seed: int = 0,
    return_map: bool,
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Any]: ...
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    seed: int = 0,
    return_map: bool = False,
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Any]:
    """Apply a stored map to forecasts.

    Parameters
    ----------
    seed : int
        Seed of the bounds that a ``conformal`` map with ``ties="random"`` excludes.
    **forecasts
        The forecasts as for ``evaluate_distribution``, and ``by`` if the map was fitted with it.

    Returns
    -------
    calibrant.distributions.forecasts.Forecasts or Applied
        Calibrated forecasts: means and variances, quantiles or intervals. With ``return_map``, an ``Applied`` with
        these as ``calibrated``, and ``map`` and ``version``.

    Examples
    --------
    >>> fitted = client.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
    >>> client.calibrate_distribution(fitted.id, mean=[7.0], variance=[1.0]).variance
    array([5.])
    """
    fields = {"map": map, "seed": seed}
    answer = yield from with_forecast_rows(patience, "/calibrate", forecasts, fields, accept=NPZ, reads=True)
    calibrated, _ = _read_forecasts(answer)
    return applied(answer, calibrated) if return_map else calibrated


def recalibrate_in_order(
    patience: Patience,
    observed: ArrayLike,
    made: Any,
    known: Any,
    *,
    half_life: float | timedelta,
    horizon: Any = None,
    scale: str = "identity",
    support: tuple[float | None, float | None] = (None, None),
    shift: float = 0.7,
    widen: float = 0.75,
    narrow: float = 0.375,
    **forecasts: Unpack[ForecastArguments],
) -> Steps[AdaptiveForecasts]:
    """Recalibrate forecasts in time order, using only outcomes that were known when each forecast was made.

    Parameters
    ----------
    observed, made, known, half_life, horizon, scale, support, shift, widen, narrow
        As for ``calibrant.recalibrate_in_order``.
    **forecasts
        The forecasts as for ``evaluate_distribution``.

    Returns
    -------
    calibrant.AdaptiveForecasts
        Recalibrated forecasts, and the correction of each row.

    Examples
    --------
    >>> found = client.recalibrate_in_order([9.0, 9.0], [0, 2], [1, 3], half_life=1.0, mean=[5.0, 5.0],
    ...                                     variance=[1.0, 1.0])
    >>> found.n_known.tolist(), found.forecasts.mean.round(1).tolist()
    ([0, 1], [5.0, 7.8])
    """
    from calibrant.distributions.adaptive import AdaptiveForecasts  # which needs SciPy

    y, times, until, steps = _in_order(observed, made, known, horizon)
    life = days_of(half_life) if times_of(made, "made")[1] != "numbers" else half_life
    if isinstance(life, timedelta):
        raise InvalidOption.at("/half_life", "must be a finite number above 0")
    how: dict[str, Any] = {"half_life": life, "scale": scale, "support": list(support)}
    how |= {"shift": shift, "widen": widen, "narrow": narrow}
    rows: dict[str, Any] = {**forecasts, "times": times, "known": until}
    rows |= {} if steps is None else {"by": steps}
    answer = yield from with_forecast_rows(patience, "/calibrate", rows, {"in_order": how}, y, accept=NPZ, reads=True)
    recalibrated, corrections = _read_forecasts(answer)
    return AdaptiveForecasts(recalibrated, **corrections)


def _in_order(observed: Any, moments: Any, known: Any, horizon: Any) -> tuple[Array, list[str], list[str], Any]:
    """Return outcomes and times as they are sent: days as text, "" and 0 for outcomes that are not known yet."""
    values = with_gaps(observed)
    if values.dtype.kind == "f" and values.shape == np.shape(known):
        missing = np.isnan(values)
        values = np.where(missing, 0.0, values)
    else:
        values, missing = observed, np.zeros(np.shape(known), np.bool_)
    times, until, are_dates = made_and_known(moments, known)
    unit = _DAY if are_dates else 1.0
    gaps = missing | np.isnan(until)
    known_texts = ["" if gap else repr(time) for time, gap in zip((until / unit).tolist(), gaps, strict=True)]
    steps = None if horizon is None else [repr(step) for step in times_of(horizon, "horizon")[0].tolist()]
    return values, [repr(time) for time in (times / unit).tolist()], known_texts, steps


#: Arrays of an answer in the order of time that are no forecasts.
_CORRECTIONS = ("shifts", "factors", "n_known")
#: Seconds of a day, the unit of half-lives of dates.
_DAY = 86_400.0


def _read_forecasts(answer: Answer) -> tuple[Forecasts, dict[str, Array]]:
    """Return the forecasts of an answer, and the corrections of their rows, if it has them."""
    from calibrant.distributions.forecasts import FIELDS, Forecasts

    try:
        arrays: dict[str, Any] = dict(unpack(answer.content))
        corrections: dict[str, Array] = {name: arrays.pop(name) for name in _CORRECTIONS if name in arrays}
        kind = next(kind for kind, names in FIELDS.items() if set(names) == set(arrays))
    except (ValueError, StopIteration) as error:
        raise unreadable(answer) from error
    if "level" in arrays:
        arrays["level"] = float(arrays["level"].item())
    return Forecasts(kind, **arrays), corrections
