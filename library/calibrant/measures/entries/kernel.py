"""Catalogue entries of kernel calibration errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.errors import InvalidOption
from calibrant.measures.intervals import Distance, Resampling, influence_interval
from calibrant.measures.kernel import (
    Kernel,
    PairSums,
    block_means,
    event_p_value,
    event_pairs,
    event_sums,
    kernel_distance,
    vector_pairs,
    vector_sums,
)
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.options import Option
from calibrant.reductions import Event, Vector

_FAMILY = "Kernel calibration errors"
#: Factor of the label kernel for binary labels: white, (e_y - e_p) . (e_y' - e_p'), or Gaussian on {0, 1}.
_FACTOR = {"white": 2.0, "gaussian": 2.0 - 2.0 * math.exp(-0.5)}
#: Default bandwidth of MMCE.
_MMCE = 0.4


def _mmce(event: Event, _: Resampling, *, bandwidth: float) -> MeasureResult:
    sums = event_sums(event.cells, "laplacian", bandwidth)
    return MeasureResult(math.sqrt(sums.biased), p_value=event_p_value(event.cells, "laplacian", bandwidth))


def _mmce_distance(event: Event, _: Resampling, *, bandwidth: float) -> Distance:
    return kernel_distance(event, "laplacian", bandwidth, 1.0, root=True)


def _of_vector(
    vector: Vector, resampling: Resampling, kernel: Kernel, bandwidth: float, estimator: str
) -> MeasureResult:
    """Return the estimate with its interval, since both use the same sums over pairs."""
    sums = vector_sums(vector, kernel, bandwidth)
    found = _estimated(sums, 1.0, estimator, sums.p_value)
    if resampling.level is None or found.value is None:
        return found
    influence = sums.influence(unbiased=estimator == "unbiased")
    low, high = influence_interval(found.value, influence, vector, resampling)
    return replace(found, interval=(max(low, 0.0), max(high, 0.0)))


def _estimated(sums: PairSums, factor: float, estimator: str, p_value: float | None) -> MeasureResult:
    value = sums.unbiased if estimator == "unbiased" else sums.biased
    return MeasureResult(factor * value, p_value=p_value)


def _blocks(
    subject: Event | Vector, resampling: Resampling, kernel: Kernel, bandwidth: float, size: int
) -> MeasureResult:
    if subject.w is not None and len(np.unique(subject.w)) > 1:
        raise InvalidOption("the block estimator needs equal weights; use the estimator unbiased or biased")
    ordered = subject.in_order()
    order = np.random.default_rng([resampling.seed, 2]).permutation(len(ordered))
    of = (
        event_pairs(ordered, kernel, bandwidth)
        if isinstance(ordered, Event)
        else vector_pairs(ordered, kernel, bandwidth)
    )
    mean, error, blocks = block_means(len(ordered), of, size, order)
    p_value = float(ndtr(-mean / error)) if error > 0.0 else None
    return MeasureResult(mean, p_value=p_value, parts={"blocks": blocks})


def _skce(
    subject: Event | Vector, resampling: Resampling, *, estimator: str, kernel: Kernel, bandwidth: float, **rest: Any
) -> MeasureResult:
    found = _squared(subject, resampling, estimator=estimator, kernel=kernel, bandwidth=bandwidth, **rest)
    # Gruber & Buettner (2022), (50) and (53): neither entropy nor sharpness, since pairs of rows are independent.
    terms = {"entropy": 0.0, "calibration": found.value, "sharpness": 0.0}
    return replace(found, parts={**found.parts, **terms})


def _squared(
    subject: Event | Vector,
    resampling: Resampling,
    *,
    estimator: str,
    kernel: Kernel,
    bandwidth: float,
    label_kernel: str,
    block_size: int,
) -> MeasureResult:
    if isinstance(subject, Vector) and label_kernel != "white":
        raise InvalidOption("the label_kernel for the whole vector must be white")
    factor = _FACTOR[label_kernel] if isinstance(subject, Event) else 1.0
    if estimator == "block":
        found = _blocks(subject, resampling, kernel, bandwidth, block_size)
        return MeasureResult((found.value or 0.0) * factor, p_value=found.p_value, parts=found.parts)
    if isinstance(subject, Vector):
        return _of_vector(subject.in_order() if resampling.level else subject, resampling, kernel, bandwidth, estimator)
    p_value = event_p_value(subject.cells, kernel, bandwidth)
    return _estimated(event_sums(subject.cells, kernel, bandwidth), factor, estimator, p_value)


def _skce_distance(
    event: Event, _: Resampling, *, kernel: Kernel, bandwidth: float, label_kernel: str, **_rest: Any
) -> Distance:
    if isinstance(event, Vector):
        raise InvalidOption("the interval of the block estimator is defined only for events")
    return kernel_distance(event, kernel, bandwidth, _FACTOR[label_kernel], root=False)


def _skce_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    if options["estimator"] == "block":
        return n * float(options["block_size"]) * (5e-8 + 1e-8 * K)
    if K > 1:
        return n * n * (7e-9 + 2e-10 * K)
    return 0.05 + n * (3.6e-7 + 2e-9 / float(options["bandwidth"]) ** 2)


def _distance_seconds(n: int, _classes: int, _options: Mapping[str, Any]) -> float:
    return 0.05 + 3e-7 * n


_H = Option(1.0, low=0.05, high=100.0, real=True)
_LAW = "The p-value is from the distribution of a weighted sum of squares of normal variables, on at most 128 cells"

MEASURES = (
    Measure(
        "mmce",
        "Maximum mean calibration error",
        _FAMILY,
        "(sum_ij w_i w_j k(p_i, p_j) (y_i - p_i) (y_j - p_j) / (sum w)^2)^(1/2), k = exp(-|p - q| / bandwidth). The "
        f"paper defines it for the confidence. {_LAW}",
        "Kumar, Sarawagi & Jain (2018)",
        0.0,
        1.0,
        "O(n log n)",
        event=_mmce,
        options={"bandwidth": Option(_MMCE, low=0.05, high=100.0, real=True)},
        seconds=_distance_seconds,
        distance=_mmce_distance,
        triangle=True,
    ),
    Measure(
        "skce",
        "Squared kernel calibration error",
        _FAMILY,
        "Mean over pairs of rows of k(p, q) (e_y - p) . (e_y' - q). Estimators: unbiased, over pairs of different rows "
        "(may be below 0); biased, over all pairs; block, the mean of the unbiased estimates within random blocks of "
        "rows. Kernels: gaussian exp(-d^2 / 2 h^2) or laplacian exp(-d / h), with h the bandwidth and d the Euclidean "
        "distance between vectors, or |p - q| for an event. For an event the factor of the label_kernel is 2 (white) "
        f"or 2 - 2 exp(-1/2) (gaussian on 0 and 1, as in Kangsepp et al. 2022). {_LAW}; for the whole vector from a "
        "gamma distribution with the same mean and variance, and for blocks from the normal distribution. Parts: as a "
        "proper U-score of pairs of rows it is entropy + calibration - sharpness, whose entropy and sharpness are 0",
        "Widmann, Lindsten & Zachariah (2019); Gruber & Buettner (2022), appendix F",
        None,
        2.0,
        "O(n log n) for an event; O(n^2 K) for the vector, memory O(n K); block O(n block_size K)",
        event=_skce,
        vector=_skce,
        options={
            "estimator": Option("unbiased", choices=("unbiased", "biased", "block")),
            "kernel": Option("gaussian", choices=("gaussian", "laplacian")),
            "bandwidth": _H,
            "label_kernel": Option("white", choices=("white", "gaussian")),
            "block_size": Option(2, low=2, high=1000),
        },
        seconds=_skce_seconds,
        distance=_skce_distance,
    ),
)
