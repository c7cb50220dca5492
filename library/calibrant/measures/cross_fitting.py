"""In-sample evaluation of maps: its detection by a digest of the rows, and cross-fitting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators import FitContext, Fitting
from calibrant.core.batch import Batch
from calibrant.core.cells import Floats
from calibrant.core.digest import digest, shares_rows
from calibrant.core.errors import CalibrationError, MissingExtra
from calibrant.core.options import read_seed
from calibrant.core.progress import step
from calibrant.core.reductions import Event, Subject, Vector, reduce, subject, whole_vector
from calibrant.core.validation import divided_batch, folds_of
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.improvement import improvements
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureResult

#: Number of folds of cross-fitting.
FOLDS = 5


@dataclass(frozen=True)
class Training:
    """Describe how a map was fitted, to detect and correct in-sample evaluation.

    Parameters
    ----------
    digest : str, optional
        Digest of the rows that the map was fitted to; None if unknown.
    fitting : Fitting, optional
        Method and options to repeat the fit; None if it cannot be repeated.
    seed : int, default 0
        Seed of the fit.
    sample : str, optional
        Hashes of some of the rows, by which a part of them is recognised.

    See Also
    --------
    compare : Accepts one of these for each map.

    Examples
    --------
    >>> from calibrant import Training
    >>> from calibrant.core.batch import read_batch
    >>> from calibrant.core.digest import digest
    >>> rows = read_batch([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> Training(digest(rows)).is_in_sample(rows)
    True
    """

    digest: str | None = None
    fitting: Fitting | None = None
    seed: int = 0
    sample: str | None = None

    def is_in_sample(self, batch: Batch) -> bool | None:
        """Return whether the map was fitted to these rows, or to a quarter of them or more.

        Parameters
        ----------
        batch : Batch
            Checked rows.

        Returns
        -------
        bool or None
            Whether the digest of the rows is that of the fit, or the sample has rows of these, also rounded; None if
            the digest is unknown.

        See Also
        --------
        seconds : Estimates the time of cross-fitting.

        Notes
        -----
        O(n K) on the first call for a batch, which keeps its digest.

        Examples
        --------
        >>> from calibrant import Training
        >>> from calibrant.core.batch import read_batch
        >>> Training("0" * 32).is_in_sample(read_batch([0.25, 0.75], [0, 1]))
        False
        """
        if self.digest is None or self.digest == digest(batch):
            return None if self.digest is None else True
        return self.sample is not None and shares_rows(self.sample, batch)

    def seconds(self, batch: Batch) -> float:
        """Estimate the seconds of cross-fitting the map.

        Parameters
        ----------
        batch : Batch
            Checked rows.

        Returns
        -------
        float
            Estimated seconds; 0 if the fit cannot be repeated, infinity if it must run as a job.

        See Also
        --------
        is_in_sample : Whether cross-fitting is needed.

        Examples
        --------
        >>> from calibrant import Training
        >>> from calibrant.core.batch import read_batch
        >>> Training().seconds(read_batch([0.25, 0.75], [0, 1]))
        0.0
        """
        if self.fitting is None:
            return 0.0
        return FOLDS * self.fitting.seconds(batch) if self.fitting.method.runs == "inline" else float("inf")


#: The training of a map whose fit is unknown.
UNKNOWN = Training()
_SAMPLE = re.compile("[456]:([0-9a-f]{10}){1,128}")


def sample_in(diagnostics: object) -> str | None:
    """Return the sample of rows in the diagnostics of a map, if there is a valid one."""
    fit = diagnostics.get("fit") if isinstance(diagnostics, Mapping) else None
    sample = fit.get("sample") if isinstance(fit, Mapping) else None
    return sample if isinstance(sample, str) and _SAMPLE.fullmatch(sample) else None


def training_of(fitted: CalibrationMap) -> Training:
    """Return how a map was fitted, according to its document; a fit without its options cannot be repeated."""
    fit = fitted.diagnostics.get("fit")
    if not isinstance(fit, Mapping):
        return Training(fitted.training_digest)
    try:
        fitting = Fitting.read(fitted.method, fit.get("options", {}), fitted.reduction)
        return Training(fitted.training_digest, fitting, read_seed(fit.get("seed", 0)), sample_in(fitted.diagnostics))
    except CalibrationError:
        return Training(fitted.training_digest)


def out_of_fold_predictions(batch: Batch, training: Training, *, device: str = "cpu") -> Floats:
    """Return the predictions of maps fitted without the fold of each row: ``(n,)`` or ``(n, K)``.

    There are five folds, drawn by ``folds_of`` with the seed of the map. Rows of weight 0 are in no fold, and their
    predictions come from a map fitted to all folds. Rows of large frequency weights should be those of
    ``divided_batch``. Raises ``TooFewRows`` and what the fit raises. O(5 fits).
    """
    if training.fitting is None:
        raise CalibrationError("the fit cannot be repeated")
    fold = folds_of(whole_vector(batch), FOLDS, training.seed)
    predictions: Floats | None = None
    for number in sorted(set(fold.tolist())):
        own = fold == number
        rest = (fold >= 0) & ~own
        with step(int(number), FOLDS, f"fold {number + 1}"):
            fitted = training.fitting.run(batch.rows(rest), FitContext(training.seed, device, diagnose=False))
        of_fold = fitted.apply_checked(batch.predictions.rows(own))
        predictions = np.empty((len(batch), *of_fold.shape[1:])) if predictions is None else predictions
        predictions[own] = of_fold
    if predictions is None:
        raise CalibrationError("there are no rows")
    return predictions


def fitted_again(batch: Batch, training: Training, *, device: str = "cpu") -> Floats | str:
    """Return ``out_of_fold_predictions``, or why the fit to these rows cannot be repeated."""
    try:
        return out_of_fold_predictions(batch, training, device=device)
    except MissingExtra:
        raise
    except CalibrationError as error:
        return f"no value: the map was fitted to these rows, and {error.detail}"


def _improvements_again(
    before: Event | Vector, out_of_fold: Floats, resampling: Resampling
) -> dict[str, MeasureResult]:
    """Return ``improvements`` on the rows of the fit from out-of-fold predictions, marked ``cross_fitted``."""
    if isinstance(before, Vector):
        after: Event | Vector = replace(before, probabilities=out_of_fold, logits=None)
    else:
        after = replace(before, p=out_of_fold, logit=None, whole=None)
    folds = {"cross_fitted": True, "folds": FOLDS}
    gains = improvements(before, after, resampling)
    return {score: replace(result, definition={**result.definition, **folds}) for score, result in gains.items()}


def unproven(
    results: Mapping[str, MeasureResult], cross_fitted: Mapping[str, MeasureResult] | None = None
) -> dict[str, MeasureResult]:
    """Return the results without p-values, which are not valid on the rows that the map was fitted to.

    The parts get the values ``cross_fitted``, from out-of-fold predictions, if there are any.
    """
    again: Mapping[str, MeasureResult] = cross_fitted or {}
    return {key: replace(result, p_value=None, **_without(result, again.get(key))) for key, result in results.items()}


def _without(result: MeasureResult, again: MeasureResult | None) -> dict[str, Any]:
    parts = {name: value for name, value in result.parts.items() if name != "classes_p_value"}
    if again is not None:
        parts |= {"cross_fitted": again.value, "cross_fitted_debiased": again.debiased}
    return {"parts": parts, "definition": {k: v for k, v in result.definition.items() if k != "p_value"}}


def calibrated(
    raw: Subject, batch: Batch, name: str, fitted: CalibrationMap
) -> tuple[Subject, Event | Vector, Event | Vector]:
    """Return the calibrated subject, and the event or vector before and after the map, which scores compare."""
    return after_map(raw, batch, name, fitted, fitted.apply_checked(batch.predictions))


def cross_fitted(
    batch: Batch, name: str, fitted: CalibrationMap, training: Training, resampling: Resampling, device: str
) -> tuple[dict[str, MeasureResult], Subject | None]:
    """Return the improvements and the predictions, of ``divided_batch``, of maps fitted without the fold of a row.

    If there are no such maps, every improvement is None, with the reason as its problem.
    """
    rows = divided_batch(batch)
    raw, refitted = subject(rows, name), fitted_again(rows, training, device=device)
    if isinstance(refitted, str):
        return {score: MeasureResult(None, problem=refitted) for score in ("brier", "log-loss")}, None
    held_out, before, _ = after_map(raw, rows, name, fitted, refitted)
    return _improvements_again(before, refitted, resampling), held_out


def after_map(
    raw: Subject, batch: Batch, name: str, fitted: CalibrationMap, p: Floats
) -> tuple[Subject, Event | Vector, Event | Vector]:
    """Return what ``calibrated`` returns, for calibrated predictions ``p`` of such a map."""
    if fitted.of_vector:
        after = replace(batch, predictions=replace(batch.predictions, given=p, scale="probability"))
        return subject(after, name), whole_vector(batch), whole_vector(after)
    event = raw if isinstance(raw, Event) else reduce(batch, name)
    calibrated_event = replace(event, p=p, logit=None, whole=None)
    return calibrated_event, event, calibrated_event
