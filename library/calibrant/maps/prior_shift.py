"""Known base rates: predictions of a model that was trained at another rate, on a sample, or with weights.

Training at other class frequencies multiplies the odds by the ratio of the frequencies (Elkan 2001, theorem 2; Saerens,
Latinne & Decaestecker 2002, equation 4), so that the map adds its logarithm to the logits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.core.arguments import explained
from calibrant.core.batch import Scale
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.inputs import prediction_array
from calibrant.core.options import Option, read_values
from calibrant.core.reductions import Event, Vector
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.curves import check_outcomes
from calibrant.maps.linear_softmax import VectorScaling
from calibrant.maps.platt import Platt
from calibrant.maps.transforms import check_classes

Rates = float | tuple[float, ...]
_RATE = Option(None, low=1e-9, high=1.0, real=True, per_class=True)
#: The options of ``prior-shift`` and of ``shift_prior``.
CHOICES: Mapping[str, Option] = MappingProxyType(
    {
        "new_rate": _RATE,
        "rate": _RATE,
        "kept_negatives": Option(None, choices=(None,), low=1e-9, high=1.0, real=True),
        "positive_weight": Option(None, choices=(None,), low=1e-9, high=1e9, real=True),
        "class_weights": Option(None, low=1e-9, high=1e9, real=True, per_class=True),
    }
)


@dataclass(frozen=True)
class PriorShift:
    """What changed between the training of a model and its use: exactly one of the options other than ``rate``."""

    new_rate: Rates | None = None
    rate: Rates | None = None
    kept_negatives: float | None = None
    positive_weight: float | None = None
    class_weights: Rates | None = None

    def __post_init__(self) -> None:
        changes = [name for name in CHOICES if name != "rate"]
        stated = [name for name in changes if getattr(self, name) is not None]
        if not stated:
            raise InvalidOption.at("", f"exactly one of these options is needed: {', '.join(changes)}")
        if len(stated) > 1:
            raise InvalidOption.at(f"/{stated[1]}", f"is another change than {stated[0]}; state one of them")
        if self.rate is not None and self.new_rate is None:
            raise InvalidOption.at("/rate", "needs new_rate: what the rate becomes")
        for name, value in (("new_rate", self.new_rate), ("rate", self.rate)):
            if isinstance(value, tuple) and abs(math.fsum(value) - 1.0) > 1e-6:
                raise InvalidOption.at(f"/{name}", f"must sum to 1, and the sum is {math.fsum(value):g}")
            if value == 1.0:
                raise InvalidOption.at(f"/{name}", "must be below 1")

    def fitted(self, n_classes: int | None, rows: Event | Vector | None = None) -> Platt | VectorScaling:
        """Return the map of an event, or of vectors of K classes; an earlier rate not stated is that of the rows."""
        if self.new_rate is None:
            (change,) = (name for name in CHOICES if getattr(self, name) is not None)
            shift = -np.log(self._of_classes(change, n_classes))
        elif rows is None or self.rate is not None:
            shift = np.log(self._of_classes("new_rate", n_classes)) - np.log(self._of_classes("rate", n_classes))
        else:
            shift = np.log(self._of_classes("new_rate", n_classes)) - np.log(_frequencies(rows))
        if n_classes is None:
            return Platt(1.0, float(shift[1] - shift[0]))
        return VectorScaling(np.ones(n_classes), shift - shift.mean())

    def _of_classes(self, name: str, n_classes: int | None) -> Floats:
        """Return an option as a number for each class: frequencies, or weights in training."""
        value = getattr(self, name)
        if n_classes is None and name != "class_weights":
            if isinstance(value, tuple):
                raise InvalidOption.at(f"/{name}", "must be one number for one event; lists are for vectors, (n, K)")
            weights = {"kept_negatives": (value, 1.0), "positive_weight": (1.0, value)}
            return np.array(weights.get(name, (1.0 - value, value)))
        if not CHOICES[name].per_class:
            raise InvalidOption.at(f"/{name}", "is for one event; state the class_weights of several classes")
        if not isinstance(value, tuple) or len(value) != (n_classes or 2):
            raise InvalidOption.at(f"/{name}", f"must be a list of {n_classes or 2} numbers, one for each class")
        return np.array(value, dtype=np.float64)


def _frequencies(rows: Event | Vector) -> Floats:
    """Return the weight of the rows of each class, of two for an event."""
    if isinstance(rows, Event):
        positives = check_outcomes(rows.cells)
        return np.array([rows.cells.mass - positives, positives])
    check_classes(rows)
    return np.bincount(rows.labels, rows.w).astype(np.float64)


@explained
def shift_prior(
    predictions: Any,
    *,
    new_rate: Any = None,
    rate: Any = None,
    kept_negatives: float | None = None,
    positive_weight: float | None = None,
    class_weights: Any = None,
    scale: Scale = "probability",
) -> Any:
    """Correct predictions for a known base rate, or for how the training rows were sampled or weighted.

    State one of ``new_rate``, ``kept_negatives``, ``positive_weight`` and ``class_weights``.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        Predictions of the model.
    new_rate : float or array_like, shape (K,), optional
        Base rate P(Y = 1) where the predictions are used; for (n, K), the frequency of each class.
    rate : float or array_like, shape (K,), optional
        The same where the model was trained; needed with ``new_rate``.
    kept_negatives : float, optional
        Fraction of the negatives, label 0, that was kept for training, with every positive; for (n,).
    positive_weight : float, optional
        Weight of the positives in training, with weight 1 of the negatives, such as ``scale_pos_weight``; for (n,).
    class_weights : array_like, shape (2,) or (K,), optional
        Weights of the classes in training, or the fraction of each class that was kept.
    scale : {"probability", "logit"}, default "probability"
        Scale of ``predictions``; logits are not rounded to probabilities.

    Returns
    -------
    ndarray, Series or DataFrame, shape (n,) or (n, K)
        Corrected probabilities, in the form of the predictions.

    Raises
    ------
    CalibrationError
        If the predictions are invalid, no change is stated, or more than one.

    See Also
    --------
    fit : Fits the method ``prior-shift``, whose map can be stored; it takes ``rate`` from the labels.
    estimate_label_shift : Estimates the frequencies of the classes without labels.

    Notes
    -----
    The odds are multiplied by the ratio of the new and the earlier odds (Elkan 2001, theorem 2; Saerens, Latinne &
    Decaestecker 2002, equation 4). This assumes that P(x | y) is the same (label shift), and a model fitted by
    likelihood without strong regularisation: forests and boosted trees often do not follow the training rate. O(n K).

    Examples
    --------
    >>> import calibrant
    >>> calibrant.shift_prior([0.1, 0.5, 0.9], kept_negatives=0.1).round(6)
    array([0.010989, 0.090909, 0.473684])
    >>> calibrant.shift_prior([0.5], positive_weight=9).round(6)
    array([0.1])
    >>> calibrant.shift_prior([[0.2, 0.3, 0.5]], rate=[0.2, 0.3, 0.5], new_rate=[0.6, 0.3, 0.1])
    array([[0.6, 0.3, 0.1]])
    """
    stated = {"new_rate": new_rate, "rate": rate, "kept_negatives": kept_negatives}
    stated |= {"positive_weight": positive_weight, "class_weights": class_weights}
    values = read_values(stated, CHOICES, "shift_prior")
    tuples: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
    options = PriorShift(**tuples)
    if options.new_rate is not None and options.rate is None:
        raise InvalidOption.at("/rate", "is needed with new_rate: the base rate where the model was trained")
    array, _ = prediction_array(predictions)
    n_classes = array.shape[1] if array.ndim == 2 else None
    reduction = "binary" if n_classes is None else "canonical"
    return CalibrationMap("prior-shift", options.fitted(n_classes), reduction, scale, n_classes).apply(predictions)
