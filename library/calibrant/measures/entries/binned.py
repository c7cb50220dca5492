"""Catalogue entries of binned calibration errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from calibrant.binning import (
    Bins,
    Closed,
    adaptive,
    cross_validated_count,
    equal_mass,
    equal_width,
    exact,
    sweep_count,
    width_sweep_count,
)
from calibrant.cells import Floats
from calibrant.errors import EmptyBatch, TooFewRows
from calibrant.measures.binned import (
    Norm,
    binned_distance,
    bins_seconds,
    chance_error,
    expected_calibration_error,
    squared_bias,
)
from calibrant.measures.intervals import Distance, Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.options import Option
from calibrant.reductions import Event

_FAMILY = "Binned calibration errors"


def _cut(event: Event, *, binning: str, n_bins: int, closed: Closed = "left") -> Bins:
    if binning == "equal-width":
        return equal_width(event, n_bins, closed)
    if binning == "exact":
        return exact(event.cells)
    return adaptive(event.cells, n_bins) if binning == "adaptive" else equal_mass(event.cells, n_bins)


def _swept_count(event: Event, *, binning: str) -> int:
    return width_sweep_count(event) if binning == "equal-width" else sweep_count(event.cells)


def _validated_count(event: Event, *, binning: Literal["equal-mass", "equal-width"], **how: int) -> int:
    return cross_validated_count(event, binning, **how)


def _above(event: Event, threshold: float) -> Event:
    """Return the event on the rows with predictions above the threshold; a threshold of 0 keeps all rows."""
    if threshold == 0.0:
        return event
    kept = np.flatnonzero(event.p > threshold)
    if not len(kept) or (event.w is not None and not event.w[kept].any()):
        raise EmptyBatch("no row with weight has a prediction above the threshold")
    return replace(event, per_row=1).rows(kept)


def _answer(bins: Bins, norm: int | str, **definition: int) -> MeasureResult:
    definition["bins_used"] = len(bins)
    if norm == "max":
        return MeasureResult(float(np.abs(bins.mean_p - bins.mean_y).max()), definition=definition)
    order: Norm = 1 if norm == 1 else 2
    few = float(bins.rows.min()) < 1.0
    # The plain value does not depend on the number of rows, but the noise of less than one row is not defined.
    plain, debiased = expected_calibration_error(replace(bins, rows=np.ones(len(bins))) if few else bins, order)
    if few:
        problem = "no debiased value: the weights of a bin sum to less than 1; use weights_kind importance"
        return MeasureResult(plain, definition=definition, problem=problem)
    return MeasureResult(plain, debiased, definition=definition)


def _order(norm: int | str) -> float:
    return np.inf if norm == "max" else float(norm)


def ece(event: Event, _: Resampling, *, norm: int | str, **cut: Any) -> MeasureResult:
    """Compute the expected calibration error."""
    return _answer(_cut(event, **cut), norm)


def ece_distance(event: Event, _: Resampling, *, norm: int | str, **cut: Any) -> Distance:
    """Return the gaps of which the expected calibration error is the size."""
    return binned_distance(event, _cut(event, **cut), _order(norm), root=False)


def _counted(count: Callable[..., int]) -> tuple[Callable[..., MeasureResult], Callable[..., Distance]]:
    """Return functions for the error with the number of bins chosen by ``count``, and for its distance."""

    def compute(event: Event, resampling: Resampling, *, norm: int | str, binning: str, **how: int) -> MeasureResult:
        how = {**how, "seed": resampling.seed + 1} if how else how
        n_bins = count(event, binning=binning, **how)
        return _answer(_cut(event, binning=binning, n_bins=n_bins), norm, n_bins=n_bins)

    def distance(event: Event, resampling: Resampling, *, norm: int | str, binning: str, **how: int) -> Distance:
        n_bins = count(event, binning=binning, **({**how, "seed": resampling.seed + 1} if how else how))
        return binned_distance(event, _cut(event, binning=binning, n_bins=n_bins), _order(norm), root=False)

    return compute, distance


def _rooted(event: Event, _: Resampling, *, p: float, **cut: Any) -> MeasureResult:
    bins = _cut(event, **cut)
    distance = binned_distance(event, bins, p, root=True)
    return MeasureResult(float(distance.size(distance.gap)), definition={"bins_used": len(bins)})


def _rooted_distance(event: Event, _: Resampling, *, p: float, **cut: Any) -> Distance:
    return binned_distance(event, _cut(event, **cut), p, root=True)


def _rmsce(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    bins = _cut(event, **cut)
    plain, debiased = expected_calibration_error(bins, 2)
    parts = {"debiased_square": debiased}
    return MeasureResult(plain**0.5, max(debiased, 0.0) ** 0.5, parts=parts, definition={"bins_used": len(bins)})


def _cwce(event: Event, _: Resampling, *, p: float, form: str, **cut: Any) -> MeasureResult:  # noqa: ARG001
    bins = _cut(event, **cut)
    distance = binned_distance(event, bins, p, root=False)
    return MeasureResult(float(distance.size(distance.gap)), definition={"bins_used": len(bins)})


def _cwce_distance(event: Event, _: Resampling, *, p: float, form: str, **cut: Any) -> Distance:  # noqa: ARG001
    return binned_distance(event, _cut(event, **cut), p, root=False)


def _cwce_over_classes(values: Floats, options: Mapping[str, Any]) -> Floats:
    total: Floats = values.sum(axis=-1) if options["form"] == "sum" else values.mean(axis=-1)
    return total ** (1.0 / float(options["p"]))


def _fixed(event: Event, _: Resampling, *, binning: str, norm: int, n_bins: int, threshold: float) -> MeasureResult:
    return _answer(_cut(_above(event, threshold), binning=binning, n_bins=n_bins), norm)


def _fixed_distance(event: Event, _: Resampling, *, binning: str, norm: int, n_bins: int, threshold: float) -> Distance:
    kept = _above(event, threshold)
    distance = binned_distance(kept, _cut(kept, binning=binning, n_bins=n_bins), float(norm), root=False)
    above = np.flatnonzero(event.p > threshold) if threshold > 0.0 else slice(None)
    return replace(distance, noise=lambda group, groups: distance.noise(group[above], groups))


def _rows_enough(bins: Bins) -> Bins:
    if float(bins.rows.min()) < 1.0:
        raise TooFewRows("the weights of a bin sum to less than 1; use weights_kind importance")
    return bins


def _chance(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    bins = _rows_enough(_cut(event, **cut))
    calibrated, plugged = chance_error(event, bins)
    return MeasureResult(calibrated, parts={"plug_in": plugged}, definition={"bins_used": len(bins)})


def _squared_bias(event: Event, _: Resampling, **cut: Any) -> MeasureResult:
    bins = _rows_enough(_cut(event, **cut))
    return MeasureResult(squared_bias(event, bins), definition={"bins_used": len(bins)})


def _validation_seconds(n: int, _classes: int, options: Mapping[str, Any]) -> float:
    return float(options["folds"]) * (1e-7 * n + 1e-4 * float(options["most"]))


_SWEEP, _SWEEP_DISTANCE = _counted(_swept_count)
_VALIDATED, _VALIDATED_DISTANCE = _counted(_validated_count)
_NORM = Option(1, choices=(1, 2, "max"))
_EITHER = Option("equal-mass", choices=("equal-mass", "equal-width"))
_BINNING = Option("equal-mass", choices=("equal-mass", "equal-width", "adaptive", "exact"))
_CLOSED = Option("left", choices=("left", "right"))
_ORDER = Option(2, low=1, high=64, real=True)
_CUT = {"binning": _BINNING, "n_bins": Option(15), "closed": _CLOSED}
_CUTS = (
    "Bins: equal-mass, with borders between distinct predictions; equal-width, [i/b, (i+1)/b) with the last one "
    "closed, or closed on the right; adaptive, starting at ranks round(i n / b); exact, one per distinct prediction"
)
_KANGSEPP = "Kangsepp, Valk & Kull (2022)"


def _entry(name: str, title: str, definition: str, source: str, **rest: Any) -> Measure:
    common = {"lowest": 0.0, "highest": 1.0, "resample_seconds": bins_seconds}
    return Measure(name, title, _FAMILY, definition, source, **{**common, **rest})


#: The options of ``ece``.
ECE_OPTIONS = {**_CUT, "norm": _NORM}

MEASURES = (
    _entry(
        "ece",
        "Expected calibration error",
        "sum_k (n_k / n) |pbar_k - ybar_k|^norm over bins, without a root; with norm max the largest gap. Debiased "
        "with the folded normal distribution (norm 1) or by subtracting ybar_k (1 - ybar_k) / (n_k - 1) (norm 2). "
        f"{_CUTS}",
        f"{_KANGSEPP}, sections 2.2 and C.5; Kumar, Liang & Ma (2019); Naeini, Cooper & Hauskrecht (2015)",
        cost="O(n log n); equal-width O(n)",
        event=ece,
        distance=ece_distance,
        options=ECE_OPTIONS,
    ),
    _entry(
        "ece-sweep",
        "Expected calibration error with the number of bins from a monotonic sweep",
        "ece with the largest b such that 1, ..., b bins all have non-decreasing observed frequencies (equal-width: at "
        "most 4,096 bins, ignoring empty ones)",
        "Roelofs et al. (2022)",
        cost="O(n log n + b^2)",
        event=_SWEEP,
        distance=_SWEEP_DISTANCE,
        options={"binning": _EITHER, "norm": _NORM},
    ),
    _entry(
        "ece-cv",
        "Expected calibration error with the number of bins from cross-validation (ES_CV, EW_CV)",
        "ece with the number of bins, from 1 to most, that minimises the squared error of p + ybar_k - pbar_k on "
        "held-out folds; the fewest bins within 0.1 % of the minimum",
        f"{_KANGSEPP}, sections 2.2 and C.2",
        cost="O(n log n + folds (n + most^2 log n))",
        event=_VALIDATED,
        distance=_VALIDATED_DISTANCE,
        options={"binning": _EITHER, "norm": _NORM, "most": Option(40, high=200), "folds": Option(10, low=2, high=100)},
        seconds=_validation_seconds,
    ),
    _entry(
        "mce",
        "Maximum calibration error",
        f"max_k |pbar_k - ybar_k| over bins. {_CUTS}",
        "Naeini, Cooper & Hauskrecht (2015)",
        cost="O(n log n); equal-width O(n)",
        event=partial(ece, norm="max"),
        distance=partial(ece_distance, norm="max"),
        options=_CUT,
    ),
    _entry(
        "rmsce",
        "Root mean squared calibration error",
        f"(sum_k (n_k / n) (pbar_k - ybar_k)^2)^(1/2) over bins; debiased: the root of the debiased square, or 0 if "
        f"that is negative. {_CUTS}",
        "Nixon et al. (2019); Kumar, Liang & Ma (2019)",
        cost="O(n log n)",
        event=_rmsce,
        distance=partial(_rooted_distance, p=2.0),
        options={**_CUT, "n_bins": Option(30)},
    ),
    _entry(
        "tce",
        "Top-label calibration error TCE_p, binned",
        f"(sum_k (n_k / n) |pbar_k - ybar_k|^p)^(1/p) over bins; top-label under the reduction confidence. {_CUTS}",
        "Gruber & Buettner (2022), appendix C; Kumar, Liang & Ma (2019)",
        cost="O(n log n)",
        event=_rooted,
        distance=_rooted_distance,
        options={**_CUT, "p": _ORDER},
    ),
    _entry(
        "cwce",
        "Class-wise calibration error CWCE_p, binned",
        "(sum over classes k of E|f_k - P(Y = k | f_k)|^p)^(1/p), at most 2^(1/p), over bins of each class; form mean "
        f"divides by K before the root. For one event, its term E|.|^p. {_CUTS}",
        "Gruber & Buettner (2022), appendix C",
        cost="O(K n log n)",
        highest=2.0,
        event=_cwce,
        distance=_cwce_distance,
        over_classes=_cwce_over_classes,
        options={**_CUT, "p": _ORDER, "form": Option("sum", choices=("sum", "mean"))},
    ),
    _entry(
        "sce",
        "Static calibration error",
        "Under classwise: mean over classes of sum_k (n_k / n) |pbar_k - ybar_k| over equal-width bins of each class",
        "Nixon et al. (2019)",
        cost="O(K n)",
        event=partial(_fixed, binning="equal-width", norm=1, threshold=0.0),
        distance=partial(_fixed_distance, binning="equal-width", norm=1, threshold=0.0),
        options={"n_bins": Option(15)},
    ),
    _entry(
        "ace",
        "Adaptive calibration error",
        "Under classwise: mean over classes of sum_k (n_k / n) |pbar_k - ybar_k| over adaptive bins of each class, "
        "which start at ranks round(i n / b)",
        "Nixon et al. (2019)",
        cost="O(K n log n)",
        event=partial(_fixed, binning="adaptive", norm=1, threshold=0.0),
        distance=partial(_fixed_distance, binning="adaptive", norm=1, threshold=0.0),
        options={"n_bins": Option(15)},
    ),
    _entry(
        "tace",
        "Thresholded adaptive calibration error",
        "ace on the rows with predictions above the threshold; classes without such rows are left out (the released "
        "code ignores its threshold)",
        "Nixon et al. (2019)",
        cost="O(K n log n)",
        event=partial(_fixed, binning="adaptive", norm=1),
        distance=partial(_fixed_distance, binning="adaptive", norm=1),
        options={"n_bins": Option(15), "threshold": Option(0.01, low=0.0, high=1.0, real=True)},
    ),
    _entry(
        "ece-by-chance",
        "Expected calibration error of a calibrated model with these predictions",
        "sum_k (n_k / n) E|N(0, sigma_k^2)|, sigma_k^2 = sum p (1 - p) / n_k^2; plug_in: with the observed gaps and "
        f"the variances of predictions and labels in each bin. {_CUTS}",
        "Gruber & Buettner (2022), eq. 22",
        cost="O(n log n)",
        event=_chance,
        better="neither",
        options=_CUT,
    ),
    _entry(
        "l2-bias",
        "Sampling bias of the squared calibration error",
        "(1/n) sum over non-empty bins of V(p - y) = a (1 - a) (1 - 2 d) + V(p), with a the observed frequency and d "
        f"the mean prediction of positives minus that of negatives (the lemma has 1 - d by mistake). {_CUTS}",
        "Minderer et al. (2021), appendix C, Lemma 1",
        cost="O(n log n)",
        event=_squared_bias,
        better="neither",
        options=_CUT,
    ),
)
