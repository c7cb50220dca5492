"""Predictive distributions of a number: store and evaluate forecasts, fit maps of them and apply these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from calibrant.client.answers import (
    About,
    BatchRecord,
    DistributionReportAnswer,
    MapRecord,
    MapSummary,
)
from calibrant.client.calls.evaluations import HTML, Requested, read_html, read_report
from calibrant.client.calls.jobs import Progress
from calibrant.client.calls.maps import Applied, applied, read_fit, split_about
from calibrant.client.calls.pictures import Form, Theme, media_of, read_picture
from calibrant.client.errors import unreadable
from calibrant.client.frames import (
    ArrayLike,
    DistributionRows,
    ForecastArguments,
    arguments_of,
    refuse_unknown,
    split_forecasts,
)
from calibrant.client.packing import NPZ, Array, unpack
from calibrant.client.requests import path_of, read, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Answer, Request, Steps
from calibrant.core.arrays import days_of, made_and_known, times_of, with_gaps
from calibrant.core.errors import InvalidOption

if TYPE_CHECKING:
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.forecasts import Forecasts

_REGRESSION = {"prediction_kind": "regression"}


class FitDistributionArguments(DistributionRows, About, total=False):
    """Forecasts as keyword arguments, and what is to be stored with the map."""


def evaluate_distribution(
    patience: Patience,
    observed: ArrayLike | BatchRecord | None = None,
    *,
    batch: str | BatchRecord | None = None,
    map: str | MapSummary | None = None,
    measures: Requested | None = None,
    diagrams: Requested | None = None,
    against: Sequence[str | BatchRecord] | None = None,
    score: str | None = None,
    lags: int = 0,
    interval: float | None = None,
    seed: int = 0,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[DistributionRows],
) -> Steps[DistributionReportAnswer]:
    """Score predictive distributions of a number and measure their calibration; with ``map``, before and after it.

    Parameters
    ----------
    observed : array_like, shape (n,), or str or BatchRecord, optional
        Outcomes; or a stored batch.
    batch : str or BatchRecord, optional
        Id of a stored batch, instead of rows.
    map : str or MapSummary, optional
        Map that is applied: id, name, ``name:version`` or ``name@alias``.
    measures : sequence of str or mapping, optional
        Names of measures, or mappings with ``name``, options and ``as``; see ``distribution_measures()``.
    diagrams : sequence of str or mapping, optional
        Diagrams whose data is returned; see ``distribution_diagrams()``.
    against : sequence of str, optional
        Ids of stored batches with other forecasts of the same outcomes, to compare.
    score, lags
        Score of a comparison, and for rows in time order its lags; see ``calibrant.compare_distributions``.
    interval : float, optional
        Level of the confidence intervals, in (0, 1); by default there are none, but those of a comparison.
    seed : int
        Random seed.
    timeout : float, optional
        Seconds to wait for a job; by default there is no limit.
    progress : callable, optional
        Called with the job on every change.
    **rows
        The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or ``lower``,
        ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and ``times``.

    Returns
    -------
    DistributionReportAnswer
        The report.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> report = client.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])
    >>> round(report.measures["crps"].value, 3)
    0.5
    """
    fields: dict[str, Any] = {"batch": batch, "map": map, "measures": measures, "interval": interval, "seed": seed}
    fields |= {"diagrams": diagrams, "score": score, "lags": lags or None}
    fields["against"] = None if against is None else list(against)
    answer = yield from send(patience, _request(evaluate_distribution, "/evaluate", observed, rows, fields))
    return (yield from read_report(patience, answer, DistributionReportAnswer, timeout, progress))


def distribution_report_html(
    patience: Patience,
    observed: ArrayLike | BatchRecord | None = None,
    *,
    batch: str | BatchRecord | None = None,
    map: str | MapSummary | None = None,
    seed: int = 0,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[DistributionRows],
) -> Steps[str]:
    """Return the report of predictive distributions as one HTML file.

    It has the verdict, diagrams, measures, and either the results after ``map`` or a recommended map.

    Parameters
    ----------
    observed, batch, map, seed, timeout, progress
        As for ``evaluate_distribution``.
    **rows
        The forecasts as for ``evaluate_distribution``; with ``times``, the report has a fan chart.

    Returns
    -------
    str
        The HTML, which has no scripts and no external resources.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> client.distribution_report_html([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])[:15]
    '<!doctype html>'
    """
    request = _request(
        distribution_report_html, "/evaluate", observed, rows, {"batch": batch, "map": map, "seed": seed}
    )
    request = replace(request, headers={**request.headers, "Accept": HTML})
    return (yield from read_html(patience, (yield from send(patience, request)), timeout, progress))


def distribution_diagram(
    patience: Patience,
    diagram: str | Mapping[str, Any] = "coverage",
    observed: ArrayLike | BatchRecord | None = None,
    *,
    batch: str | BatchRecord | None = None,
    map: str | MapSummary | None = None,
    form: Form = "svg",
    theme: Theme | None = None,
    width: int | None = None,
    seed: int = 0,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[DistributionRows],
) -> Steps[bytes]:
    r"""Draw a diagram of predictive distributions.

    Parameters
    ----------
    diagram : str or mapping
        Name of a diagram, or a mapping with ``name`` and options; see ``distribution_diagrams()``.
    observed, batch, map, seed, timeout, progress
        As for ``evaluate_distribution``; with ``map``, the diagram shows the forecasts before and after it.
    form, theme, width
        As for ``diagram``.
    **rows
        The forecasts as for ``evaluate_distribution``; a ``fan`` is in the order of ``times``.

    Returns
    -------
    bytes
        The picture.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``evaluate``.

    Examples
    --------
    >>> client.distribution_diagram("pit", [0.0, 3.0], mean=[0.0, 2.0], variance=[1.0, 4.0], form="png")[:4]
    b'\x89PNG'
    """
    look = {"theme": theme, "width": width}
    fields: dict[str, Any] = {"diagram": diagram, "batch": batch, "map": map, "seed": seed, **look}
    request = _request(distribution_diagram, "/diagrams", observed, rows, fields)
    request = replace(request, headers={**request.headers, "Accept": media_of(form)})
    return (yield from read_picture(patience, (yield from send(patience, request)), form, look, timeout, progress))


def fit_distribution(
    patience: Patience,
    method: str = "averaged",
    observed: ArrayLike | BatchRecord | None = None,
    *,
    batch: str | BatchRecord | None = None,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    scale: str = "identity",
    support: tuple[float | None, float | None] = (None, None),
    output_levels: Sequence[float] | None = None,
    seed: int = 0,
    allow_shape_change: bool = False,
    timeout: float | None = None,
    progress: Progress | None = None,
    **arguments: Unpack[FitDistributionArguments],
) -> Steps[MapRecord]:
    """Fit a calibration map of predictive distributions to a stored batch or to rows, and wait for it.

    Parameters
    ----------
    method : str
        Calibrator; see ``distribution_methods()``.
    observed : array_like, shape (n,), or str or BatchRecord, optional
        Outcomes; or a stored batch.
    batch : str or BatchRecord, optional
        Id of a stored batch, instead of rows.
    name, seed, timeout, progress
        As for ``fit``.
    options : mapping, optional
        Options of the method.
    scale : {"identity", "log1p"}
        Scale on which forecasts are shifted, widened and interpolated; log1p is ln(1 + x).
    support : tuple of (float or None, float or None)
        Lowest and highest possible outcome.
    output_levels : sequence of float, optional
        Levels of the quantiles that ``quantile-recalibration`` and ``conformal`` return for normal forecasts and
        samples.
    allow_shape_change : bool
        Whether the map may return forecasts of another kind than the newest map of the name.
    **arguments
        The forecasts as for ``evaluate_distribution``; ``groups`` keep their rows in one fold. And the fields of
        ``About``, such as ``tags`` and ``description``.

    Returns
    -------
    MapRecord
        The stored map; ``held_out_gain`` has the cross-fitted improvement of the score.

    Raises
    ------
    JobFailed, JobTimeout
        As for ``fit``.

    Examples
    --------
    >>> fitted = client.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
    >>> fitted.document["parameters"]
    {'factor': 5.0, 'offset': 0.0}
    """
    if not isinstance(method, str):
        raise TypeError('the first argument is the method: fit_distribution("averaged", observed, mean=..., std=...)')
    fields: dict[str, Any] = {"method": method, "batch": batch, "name": name, "seed": seed, "scale": scale}
    about, rows = split_about(arguments)
    fields |= {"options": dict(options or {}), **about}
    fields |= {"support": None if tuple(support) == (None, None) else list(support)}
    fields |= {"output_levels": None if output_levels is None else list(output_levels)}
    fields |= {"allow_shape_change": allow_shape_change or None}
    answer = yield from send(patience, _request(fit_distribution, "/maps", observed, rows, fields))
    return (yield from read_fit(patience, answer, timeout, progress))


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
    map : str or MapSummary
        Id, name, ``name:version`` or ``name@alias``.
    seed : int
        Seed of the bounds that a ``conformal`` map with ``ties="random"`` excludes.
    return_map : bool, default False
        Also return the id and the version of the map that was applied.
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
    request = _request(calibrate_distribution, "/calibrate", None, forecasts, {"map": map, "seed": seed}, accept=NPZ)
    answer = yield from send(patience, request)
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
    answer = yield from send(
        patience, _request(recalibrate_in_order, "/calibrate", y, rows, {"in_order": how}, accept=NPZ)
    )
    found, corrections = _read_forecasts(answer)
    return AdaptiveForecasts(found, **corrections)


def _in_order(observed: Any, made: Any, known: Any, horizon: Any) -> tuple[Array, list[str], list[str], Any]:
    """Return outcomes and times as they are sent: days as text, "" and 0 for outcomes that are not known yet."""
    values = with_gaps(observed)
    if values.dtype.kind == "f" and values.shape == np.shape(known):
        missing = np.isnan(values)
        values = np.where(missing, 0.0, values)
    else:
        values, missing = observed, np.zeros(np.shape(known), np.bool_)
    times, until, are_dates = made_and_known(made, known)
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


def upload_distribution(
    patience: Patience,
    observed: ArrayLike | None = None,
    *,
    ttl: int | None = None,
    **rows: Unpack[DistributionRows],
) -> Steps[BatchRecord]:
    """Store a batch of forecasts.

    Parameters
    ----------
    observed : array_like, shape (n,), optional
        Outcomes.
    ttl : int, optional
        Seconds until the batch expires; by default chosen by the server.
    **rows
        The forecasts as for ``evaluate_distribution``.

    Returns
    -------
    BatchRecord
        The stored batch.

    Examples
    --------
    >>> client.upload_distribution([0.5], quantiles=[[0.0, 1.0]], levels=[0.1, 0.9]).forecasts.kind
    'quantiles'
    """
    answer = yield from send(patience, _request(upload_distribution, "/batches", observed, rows, {"ttl": ttl}))
    return read(BatchRecord, answer)


def append_distribution(
    patience: Patience,
    batch: str | BatchRecord,
    observed: ArrayLike | None = None,
    *,
    key: str | None = None,
    **rows: Unpack[DistributionRows],
) -> Steps[BatchRecord]:
    """Append forecasts to a stored batch; retries are idempotent.

    Parameters
    ----------
    batch : str or BatchRecord
        Id of the batch.
    observed : array_like, shape (n,), optional
        Outcomes.
    key : str, optional
        Idempotency key; a repeated call with the same key does not append again.
    **rows
        The forecasts as for ``evaluate_distribution``, of the kind and with the levels of the batch.

    Returns
    -------
    BatchRecord
        The batch after the append.

    Examples
    --------
    >>> stored = client.upload_distribution([0.5], mean=[0.0], variance=[1.0])
    >>> client.append_distribution(stored.id, [0.2], mean=[0.0], variance=[1.0]).n
    2
    """
    headers = {} if key is None else {"Idempotency-Key": key}
    request = _request(append_distribution, path_of("batches", batch, "rows"), observed, rows, {}, headers=headers)
    return read(BatchRecord, (yield from send(patience, request)))


def _request(
    call: Callable[..., Any],
    path: str,
    observed: ArrayLike | BatchRecord | None,
    rows: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    accept: str | None = None,
) -> Request:
    known = FitDistributionArguments if call is fit_distribution else DistributionRows
    refuse_unknown(rows, ["observed", "known", *arguments_of(call), *known.__annotations__])
    if isinstance(observed, str | BatchRecord):
        observed, fields = None, {**fields, "batch": observed}
    arrays, options = split_forecasts({"observed": observed, **rows})
    all_headers = {**(headers or {}), **({} if accept is None else {"Accept": accept})}
    return with_rows(path, arrays, {**_REGRESSION, **fields, **options}, headers=all_headers, reads=accept is not None)
