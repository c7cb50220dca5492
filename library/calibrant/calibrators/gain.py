"""The cross-fitted gain of a map: how much the log loss of new rows is expected to fall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.batch import Batch
from calibrant.calibrators.method import FitContext
from calibrant.cells import Floats
from calibrant.errors import CalibrationError, MissingExtra
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.reductions import reduce, whole_vector
from calibrant.validation import GAIN_FOLDS, folds_of, mean_gain

if TYPE_CHECKING:
    from calibrant.calibrators.fitting import Fitting

#: The most rows, drawn at random from more.
MOST_ROWS = 5000
#: The most estimated seconds of fits outside the folds that choose strengths and smoothing again, and of other fits.
_MOST_SECONDS, _MOST_SECONDS_KEPT = 0.3, 0.9
#: Options that a fit chooses by cross-validation; the chosen values are in its diagnostics.
_STRENGTHS = ("strength", "intercept_strength")
#: The warning of a map that does not improve.
NO_GAIN = "the cross-fitted log loss does not improve: the map may do harm on new rows"
UNCHANGED = "no improvement of the cross-fitted log loss was found, so the map leaves the predictions as they are"


def cross_fitted_gain(fitting: Fitting, batch: Batch, seed: int, found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the mean decrease of the log loss per row, in nats, and its standard error over rows.

    Each row is predicted by a map fitted to the other folds. If choosing takes long, these fits keep the strengths and
    the smoothing ``found`` by the fit to all rows. None for slow methods without a chosen strength,
    and if a fit outside a fold fails.
    """
    if len(batch) > MOST_ROWS:
        batch = batch.rows(np.sort(np.random.default_rng(seed).choice(len(batch), MOST_ROWS, replace=False)))
    if fitting.method.name == "identity":
        return None
    context = FitContext(seed, diagnose=False)
    if GAIN_FOLDS * fitting.seconds(batch) > _MOST_SECONDS:
        context = replace(context, smoothing=found.get("smoothing"))
        kept = {name: found[name] for name in _STRENGTHS if fitting.options.get(name, 0.0) is None and found.get(name)}
        fitting = replace(fitting, options={**fitting.options, **kept})
        if not kept and GAIN_FOLDS * fitting.seconds(batch, context.smoothing) > _MOST_SECONDS_KEPT:
            return None
    batch = batch.rows(whole_vector(batch).order())
    try:
        fold = folds_of(whole_vector(batch), GAIN_FOLDS, seed)
        gain = np.zeros(len(batch))
        for held_out in range(GAIN_FOLDS):
            inside = np.flatnonzero(fold == held_out)
            fitted = fitting.run(batch.rows(np.flatnonzero((fold >= 0) & (fold != held_out))), context)
            gain[inside] = _gains(fitted, batch.rows(inside))
    except (CalibrationError, MissingExtra):
        return None
    return mean_gain(gain, batch.weights, batch.groups, GAIN_FOLDS)


def warning_of(gain: dict[str, Any] | None, family: str) -> dict[str, str]:
    """Return the warning of a map without a gain, if any, by its name in the diagnostics."""
    if gain is None:
        return {}
    if family in ("identity", "vector-identity"):
        return {"warning": UNCHANGED}
    return {"warning": NO_GAIN} if gain["log_loss"] <= 0.0 else {}


def _gains(fitted: CalibrationMap, rows: Batch) -> Floats:
    """Return the increase of the log probability of what happened in each row."""
    after = fitted.apply_checked(rows.predictions)
    if fitted.of_vector:
        vector = whole_vector(rows)
        own = np.arange(len(rows)), rows.labels
        before, after = vector.p[own].astype(np.float64), after[own]
    else:
        event = reduce(rows, fitted.reduction)
        before = np.where(event.y == 1, event.p, 1.0 - event.p)
        after = np.where(event.y == 1, after, 1.0 - after)
    ratio: Floats = np.log(np.maximum(after, PROBABILITY_CLIP)) - np.log(np.maximum(before, PROBABILITY_CLIP))
    return ratio
