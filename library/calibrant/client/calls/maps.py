"""Calibration maps: apply, list, describe, export and import."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, Unpack, overload

import numpy as np
import numpy.typing as npt
import orjson

from calibrant.client.answers import (
    About,
    MapRecord,
    MapSummary,
)
from calibrant.client.errors import unreadable
from calibrant.client.frames import (
    ArrayLike,
    FrameLike,
    Series,
    arguments_of,
    feature_columns,
    given_back,
    predictions_of,
    refuse_unknown,
)
from calibrant.client.packing import Array, unpack
from calibrant.client.requests import get, path_of, read, with_fields, with_predictions
from calibrant.client.retries import Patience, send
from calibrant.client.rows import class_names_of, map_reference
from calibrant.client.steps import Answer, Steps
from calibrant.core.arrays import group_names
from calibrant.sets.prediction_sets import PredictionSets

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
    patience: Patience, map: str | MapSummary, predictions: ArrayLike, *, scale: str | None = None, features: Any = None
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
    predictions : array_like
        (n,) or (n, K); an array, list, Series or DataFrame.
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
    calibrated = given_back(predictions, arrays["predictions"], columns)
    return applied(answer, calibrated) if return_map else calibrated


def bounds(patience: Patience, map: str | MapSummary, predictions: Any, *, scale: str | None = None) -> Steps[Bounds]:
    """Apply a stored Venn-Abers map and return the probabilities with their bounds.

    Parameters
    ----------
    map : str or MapSummary
        Id, name, ``name:version`` or ``name@alias`` of a map of method ``venn-abers``.
    predictions : array_like
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
    return Bounds(*(given_back(predictions, arrays[name], columns) for name in ("predictions", "p0", "p1")))


def calibrate_sets(
    patience: Patience,
    map: str | MapSummary,
    predictions: Any,
    *,
    groups: Any = None,
    seed: int | None = None,
    alpha: float | None = None,
) -> Steps[AppliedSets]:
    """Apply a stored map that gives prediction sets.

    Parameters
    ----------
    predictions : array_like
        (n,) or (n, K) on the scale of the map; an array, list, Series or DataFrame.
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
    fields = {"map": map, "seed": seed, "alpha": alpha}
    answer, arrays, _ = yield from _calibrated(patience, fields, predictions, None, groups)
    try:
        classes, (alpha,) = tuple(arrays["classes"].tolist()), arrays["alpha"].tolist()
        sets = PredictionSets(arrays["members"], classes, None if math.isnan(alpha) else alpha)
    except (KeyError, ValueError) as error:
        raise unreadable(answer) from error
    return AppliedSets(*applied(answer, sets))


def applied(answer: Answer, calibrated: Any) -> Applied:
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
    names = yield from class_names_of(patience, [ref], {"predictions": predictions})
    values, columns = predictions_of(predictions, names)
    beside = {} if features is None else dict(feature_columns(features))
    if groups is not None:
        beside["groups"] = np.array(group_names(groups), np.str_)
    answer = yield from send(patience, with_predictions("/calibrate", values, fields, beside or None))
    try:
        return answer, unpack(answer.content), columns
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
