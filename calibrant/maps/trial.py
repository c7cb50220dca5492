"""A trial of a map that comes from elsewhere: does it give probabilities at all."""

from __future__ import annotations

import numpy as np

from calibrant.batch import Predictions
from calibrant.cells import Floats
from calibrant.errors import InvalidDocument
from calibrant.maps.calibration_map import CalibrationMap

#: A map of more classes is not tried, and refused.
MOST_CLASSES = 100_000
#: The outermost logits are beyond those of every double below 1.
_LOGITS = np.array([-800.0, -40.0, -5.0, -0.1, 0.0, 0.1, 5.0, 40.0, 800.0])
_PROBABILITIES = np.concatenate([[0.0, 1e-300, 2.0**-53], np.arange(1, 256) / 256, [1.0 - 2.0**-53, 1.0]])
_ROUNDING = 1e-6


def try_map(fitted: CalibrationMap) -> None:
    """Apply a map to predictions from end to end; raises ``InvalidDocument`` where something else comes out.

    Each number of a document may be within its range, and their products be none: weights of 1e308 give infinity
    minus infinity. What comes out must be finite and in [0, 1], and of the whole vector have sum 1. O(K).
    """
    if fitted.n_classes is not None and fitted.n_classes > MOST_CLASSES:
        raise InvalidDocument.at("/n_classes", f"must be at most {MOST_CLASSES}")
    with np.errstate(all="ignore"):
        found = fitted.apply_checked(Predictions(_rows(fitted), fitted.scale))
    inside = np.isfinite(found) & (found >= 0.0) & (found <= 1.0)
    if not inside.all() or (found.ndim == 2 and np.abs(found.sum(axis=1) - 1.0).max() > _ROUNDING):
        raise InvalidDocument.at("/parameters", "hold numbers of which no probabilities come out")


def _rows(fitted: CalibrationMap) -> Floats:
    logits = fitted.scale == "logit"
    if not fitted.of_vector:
        return _LOGITS if logits else _PROBABILITIES
    K = fitted.n_classes or 2
    first, last, ramp = np.zeros(K), np.zeros(K), np.arange(K, dtype=np.float64)
    first[0] = last[-1] = 800.0 if logits else 1.0
    if logits:
        return np.array([first, last, -first, np.zeros(K), ramp / K])
    return np.array([first, last, np.full(K, 1.0 / K), ramp / ramp.sum()])
