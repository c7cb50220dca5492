"""Conversion between arrays and the types of callers: numpy, lists, pandas, polars, Arrow.

pandas and polars are not imported: a caller that passes a frame has already imported its library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from inspect import Parameter, signature
from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.client.packing import Array
from calibrant.core.arguments import meant_by
from calibrant.core.arrays import (
    array_of,
    check_aligned,
    cluster_names,
    group_names,
    is_frame,
    kind_of,
    levels_of,
    refuse_missing,
    times_of,
)
from calibrant.core.errors import CalibrationError, NotANumber, UnusableRows, token
from calibrant.core.features import read_features
from calibrant.core.records import is_records

#: Anything that numpy accepts, or a Series or DataFrame.
ArrayLike = npt.ArrayLike


class SeriesLike(Protocol):
    """A Series of pandas or polars."""

    def to_list(self) -> list[Any]: ...  # noqa: D102
    def to_numpy(self) -> Any: ...  # noqa: D102


class FrameLike(Protocol):
    """A DataFrame of pandas or polars."""

    @property
    def columns(self) -> Any: ...  # noqa: D102
    def to_numpy(self) -> Any: ...  # noqa: D102


Series = TypeVar("Series", bound=SeriesLike)


def numbers_of(value: Any, field: str) -> Array:
    """Convert to an array of numbers, keeping their type; a frame with K columns becomes (n, K).

    Raises ``UnusableRows`` for missing values and other types; ``field`` is for the message.
    """
    array = array_of(value, field)
    if array.dtype.kind not in "biuf":
        raise UnusableRows(f"{field}: must hold numbers, not {kind_of(array)}")
    return array.astype(np.float64) if array.dtype == np.longdouble else array


def labels_of(value: Any) -> Array:
    """Convert labels to an array: booleans to 0 and 1, integers to the smallest type that fits."""
    array = array_of(value, "labels")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind not in "iuf":
        raise UnusableRows(f"labels: must be integers, 0/1 or 0..K-1, not {kind_of(array)}; map them to integers first")
    if array.dtype.kind == "f" or not array.size:
        return array
    return array.astype(np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))


def names_of(value: Any, field: str = "groups") -> Array:
    """Convert names to an array of strings."""
    array = array_of(value, field)
    if not array.size:  # the type of an empty array is arbitrary
        return array.astype(np.str_)
    if array.dtype.kind == "O" and all(isinstance(name, str) for name in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "UT":
        raise UnusableRows(f"{field}: must be strings, not {kind_of(array)}")
    return array.astype(np.str_)


def groups_of(value: Any) -> Array:
    """Convert names of groups to an array of strings; a missing name becomes "", a row without a group."""
    return names_of(np.array(group_names(value, missing="")), "groups")


def ids_of(value: Any) -> Array:
    """Convert ids to an array of strings or integers."""
    array = array_of(value, "ids")
    if array.size and array.dtype.kind in "bfcmM":
        raise UnusableRows(f"ids: must be strings or integers, not {kind_of(array)}")
    return array if array.dtype.kind in "iu" else names_of(array, "ids")


#: More does not fit into 64 bits of microseconds.
_MOST_SECONDS = 9e12


def times_of_rows(value: Any) -> Array:
    """Convert times to ``datetime64``; numbers are seconds since 1970, and datetimes without a time zone are UTC."""
    try:
        seconds, _ = times_of(value, "timestamps")
    except NotANumber as error:
        raise UnusableRows(error.detail) from None
    refuse_missing(np.isnan(seconds), "timestamps")
    if (np.abs(seconds) > _MOST_SECONDS).any():
        raise UnusableRows("timestamps: numbers must be seconds since 1970")
    return np.rint(seconds * 1e6).astype("datetime64[us]")


def moment_of(value: float | str | datetime | None) -> str | None:
    """Convert a time to RFC 3339; a datetime without a time zone is in UTC, and numbers are seconds since 1970."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        value = datetime.fromtimestamp(value, UTC)
    return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()


# --- The rows of a call


class RowColumns(TypedDict, total=False):
    """What comes with predictions and labels, as keyword arguments; arrays, lists, or Series of pandas or polars.

    Attributes
    ----------
    class_names : sequence
        Labels of the classes in the order of the columns; for (n,), of the negative and the positive class.
    pos_label : str, int or bool
        Label of class 1, for two classes. Unnamed columns ``(n, 2)`` are in the order of the sorted labels in any case.
    weights, sample_weight : array_like
        (n,), at least 0; two names of one argument.
    groups : array_like, or frame
        Group of each row, or several columns.
    clusters : array_like, or frame
        Rows of a cluster may depend on each other.
    features : frame, or mapping of names to array_like
        Features of the rows, by which ``segments`` tells them apart.
    scale : {"probability", "logit"}
        Scale of the predictions.
    weights_kind : {"importance", "frequency"}
        Kind of weights.
    """

    class_names: Sequence[Any] | Mapping[Any, Any] | None
    pos_label: Any
    weights: ArrayLike | None
    sample_weight: ArrayLike | None
    groups: Any
    clusters: Any
    features: Any
    scale: str | None
    weights_kind: str | None


class RowArguments(RowColumns, total=False):
    """Rows as keyword arguments.

    Attributes
    ----------
    predictions : array_like
        (n,) for P(Y=1), or (n, K); the columns of a DataFrame are the classes in order.
    labels : array_like
        (n,), integers 0 to K - 1 or booleans; or others, with ``class_names``, ``pos_label`` or a frame of predictions
        whose columns are named after them.
    """

    predictions: ArrayLike
    labels: ArrayLike | None


class ForecastArguments(TypedDict, total=False):
    """Forecasts as keyword arguments, of exactly one kind; arrays, lists, or Series and DataFrames.

    Attributes
    ----------
    mean, variance, std : array_like
        Normal distributions (n,): the mean, and the variance or the standard deviation.
    quantiles, levels : array_like
        Quantiles (n, Q) at levels (Q,).
    samples : array_like
        Samples (n, S).
    lower, upper : array_like
        Ends of intervals (n,).
    level : float
        Level of these intervals.
    by : array_like
        Such as the horizon of each row: a map may have one function for each value.
    """

    mean: ArrayLike
    variance: ArrayLike
    std: ArrayLike
    quantiles: ArrayLike
    levels: ArrayLike
    samples: ArrayLike
    lower: ArrayLike
    upper: ArrayLike
    level: float | None
    by: Any


class DistributionRows(ForecastArguments, total=False):
    """Forecasts as keyword arguments, and what comes with their outcomes.

    Attributes
    ----------
    weights : array_like
        (n,), at least 0.
    weights_kind : {"importance", "frequency"}
        Kind of weights.
    groups : array_like, or frame
        Group of each row, or several columns.
    clusters : array_like
        Rows of a cluster may depend on each other.
    times : array_like
        Distinct times, for a fan chart.
    """

    weights: ArrayLike | None
    weights_kind: str | None
    groups: Any
    clusters: Any
    times: Any


_NAMES = ("groups", "clusters", "by", "times", "known")


def split_forecasts(rows: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Split forecasts into arrays and options; raises ``UnusableRows`` for invalid rows."""
    options = {name: rows.get(name) for name in ("level", "weights_kind")}
    columns = {name: value for name, value in rows.items() if name not in options and value is not None}
    if "quantiles" in columns:
        columns["levels"] = levels_of(columns["quantiles"], columns.get("levels"))
    check_aligned({name: value for name, value in columns.items() if name != "levels"})
    named = {name: names_of(np.array(group_names(columns[name])), name) for name in _NAMES if name in columns}
    return {name: numbers_of(value, name) for name, value in columns.items() if name not in _NAMES} | named, options


def arguments_of(call: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a call, without those of its rows."""
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [
        name for name, parameter in signature(call).parameters.items() if parameter.kind in named and name != "patience"
    ]


def refuse_unknown(rows: Mapping[str, Any], known: list[str]) -> None:
    """Raise ``TypeError`` for an argument that a call does not have, with what to pass instead."""
    unknown = sorted(set(rows) - set(known))
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; {meant_by(unknown[0], known)}")


_ARRAYS = ("predictions", "labels", "weights", "groups", "clusters")
_OPTIONS = ("scale", "weights_kind")
_LABELS = ("class_names", "pos_label")


def split_rows(rows: Mapping[str, Any], known: Sequence[str] | None = None) -> tuple[dict[str, Array], dict[str, Any]]:
    """Split rows into arrays and options; raises ``CalibrationError`` for rows that cannot be sent.

    ``known`` are the names of the classes of a map.
    """
    refuse_unknown(rows, [*_ARRAYS, *_OPTIONS, *_LABELS, "sample_weight", "features"])
    arrays = {name: rows[name] for name in _ARRAYS if rows.get(name) is not None}
    if rows.get("sample_weight") is not None:
        if "weights" in arrays:
            raise UnusableRows("sample_weight: is another name of weights; pass one of the two")
        arrays["weights"] = rows["sample_weight"]
    check_aligned(arrays)
    options = {name: rows.get(name) for name in _OPTIONS}
    if "predictions" in arrays and "labels" in arrays and array_of(arrays["labels"], "labels").shape[1:] > (1,):
        _read_matrix(arrays, rows)
    elif "predictions" in arrays and not _are_plain(arrays, rows):
        options["class_names"] = _read(arrays, rows, known)
    columns = {} if rows.get("features") is None else feature_columns(rows["features"])
    return {name: _array(name, value) for name, value in arrays.items()} | columns, options


def feature_columns(features: Any) -> dict[str, Array]:
    """Return the arrays of features by the names that they have in a body; raises ``CalibrationError``."""
    columns = read_features(features).stored().items()
    return {f"features/{token(name)}": names_of(own, name) if own.dtype.kind == "O" else own for name, own in columns}


def split_models(models: Any, rows: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Split the rows of several models, a mapping of names to predictions or a frame, into arrays and options."""
    if is_frame(models) and len(set(models.columns)) < len(models.columns):
        raise UnusableRows("models: must have columns of different names, one for each model")
    columns = {name: models[name] for name in models.columns} if is_frame(models) else models
    if not isinstance(columns, Mapping) or not columns or not all(isinstance(name, str) for name in columns):
        raise UnusableRows("models: must be predictions by name")
    if rows.get("predictions") is not None:
        raise UnusableRows("models: cannot be combined with predictions")
    of_models: dict[str, Array] = {}
    options: dict[str, Any] = {}
    for name, predictions in columns.items():
        try:
            arrays, own = split_rows({**rows, "predictions": predictions})
        except CalibrationError as error:
            raise error.about("predictions", f"models/{token(name)}") from None
        if of_models and own != options:
            raise UnusableRows(f"models/{token(name)}: must have the classes of the first model")
        of_models[f"models/{token(name)}"], options = arrays.pop("predictions"), own
        of_models |= arrays
    return of_models, options


def _read(arrays: dict[str, Any], rows: Mapping[str, Any], known: Sequence[str] | None) -> list[str] | None:
    """Convert predictions and labels as the library does, in place; return the names of the classes."""
    from calibrant.core.inputs import prediction_array, read_rows  # which need SciPy

    if "labels" not in arrays:
        arrays["predictions"], _ = prediction_array(arrays["predictions"])
        return None
    named: dict[str, Any] = {name: rows.get(name) for name in _LABELS}
    if all(value is None for value in named.values()):
        named["class_names"] = known
    options: dict[str, Any] = {name: rows[name] for name in _OPTIONS if rows.get(name) is not None}
    checked = {name: value for name, value in arrays.items() if name not in ("groups", "clusters")}
    read = read_rows(**checked, **options, **named)
    read.warn_of_kind()
    arrays["predictions"], arrays["labels"] = read.predictions, read.labels
    return None if read.class_names is None else list(read.class_names)


def _read_matrix(arrays: dict[str, Any], rows: Mapping[str, Any]) -> None:
    """Convert predictions and labels ``(n, K)`` of labels that need not exclude each other, in place."""
    from calibrant.sets.label_matrix import rows_of_labels  # which needs SciPy

    for name in _LABELS:
        if rows.get(name) is not None:
            raise UnusableRows(f"{name}: is for labels (n,); those of shape (n, K) are 0 or 1")
    rows_of_labels(arrays["predictions"], arrays["labels"])
    arrays |= {name: array_of(arrays[name], name) for name in ("predictions", "labels")}


def _are_plain(arrays: Mapping[str, Any], rows: Mapping[str, Any]) -> bool:
    """Whether predictions and labels are arrays of numbers that can be sent as they are, without SciPy."""
    if is_records(arrays["predictions"]) or is_frame(arrays["predictions"]):
        return False
    p = array_of(arrays["predictions"], "predictions")
    narrow = str(getattr(arrays["predictions"], "dtype", p.dtype)).endswith("float16")
    if narrow or p.dtype.kind not in "biuf" or not p.size or (p.ndim == 2 and p.shape[1] == 1):
        return False
    if "labels" not in arrays:
        return True
    first = p[:1] if p.ndim == 2 else p[:20]
    looks_like_labels = ((first == 0.0) | (first == 1.0)).all()
    looks_like_probabilities = rows.get("scale") == "logit" and p.ndim == 2 and abs(first.sum() - 1.0) < 1e-5
    labels = array_of(arrays["labels"], "labels")
    named = any(rows.get(name) is not None for name in _LABELS)
    numbered = labels.ndim == 1 and labels.dtype.kind in "biuf"
    return numbered and not named and not looks_like_labels and not looks_like_probabilities


def predictions_of(predictions: Any, known: Sequence[str] | None) -> tuple[Array, list[str] | None]:
    """Convert predictions to an array; with the names of the columns of a frame in the order of ``known`` classes."""
    columns = None
    if not _are_plain({"predictions": predictions}, {}):
        from calibrant.core.inputs import prediction_array  # which needs SciPy

        predictions, columns = prediction_array(predictions, None if known is None else tuple(known))
    return numbers_of(predictions, "predictions"), columns


def needs_names(rows: Mapping[str, Any]) -> bool:
    """Return whether the classes of these rows are known only from their names."""
    predictions, labels = rows.get("predictions"), rows.get("labels")
    if predictions is None or any(rows.get(name) is not None for name in _LABELS):
        return False
    if is_records(predictions) or is_frame(predictions):
        return True
    return labels is not None and array_of(labels, "labels").dtype.kind not in "biuf"


def by_number(fields: Mapping[str, Any], class_names: Sequence[str] | None) -> dict[str, Any]:
    """Replace the names of classes by their numbers in the reduction and the classes of a request."""
    numbered = dict(fields)
    if class_names is not None:
        from calibrant.core.inputs import classes_by_name, reduction_by_name  # which need SciPy

        names = tuple(class_names)
        numbered["classes"] = classes_by_name(numbered.get("classes"), names)
        numbered["reduction"] = reduction_by_name(numbered.get("reduction"), names, numbered["classes"])
    return numbered


def _array(name: str, value: Any) -> Array:
    if name == "labels":
        return labels_of(value)
    if name in ("groups", "clusters"):
        return names_of(group_names(value) if name == "groups" else cluster_names(value), name)
    numbers = numbers_of(value, name)
    return numbers[:, 0] if name == "weights" and numbers.ndim == 2 and numbers.shape[1] == 1 else numbers
