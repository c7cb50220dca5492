"""A batch of predictions, labels and weights, validated once before any computation.

Errors name the argument and the first invalid rows, but never contain the data.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from numbers import Number
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.arrays import numbered_names
from calibrant.core.cells import Floats, WeightsKind, take
from calibrant.core.choices import InputScale as InputScale
from calibrant.core.choices import Scale as Scale
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidLabel,
    InvalidOption,
    InvalidWeight,
    LengthMismatch,
    NotANumber,
    NotFinite,
    OutOfRange,
    WrongShape,
)
from calibrant.core.features import Features, read_features
from calibrant.core.results import n_rows

_SCALES = get_args(InputScale)
Integers = npt.NDArray[np.int64]

#: How far a probability may be outside [0, 1], or the sum of a row from 1: real classifiers emit such values.
TOLERANCE = 1e-4
#: Row sums this close to 1 differ by rounding and are not normalised (float64, float32).
SUM_ROUNDING, SINGLE_SUM_ROUNDING = 1e-9, 1e-6
#: Largest sum of frequency weights.
MOST_ROWS = 2.0**53
#: Weights below this fraction of the largest are set to 0.
LEAST_WEIGHT = 1e-12
#: Below this number of classes, row sums are computed as a matrix product.
_SHORT = 64
#: Elements of a matrix that are processed at once.
_BLOCK = 1 << 16
#: Log-odds beyond the largest double are set to it.
_LARGEST = float(np.finfo(np.float64).max)
#: The most characters of the name of a group.
MAX_NAME = 256
#: The most characters of the name of a class.
MAX_CLASS_NAME = 256


class Fractional(Enum):
    """The kind of frequency weights that earlier versions stored, which need not be whole numbers.

    It is no text, so that callers cannot name it.
    """

    STORED = "fractional"


@dataclass(frozen=True)
class Predictions:
    """Checked predictions: ``given`` holds probabilities or logits, according to ``scale``.

    Shape (n,) is P(Y = 1) or its logit, float64. Shape (n, K) is float64 or float32; probabilities have rows of sum 1.
    """

    given: Floats
    scale: Scale
    clipped: int = 0
    renormalised: int = 0
    #: Whether rounding explained why rows did not sum to 1, so that other rows beside them could say otherwise, or
    #: percentages were passed: then these numbers are stored, not those that were passed.
    rewritten: bool = False
    #: What maps of segments tell rows apart by.
    features: Features | None = None

    @cached_property
    def values(self) -> Floats:
        """The probabilities, in the given shape; those of logits are computed on first use, in float64."""
        return self.given if self.scale == "probability" else probabilities_of(self.given)

    @property
    def logits(self) -> Floats | None:
        """The given logits; None if probabilities were given."""
        return self.given if self.scale == "logit" else None

    @property
    def n_classes(self) -> int | None:
        """K for (n, K), None for (n,)."""
        return None if self.given.ndim == 1 else self.given.shape[1]

    def __len__(self) -> int:
        return len(self.given)

    def rows(self, chosen: npt.NDArray[Any]) -> Predictions:
        """Return the predictions of the chosen rows."""
        features = None if self.features is None else self.features.rows(chosen)
        taken = replace(self, given=self.given[chosen], features=features)
        if self.scale == "logit" and "values" in vars(self):
            vars(taken)["values"] = self.values[chosen]  # keep the cached probabilities
        return taken


@dataclass(frozen=True)
class Batch:
    """Checked predictions, their ``labels (n,)`` and ``weights (n,)`` or None.

    Rows with the same number in ``clusters (n,)`` may depend on each other: they are resampled together, and are in the
    same fold of a cross-validation.
    """

    predictions: Predictions
    labels: Integers
    weights: Floats | None
    weights_kind: WeightsKind = "importance"
    clusters: Integers | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def counts_as(self) -> WeightsKind:
        """The kind of the weights; equal importance weights, besides weights of 0, are frequency weights of 1."""
        w = self.weights
        return "frequency" if w is None or bool(((w == 0.0) | (w == 1.0)).all()) else self.weights_kind

    def rows(self, chosen: npt.NDArray[Any]) -> Batch:
        """Return the batch of the chosen rows: a boolean mask of shape (n,), or row numbers."""
        weights, clusters = take(self.weights, chosen), take(self.clusters, chosen)
        return Batch(self.predictions.rows(chosen), self.labels[chosen], weights, self.weights_kind, clusters)


def read_batch(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    *,
    scale: InputScale = "probability",
    kind: WeightsKind | Fractional = "importance",
    clusters: Sequence[str] | None = None,
    features: Any = None,
) -> Batch:
    """Check a whole batch; raise a ``CalibrationError`` for the first invalid argument. O(n K)."""
    read = with_features(read_predictions(predictions, scale=scale), features)
    n_classes = 2 if read.n_classes is None else read.n_classes
    checked = read_labels(labels, len(read), n_classes)
    check_kind(counted_kind(kind))
    w = None if weights is None else read_weights(weights, len(read), kind)
    batch = Batch(read, checked, w, counted_kind(kind))
    return batch if clusters is None else clustered(batch, clusters)


def with_features(predictions: Predictions, features: Any) -> Predictions:
    """Return the predictions with the features of their rows, None if there are none."""
    return predictions if features is None else replace(predictions, features=read_features(features, len(predictions)))


def clustered(batch: Batch, names: Sequence[str]) -> Batch:
    """Return the batch with the clusters of its rows; raises ``LengthMismatch``, ``InvalidOption``."""
    distinct, clusters = numbered_names(names)
    _check_length(clusters, len(batch), "/clusters")
    if distinct[0] == "":
        missing = clusters == 0
        raise _invalid(InvalidOption, "/clusters", missing, "must not be empty", "is empty", "are empty")
    return replace(batch, clusters=clusters)


def refuse_clusters(batch: Batch, what: str) -> None:
    """Raise ``InvalidOption`` if a batch has clusters, for ``what`` assumes independent rows."""
    if batch.clusters is not None:
        raise InvalidOption.at("/clusters", f"are not supported by {what}")


def read_predictions(predictions: Any, *, scale: InputScale = "probability") -> Predictions:
    """Check probabilities, percentages or logits; percentages become probabilities.

    Probabilities up to 1e-4 outside [0, 1] are clipped, rows whose sum is within 1e-4 of 1, or away from it by the
    rounding of ``without_rounding``, are divided by it, and both are counted.
    """
    if scale not in _SCALES:
        raise InvalidOption.at("/scale", f"must be one of: {', '.join(_SCALES)}")
    values = read_numbers(predictions, "/predictions", keep_single=True)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] < 2):
        raise WrongShape.at("/predictions", "must have shape (n,) or (n, K) with K at least 2")
    if values.size == 0:
        raise EmptyBatch.at("/predictions", "has no rows")
    # NaN propagates through min and max, so two passes detect every invalid value.
    low, high = float(np.minimum.reduce(values, axis=None)), float(np.maximum.reduce(values, axis=None))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise _invalid(NotFinite, "/predictions", ~np.isfinite(values), *_FINITE)
    if scale == "logit":
        return Predictions(values, scale)
    if scale == "percent":
        if low < -100.0 * TOLERANCE or high > 100.0 * (1.0 + TOLERANCE):
            bad = (values < -100.0 * TOLERANCE) | (values > 100.0 * (1.0 + TOLERANCE))
            raise _invalid(OutOfRange, "/predictions", bad, *(f"{are} [0, 100]" for are in _INSIDE))
        return replace(read_predictions(values / values.dtype.type(100)), rewritten=True)
    if low < -TOLERANCE or high > 1.0 + TOLERANCE:
        raise _out_of_range(values, low, high)
    sums = None if values.ndim == 1 else _sums(values)
    if sums is not None and np.abs(sums - 1.0).max() > TOLERANCE:
        return _without_rounding(values, sums)
    clipped = 0
    if low < 0.0 or high > 1.0:
        outside = (values < 0.0) | (values > 1.0)
        clipped = int(np.count_nonzero(outside if outside.ndim == 1 else outside.any(axis=1)))
        values = np.clip(values, 0.0, 1.0)
        sums = None if values.ndim == 1 else _sums(values)
    if sums is None:
        return Predictions(values, "probability", clipped)
    values, renormalised = _renormalised(values, sums)
    return Predictions(values, "probability", clipped, renormalised)


def _out_of_range(values: Floats, low: float, high: float) -> CalibrationError:
    """Return the error for probabilities outside [0, 1], with what they may be."""
    bad = (values < -TOLERANCE) | (values > 1.0 + TOLERANCE)
    hint = 'pass logits with scale="logit"'
    if high <= TOLERANCE:
        hint = f"pass the exponential of log-probabilities; {hint}"
    elif low >= 0.0 and 1.5 < high <= 100.0:
        hint = 'pass percentages with scale="percent"'
    if low >= 0.0 and values.ndim == 1 and (values == np.floor(values)).all():
        hint = 'pass percentages with scale="percent", and in place of predicted classes those of predict_proba'
    return _invalid(OutOfRange, "/predictions", bad, *(f"{are} [0, 1]; {hint}" for are in _INSIDE))


#: What numbers must be, before their range, and what one or several invalid ones are.
_INSIDE = ("must be in", "is outside", "are outside")


def probabilities_of(logits: Floats) -> Floats:
    """Return the logistic function of (n,), or the softmax of each row of (n, K), in float64 block by block."""
    if logits.ndim == 1:
        of_event: Floats = expit(logits.astype(np.float64, copy=False))
        return of_event
    probabilities = np.empty(logits.shape)
    height = max(1, _BLOCK // logits.shape[1])
    for start in range(0, len(logits), height):
        probabilities[start : start + height] = logits[start : start + height]
        softmax_in_place(probabilities[start : start + height])
    return probabilities


@dataclass(frozen=True)
class LogOdds:
    """The logits of one class against all others, from ``logits (n, K)``; other arrays are ``(n,)``.

    ``top`` is the class with the largest logit ``highest``, the first one of ties. Its own log-odds do not follow from
    probabilities, since the others may all round to 0.
    """

    logits: Floats
    highest: Floats
    top: Integers
    top_odds: Floats
    total: Floats

    @classmethod
    def of(cls, logits: Floats) -> LogOdds:
        """Return them for logits ``(n, K)``, computed in float64 block by block. O(n K)."""
        n, K = logits.shape
        highest, top_odds, total = np.empty((3, n))
        top = logits.argmax(axis=1)
        for start in range(0, n, height := max(1, _BLOCK // K)):
            rows = slice(start, start + height)
            z = logits[rows].astype(np.float64)
            own = np.arange(len(z)), top[rows]
            highest[rows] = z[own]
            z[own] = -np.inf
            second = z.max(axis=1)
            with np.errstate(over="ignore"):  # an overflowing difference correctly gives an exponential of 0
                others = np.log(np.exp(z - second[:, None]).sum(axis=1))
                top_odds[rows] = highest[rows] - second - others
                total[rows] = 1.0 + np.exp(second - highest[rows] + others)
        return cls(logits, highest, top, np.minimum(top_odds, _LARGEST), total)

    def columns(self, chosen: slice) -> Floats:
        """Return ln p - ln(1 - p) of consecutive classes, float64 ``(n, k)``. O(n k)."""
        with np.errstate(over="ignore"):
            off = self.logits[:, chosen].astype(np.float64) - self.highest[:, None]
        # The total of the others is at least 1 unless the class is the top one, which is replaced.
        # Of two classes it is exactly 1, so that their log-odds have opposite signs.
        others = np.maximum(self.total[:, None] - np.exp(off), 0.5) if self.logits.shape[1] > 2 else np.ones_like(off)
        odds: Floats = np.maximum(off - np.log(others), -_LARGEST)
        here = np.flatnonzero((self.top >= chosen.start) & (self.top < chosen.stop))
        odds[here, self.top[here] - chosen.start] = self.top_odds[here]
        return odds


def log_odds(logits: Floats) -> Floats:
    """Return ln p - ln(1 - p) for each class of logits ``(n, K)``, without rounding p to 1: float64. O(n K)."""
    return LogOdds.of(logits).columns(slice(0, logits.shape[1]))


def log_odds_within(logits: Floats) -> Floats:
    """Return the log-odds that one of the first 1, ..., K - 1 classes by logits ``(n, K)`` is correct. O(n K log K)."""
    ascending = np.sort(logits.astype(np.float64), axis=1)
    above = np.logaddexp.accumulate(ascending[:, :0:-1], axis=1)
    below = np.logaddexp.accumulate(ascending[:, :-1], axis=1)[:, ::-1]
    with np.errstate(over="ignore"):
        log_odds: Floats = np.clip(above - below, -_LARGEST, _LARGEST)
    return log_odds


def softmax_in_place(scores: Floats) -> Floats:
    """Overwrite ``scores (h, K)``, float64, with the softmax of each row, and return it."""
    with np.errstate(over="ignore"):  # an overflowing difference correctly gives an exponential of 0
        scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _without_rounding(values: Floats, sums: Floats) -> Predictions:
    """Return rounded probabilities, divided by their sums; raises ``OutOfRange`` for others."""
    away, rounded = np.abs(sums - 1.0), without_rounding(values)
    if rounded is None:
        texts = ("must sum to 1", "does not sum to 1", "do not sum to 1")
        raise _invalid(OutOfRange, "/predictions", away > TOLERANCE, *texts, noun="rows ")
    off = int(np.count_nonzero(away > SUM_ROUNDING))
    return Predictions(rounded[0], "probability", renormalised=off, rewritten=True)


#: How far from 1 the sum of a row may be if its softmax was computed in half precision, or in bfloat16.
_HALF, _BFLOAT = 2e-3, 8e-3


def without_rounding(values: Floats) -> tuple[Floats, str] | None:
    """Divide rows ``(n, K)`` of probabilities by their sum if only rounding explains why it is not 1.

    All numbers have two to six decimals, or are those of half precision or bfloat16. Returns the rows, in double
    precision, and what the numbers are; None if each row sums to 1 within 1e-4, or for other reasons not to 1.
    """
    sums = _sums(values)
    away = float(np.abs(sums - 1.0).max())
    if away <= TOLERANCE or values.min() < 0.0:
        return None
    double = values.astype(np.float64, copy=False)
    what = None
    for decimals in range(2, 7):
        if np.abs(np.round(double, decimals) - double).max() <= (0.0 if values.dtype == np.float64 else 6e-8):
            bound = 0.5 * 10.0**-decimals * values.shape[1]
            what = f"rounded to {decimals} decimals" if away <= bound * (1 + 1e-9) and sums.min() > 0.5 else None
            break
    if what is None and away <= _HALF and _are_half(double):
        what = "of half precision (float16)"
    if what is None and away <= _BFLOAT and not (double.astype(np.float32).view(np.uint32) & 0xFFFF).any():
        what = "of half precision (bfloat16)"
    return None if what is None else (double / sums[:, None], what)


def _are_half(values: Floats) -> bool:
    """Return whether all numbers of [0, 1] are of half precision, also as written with the fewest digits."""
    halves = np.arange(int(np.float16(1.0).view(np.uint16)) + 1, dtype=np.uint16).view(np.float16)
    written = np.array([float(str(half)) for half in halves])
    near = np.abs(values).astype(np.float16)
    return bool(np.all((near == values) | (written[np.minimum(near.view(np.uint16), len(written) - 1)] == values)))


def _sums(values: Floats) -> Floats:
    """Return the sum of each row in double precision; a matrix product is several times faster for short rows."""
    if values.dtype == np.float64 and values.shape[1] < _SHORT:
        return values @ np.ones(values.shape[1])
    return values.sum(axis=1, dtype=np.float64)  # type: ignore[no-any-return]


def _renormalised(values: Floats, sums: Floats) -> tuple[Floats, int]:
    off = np.abs(sums - 1.0) > (SUM_ROUNDING if values.dtype == np.float64 else SINGLE_SUM_ROUNDING)
    if not off.any():
        return values, 0
    values = values.copy()
    values[off] = values[off] / sums[off, None]
    return values, int(np.count_nonzero(off))


def read_classes(classes: object, n_classes: int | None) -> tuple[int, ...]:
    """Check a selection of classes: at least two different integers in [0, K)."""
    if n_classes is None:
        raise WrongShape.at("/classes", "need predictions of shape (n, K)")
    if isinstance(classes, str) or not isinstance(classes, Sequence) or len(classes) < 2:
        raise InvalidOption.at("/classes", "must be an array of at least two classes")
    for i, k in enumerate(classes):
        if type(k) is not int or not 0 <= k < n_classes:
            raise InvalidOption.at(f"/classes/{i}", f"must be an integer from 0 to {n_classes - 1}")
    if len(set(classes)) < len(classes):
        raise InvalidOption.at("/classes", "must be distinct")
    return tuple(classes)


def read_class_names(names: object, n_classes: int) -> tuple[str, ...]:
    """Check the names of K classes: different strings of 1 to 256 characters."""
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != n_classes:
        raise InvalidOption.at("/class_names", f"must be an array of {n_classes} names")
    for i, name in enumerate(names):
        if not isinstance(name, str) or not 0 < len(name) <= MAX_CLASS_NAME:
            raise InvalidOption.at(f"/class_names/{i}", f"must be a string of 1 to {MAX_CLASS_NAME} characters")
    if len(set(names)) < len(names):
        raise InvalidOption.at("/class_names", "must be distinct")
    return tuple(names)


def restrict(batch: Batch, classes: Sequence[int]) -> tuple[Batch, Integers]:
    """Restrict a batch to some classes; return it with the numbers of its rows. Class j is ``classes[j]`` before.

    Rows with other labels are left out. Logits are selected before the softmax, and probabilities are divided by their
    sum, which is equivalent. Minderer et al. (2021) evaluate models of 1,000 classes on the 200 classes of ImageNet-A
    in this way. Raises ``EmptyBatch`` if no row is left, ``OutOfRange`` if a row has no probability left. O(n K).
    """
    chosen = np.asarray(classes)
    place = np.full(batch.predictions.given.shape[1], -1)
    place[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(place[batch.labels] >= 0)
    if not len(rows):
        raise EmptyBatch.at("/labels", "have no row of the chosen classes")
    predictions = batch.predictions
    values = predictions.given[np.ix_(rows, chosen)]
    if predictions.scale == "probability":
        values = values.astype(np.float64, copy=False)
        mass = values.sum(axis=1)
        if not mass.all():
            empty = np.zeros(len(batch), dtype=np.bool_)
            empty[rows] = mass == 0.0
            raise _invalid(
                OutOfRange,
                "/predictions",
                empty,
                "must have a positive probability for one of the chosen classes",
                "has probability 0 for all chosen classes",
                "have probability 0 for all chosen classes",
                noun="rows ",
            )
        values /= mass[:, None]
    taken = replace(predictions, given=values)
    weights, clusters = take(batch.weights, rows), take(batch.clusters, rows)
    if weights is not None and not weights.any():
        raise InvalidWeight.at("/weights", "are all 0 for the rows of the chosen classes")
    return Batch(taken, place[batch.labels[rows]], weights, batch.weights_kind, clusters), rows


def read_labels(labels: Any, n: int, n_classes: int) -> Integers:
    """Check ``n`` integer labels in [0, n_classes)."""
    raw = np.asarray(labels)
    if raw.dtype.kind not in "biu":
        raw = read_numbers(labels, "/labels")
        if not np.all(np.isfinite(raw)):
            raise _invalid(NotFinite, "/labels", ~np.isfinite(raw), *_FINITE)
        if np.any(raw != np.floor(raw)):
            raise _invalid(
                InvalidLabel,
                "/labels",
                raw != np.floor(raw),
                "must be an integer",
                "is not an integer",
                "are not integers",
            )
    _check_length(raw, n, "/labels")
    if raw.min() < 0 or raw.max() >= n_classes:
        bad = (raw < 0) | (raw >= n_classes)
        if n_classes == 2:
            raise _invalid(InvalidLabel, "/labels", bad, "must be 0 or 1", "is not 0 or 1", "are not 0 or 1")
        ends = f"from 0 to {n_classes - 1}"
        raise _invalid(
            InvalidLabel,
            "/labels",
            bad,
            f"must be an integer {ends}",
            f"is not an integer {ends}",
            f"are not integers {ends}",
        )
    return raw.astype(np.int64, copy=False)


def counted_kind(kind: WeightsKind | Fractional) -> WeightsKind:
    """Return the kind as which weights count: fractional ones are frequencies."""
    return "frequency" if isinstance(kind, Fractional) else kind


def check_kind(kind: object) -> None:
    """Raise ``InvalidOption`` unless this is a kind of weights."""
    if kind not in get_args(WeightsKind):
        raise InvalidOption.at("/weights_kind", "must be one of: importance, frequency")


def read_weights(weights: Any, n: int, kind: WeightsKind | Fractional) -> Floats:
    """Check ``n`` finite non-negative weights that are not all 0.

    Importance weights are divided by the largest, so that sums of squares do not overflow; only their ratios matter.
    Weights below 1e-12 of the largest are set to 0, since they are lost in the rounding of sums.
    """
    values = check_weights(weights, n, kind)
    largest = float(values.max())
    values = np.where(values < LEAST_WEIGHT * largest, 0.0, values)
    return values / largest if kind == "importance" else values


def check_weights(weights: Any, n: int, kind: WeightsKind | Fractional) -> Floats:
    """Check weights as ``read_weights`` does without changing them, for a part of a batch."""
    check_kind(counted_kind(kind))
    if np.asarray(weights).dtype.kind == "b":
        raise NotANumber.at("/weights", "must be numbers, not booleans; convert them to 0 and 1, or leave out the rows")
    values = read_numbers(weights, "/weights")
    _check_length(values, n, "/weights")
    if not np.all(np.isfinite(values)):
        raise _invalid(NotFinite, "/weights", ~np.isfinite(values), *_FINITE)
    if values.min() < 0.0:
        raise _invalid(InvalidWeight, "/weights", values < 0.0, "must be at least 0", "is below 0", "are below 0")
    if not values.any():
        raise InvalidWeight.at("/weights", "must not all be 0")
    if kind != "importance":
        if kind == "frequency" and (values != np.floor(values)).any():
            only = "; weights_kind frequency counts equal rows, others are importance"
            raise _invalid(
                InvalidWeight,
                "/weights",
                values != np.floor(values),
                "must be a whole number",
                f"is not a whole number{only}",
                f"are not whole numbers{only}",
            )
        with np.errstate(over="ignore"):
            total = float(values.sum())
        if total > MOST_ROWS:
            raise InvalidWeight.at("/weights", f"must have a sum of at most {MOST_ROWS:g}, or weights_kind importance")
    return values


def read_numbers(values: Any, pointer: str, *, keep_single: bool = False) -> Floats:
    """Check that ``values`` is an array of real numbers, and return it as float64.

    Booleans are rejected. With ``keep_single`` a float32 matrix is not converted, which saves memory.
    """
    try:
        raw = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise WrongShape.at(pointer, "must have rows of the same length") from error
    if raw.size and raw.dtype.kind == "O":
        raw = _numbers_of(raw, pointer)
    if raw.size and raw.dtype.kind not in "fiu":
        raise NotANumber.at(pointer, "must contain only numbers")
    if raw.dtype == np.longdouble and raw.dtype.itemsize > 8:
        raise NotANumber.at(pointer, "must be float64 or a narrower type")
    if keep_single and raw.dtype == np.float32 and raw.ndim == 2:
        return raw
    return raw.astype(np.float64, copy=False)


def _numbers_of(raw: npt.NDArray[Any], pointer: str) -> npt.NDArray[Any]:
    """Convert an array of objects that are numbers; the error counts the others."""
    numbers = np.frompyfunc(
        lambda element: isinstance(element, Number) and not isinstance(element, complex | bool), 1, 1
    )
    bad = ~numbers(raw).astype(np.bool_)
    if bad.any():
        raise _invalid(NotANumber, pointer, bad, "must be a number", "is not a number", "are not numbers")
    try:
        return raw.astype(np.float64)
    except OverflowError:  # integers and fractions; other numbers become infinite
        most, of = sys.float_info.max, "the range of double precision"
        inside = [not isinstance(x, int | Fraction) or -most <= x <= most for x in raw.ravel().tolist()]
        bad = ~np.array(inside).reshape(raw.shape)
        raise _invalid(NotFinite, pointer, bad, f"must be in {of}", f"is beyond {of}", f"are beyond {of}") from None


def _check_length(values: npt.NDArray[Any], n: int, pointer: str) -> None:
    if values.ndim != 1:
        raise WrongShape.at(pointer, "must have shape (n,)")
    if len(values) != n:
        raise LengthMismatch.at(pointer, f"has {n_rows(len(values))}, but /predictions has {n:,}")


#: What a number must be, and the messages about one and about several that are not.
_FINITE = ("must be a finite number", "is not a finite number", "are not finite numbers")


def _invalid(
    error: type[CalibrationError],
    pointer: str,
    bad: npt.NDArray[np.bool_],
    wanted: str,
    singular: str,
    several: str,
    *,
    noun: str = "",
) -> CalibrationError:
    """Create an error that counts the invalid places and names the first of them.

    ``wanted`` is what each place must be; ``one`` or ``several`` is the message about their number; ``noun`` is what is
    counted.
    """
    places = np.argwhere(bad)
    message = singular if len(places) == 1 else several
    return error.at_places(pointer, places, wanted, f"{len(places)} of {bad.size} {noun}{message}")
