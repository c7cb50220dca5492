"""Calibration maps of both kinds of predictions: apply, also in the order of time, export and import."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Unpack, overload

import numpy as np
import numpy.typing as npt
import orjson

from calibrant.client.answers import About, BatchRecord, MapRecord, MapSummary
from calibrant.client.errors import unreadable
from calibrant.client.frames import (
    ArrayLike,
    ForecastArguments,
    FrameLike,
    Series,
    arguments_of,
    feature_columns,
    predictions_of,
    refuse_unknown,
)
from calibrant.client.packing import NPZ, Array, unpack
from calibrant.client.requests import get, path_of, read, with_fields, with_predictions, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.rows import class_names_of, map_reference, with_forecast_rows
from calibrant.client.steps import Answer, Steps
from calibrant.core.arrays import days_of, group_names, like, made_and_known, times_of, with_gaps
from calibrant.core.errors import InvalidOption
from calibrant.sets.prediction_sets import PredictionSets

if TYPE_CHECKING:
    from calibrant.distributions.adaptive import AdaptiveForecasts
    from calibrant.distributions.forecasts import Forecasts

Floats = npt.NDArray[np.float64]


class Documented(Protocol):
    """A fitted map of the library."""

    def to_document(self) -> dict[str, Any]: ...  # noqa: D102


class Applied(NamedTuple):
    """What a stored map returned, and the map that was applied, which a name or an alias does not tell."""

    calibrated: Any
    #: Id of the map.
    map: str
    #: Version of the map; None if it has no name.
    version: int | None


class AppliedSets(NamedTuple):
    """Prediction sets of a stored map, and the map that was applied."""

    sets: PredictionSets
    #: Id of the map.
    map: str
    #: Version of the map; None if it has no name.
    version: int | None


class Bounds(NamedTuple):
    """Calibrated probabilities of a Venn-Abers map, and the two probabilities that each is merged from."""

    predictions: Any
    p0: Any
    p1: Any


def split_about(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keyword arguments into what is to be stored with a map, for JSON, and the others."""
    about = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in arguments.items()
        if name in About.__annotations__
    }
    return about, {name: value for name, value in arguments.items() if name not in about}


@overload
def calibrate(
    patience: Patience, map: str | MapSummary, predictions: Series, *, scale: str | None = None, features: Any = None
) -> Steps[Series]: ...
@overload
def calibrate(
    patience: Patience, map: str | MapSummary, predictions: FrameLike, *, scale: str | None = None, features: Any = None
) -> Steps[Any]: ...
@overload
def calibrate(
    patience: Patience,
    map: str | MapSummary,
    predictions: ArrayLike | BatchRecord,
    *,
    scale: str | None = None,
    features: Any = None,
) -> Steps[Floats]: ...
@overload
def calibrate(
    patience: Patience,
    map: str | MapSummary,
    predictions: Any,
    *,
    scale: str | None = None,
    return_map: Literal[True],
    features: Any = None,
) -> Steps[Applied]: ...
@overload
def calibrate(
    patience: Patience,
    map: str | MapSummary,
    predictions: Any,
    *,
    scale: str | None = None,
    return_map: bool,
    features: Any = None,
) -> Steps[Any]: ...
def calibrate(
    patience: Patience,
    map: str | MapSummary,
    predictions: Any,
    *,
    scale: str | None = None,
    return_map: bool = False,
    features: Any = None,
) -> Steps[Any]:
    """Apply a stored map.

    Parameters
    ----------
    predictions : array_like, str or BatchRecord
        (n,) or (n, K); an array, list, Series or DataFrame. Or the id or the record of a stored batch.
    features : frame, or mapping of names to array_like, optional
        Features of the rows, which a map of ``segments`` needs.

    Returns
    -------
    array_like or Applied
        Calibrated probabilities of the event (n,) or of each class (n, K), in [0, 1]. A Series or DataFrame gives a
        Series or DataFrame with the same index, name and columns; for a DataFrame, a map of one event gives a Series.
        With ``return_map``, an ``Applied`` with these as ``calibrated``, and ``map`` and ``version``.

    Examples
    --------
    >>> client.calibrate("spam:1", [0.2, 0.8]).shape
    (2,)
    >>> client.calibrate("spam", [0.2, 0.8], return_map=True).version
    1
    """
    fields = {"map": map, "scale": scale}
    answer, arrays, columns = yield from _calibrated(patience, fields, predictions, features)
    calibrated = like(predictions, arrays["predictions"], columns, name=None)
    return _applied(answer, calibrated) if return_map else calibrated


@overload
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    batch: str | BatchRecord | None = None,
    seed: int = 0,
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Forecasts]: ...
@overload
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    batch: str | BatchRecord | None = None,
    seed: int = 0,
    return_map: Literal[True],
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Applied]: ...
@overload
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    batch: str | BatchRecord | None = None,
    seed: int = 0,
    return_map: bool,
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Any]: ...
def calibrate_distribution(
    patience: Patience,
    map: str | MapSummary,
    *,
    batch: str | BatchRecord | None = None,
    seed: int = 0,
    return_map: bool = False,
    **forecasts: Unpack[ForecastArguments],
) -> Steps[Any]:
    """Apply a stored map to forecasts.

    Parameters
    ----------
    batch : str or BatchRecord, optional
        A stored batch, in place of the forecasts.
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
    fields = {"map": map, "batch": batch, "seed": seed}
    answer = yield from with_forecast_rows(patience, "/calibrate", forecasts, fields, accept=NPZ, reads=True)
    calibrated, _ = _forecasts_in(answer)
    return _applied(answer, calibrated) if return_map else calibrated


def bounds(patience: Patience, map: str | MapSummary, predictions: Any, *, scale: str | None = None) -> Steps[Bounds]:
    """Apply a stored Venn-Abers map and return the probabilities with their bounds.

    Parameters
    ----------
    map : str or MapSummary
        Id, name, ``name:version`` or ``name@alias`` of a map of method ``venn-abers``.
    predictions : array_like, str or BatchRecord
        As for ``calibrate``.

    Returns
    -------
    Bounds
        ``predictions``, and the two probabilities ``p0`` and ``p1`` that each is merged from.

    Raises
    ------
    ProblemResponse
        If the map is of another method.

    Examples
    --------
    >>> fitted = client.fit("venn-abers", predictions=p, labels=y)
    >>> merged, p0, p1 = client.bounds(fitted.id, [0.2, 0.8])
    >>> bool((p0 <= merged).all() and (merged <= p1).all())
    True
    """
    _, arrays, columns = yield from _calibrated(patience, {"map": map, "scale": scale, "bounds": True}, predictions)
    return Bounds(*(like(predictions, arrays[name], columns, name=None) for name in ("predictions", "p0", "p1")))


def calibrate_sets(
    patience: Patience,
    map: str | MapSummary,
    predictions: Any,
    *,
    scale: str | None = None,
    groups: Any = None,
    seed: int | None = None,
    alpha: float | None = None,
) -> Steps[AppliedSets]:
    """Apply a stored map that gives prediction sets.

    Parameters
    ----------
    predictions : array_like, str or BatchRecord
        (n,) or (n, K); an array, list, Series or DataFrame. Or a stored batch.
    groups : array_like, optional
        Group of each row, for a map by group.
    seed : int, optional
        Seed of the random numbers of a randomised map, another one for each call.
    alpha : float, optional
        Error level of the sets, for a map that was fitted with ``adjustable``; by default that of the map.

    Returns
    -------
    AppliedSets
        The ``sets``, a ``PredictionSets``, and the ``map`` and ``version`` that were applied.

    Examples
    --------
    >>> fitted = client.fit("lac", predictions=p, labels=y)
    >>> client.calibrate_sets(fitted.id, [0.02, 0.98]).sets.sizes.tolist()
    [1, 1]
    """
    fields = {"map": map, "scale": scale, "seed": seed, "alpha": alpha}
    answer, arrays, _ = yield from _calibrated(patience, fields, predictions, None, groups)
    try:
        classes, (alpha,) = tuple(arrays["classes"].tolist()), arrays["alpha"].tolist()
        sets = PredictionSets(arrays["members"], classes, None if math.isnan(alpha) else alpha)
    except (KeyError, ValueError) as error:
        raise unreadable(answer) from error
    return AppliedSets(*_applied(answer, sets))


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
    recalibrated, corrections = _forecasts_in(answer)
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


def _applied(answer: Answer, calibrated: Any) -> Applied:
    """Return what a map returned with the map that an answer names; raises ``UnreadableAnswer``."""
    try:
        version = answer.headers.get("calibrant-map-version")
        return Applied(calibrated, answer.headers["calibrant-map"], None if version is None else int(version))
    except (KeyError, ValueError) as error:
        raise unreadable(answer) from error


def _calibrated(
    patience: Patience, fields: Mapping[str, Any], predictions: Any, features: Any = None, groups: Any = None
) -> Steps[tuple[Answer, dict[str, Array], list[str] | None]]:
    """Return an answer, its arrays, and the names of the columns of a frame in the order of the classes."""
    ref = map_reference(fields["map"])
    beside = {} if features is None else dict(feature_columns(features))
    if groups is not None:
        beside["groups"] = np.array(group_names(groups), np.str_)
    if isinstance(predictions, str | BatchRecord):
        in_batch = {**fields, "batch": predictions}
        request = with_rows("/calibrate", beside, in_batch, headers={"Accept": NPZ}, reads=True)
        answer = yield from send(patience, request)
        return answer, _arrays_in(answer), None
    names = yield from class_names_of(patience, [ref], {"predictions": predictions})
    values, columns = predictions_of(predictions, names)
    answer = yield from send(patience, with_predictions("/calibrate", values, fields, beside or None))
    return answer, _arrays_in(answer), columns


#: Arrays of an answer in the order of time that are no forecasts.
_CORRECTIONS = ("shifts", "factors", "n_known")
#: Seconds of a day, the unit of half-lives of dates.
_DAY = 86_400.0


def _forecasts_in(answer: Answer) -> tuple[Forecasts, dict[str, Array]]:
    """Return the forecasts of an answer, and the corrections of their rows, if it has them."""
    from calibrant.distributions.forecasts import FIELDS, Forecasts

    arrays: dict[str, Any] = _arrays_in(answer)
    corrections: dict[str, Array] = {name: arrays.pop(name) for name in _CORRECTIONS if name in arrays}
    try:
        kind = next(kind for kind, names in FIELDS.items() if set(names) == set(arrays))
    except StopIteration as error:
        raise unreadable(answer) from error
    if "level" in arrays:
        arrays["level"] = float(arrays["level"].item())
    return Forecasts(kind, **arrays), corrections


def _arrays_in(answer: Answer) -> dict[str, Array]:
    """Return the arrays of an answer; raises ``UnreadableAnswer``."""
    try:
        return unpack(answer.content)
    except ValueError as error:
        raise unreadable(answer) from error


def export_map(patience: Patience, map: str | MapSummary) -> Steps[dict[str, Any]]:
    """Return the document of a map, which ``calibrant.load`` reads.

    Returns
    -------
    dict
        The document as JSON, with all numbers that are needed to apply the map.

    Examples
    --------
    >>> client.export_map("spam:1")["method"]
    'platt'
    """
    answer = yield from send(patience, get(path_of("maps", map, "document")))
    try:
        document: dict[str, Any] = orjson.loads(answer.content)
    except ValueError as error:
        raise unreadable(answer) from error
    return document


def import_map(
    patience: Patience,
    document: Mapping[str, Any] | Documented,
    *,
    name: str | None = None,
    allow_shape_change: bool = False,
    **about: Unpack[About],
) -> Steps[MapRecord]:
    """Store a map from its document.

    Parameters
    ----------
    document : mapping, CalibrationMap, SetMap or DistributionMap
        A map, or its document, from ``export_map`` or ``to_document``.
    name : str, optional
        Name of the map; an existing name gets a new version.
    allow_shape_change : bool
        Whether the shape of the output may differ from that of the newest map of the name.
    **about
        Fields of ``About``, such as ``tags`` and ``description``.

    Returns
    -------
    MapRecord
        The stored map.

    Examples
    --------
    >>> client.import_map(client.export_map("spam:1")).imported
    True
    """
    plain = document if isinstance(document, Mapping) else document.to_document()
    refuse_unknown(about, [*arguments_of(import_map), *About.__annotations__])
    fields = {"document": dict(plain), "name": name, "allow_shape_change": allow_shape_change or None}
    fields |= split_about(about)[0]
    answer = yield from send(patience, with_fields("POST", "/maps/import", fields))
    return read(MapRecord, answer)
