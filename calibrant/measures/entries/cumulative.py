"""Cumulative calibration errors in the catalogue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.asked import Option
from calibrant.cells import Floats
from calibrant.measures.cumulative import (
    Kind,
    by_class_distance,
    chance_spread,
    cumulative_distance,
    end_value,
    ks_by_predicted_class,
    ks_error,
    ks_p_value,
    kuiper_error,
    kuiper_p_value,
    resampled_p_value,
    tail,
)
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.reductions import Event, Vector

_FAMILY = "Cumulative calibration errors"


def _compute(kind: Kind) -> Any:
    def compute(event: Event, resampling: Resampling, *, law: str) -> MeasureResult:
        cells = event.cells
        error = ks_error(cells) if kind == "ks" else kuiper_error(cells)
        if law == "resampling":
            return MeasureResult(error, p_value=resampled_p_value(event, kind, error, resampling))
        p_value = ks_p_value(cells, error) if kind == "ks" else kuiper_p_value(cells, error)
        return MeasureResult(error, p_value=p_value)

    return compute


def _end(event: Event, _: Resampling) -> MeasureResult:
    cells = event.cells
    value, spread = end_value(cells), chance_spread(cells)
    return MeasureResult(value, p_value=tail(abs(value), spread, lambda x: math.erfc(x / math.sqrt(2.0))))


def _end_influence(event: Event, _: Resampling) -> Floats:
    off = event.y - event.p
    centred: Floats = off - (off.mean() if event.w is None else np.average(off, weights=event.w))
    return centred


def _by_class(vector: Vector, _: Resampling) -> MeasureResult:
    value, errors = ks_by_predicted_class(vector)
    return MeasureResult(value, parts={"classes": errors})


def _seconds(n: int, _classes: int, options: Mapping[str, Any]) -> float:
    return 2e-7 * n * (1 if options["law"] == "asymptotic" else 200)


_LAW = {"law": Option("asymptotic", choices=("asymptotic", "resampling"))}
_PATH = "D_i = sum_{j<=i} (y_j - p_j) / n over rows sorted by prediction, read at the end of each tie"

MEASURES = (
    Measure(
        "ks",
        "Kolmogorov-Smirnov calibration error",
        _FAMILY,
        f"max_i |D_i|, {_PATH}; p-value by the law of the supremum of |Brownian motion|, or by drawing labels from p",
        "Gupta et al. (2021), eq. 6; Erdos & Kac (1946) for the law",
        0.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        event=_compute("ks"),
        options=_LAW,
        seconds=_seconds,
        distance=lambda event, _, **__: cumulative_distance(event, "ks"),
        triangle=True,
    ),
    Measure(
        "kuiper",
        "Kuiper calibration error",
        _FAMILY,
        f"max_i D_i - min_i D_i, D_0 = 0, {_PATH}; p-value by the law of the range of Brownian motion, or by drawing "
        "labels from p",
        "Kuiper (1960); Arrieta-Ibarra et al. (2022); Feller (1951) for the law",
        0.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        event=_compute("kuiper"),
        options=_LAW,
        seconds=_seconds,
        distance=lambda event, _, **__: cumulative_distance(event, "kuiper"),
        triangle=True,
    ),
    Measure(
        "ks-end",
        "Signed end of the cumulative difference",
        _FAMILY,
        "D_n, the mean label less the mean prediction: below 0 predictions are too high overall; p-value by the normal "
        "law under calibration",
        "Gupta et al. (2021), section 4.1",
        -1.0,
        1.0,
        "O(n log n)",
        event=_end,
        better="neither",
        influence=_end_influence,
    ),
    Measure(
        "ks-by-predicted-class",
        "Kolmogorov-Smirnov error KS(f) = E[KS(f, C)]",
        _FAMILY,
        "sum_k P(C = k) KS of the confidence among the rows predicted k; neither the top-label ks nor bounded by TCE_1",
        "Gruber & Buettner (2022), appendix C",
        0.0,
        1.0,
        "O(n log n + n K)",
        vector=_by_class,
        needs="the whole vector",
        distance=lambda vector, _: by_class_distance(vector),
        triangle=True,
    ),
)
