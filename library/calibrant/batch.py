"""A batch: predictions, labels and weights, checked once, before any formula sees them.

Every refusal names the argument and the first rows at fault, never what stands there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.cells import Floats, WeightsKind
from calibrant.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidLabel,
    InvalidOption,
    InvalidWeight,
    LengthMismatch,
    NotANumber,
    NotFinite,
    Offence,
    OutOfRange,
    WrongShape,
)

Scale = Literal["probability", "logit"]
_SCALES = get_args(Scale)
Integers = npt.NDArray[np.int64]

#: How far outside [0, 1] a probability, or from 1 a row's sum, may lie: real classifiers emit such.
TOLERANCE = 1e-4
#: Row sums closer to 1 than this differ by the rounding of their own terms and are left alone.
SUM_ROUNDING, SINGLE_SUM_ROUNDING = 1e-9, 1e-6
#: Frequency weights sum to so many rows.
LEAST_ROWS, MOST_ROWS = 1e-6, 2.0**53
#: A weight below this share of the largest is 0.
LEAST_WEIGHT = 1e-12
#: Rows of fewer classes are short.
_SHORT = 64
#: Numbers of a matrix that are worked on at once.
_BLOCK = 1 << 16
#: How what is wrong with one place begins, and how it does with several.
_SEVERAL = {
    "is not a finite number": "are not finite numbers",
    "is not an integer": "are not integers",
    "is ": "are ",
    "does ": "do ",
    "has ": "have ",
}
#: At most this many offending rows are named.
MAX_OFFENCES = 5


@dataclass(frozen=True)
class Predictions:
    """Checked predictions: ``given`` are probabilities or logits, as ``scale`` says.

    (n,) are P(Y=1) or its logit, float64; (n, K) have rows of sum 1 where they are probabilities, float64 or float32.
    """

    given: Floats
    scale: Scale
    clipped: int = 0
    renormalised: int = 0

    @cached_property
    def values(self) -> Floats:
        """The probabilities, of the shape given; those of logits are made on first use, in float64."""
        return self.given if self.scale == "probability" else probabilities_of(self.given)

    @property
    def logits(self) -> Floats | None:
        """The logits that were given; None where probabilities were."""
        return self.given if self.scale == "logit" else None

    @property
    def n_classes(self) -> int | None:
        """K for (n, K), None for (n,)."""
        return None if self.given.ndim == 1 else self.given.shape[1]

    def __len__(self) -> int:
        return len(self.given)

    def rows(self, chosen: npt.NDArray[Any]) -> Predictions:
        """Those of the chosen rows."""
        taken = replace(self, given=self.given[chosen])
        if self.scale == "logit" and "values" in vars(self):
            vars(taken)["values"] = self.values[chosen]  # made already
        return taken


@dataclass(frozen=True)
class Batch:
    """Checked predictions, their ``labels (n,)`` and ``weights (n,)`` or None."""

    predictions: Predictions
    labels: Integers
    weights: Floats | None
    weights_kind: WeightsKind = "frequency"

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, chosen: npt.NDArray[Any]) -> Batch:
        """The batch of the chosen rows: ``chosen`` is (n,) of booleans, or the rows' numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        return Batch(self.predictions.rows(chosen), self.labels[chosen], weights, self.weights_kind)


def read_batch(
    predictions: Any, labels: Any, weights: Any = None, *, scale: Scale = "probability", kind: WeightsKind = "frequency"
) -> Batch:
    """Check a whole batch; raises the ``CalibrationError`` of the first thing wrong. O(n K)."""
    if kind not in get_args(WeightsKind):
        raise InvalidOption.at("/weights_kind", "must be one of: frequency, importance")
    read = read_predictions(predictions, scale=scale)
    return Batch(
        read,
        read_labels(labels, len(read), 2 if read.n_classes is None else read.n_classes),
        None if weights is None else read_weights(weights, len(read), kind),
        kind,
    )


def read_predictions(predictions: Any, *, scale: Scale = "probability") -> Predictions:
    """Check ``predictions`` and turn them into probabilities.

    Probabilities within 1e-4 outside [0, 1] are clipped, rows within 1e-4 of sum 1 are divided by
    their sum, and both are counted. Logits go through the logistic function, or softmax by row.
    """
    if scale not in _SCALES:
        raise InvalidOption.at("/scale", "must be one of: probability, logit")
    values = read_numbers(predictions, "/predictions", keep_single=True)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] < 2):
        raise WrongShape.at("/predictions", "must be (n,) or (n, K) with K of at least 2")
    if values.size == 0:
        raise EmptyBatch.at("/predictions", "has no rows")
    # A NaN survives min and max, so two passes find every value that is out of place.
    low, high = float(np.minimum.reduce(values, axis=None)), float(np.maximum.reduce(values, axis=None))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise _refusal(NotFinite, "/predictions", ~np.isfinite(values), "is not a finite number")
    if scale == "logit":
        return Predictions(values, scale)
    if low < -TOLERANCE or high > 1.0 + TOLERANCE:
        bad = (values < -TOLERANCE) | (values > 1.0 + TOLERANCE)
        raise _refusal(OutOfRange, "/predictions", bad, "is outside [0, 1]; logits need scale: logit")
    sums = None if values.ndim == 1 else _checked_sums(values)
    clipped = 0
    if low < 0.0 or high > 1.0:
        outside = (values < 0.0) | (values > 1.0)
        clipped = int(np.count_nonzero(outside if outside.ndim == 1 else outside.any(axis=1)))
        values = np.clip(values, 0.0, 1.0)
        sums = None if values.ndim == 1 else _sums(values)
    if sums is None:
        return Predictions(values, scale, clipped)
    values, renormalised = _renormalised(values, sums)
    return Predictions(values, scale, clipped, renormalised)


def probabilities_of(logits: Floats) -> Floats:
    """The logistic function of (n,), the softmax of each row of (n, K), float64. Blocks of rows are widened."""
    if logits.ndim == 1:
        one: Floats = expit(logits.astype(np.float64, copy=False))
        return one
    found = np.empty(logits.shape)
    height = max(1, _BLOCK // logits.shape[1])
    for start in range(0, len(logits), height):
        found[start : start + height] = logits[start : start + height]
        softmax_in_place(found[start : start + height])
    return found


def softmax_in_place(scores: Floats) -> Floats:
    """The softmax of each row of ``scores (h, K)``, float64, which it overwrites."""
    with np.errstate(over="ignore"):  # a difference beyond the doubles has the exponential 0, as it should
        scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _checked_sums(values: Floats) -> Floats:
    sums = _sums(values)
    away = np.abs(sums - 1.0)
    if away.max() > TOLERANCE:
        raise _refusal(OutOfRange, "/predictions", away > TOLERANCE, "does not sum to 1", noun="rows ")
    return sums


def _sums(values: Floats) -> Floats:
    """The sum of each row, in double precision; of short rows as a product, which is several times faster."""
    if values.dtype == np.float64 and values.shape[1] < _SHORT:
        found: Floats = values @ np.ones(values.shape[1])
        return found
    return values.sum(axis=1, dtype=np.float64)  # type: ignore[no-any-return]


def _renormalised(values: Floats, sums: Floats) -> tuple[Floats, int]:
    off = np.abs(sums - 1.0) > (SUM_ROUNDING if values.dtype == np.float64 else SINGLE_SUM_ROUNDING)
    if not off.any():
        return values, 0
    values = values.copy()
    values[off] = values[off] / sums[off, None]
    return values, int(np.count_nonzero(off))


def read_classes(classes: object, n_classes: int | None) -> tuple[int, ...]:
    """Check a choice among the classes: at least two different integers in [0, K)."""
    if n_classes is None:
        raise WrongShape.at("/classes", "can be chosen only where predictions are (n, K)")
    if isinstance(classes, str) or not isinstance(classes, Sequence) or len(classes) < 2:
        raise InvalidOption.at("/classes", "must be an array of at least two classes")
    for i, k in enumerate(classes):
        if type(k) is not int or not 0 <= k < n_classes:
            raise InvalidOption.at(f"/classes/{i}", f"must be an integer from 0 to {n_classes - 1}")
    if len(set(classes)) < len(classes):
        raise InvalidOption.at("/classes", "must differ from one another")
    return tuple(classes)


def restrict(batch: Batch, classes: Sequence[int]) -> tuple[Batch, Integers]:
    """The batch as if only these classes existed, and the numbers of its rows; class j becomes ``classes[j]``.

    Rows of another label are left out. Logits are chosen before the softmax (Minderer et al. 2021, which evaluates
    models of 1,000 classes on the 200 of ImageNet-A so); probabilities are divided by their sum, which is the same.
    Raises ``EmptyBatch`` where no row is left, ``OutOfRange`` where a row has no probability left. O(n K).
    """
    chosen = np.asarray(classes)
    place = np.full(batch.predictions.given.shape[1], -1)
    place[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(place[batch.labels] >= 0)
    if not len(kept):
        raise EmptyBatch.at("/labels", "have none of the classes chosen")
    given = batch.predictions
    values = given.given[np.ix_(kept, chosen)]
    if given.scale == "probability":
        values = values.astype(np.float64, copy=False)
        mass = values.sum(axis=1)
        if not mass.all():
            empty = np.zeros(len(batch), dtype=np.bool_)
            empty[kept] = mass == 0.0
            raise _refusal(
                OutOfRange, "/predictions", empty, "has no probability left among the classes chosen", noun="rows "
            )
        values /= mass[:, None]
    taken = replace(given, given=values)
    weights = None if batch.weights is None else batch.weights[kept]
    if weights is not None and not weights.any():
        raise InvalidWeight.at("/weights", "are all 0 on the rows of the classes chosen")
    return Batch(taken, place[batch.labels[kept]], weights, batch.weights_kind), kept


def read_labels(labels: Any, n: int, n_classes: int) -> Integers:
    """Check integer labels in [0, n_classes), as many as ``n``."""
    raw = np.asarray(labels)
    if raw.dtype.kind not in "biu":
        raw = read_numbers(labels, "/labels")
        if not np.all(np.isfinite(raw)):
            raise _refusal(NotFinite, "/labels", ~np.isfinite(raw), "is not a finite number")
        if np.any(raw != np.floor(raw)):
            raise _refusal(InvalidLabel, "/labels", raw != np.floor(raw), "is not an integer")
    _check_length(raw, n, "/labels")
    if raw.min() < 0 or raw.max() >= n_classes:
        names = "0 or 1" if n_classes == 2 else f"an integer from 0 to {n_classes - 1}"
        raise _refusal(InvalidLabel, "/labels", (raw < 0) | (raw >= n_classes), f"must be {names}")
    return raw.astype(np.int64, copy=False)


def read_weights(weights: Any, n: int, kind: WeightsKind = "frequency") -> Floats:
    """Check finite weights of at least 0 that are not all 0, as many as ``n``.

    Importance weights are divided by the largest: nothing else matters of them, and sums and squares stay numbers.
    Weights below 1e-12 of the largest count as 0: sums of doubles hardly see them, and differences of sums not at all.
    """
    values = check_weights(weights, n, kind)
    largest = float(values.max())
    values = np.where(values < LEAST_WEIGHT * largest, 0.0, values)
    return values / largest if kind == "importance" else values


def check_weights(weights: Any, n: int, kind: WeightsKind = "frequency") -> Floats:
    """``read_weights``, but the weights stay as they are: part of a batch whose largest weight is not known yet."""
    values = read_numbers(weights, "/weights")
    _check_length(values, n, "/weights")
    if not np.all(np.isfinite(values)):
        raise _refusal(NotFinite, "/weights", ~np.isfinite(values), "is not a finite number")
    if values.min() < 0.0:
        raise _refusal(InvalidWeight, "/weights", values < 0.0, "is below 0")
    if not values.any():
        raise InvalidWeight.at("/weights", "must not all be 0")
    if kind == "frequency":
        with np.errstate(over="ignore"):
            total = float(values.sum())
        if not LEAST_ROWS <= total <= MOST_ROWS:
            within = f"from {LEAST_ROWS:g} to {MOST_ROWS:g}"
            raise InvalidWeight.at("/weights", f"must count {within} rows; weights_kind importance takes any scale")
    return values


def read_numbers(values: Any, pointer: str, *, keep_single: bool = False) -> Floats:
    """Check that ``values`` is an array of real numbers, and give it as float64.

    Booleans are no numbers here: numpy would make a 1.0 of True. ``keep_single`` leaves a float32 matrix as it is:
    its columns are widened when they are read, and twice its memory is not needed.
    """
    try:
        raw = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise WrongShape.at(pointer, "must have rows of one length") from error
    if raw.size and raw.dtype.kind not in "fiu":
        raise NotANumber.at(pointer, "must hold numbers only")
    if raw.dtype == np.longdouble and raw.dtype.itemsize > 8:
        raise NotANumber.at(pointer, "must hold doubles or narrower numbers")
    if keep_single and raw.dtype == np.float32 and raw.ndim == 2:
        return raw
    return raw.astype(np.float64, copy=False)


def _check_length(values: npt.NDArray[Any], n: int, pointer: str) -> None:
    if values.ndim != 1:
        raise WrongShape.at(pointer, "must be (n,)")
    if len(values) != n:
        raise LengthMismatch.at(pointer, f"has {len(values)} rows where /predictions has {n}")


def _refusal(
    error: type[CalibrationError], pointer: str, bad: npt.NDArray[np.bool_], what: str, *, noun: str = ""
) -> CalibrationError:
    """Build the error that names the first offending places and counts them all; ``noun`` is what is counted."""
    places = np.argwhere(bad)
    offences = [Offence("/".join([pointer, *map(str, place)]), what) for place in places[:MAX_OFFENCES].tolist()]
    message = what if len(places) == 1 else _of_several(what)
    return error(
        f"{pointer[1:]}: {len(places)} of {bad.size} {noun}{message}; the first at {offences[0].pointer}", offences
    )


def _of_several(what: str) -> str:
    """The plural of a message about one place."""
    for one, several in _SEVERAL.items():
        if what.startswith(one):
            return several + what.removeprefix(one)
    return what
