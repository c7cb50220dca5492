"""Maps that are measured on the rows they were fitted to: how that is known, and the fit again, without each fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.batch import Batch
from calibrant.calibrators import FitContext, Fitting
from calibrant.cells import Floats
from calibrant.digest import digest
from calibrant.errors import CalibrationError, MissingExtra
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureResult
from calibrant.progress import step
from calibrant.reductions import Event, Vector, whole_vector
from calibrant.validation import folds_of

#: Folds of a fit repeated for rows that a map has seen.
FOLDS = 5


@dataclass(frozen=True)
class Training:
    """How a map was fitted: the ``digest`` of its rows, and ``fitting`` with ``seed``, which fit it again.

    ``digest`` is None where it is not known, ``fitting`` where the fit cannot be repeated.
    """

    digest: str | None = None
    fitting: Fitting | None = None
    seed: int = 0

    def saw(self, batch: Batch) -> bool | None:
        """Whether the map was fitted to these rows; None where that is not known. O(n K)."""
        return None if self.digest is None else self.digest == digest(batch)

    def seconds(self, batch: Batch) -> float:
        """Estimated seconds of ``improvements_again``: without end where only a worker may fit."""
        if self.fitting is None:
            return 0.0
        return FOLDS * self.fitting.seconds(batch) if self.fitting.method.runs == "inline" else float("inf")


#: Nothing is known of the fit.
UNKNOWN = Training()


def out_of_fold_predictions(batch: Batch, training: Training, *, device: str = "cpu") -> Floats:
    """What maps fitted to the other folds make of each row: ``(n,)`` or ``(n, K)``, as the map itself gives them.

    Five folds, drawn by ``folds_of`` with the map's seed. Rows of weight 0 belong to no fold and keep the fit of
    all. Raises ``TooFewRows`` and what the fit raises. O(5 fits).
    """
    if training.fitting is None:
        raise CalibrationError("the fit cannot be repeated")
    fold = folds_of(whole_vector(batch), FOLDS, training.seed)
    found: Floats | None = None
    for number in sorted(set(fold.tolist())):
        own = fold == number
        rest = (fold >= 0) & ~own
        with step(int(number), FOLDS, f"fold {number + 1}"):
            fitted = training.fitting.run(batch.rows(rest), FitContext(training.seed, device))
        made = fitted.apply_checked(batch.predictions.rows(own))
        found = np.empty((len(batch), *made.shape[1:])) if found is None else found
        found[own] = made
    if found is None:
        raise CalibrationError("there are no rows")
    return found


def improvements_again(
    before: Event | Vector, batch: Batch, training: Training, resampling: Resampling, *, device: str = "cpu"
) -> dict[str, MeasureResult]:
    """``improvements`` of a map over rows it was fitted to, by out-of-fold predictions: ``cross_fitted``.

    Where the fit cannot be repeated every value is None, with its problem.
    """
    try:
        made = out_of_fold_predictions(batch, training, device=device)
    except MissingExtra:
        raise
    except CalibrationError as error:
        problem = f"no value: the map was fitted to these rows, and {error.detail}"
        return {score: MeasureResult(None, problem=problem) for score in ("brier", "log-loss")}
    if isinstance(before, Vector):
        after: Event | Vector = replace(before, probabilities=made, logits=None)
    else:
        after = replace(before, p=made, logit=None, whole=None)
    folds = {"cross_fitted": True, "folds": FOLDS}
    found = improvements(before, after, resampling)
    return {score: replace(result, definition={**result.definition, **folds}) for score, result in found.items()}


def unproven(results: Mapping[str, MeasureResult]) -> dict[str, MeasureResult]:
    """The results without p-values, whose laws do not hold on rows that the map was fitted to."""
    return {key: replace(result, p_value=None, **_without(result)) for key, result in results.items()}


def _without(result: MeasureResult) -> dict[str, Any]:
    kept = {name: value for name, value in result.parts.items() if name != "classes_p_value"}
    return {"parts": kept, "definition": {k: v for k, v in result.definition.items() if k != "p_value"}}
