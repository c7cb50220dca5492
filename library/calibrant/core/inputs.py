"""The rows of a call in the types that callers have: labels of any kind, frames with named columns, groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.core.arrays import (
    FILL_IN,
    Array,
    GroupNames,
    array_of,
    check_aligned,
    cluster_names,
    group_names,
    is_frame,
    refuse_missing,
    text_names,
    text_of,
)
from calibrant.core.batch import (
    TOLERANCE,
    Batch,
    InputScale,
    Scale,
    check_kind,
    read_batch,
    read_class_names,
    read_predictions,
)
from calibrant.core.cells import WeightsKind
from calibrant.core.column_names import (
    booleans,
    class_readings,
    common_start,
    integer,
    is_negative,
    is_reversed,
    suffix,
)
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidLabel,
    InvalidOption,
    NotANumber,
    NotFinite,
    OutOfRange,
    UnknownReduction,
    WrongShape,
    token,
    warn,
)
from calibrant.core.options import plain
from calibrant.core.records import is_records, read_records
from calibrant.core.reductions import Event, reduce, resolve_event

# --- Rows: predictions with labels, weights and groups


#: From this many rows on, probabilities that are all 0 or 1 are probably predicted classes, and logits whose rows sum
#: to 1 probabilities.
_MANY_ROWS = 20
#: The rows of a label below which a fit to many rows warns.
_MANY_LABELS, _FEW_LABELS = 100, 5
#: The share of predictions of exactly 0 or 1 from which a fit warns.
_CERTAIN = 0.75
#: The standard errors and deviations by which predictions of the other class are lower.
_ERRORS, _SPREADS = 4.0, 0.35
#: Differences of the means below this are rounding, relative to the largest prediction.
_ROUNDING = 1e-9
#: About the most rows that are compared with them.
_COMPARED = 10_000
#: How far from 1 the sum of a row of probabilities may be.
_SUM = 1e-5
#: The most names in a message, and the most characters of each.
_FEW, _LONG = 5, 40


@dataclass(frozen=True)
class Rows:
    """Checked rows with the names of their classes and groups, if there are any.

    ``predictions`` and ``labels`` are the arrays that they were read from, in the order of the classes.
    """

    batch: Batch
    predictions: Array
    labels: Array
    groups: GroupNames | None = None
    class_names: tuple[str, ...] | None = None
    #: Whether labels are numbers of columns that are named and not sorted by name.
    by_position: bool = False
    scale: InputScale = "probability"
    #: The name of a single column of predictions, if it has one.
    column_name: str | None = None

    def warn_of_kind(self, whose: str = "") -> None:
        """Warn the caller of a public function of predictions that are probably not those of class 1. O(n K).

        Warnings begin with ``whose`` predictions they are.
        """
        p = self.batch.predictions.given
        warn_of_probabilities(p, self.batch.predictions.scale, whose)
        if self.by_position and self.class_names is not None:
            warn(
                f"{whose}labels are numbers and the columns {listing(self.class_names)}, in this order; if class 0 is "
                f"not {self.class_names[0]!r}, pass class_names in the order of the numbers"
            )
        if self.scale == "percent" and len(p) >= _MANY_ROWS and p.max() <= 0.01:
            warn("all percentages are at most 1, like probabilities; if they are, leave out the scale")
        if are_classes(p):
            warn(
                f"{whose}all predictions are 0 or 1, like predicted classes; pass probabilities, such as those of "
                "predict_proba"
            )
        of_class_0 = self.column_name is not None and is_negative(suffix(self.column_name) or "")
        if of_class_0 and not (self.class_names is not None and is_negative(self.class_names[-1])):
            shown = str(self.column_name)[:_LONG]
            warn(f"{whose}predictions are named {shown!r}, after class 0; pass those of class 1")
        elif are_of_other_class(p, self.batch.labels):
            warn(whose + of_other_class(p, self.batch.predictions.scale))


def of_other_class(predictions: Array, scale: str) -> str:
    """Return the message for predictions that are probably those of the other class."""
    remedy = "pass -z" if scale == "logit" else "pass 1 - p"
    if predictions.ndim == 2:
        remedy = "swap the two columns; if they are those of two models, compare the models"
    return f"predictions are clearly lower if the label is 1 than if it is 0; if they are those of class 0, {remedy}"


def are_of_other_class(predictions: Array, labels: Array) -> bool:
    """Return whether predictions ``(n,)`` or ``(n, 2)`` of class 1 are clearly lower if the label is 1.

    The difference of the means must exceed four standard errors, which random predictions do in 1 of 30,000 cases, and
    0.35 standard deviations, an AUC of about 0.4. Of many rows, about 10,000 evenly spaced ones are compared.
    """
    n = len(predictions)
    if n < _MANY_ROWS or (predictions.ndim == 2 and predictions.shape[1] != 2):
        return False
    step = max(1, n // _COMPARED)
    predictions, y = predictions[::step], labels[::step].astype(np.float64)
    n, n_1 = len(y), float(y.sum())
    if not 0.0 < n_1 < n:
        return False
    with np.errstate(over="ignore"):  # of large logits
        p = predictions if predictions.ndim == 1 else predictions[:, 1] - predictions[:, 0]
    most = float(np.abs(p).max())
    if not 0.0 < most < math.inf:
        return False
    p = p / most  # so that squares neither overflow nor underflow
    of_1 = float(p @ y)
    error = math.sqrt(1.0 / (n - n_1) + 1.0 / n_1)  # in standard deviations, as of random predictions
    lower = (float(p.sum()) - of_1) / (n - n_1) - of_1 / n_1
    return lower > max(_ERRORS * error, _SPREADS) * float(p.std()) + _ROUNDING


def are_classes(predictions: Array) -> bool:
    """Return whether many predictions are all 0 or 1, like predicted classes. O(n K), or O(K) if the first are not."""
    return len(predictions) >= _MANY_ROWS and all(
        np.isin(p, (0.0, 1.0)).all() for p in (predictions[:_MANY_ROWS], predictions)
    )


def warn_of_certain(predictions: Array) -> None:
    """Warn if many probabilities ``(n,)`` are exactly 0 or 1, or many rows ``(n, K)`` have one of exactly 1. O(n K)."""
    p = predictions if predictions.ndim == 1 else predictions.max(axis=1, initial=0.0)
    certain = (p == 1.0) | (p == 0.0) if predictions.ndim == 1 else p == 1.0
    if len(p) >= _MANY_ROWS and certain.mean() >= _CERTAIN:
        warn(
            f"{100.0 * certain.mean():.0f} % of the predictions are exactly 0 or 1, as of small forests; a map gives "
            "equal predictions the same probability, so prefer a model with finer ones"
        )


def warn_of_few(batch: Batch) -> None:
    """Warn of a fit to many rows (n,) of which very few have one of the two labels. O(n)."""
    if batch.predictions.n_classes is not None or len(batch) < _MANY_LABELS:
        return
    positive = int(batch.labels.sum())
    rare, count = min(((1, positive), (0, len(batch) - positive)), key=lambda pair: pair[1])
    if 0 < count < _FEW_LABELS:
        have = "1 has" if count == 1 else f"{count} have"
        warn(
            f"of {len(batch):,} rows, {have} the label {rare}, so the map and its gain are uncertain; fit to more rows "
            "with this label"
        )


def warn_of_probabilities(predictions: Array, scale: str, whose: str = "") -> None:
    """Warn if logits are probabilities: all in [0, 1], and rows sum to 1. O(n K), or O(K) if the first ones are not."""
    if scale != "logit" or len(predictions) < _MANY_ROWS:
        return
    for rows in (predictions[:_MANY_ROWS], predictions):
        if rows.min() < 0.0 or rows.max() > 1.0 or (rows.ndim == 2 and np.abs(rows.sum(axis=1) - 1.0).max() > _SUM):
            return
    sums = " and each row sums to 1" if predictions.ndim == 2 else ""
    warn(f"{whose}the logits are in [0, 1]{sums}, like probabilities; pass logits, or fit with probabilities")


def read_rows(
    predictions: Any,
    labels: Any,
    *,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    groups: Any = None,
    clusters: Any = None,
    features: Any = None,
    class_names: Any = None,
    pos_label: Any = None,
    scale: InputScale = "probability",
    known: tuple[str, ...] | None = None,
) -> Rows:
    """Check rows of any of the accepted types; raise a ``CalibrationError`` for the first invalid argument. O(n K).

    ``class_names`` are the labels of the classes in the order of the columns, and ``pos_label`` is that of the positive
    class, for two classes. Without both, names come from the columns of a frame, or else from ``known``.
    """
    if sample_weight is not None:
        if weights is not None:
            raise InvalidOption.at("/sample_weight", "is another name of weights; pass one of the two")
        weights = sample_weight
    check_kind(weights_kind)
    others = {"weights": weights, "groups": groups, "clusters": clusters, "features": features}
    check_aligned({"predictions": predictions, "labels": labels, **others})
    read = _read_labels(predictions, labels, class_names, pos_label, known)
    values, numbers = read.columns.values, read.numbers
    if values.ndim == 1 and values.dtype.kind in "biuf" and numbers.dtype.kind == "f":
        fractions = ((numbers >= 0.0) & (numbers <= 1.0)).all() and (numbers != np.floor(numbers)).any()
        if fractions and np.isin(values, (0, 1)).all():
            text = "hold fractions and predictions only 0 and 1; predictions are the first argument"
            raise InvalidLabel.at("/labels", text)
    flat = None if weights is None else _flat(array_of(weights, "weights"))
    belonging = None if clusters is None else cluster_names(clusters)
    try:
        shared = {"scale": scale, "clusters": belonging, "features": features}
        batch = read_batch(values, numbers, flat, kind=weights_kind, **shared)
    except OutOfRange as error:
        if scale == "percent":
            raise
        raise _with_columns(error, read.columns) from error
    except NotFinite as error:
        raise NotFinite(f"{error}; {FILL_IN}", error.offences) from error
    except InvalidLabel as error:
        if numbers.ndim != 1 or (numbers != np.floor(numbers)).any():
            raise
        remedy = "for other labels pass class_names in the order of the columns"
        if (numbers == -100).any():
            remedy = "leave out the rows with the label -100, which losses ignore"
        elif values.ndim == 1 or values.shape[1] == 2:
            remedy = "for other labels pass pos_label, or class_names=[negative, positive]"
        raise InvalidLabel(f"{error}; {remedy}", error.offences) from error
    names = None if groups is None else group_names(groups)
    return Rows(batch, values, numbers, names, read.names, read.by_position, scale, read.columns.single)


def _with_columns(error: OutOfRange, columns: _FrameColumns) -> OutOfRange:
    """Return the error with the names of columns that are no probabilities, beside others that are."""
    values, names = columns.values, columns.names
    if columns.readings and names is not None:
        outside = (values < -TOLERANCE) | (values > 1.0 + TOLERANCE)
        for bad, are in (
            (outside.any(axis=0), "values outside [0, 1]"),
            (np.isin(values, (0.0, 1.0)).all(axis=0), "only 0 and 1, like labels"),
        ):
            named = [names[k] for k in np.flatnonzero(bad).tolist()]
            if 0 < len(named) < len(names):
                verb = f"column {listing(named)} has" if len(named) == 1 else f"columns {listing(named)} have"
                return OutOfRange(f"predictions: {verb} {are}; pass the columns of probabilities alone", error.offences)
    if "not sum to 1" in str(error) and "divide" not in str(error):
        hint = "divide each row by its sum, or evaluate each column if the classes do not exclude each other"
        hint += ", or belong to several models"
        return OutOfRange(f"{error}; {hint}", error.offences)
    return error


def rows_of_models(predictions: Any, labels: Any, *, scale: Scale = "probability", **options: Any) -> dict[str, Rows]:
    """Check the predictions of several models on the same rows: a mapping of names to them, or a frame of columns.

    ``options`` are those of ``read_rows``, and so are the errors, which name the model; models with different classes
    are refused. Warns of predictions that are probably not those of class 1. O(models n K).
    """
    rows: dict[str, Rows] = {}
    models = _models(predictions, scale)
    check_aligned({str(name): own for name, own in models.items()})
    for name, own in models.items():
        field = f"predictions/{token(str(name))}"
        try:
            rows[name] = read_rows(own, labels, scale=scale, **options)
        except CalibrationError as error:
            raise error.about("predictions", field) from None
        if rows[name].class_names != next(iter(rows.values())).class_names:
            raise WrongShape.at(f"/{field}", "must have the classes of the first model")
        rows[name].warn_of_kind(f"{name}: ")
    return rows


def _models(predictions: Any, scale: Scale) -> Mapping[str, Any]:
    """Return the predictions of the models by name: those of a mapping, or the columns of a frame."""
    if isinstance(predictions, Mapping) and predictions:
        return predictions
    if not is_frame(predictions):
        raise InvalidOption.at(
            "/predictions",
            "must be a mapping of names to the predictions of 2 or more models, or a frame with a column for each; to "
            "compare calibration maps, pass maps",
        )
    if len(set(predictions.columns)) < len(predictions.columns):
        raise InvalidOption.at("/predictions", "must have columns of different names, one for each model")
    values = array_of(predictions, "predictions")
    may_be_classes = scale == "probability" and values.shape[1] > 1 and values.dtype.kind in "biuf" and len(values)
    if may_be_classes and (np.abs(values.sum(axis=1) - 1.0) <= TOLERANCE).all():
        raise InvalidOption.at(
            "/predictions",
            "have columns that sum to 1 in each row: pass {name: frame[name] for name in frame} if each column is a "
            "model, or calibrant.evaluate(frame, labels) if each is a class",
        )
    return {name: predictions[name] for name in predictions.columns}


# --- Predictions, and the names of their columns


@dataclass(frozen=True)
class _FrameColumns:
    """Predictions (n,) or (n, K), the names of their columns, if there are any, and whether their order means anything.

    ``readings`` are the class names that the names of the columns may stand for; ``single`` is the name of predictions
    (n,).
    """

    values: Array
    names: list[str] | None = None
    ordered: bool = True
    single: str | None = None

    @cached_property
    def readings(self) -> list[tuple[str, ...]]:
        names = self.names or ()
        return class_readings(names) if len(names) > 1 and self.values.shape[1:] == (len(names),) else []

    def taken(self, order: Sequence[int]) -> _FrameColumns:
        names = None if self.names is None else [self.names[k] for k in order]
        return replace(self, values=self.values[:, order], names=names)


def prediction_array(predictions: Any, known: tuple[str, ...] | None = None) -> tuple[Array, list[str] | None]:
    """Convert predictions to an array; with the names of the columns of a frame, in the order of ``known`` classes.

    Without them, numbered columns are in the order of their numbers, and the negative class precedes the positive one.
    """
    columns = _read_columns(predictions, known, None)
    return columns.values, columns.names


def predictions_for(predictions: Any, scale: Scale, names: tuple[str, ...] | None) -> Any:
    """Check predictions for a map: the columns of a frame are taken in the order of the map's class names."""
    return read_predictions(prediction_array(predictions, names)[0], scale=scale)


def _read_columns(predictions: Any, known: tuple[str, ...] | None, labels: Any) -> _FrameColumns:
    """Convert predictions like ``prediction_array``; ``labels`` are for the error about more than two dimensions."""
    columns = _named_columns(predictions, known, labels)
    k = len(columns.readings[0]) if columns.readings else 0
    for order in (known, tuple(map(str, range(k)))):
        for names in columns.readings:
            if order is not None and sorted(names) == sorted(order):
                return columns if names == tuple(order) else columns.taken([names.index(name) for name in order])
    if known is None:
        return columns.taken([1, 0]) if any(map(is_reversed, columns.readings)) else columns
    for names in columns.readings if len(known) == k else ():
        if len(set(names)) == k and set(names) & set(known) not in (set(), set(known)):
            text = f"have columns of {listing(names)}, but the classes are {listing(known)}"
            raise WrongShape.at("/predictions", text)
    return columns


def _named_columns(predictions: Any, known: tuple[str, ...] | None, labels: Any) -> _FrameColumns:
    """Convert predictions to an array, with the names of its columns, if it has any."""
    if is_records(predictions):
        return _FrameColumns(*read_records(predictions, known))
    fields = getattr(getattr(predictions, "dtype", None), "names", None) or ()
    if len(fields) > 1:  # of a structured array
        predictions = {name: predictions[name] for name in fields}
    if type(getattr(predictions, "dtype", None)).__name__ == "Struct":  # of polars
        predictions = predictions.struct.unnest()
    if isinstance(predictions, Mapping) and len(predictions) > 1:
        if any(np.isscalar(value) for value in predictions.values()):
            raise WrongShape.at("/predictions", "are numbers by name; pass list(predictions.values())")
        parts = [_flat(array_of(column, "predictions")) for column in predictions.values()]
        if len({part.shape for part in parts}) > 1 or parts[0].ndim > 1:
            raise WrongShape.at("/predictions", "must be columns of one length by name; pass one of these arrays")
        return _FrameColumns(np.column_stack(parts), text_names([*predictions]))
    if known is not None and is_frame(predictions) and set(known) < {*text_names(predictions.columns)}:
        pairs = zip(predictions.columns, text_names(predictions.columns), strict=True)
        predictions = predictions[[own_name for own_name, name in pairs if name in known]]
    values = array_of(predictions, "predictions")
    if values.ndim > 2:
        raise WrongShape.at("/predictions", f"have {values.ndim} dimensions; {_as_rows(predictions, values, labels)}")
    if values.ndim == 1 or values.shape[1] == 1:
        single = predictions.columns[0] if is_frame(predictions) else getattr(predictions, "name", None)
        return _FrameColumns(_flat(values), single=single if isinstance(single, str) else None)
    names = predictions.columns if is_frame(predictions) else getattr(predictions, "column_names", None)
    named = is_frame(predictions) or isinstance(names, list)  # ``columns`` of a table of Arrow are arrays
    return _FrameColumns(values, text_names(names) if named and names is not None else None)


def _as_rows(predictions: Any, values: Array, labels: Any) -> str:
    """Return how predictions of more than two dimensions and their labels become rows that belong together."""
    p = "predictions" if hasattr(predictions, "reshape") else "np.asarray(predictions)"
    y = "labels" if hasattr(labels, "reshape") else "np.asarray(labels)"
    shape, last = values.shape, values.shape[-1]
    label_array = np.empty((0,)) if labels is None else array_of(labels, "labels")
    if label_array.ndim > 1 and label_array.squeeze().shape == values.squeeze().shape:
        for axis in (-1, 1):
            if shape[axis] > 1 and label_array.shape == shape and _is_one_hot(label_array, axis):
                return f"for one-hot labels pass {y}.argmax({axis})"
        return f"pass {p}.reshape(-1) and {y}.reshape(-1)"
    # The class axis is the last, the second as in torch, or the first axis counts the outputs of scikit-learn.
    places = [
        label_array.shape == shape[:-1],
        label_array.shape == (shape[0], *shape[2:]),
        label_array.shape == shape[-2::-1],
    ]
    moved = f"{p}.movedim(1, -1)" if hasattr(predictions, "movedim") else f"np.moveaxis({p}, 1, -1)"
    ways = [
        f"{p}.reshape(-1, {last}) and {y}.reshape(-1), if the last axis is that of the classes",
        f"{moved}.reshape(-1, {shape[1]}) and {y}.reshape(-1), if the second axis is that of the classes",
        f"predictions[k]{'[:, 1]' if last == 2 else ''} and {y}[:, k] for each output k, if the first axis is that of "
        "outputs",
    ]
    fitting = [way for way, fits in zip(ways, places, strict=True) if fits]
    if fitting:
        return f"pass {'; or '.join(fitting)}"
    return "pass one row for each label, np.moveaxis(predictions, AXIS, -1).reshape(-1, K) for the AXIS of K classes"


def listing(names: Sequence[str]) -> str:
    """Return the first names for a message."""
    shown = ", ".join(repr(name[:_LONG]) for name in names[:_FEW])
    return shown if len(names) <= _FEW else f"{shown} and {len(names) - _FEW} more"


def _flat(values: Array) -> Array:
    """Return a single column as a vector."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _is_one_hot(values: Array, axis: int = 1) -> bool:
    return bool(np.isin(values, (0, 1)).all() and (values.sum(axis=axis) == 1).all())


# --- Labels


@dataclass(frozen=True)
class _Labels:
    """Labels as numbers, the names of the classes if they are known, and predictions in the order of the classes."""

    columns: _FrameColumns
    numbers: Array
    names: tuple[str, ...] | None = None
    by_position: bool = False


def _read_labels(
    predictions: Any, labels: Any, class_names: Any, pos_label: Any, known: tuple[str, ...] | None
) -> _Labels:
    class_names = listed_names(class_names)
    columns = _read_columns(predictions, known if class_names is None else tuple(text_names(class_names)), labels)
    values = _flat(array_of(labels, "labels"))
    _check_predictions(columns.values, values)
    if values.ndim == 2 and len(values) == len(columns.values):
        several = "for several labels a row evaluate each column; predictions are the first argument"
        hint = "for one-hot rows pass labels.argmax(axis=1)" if _is_one_hot(values) else several
        raise InvalidLabel.at("/labels", f"must have shape (n,); {hint}")
    n_classes = columns.values.shape[1] if columns.values.ndim == 2 else 2
    if pos_label is not None:
        if class_names is not None:
            raise InvalidOption.at("/pos_label", "cannot be combined with class_names; pass one of the two")
        return _of_positive(columns, values, n_classes, plain(text_of(pos_label)), known)
    if class_names is not None:
        return _Labels(columns, *labels_by_name(values, n_classes, class_names))
    if values.dtype.kind in "biuf":
        return _of_numbers(columns, values, n_classes, known)
    texts = _texts(values)
    for names in (*columns.readings, *([known] if known is not None and len(known) == n_classes else [])):
        if texts.issubset(names):
            return _Labels(columns, *labels_by_name(values, n_classes, names))
    numbers = numbers_of_texts(values, n_classes)
    if numbers is None:
        raise _no_column(values, texts, columns.readings, n_classes)
    return _Labels(columns, numbers, known)


def _check_predictions(predictions: Array, labels: Array) -> None:
    """Raise an error if there are no predictions, or strings."""
    if not predictions.size:
        raise EmptyBatch.at("/predictions", "has no rows")
    if predictions.dtype.kind in "UT" or (predictions.dtype.kind == "O" and type(predictions.flat[0]) is str):
        if labels.dtype.kind == "f":
            text = "hold numbers, and predictions strings; predictions are the first argument"
            raise InvalidLabel.at("/labels", text)
        hint = "pass those of predict_proba, not of predict"
        if str(predictions.flat[0]).rstrip().endswith("%"):
            hint = 'remove percent signs, as with .str.rstrip("%").astype(float), and pass scale="percent"'
        raise NotANumber.at("/predictions", f"must be numbers, and these are strings; {hint}")


def listed_names(class_names: Any) -> list[Any] | None:
    """Return class names as a list; those of a dictionary such as ``id2label`` or ``label2id`` in order."""
    names = class_names.tolist() if hasattr(class_names, "tolist") else class_names
    if isinstance(names, Mapping):
        for pairs in (names.items(), [(number, name) for name, number in names.items()]):
            by_number = {str(number): name for number, name in pairs}
            if set(by_number) == set(map(str, range(len(names)))):
                return [by_number[str(k)] for k in range(len(names))]
        raise InvalidOption.at("/class_names", "must give each number from 0 one name, as id2label does")
    if names is not None and (not isinstance(names, Iterable) or isinstance(names, str | bytes | set | frozenset)):
        raise InvalidOption.at("/class_names", "must be names in the order of the columns")
    return None if names is None else list(map(text_of, names))


def _texts(values: Array) -> set[str]:
    return {str(value) for value in _distinct(values)}


def _distinct(values: Array) -> set[Any]:
    try:
        return set(values.ravel().tolist())
    except TypeError as error:
        raise InvalidLabel.at("/labels", "must be integers, booleans or strings") from error


def _of_numbers(columns: _FrameColumns, values: Array, n_classes: int, known: tuple[str, ...] | None) -> _Labels:
    """Return labels that are numbers: of columns with other numbers than 0 to K - 1, or else as they are."""
    numbers = tuple(map(str, range(n_classes)))
    for names in columns.readings:
        if set(names) != set(numbers) and all(name.removeprefix("-").isdecimal() for name in names):
            whole = (np.abs(values) < 1 << 53).all() and (values == np.floor(values)).all()
            integers = values.astype(np.int64) if values.dtype.kind == "f" and whole else values
            if len(set(names)) == n_classes and _texts(integers).issubset(names):
                return _Labels(columns, *labels_by_name(integers.astype(np.str_), n_classes, names))
    for names in columns.readings:
        start = common_start(names)
        if all(name == f"{start}{k}" for k, name in enumerate(names)):
            break
        if len(set(names)) == n_classes and not any(map(str.isdecimal, names)):
            if not columns.ordered:
                text = "are numbers, and predictions have names; pass class_names, as id2label"
                raise InvalidLabel.at("/labels", text)
            are_sorted = list(names) == sorted(names, key=str.casefold)
            return _Labels(columns, values, names, values.dtype.kind != "f" and not are_sorted)
    return _Labels(columns, values, known)


def labels_by_name(values: Array, n_classes: int, class_names: Sequence[Any]) -> tuple[Array, tuple[str, ...]]:
    """Return the numbers of labels that are given by name, and the names; numbers stay as they are."""
    if len(class_names) != n_classes:
        raise InvalidOption.at("/class_names", f"must be {n_classes} names in the order of the columns")
    names = read_class_names(text_names(class_names), n_classes)
    if values.dtype.kind in "biuf" and all(isinstance(name, str) for name in class_names):
        return values, names
    index = {name: k for k, name in enumerate(class_names)} | {name: k for k, name in enumerate(names)}
    number = {value: index.get(value, -1) for value in _distinct(values)}
    labels = np.array([number[value] for value in values.tolist()], dtype=np.int64)
    if len(unknown := np.flatnonzero(labels < 0)):
        are = "1 is" if len(unknown) == 1 else f"{len(unknown)} are"
        raise InvalidLabel.at(f"/labels/{unknown[0]}", f"is not one of the class_names; of {len(labels)}, {are} not")
    return labels, names


def numbers_of_texts(values: Array, n_classes: int) -> Array | None:
    """Return the classes of strings ``(n,)`` that are numbers, or the words of a boolean; None of others."""
    texts = [*_texts(values)]
    stripped = [text.strip() for text in texts]
    numbers = [k for k in map(integer, stripped) if k is not None and 0 <= k < n_classes]
    classes = numbers if len(numbers) == len(texts) else booleans(stripped) if n_classes == 2 else None
    if classes is None:
        return None
    index = dict(zip(texts, classes, strict=True))
    return np.array([index[str(value)] for value in values.tolist()], dtype=np.int64)


def _no_column(
    values: Array, texts: AbstractSet[str], readings: Sequence[tuple[str, ...]], n_classes: int
) -> InvalidLabel:
    """Return the error for labels of which some are columns, or nearly; or that are no numbers, without columns."""
    folded = {text.strip().casefold() for text in texts}
    for names in readings:
        near = [name for name in names if name.strip().casefold() in folded]
        if not near:
            continue
        bad = [i for i, value in enumerate(values.tolist()) if str(value) not in names]
        close = [name for name in near if str(values[bad[0]]).strip().casefold() == name.strip().casefold()]
        hint = f"; {close[0]!r} differs only in case or spaces" if close else ""
        text = f"is none of the columns {listing(names)}{hint}; of {len(values)}, {len(bad)} are not"
        return InvalidLabel.at(f"/labels/{bad[0]}", text)
    of_two = "pass pos_label, or class_names=[negative, positive]"
    how = of_two if n_classes == 2 else "pass class_names in the order of the columns, such as estimator.classes_"
    return InvalidLabel.at("/labels", f"are not numbers; {how}")


def _of_positive(
    columns: _FrameColumns, values: Array, n_classes: int, pos_label: Any, known: tuple[str, ...] | None
) -> _Labels:
    """Return labels of two values of which one is positive, and columns with that of the positive class last."""
    if n_classes != 2:
        raise InvalidOption.at("/pos_label", f"is for two classes, but predictions have {n_classes}; pass class_names")
    if values.dtype.kind == "f":
        refuse_missing(np.isnan(values), "labels")
    distinct = _distinct(values)
    if pos_label not in distinct and not (len(distinct) == 1 and are_two_labels(next(iter(distinct)), pos_label)):
        kinds = " and ".join(sorted({type(value).__name__ for value in distinct}))
        text = f"is of type {type(pos_label).__name__}, and the labels are of type {kinds}"
        raise InvalidOption.at("/pos_label", "is not among the labels" if type(pos_label).__name__ in kinds else text)
    if len(distinct) > 2:
        raise InvalidOption.at("/pos_label", f"needs labels of two values, but there are {len(distinct)}")
    if columns.values.ndim == 2 and _is_first(pos_label, distinct | {pos_label}, columns.readings):
        columns = columns.taken([1, 0])
    named = [name for name in known or () if name != str(pos_label)]
    only = named[0] if len(named) == 1 and known is not None and len(known) == 2 else f"not {pos_label}"
    names = (str(next(iter(distinct - {pos_label}), only)), str(pos_label))
    numbers = np.array([value == pos_label for value in values.tolist()], dtype=np.int64)
    return _Labels(columns, numbers, None if names in (("0", "1"), ("False", "True")) else names)


def are_two_labels(only: Any, pos_label: Any) -> bool:
    """Return whether rows with one label may lack the positive one: both are numbers, or different texts."""
    if type(only) is not type(pos_label):
        return all(type(label) in (int, float) for label in (only, pos_label))
    return not isinstance(only, str) or only.strip().casefold() != pos_label.strip().casefold()


def _is_first(pos_label: Any, labels: AbstractSet[Any], readings: Sequence[tuple[str, ...]]) -> bool:
    """Return whether the positive class is the first of two columns: by their names, or else as its label is sorted."""
    for names in readings:
        for k, name in enumerate(names):
            if name in map(str, labels):
                return (name == str(pos_label)) == (k == 0)
    if len(labels) == 1 and pos_label not in (0, 1):
        raise InvalidOption.at("/pos_label", "is the only label, so its column is unknown; pass class_names instead")
    try:
        return bool(pos_label == min(labels | ({0, 1} if len(labels) == 1 else set())))
    except TypeError as error:
        raise InvalidOption.at("/pos_label", "needs labels of one type, or class_names in its place") from error


# --- Class names in other arguments


def reduction_by_name(reduction: str | None, names: tuple[str, ...] | None, classes: Any = None) -> str | None:
    """Return ``class:k`` for ``class:NAME``, where k is the place among the chosen ``classes``; others as they are."""
    names = _chosen(names, classes)
    if names is None or not isinstance(reduction, str) or not reduction.startswith("class:"):
        return reduction
    name = reduction.removeprefix("class:")
    return f"class:{names.index(name)}" if name in names else reduction


def check_named_event(reduction: str | None, names: Sequence[str] | None, n_classes: int | None) -> None:
    """Raise ``UnknownReduction`` for another class than 1 if classes have names, since one column is of class 1."""
    of_other = reduction is not None and reduction.startswith("class:") and reduction != "class:1"
    if n_classes is None and names is not None and of_other:
        raise UnknownReduction.at("/reduction", "must be binary or class:1, the class of predictions of shape (n,)")


def event_by_name(batch: Batch, reduction: str | None, names: tuple[str, ...] | None) -> Event:
    """Return the event of a batch, whose class may be named; raises ``UnknownReduction``."""
    reduction, n_classes = reduction_by_name(reduction, names), batch.predictions.n_classes
    check_named_event(reduction, names, n_classes)
    return reduce(batch, resolve_event(reduction, n_classes))


def reduction_with_name(reduction: str, names: Sequence[str] | None, classes: Any = None) -> str:
    """Return ``class:NAME`` for ``class:k`` if the classes have names, to be shown; others as they are."""
    class_names, number = _chosen(names, classes), reduction.removeprefix("class:")
    if class_names is None or number == reduction or not number.isdecimal() or int(number) >= len(class_names):
        return reduction
    return f"class:{class_names[int(number)]}"


def _chosen(names: Sequence[str] | None, classes: Any) -> tuple[str, ...] | None:
    """Return the names of the chosen classes, or all if the choice is none or invalid."""
    if names is None or not isinstance(classes, Sequence) or isinstance(classes, str):
        return None if names is None else tuple(names)
    valid = all(type(k) is int and 0 <= k < len(names) for k in classes)
    return tuple(names[k] for k in classes) if valid else tuple(names)


def classes_by_name(classes: Any, names: tuple[str, ...] | None) -> Any:
    """Return the numbers of classes that are given by name, as a list; others as they are."""
    if not hasattr(classes, "__len__") or isinstance(classes, str | AbstractSet | Mapping):
        return classes
    listed = [plain(k) for k in classes]
    return listed if names is None else [names.index(k) if isinstance(k, str) and k in names else k for k in listed]
