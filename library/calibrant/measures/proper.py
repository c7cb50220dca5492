"""Proper scores: row scores, means, bounds, sharpness and decompositions, and their entries of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import entr, log_expit, rel_entr, xlog1py, xlogy

from calibrant.core.binning import MAX_COMPRESSED, BinnedCells, compressed, equal_mass, equal_width_of_cells
from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.options import Option
from calibrant.core.reductions import Classes, Event, Vector
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.measures.binned import binned_distance, bins_seconds, expected_calibration_errors
from calibrant.measures.intervals import Distance, Resampling, joined
from calibrant.measures.measure import PROPER, Measure, MeasureResult, with_interval
from calibrant.measures.simulated import likely_truth, simulated_interval, simulation_seconds

# --- Proper scores, upper bounds of calibration errors, and sharpness

ScoreName = Literal["brier", "log-loss", "spherical"]
#: Minimum of the generalised entropy g_S(Q) = E_{Y ~ Q} S(Q, Y) of each score, at unit vectors Q.
LEAST_ENTROPY: Mapping[ScoreName, float] = {"brier": 0.0, "log-loss": 0.0, "spherical": -1.0}
#: Probabilities that are converted together.
_AREA = 1 << 20


def row_scores(subject: Event | Vector, score: ScoreName) -> Floats:
    """Return the score of each row ``(n,)``; smaller is better. O(n K), a block of rows at a time.

    ``brier``: for an event (p - y)^2, in [0, 1]; for the vector sum_k (p_k - [k = y])^2, in [0, 2], which for K = 2 is
    twice the former (Brier 1950). ``log-loss``: -log p_y in nats, with p_y clipped to [2^-52, 1 - 2^-52], or of logits
    exactly.
    ``spherical``: -p_y / |p|_2, in [-1, 0], for an event with the vector (1 - p, p) (Gneiting & Raftery 2007,
    section 3).
    """
    if isinstance(subject, Event):
        if score == "brier":
            return (subject.p - subject.y) ** 2
        if score == "log-loss":
            return -subject.log_likelihood(PROBABILITY_CLIP)
        own = np.where(subject.y == 1, subject.p, 1.0 - subject.p)
        return -own / np.hypot(subject.p, 1.0 - subject.p)
    if score == "log-loss":
        return -subject.log_likelihood(PROBABILITY_CLIP)
    return _by_block(subject, lambda P, labels: _scores_of(P, P[np.arange(len(P)), labels], score))


def _scores_of(P: Floats, own: Floats, score: ScoreName) -> Floats:
    squares = np.einsum("nk,nk->n", P, P)
    if score == "spherical":
        spherical: Floats = -own / np.sqrt(squares)
        return spherical
    brier: Floats = np.maximum(squares - own**2, 0.0) + (1.0 - own) ** 2
    return brier


def clipped_rows(subject: Event | Vector) -> int:
    """Return the number of rows with weight whose label probability the log loss clips, none of logits. O(n)."""
    if (subject.logit if isinstance(subject, Event) else subject.logits) is not None:
        return 0
    n = np.arange(len(subject))
    own = subject.p if isinstance(subject, Event) else subject.p[n, subject.labels].astype(np.float64)
    clipped = (own < PROBABILITY_CLIP) | (own > 1.0 - PROBABILITY_CLIP)
    if subject.w is not None:
        clipped &= subject.w > 0.0
    return int(np.count_nonzero(clipped))


def clipped_parts(subject: Event | Vector, score: str) -> dict[str, Any]:
    """Return the parts of a result: for the log loss, the number of clipped rows."""
    return {"clipped": clipped_rows(subject)} if score == "log-loss" else {}


def mean_over_rows(values: Floats, w: Floats | None) -> float:
    """Return the weighted mean of ``values (n,)``; values of rows of weight 0 may be invalid."""
    if w is None:
        return float(values.mean())
    return float(np.where(w > 0.0, values, 0.0) @ w / w.sum())


def centred(values: Floats, w: Floats | None) -> Floats:
    """Return ``values (n,)`` minus their mean, the influence of each row on the mean; 0 for rows of weight 0."""
    off: Floats = values - mean_over_rows(values, w)
    return off if w is None else np.where(w > 0.0, off, 0.0)


def mean_score(subject: Event | Vector, score: ScoreName) -> float:
    """Return the mean of ``row_scores``. O(n K)."""
    return mean_over_rows(row_scores(subject, score), subject.w)


def upper_bound(subject: Event | Vector, score: ScoreName) -> float:
    """Return U_S = E S(f, Y) - inf g_S, an upper bound of the calibration error E d_S(f, P(Y | f)) of the score.

    Gruber & Buettner (2022), theorem 4.3. Smaller is better, 0 is best. It exists if the generalised entropy has a
    finite infimum (``LEAST_ENTROPY``), and converges to the calibration error as accuracy increases. O(n K).
    """
    return mean_score(subject, score) - LEAST_ENTROPY[score]


def spread(subject: Event | Vector, score: ScoreName) -> Floats:
    """Return the divergence d_S(pbar, p_i) of each prediction from the mean prediction: ``(n,)``, at least 0. O(n K).

    ``brier``: (p - pbar)^2, or |p - pbar|_2^2 for the vector; ``log-loss``: sum_k p_k log(p_k / pbar_k); ``spherical``:
    |p|_2 - p . pbar / |pbar|_2. The mean is g_S(pbar) - mean g_S(p_i), and the influence of a row is its divergence
    minus the mean.
    """
    mean = mean_prediction(subject)
    if isinstance(subject, Vector):
        return _by_block(subject, lambda P, _: _divergence(P, mean, score))
    if score == "brier":
        off: Floats = (subject.p - mean[1]) ** 2
        return off
    return _divergence(np.stack([1.0 - subject.p, subject.p], axis=1), mean, score)


def _divergence(P: Floats, mean: Floats, score: ScoreName) -> Floats:
    divergences: Floats
    if score == "brier":
        divergences = ((P - mean) ** 2).sum(axis=1)
    elif score == "log-loss":
        divergences = rel_entr(P, mean).sum(axis=1)
    else:
        divergences = np.linalg.norm(P, axis=1) - P @ mean / np.linalg.norm(mean)
    return np.maximum(divergences, 0.0)


def mean_prediction(subject: Event | Vector) -> Floats:
    """Return the mean predicted vector ``(K,)``, for an event (1 - pbar, pbar). O(n K)."""
    if isinstance(subject, Event):
        mean = mean_over_rows(subject.p, subject.w)
        return np.array([1.0 - mean, mean])
    w = np.ones(len(subject)) if subject.w is None else subject.w
    total = np.zeros(subject.n_classes)
    for rows, P in _blocks(subject):
        total += w[rows] @ P / w.sum()
    return total


def _by_block(vector: Vector, compute: Callable[[Floats, npt.NDArray[np.int64]], Floats]) -> Floats:
    scores = np.empty(len(vector))
    for rows, P in _blocks(vector):
        scores[rows] = compute(P, vector.labels[rows])
    return scores


def _blocks(vector: Vector) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of rows in float64."""
    size = max(1, _AREA // vector.n_classes)
    for start in range(0, len(vector), size):
        rows = slice(start, start + size)
        yield rows, vector.p[rows].astype(np.float64, copy=False)


# --- Decompositions of a proper score into miscalibration, discrimination and uncertainty

DecomposedScore = Literal["brier", "log-loss"]
BinsOf = Literal["equal-mass", "equal-width"]


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty + within_bins.

    ``within_bins`` is None if predictions are not binned. For the Brier score it is ``within_bin_variance`` minus
    ``within_bin_covariance``, and the miscalibration has a ``debiased`` value if every bin has at least one row.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    within_bins: float | None = None
    within_bin_variance: float | None = None
    within_bin_covariance: float | None = None
    debiased: float | None = None

    def terms(self) -> dict[str, float]:
        """Return the terms that are defined, by name."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "debiased"}


def summed(parts: Sequence[Decomposition]) -> Decomposition:
    """Return the sum of decompositions; terms that one of them does not have are left out."""
    names = [name for name in vars(parts[0]) if all(getattr(part, name) is not None for part in parts)]
    return Decomposition(**{name: float(sum(getattr(part, name) for part in parts)) for name in names})


def corp_decomposition(cells: Cells, score: DecomposedScore) -> Decomposition:
    """Decompose by isotonic regression: CORP (Dimitriadis, Gneiting & Jordan 2021). O(m).

    With x the isotonic fit (pool adjacent violators) and S the mean score, miscalibration = S(p) - S(x),
    discrimination = S(ybar) - S(x) and uncertainty = S(ybar), all at least 0. Blocks of x at exactly 0 or 1 have a
    single outcome and score 0.
    """
    x = np.clip(scipy.optimize.isotonic_regression(cells.wy / cells.w, weights=cells.w).x, 0.0, 1.0)
    # The observed frequency in a block is x, so that its score is the entropy of x.
    best = float(cells.w @ _entropy(x, score)) / cells.mass
    mean_score, uncertainty = _score(cells, score), _uncertainty(cells, score)
    return Decomposition(mean_score, max(mean_score - best, 0.0), max(uncertainty - best, 0.0), uncertainty)


def binned_decomposition(cells: Cells, score: DecomposedScore, binning: BinsOf, n_bins: int) -> Decomposition:
    """Decompose over bins with mean prediction pbar_k, observed frequency ybar_k and mass v_k (Murphy 1973). O(m).

    The miscalibration is sum v_k d(pbar_k, ybar_k), the discrimination sum v_k d(ybar, ybar_k) and the uncertainty
    g(ybar), with d(a, b) = (a - b)^2 and g(a) = a (1 - a) for the Brier score, and d(a, b) = KL(b | a) and g the
    entropy for the log loss, with clipped pbar_k. Together they give the score of binned predictions; the terms within
    the bins are the rest. For the Brier score these are the variance sum (p - pbar_k)^2 / n and the covariance
    2 sum (p - pbar_k)(y - ybar_k) / n (Stephenson, Coelho & Jolliffe 2008). The debiased miscalibration subtracts
    ybar_k (1 - ybar_k) / (n_k - 1) from each (pbar_k - ybar_k)^2 (Ferro & Fricker 2012).
    """
    bins = bins_of(cells, binning, n_bins)
    bins = replace(bins, mean_y=np.clip(bins.mean_y, 0.0, 1.0))  # differences of sums have rounding errors
    share = bins.mass / bins.mass.sum()
    mean_score, uncertainty = _score(cells, score), _uncertainty(cells, score)
    discrimination = max(uncertainty - float(share @ _entropy(bins.mean_y, score)), 0.0)
    if score == "log-loss":
        miscalibration = divergence(cells_of_bins(bins))
        return Decomposition(
            mean_score,
            miscalibration,
            discrimination,
            uncertainty,
            mean_score - miscalibration + discrimination - uncertainty,
        )
    place = bins.index_of(cells)
    off = cells.p - bins.mean_p[place]
    variance = float(cells.w @ off**2) / cells.mass
    covariance = 2.0 * float(off @ (cells.wy - cells.w * bins.mean_y[place])) / cells.mass
    plain, debiased = expected_calibration_errors(share, bins.rows, bins.mean_p, bins.mean_y, 2)
    return Decomposition(
        mean_score,
        float(plain),
        discrimination,
        uncertainty,
        variance - covariance,
        variance,
        covariance,
        float(debiased) if bins.rows.min() >= 1.0 else None,
    )


def bins_of(cells: Cells, binning: BinsOf, n_bins: int) -> BinnedCells:
    """Return the bins of a binned decomposition."""
    return equal_mass(cells, n_bins) if binning == "equal-mass" else equal_width_of_cells(cells, n_bins)


def cells_of_bins(bins: BinnedCells) -> Cells:
    """Return bins as cells at their mean predictions, with the same effective numbers of rows."""
    mass, wy, w2 = bins.mass, bins.mass * bins.mean_y, bins.mass * (bins.mass / bins.rows)
    return Cells(bins.mean_p, bins.rows, mass, w2, wy, w2 * bins.mean_y, "importance")


def divergence(cells: Cells) -> float:
    """Return the mean KL(ybar | p) of cells with frequencies ybar, in nats; p is clipped unless logits are given."""
    share = np.clip(cells.wy / cells.w, 0.0, 1.0)
    if cells.logit is not None:
        expected = share * log_expit(cells.logit) + (1.0 - share) * log_expit(-cells.logit)
        off = -entr(share) - entr(1.0 - share) - expected
    else:
        q = np.clip(cells.p, PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
        off = rel_entr(share, q) + rel_entr(1.0 - share, 1.0 - q)
    return float(cells.w @ np.maximum(off, 0.0)) / cells.mass


def _score(cells: Cells, score: DecomposedScore) -> float:
    """Return the mean score of the predictions; the log loss clips probabilities at 2^-52."""
    p, negatives = cells.p, cells.w - cells.wy
    if score == "brier":
        return float(cells.wy @ (1.0 - p) ** 2 + negatives @ p**2) / cells.mass
    if cells.logit is not None:
        return -float(cells.wy @ log_expit(cells.logit) + negatives @ log_expit(-cells.logit)) / cells.mass
    p = np.clip(p, PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
    return -float(np.sum(xlogy(cells.wy, p) + xlog1py(negatives, -p))) / cells.mass


def _entropy(share: Floats, score: DecomposedScore) -> Floats:
    """Return the generalised entropy g of observed frequencies, with 0 log 0 = 0."""
    return share * (1.0 - share) if score == "brier" else entr(share) + entr(1.0 - share)


def _uncertainty(cells: Cells, score: DecomposedScore) -> float:
    return float(_entropy(np.array(cells.cumulative_wy[-1] / cells.mass), score))


# --- The entries of the catalogue

PAPER = "Gruber & Buettner (2022)"


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


_SCORE = Option("brier", choices=("brier", "log-loss", "spherical"))
TWO_SCORES = Option("brier", choices=("brier", "log-loss"))


def _by_elements(n: int, n_classes: int, _options: Any) -> float:
    return 3e-8 * n + 1e-8 * n * n_classes


MEASURES = (
    Measure(
        "brier",
        "Brier score",
        PROPER,
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
        PROPER,
        "Square root of brier. For the vector it is an upper bound of the canonical calibration error CE_2, and for an "
        "event of its root mean squared calibration error",
        f"{PAPER}, theorem 3.1",
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
        PROPER,
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
        PROPER,
        "U_S = E S(p, y) - inf g_S, an upper bound of the calibration error E d_S(p, P(Y | p)) of the score S, to "
        "which it converges as accuracy increases. The infimum of the generalised entropy g_S is 0 for brier (for the "
        "vector U_S bounds CE_2^2), 0 for log-loss and -1 for spherical, S = -p_y / |p|_2",
        f"{PAPER}, theorem 4.3; Gneiting & Raftery (2007)",
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
        PROPER,
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
            "score": TWO_SCORES,
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
        PROPER,
        "mean d_S(pbar, p_i) = g_S(pbar) - mean g_S(p_i), with pbar the mean prediction: for brier mean (p - pbar)^2, "
        "for the vector mean |p - pbar|_2^2; for log-loss mean KL(p | pbar), in nats. For calibrated predictions it is "
        "E d_S(P_Y, P(Y | p)), which the discrimination of decomposition estimates from labels for any predictions",
        f"{PAPER}, lemma 4.1",
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
)
