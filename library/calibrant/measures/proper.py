"""Catalogue entries of proper scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from calibrant.calibrators import METHODS
from calibrant.core.binning import MAX_COMPRESSED, compressed
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.options import Option
from calibrant.core.reductions import Classes, Event, Vector
from calibrant.measures.binned import binned_distance, bins_seconds
from calibrant.measures.improvement import OF_EVENT, OF_VECTOR, ImprovedScore, improvement, out_of_fold, parts_of
from calibrant.measures.intervals import Distance, Resampling, joined
from calibrant.measures.measure import PROPER, Measure, MeasureResult, with_interval
from calibrant.measures.scores import (
    BinsOf,
    DecomposedScore,
    Decomposition,
    ScoreName,
    binned_decomposition,
    bins_of,
    cells_of_bins,
    centred,
    clipped_parts,
    corp_decomposition,
    divergence,
    mean_over_rows,
    mean_score,
    row_scores,
    spread,
    summed,
    upper_bound,
)
from calibrant.measures.simulated import likely_truth, simulated_interval, simulation_seconds
from calibrant.piecewise.options import MAX_FOLDS

_FAMILY = PROPER
_PAPER = "Gruber & Buettner (2022)"


def _mean(score: ScoreName) -> Callable[..., MeasureResult]:
    def compute(subject: Event | Vector, _: Resampling) -> MeasureResult:
        return MeasureResult(
            mean_score(subject, score), parts=clipped_parts(subject, score), definition=_form(subject, score)
        )

    return compute


def _mean_influence(score: ScoreName) -> Callable[..., Floats]:
    return lambda subject, _: centred(row_scores(subject, score), subject.w)


def _form(subject: Event | Vector, score: str) -> dict[str, Any]:
    """Return which of the two Brier scores is computed."""
    if score != "brier":
        return {}
    if not isinstance(subject, Event):
        return {"brier": "sum over classes"}
    return {"brier": "of a claim, (p - right)^2" if subject.decided else "binary"}


def _root(subject: Event | Vector, _: Resampling) -> MeasureResult:
    return MeasureResult(mean_score(subject, "brier") ** 0.5, definition=_form(subject, "brier"))


def _root_influence(subject: Event | Vector, _: Resampling) -> Floats:
    scores = row_scores(subject, "brier")
    root = mean_over_rows(scores, subject.w) ** 0.5
    return centred(scores, subject.w) / (2.0 * root) if root > 0.0 else np.zeros(len(scores))


def _bound(subject: Event | Vector, _: Resampling, *, score: ScoreName) -> MeasureResult:
    parts = clipped_parts(subject, score)
    return MeasureResult(upper_bound(subject, score), parts=parts, definition=_form(subject, score))


def _sharpness(subject: Event | Vector, _: Resampling, *, score: ScoreName) -> MeasureResult:
    return MeasureResult(mean_over_rows(spread(subject, score), subject.w))


def _terms(event: Event, method: str, score: DecomposedScore, binning: BinsOf, n_bins: int) -> Decomposition:
    if method == "corp":
        return corp_decomposition(event.cells, score)
    return binned_decomposition(event.cells, score, binning, n_bins)


def _decomposition(
    event: Event, resampling: Resampling, *, score: DecomposedScore, method: str, binning: BinsOf, n_bins: int
) -> MeasureResult:
    terms = _terms(event, method, score, binning, n_bins)
    result = MeasureResult(terms.miscalibration, terms.debiased, parts={**terms.terms(), **clipped_parts(event, score)})
    if not event.independent or not _simulated(method, score):
        return result

    def interval() -> tuple[float, float]:
        if method == "corp":
            cells, again = compressed(event.cells), lambda drawn: corp_decomposition(drawn, score).miscalibration
        else:
            cells, again = cells_of_bins(bins_of(event.cells, binning, n_bins)), divergence
        return simulated_interval(terms.miscalibration, cells, likely_truth(event.cells, cells.p), again, resampling)

    return with_interval(result, interval, resampling)


def _simulated(method: str, score: str) -> bool:
    """Return whether the interval of an event uses simulated labels."""
    return method == "corp" or score != "brier"


def _simulation_seconds(n: int, options: Mapping[str, Any], resampling: Resampling) -> float | None:
    if not _simulated(options["method"], options["score"]):
        return None
    most = MAX_COMPRESSED if options["method"] == "corp" else options["n_bins"]
    return 0.02 + 1e-7 * n + simulation_seconds(min(n, most), resampling)


def _sum_of_classes(vector: Vector, _: Resampling, *, score: DecomposedScore, **how: Any) -> MeasureResult:
    if score != "brier":
        raise InvalidOption("for the whole vector only the score brier can be decomposed")
    terms = summed([_terms(event, score=score, **how) for event in Classes(vector).events()])
    return MeasureResult(terms.miscalibration, terms.debiased, parts=terms.terms())


def _decomposition_distance(
    subject: Event | Vector, _: Resampling, *, score: str, method: str, binning: BinsOf, n_bins: int
) -> Distance:
    if _simulated(method, score):
        raise InvalidOption("defined only for one event per row, or for the score brier with the method binned")

    def of_one(event: Event) -> Distance:
        return binned_distance(event, bins_of(event.cells, binning, n_bins), 2.0, root=False)

    if isinstance(subject, Event):
        return of_one(subject)
    return joined([of_one(event) for event in Classes(subject).events()], lambda sizes: sizes.sum(axis=-1))


def _improvement(
    subject: Event | Vector, resampling: Resampling, *, score: ImprovedScore, method: str | None, folds: int
) -> MeasureResult:
    after, name = out_of_fold(subject, method, score, folds=folds, seed=resampling.seed)
    value, parts = improvement(subject, after, score)[0], parts_of(subject, after, score)
    return MeasureResult(value, parts=parts, definition={"method": name})


def _improvement_influence(
    subject: Event | Vector, resampling: Resampling, *, score: ImprovedScore, method: str | None, folds: int
) -> Floats:
    after, _ = out_of_fold(subject, method, score, folds=folds, seed=resampling.seed)
    return improvement(subject, after, score)[1]


def _improvement_seconds(n: int, n_classes: int, options: Mapping[str, Any]) -> float:
    name = options["method"] or "platt"
    fit = METHODS[name].seconds(n, n_classes if name in OF_EVENT else max(n_classes, 2), METHODS[name].read_options({}))
    return float(options["folds"] * (1.5e-3 + 1.5e-7 * n * n_classes + fit))


_SCORE = Option("brier", choices=("brier", "log-loss", "spherical"))
_TWO_SCORES = Option("brier", choices=("brier", "log-loss"))


def _by_elements(n: int, n_classes: int, _options: Any) -> float:
    return 3e-8 * n + 1e-8 * n * n_classes


MEASURES = (
    Measure(
        "brier",
        "Brier score",
        _FAMILY,
        "For an event mean (p - y)^2, from 0 to 1; for the vector mean sum_k (p_k - [y = k])^2, from 0 to 2, which for "
        "K = 2 is twice the former",
        "Brier (1950)",
        0.0,
        2.0,
        "O(n K)",
        meaning="Mean squared difference between predictions and labels, a proper score; lower is better.",
        event=_mean("brier"),
        vector=_mean("brier"),
        influence=_mean_influence("brier"),
        seconds=_by_elements,
    ),
    Measure(
        "root-brier",
        "Root Brier score",
        _FAMILY,
        "Square root of brier. For the vector it is an upper bound of the canonical calibration error CE_2, and for an "
        "event of its root mean squared calibration error",
        f"{_PAPER}, theorem 3.1",
        0.0,
        2.0**0.5,
        "O(n K)",
        meaning="Square root of the Brier score, on the scale of probabilities.",
        event=_root,
        vector=_root,
        influence=_root_influence,
        seconds=_by_elements,
    ),
    Measure(
        "log-loss",
        "Log loss (nats)",
        _FAMILY,
        "Mean of -log p_y in nats, with p_y clipped to [2^-52, 1 - 2^-52], or of logits exactly. Part clipped: the "
        "number of clipped rows",
        "Good (1952)",
        0.0,
        None,
        "O(n)",
        meaning=(
            "A proper score of calibration and discrimination; lower is better. Confident wrong predictions cost most."
        ),
        event=_mean("log-loss"),
        vector=_mean("log-loss"),
        influence=_mean_influence("log-loss"),
        seconds=_by_elements,
    ),
    Measure(
        "upper-bound",
        "Upper bound of a proper calibration error",
        _FAMILY,
        "U_S = E S(p, y) - inf g_S, an upper bound of the calibration error E d_S(p, P(Y | p)) of the score S, to "
        "which it converges as accuracy increases. The infimum of the generalised entropy g_S is 0 for brier (for the "
        "vector U_S bounds CE_2^2), 0 for log-loss and -1 for spherical, S = -p_y / |p|_2",
        f"{_PAPER}, theorem 4.3; Gneiting & Raftery (2007)",
        0.0,
        None,
        "O(n K)",
        event=_bound,
        vector=_bound,
        influence=lambda subject, _, *, score: centred(row_scores(subject, score), subject.w),
        options={"score": _SCORE},
        seconds=_by_elements,
    ),
    Measure(
        "decomposition",
        "Miscalibration in the decomposition of a proper score",
        _FAMILY,
        "score = miscalibration - discrimination + uncertainty; the value is the miscalibration. Method corp: S(p) - "
        "S(x), S(ybar) - S(x), S(ybar), with x the isotonic fit. Method binned: sum_k v_k d(pbar_k, ybar_k), sum_k v_k "
        "d(ybar, ybar_k), g(ybar) over bins, with d(a, b) = (a - b)^2 or KL(b | a), plus within_bins, which for brier "
        "is the within-bin variance sum (p - pbar_k)^2 / n minus the covariance 2 sum (p - pbar_k)(y - ybar_k) / n; "
        "debiased by subtracting ybar_k (1 - ybar_k) / (n_k - 1). For the vector (brier only) the sum over classes. "
        "The interval of corp and of log-loss, for one event, uses labels simulated on a path to the map of a Gaussian "
        "process, on about 1,000 cells or the bins",
        "Dimitriadis, Gneiting & Jordan (2021); Murphy (1973); Stephenson, Coelho & Jolliffe (2008); Ferro & Fricker "
        "(2012)",
        0.0,
        None,
        "O(n log n); for the vector O(K n log n)",
        meaning="The part of the proper score that recalibration could remove.",
        event=_decomposition,
        vector=_sum_of_classes,
        distance=_decomposition_distance,
        options={
            "method": Option("corp", choices=("corp", "binned")),
            "score": _TWO_SCORES,
            "binning": Option("equal-mass", choices=("equal-mass", "equal-width")),
            "n_bins": Option(15),
        },
        seconds=lambda n, n_classes, _options: 3e-7 * n * n_classes,
        interval_seconds=_simulation_seconds,
        resample_seconds=bins_seconds,
    ),
    Measure(
        "sharpness",
        "Sharpness of the predictions",
        _FAMILY,
        "mean d_S(pbar, p_i) = g_S(pbar) - mean g_S(p_i), with pbar the mean prediction: for brier mean (p - pbar)^2, "
        "for the vector mean |p - pbar|_2^2; for log-loss mean KL(p | pbar), in nats. For calibrated predictions it is "
        "E d_S(P_Y, P(Y | p)), which the discrimination of decomposition estimates from labels for any predictions",
        f"{_PAPER}, lemma 4.1",
        0.0,
        None,
        "O(n K)",
        event=_sharpness,
        vector=_sharpness,
        better="neither",
        needs="predictions only",
        influence=lambda subject, _, *, score: centred(spread(subject, score), subject.w),
        options={"score": _SCORE},
        seconds=_by_elements,
    ),
    Measure(
        "recalibration-improvement",
        "Recalibration improvement",
        _FAMILY,
        "mean S(p, y) - mean S(c(p), y), with c the map that the method fits to the other folds of the rows sorted by "
        "(p, y): null is platt for an event, and temperature for the vector, which also takes "
        f"{' and '.join(OF_VECTOR[1:])}. Above 0 recalibration improves the score. It equals the change of the "
        "calibration error if c is injective (isotonic is not). For log-loss, values 0 and 1 of a map of an event "
        "become (k + 1/2) / (m + 1)",
        f"{_PAPER}, proposition 4.5",
        None,
        None,
        "O(folds n log n), and O(folds n K) for the vector",
        event=_improvement,
        vector=_improvement,
        needs="both outcomes, different predictions, at least as many rows as folds",
        influence=_improvement_influence,
        options={
            "score": _TWO_SCORES,
            "method": Option(None, choices=(None, *OF_EVENT, *OF_VECTOR)),
            "folds": Option(10, low=2, high=MAX_FOLDS),
        },
        seconds=_improvement_seconds,
    ),
)
