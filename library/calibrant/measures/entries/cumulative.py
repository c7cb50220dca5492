"""Catalogue entries of cumulative calibration errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from calibrant.cells import Floats
from calibrant.measures.chance import Kind, classes_p_value, event_p_value, parts_p_value
from calibrant.measures.cumulative import (
    by_class_distance,
    chance_spread,
    cumulative_distance,
    end_value,
    ks_by_predicted_class,
    ks_by_predicted_class_p_value,
    ks_error,
    ks_p_value,
    kuiper_error,
    kuiper_p_value,
    predicted_classes,
    tail,
)
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.options import Option
from calibrant.reductions import Classes, Event, Vector

Law = Literal["asymptotic", "resampling"]

_FAMILY = "Cumulative calibration errors"


def _compute(kind: Kind) -> Any:
    error, p_value = (ks_error, ks_p_value) if kind == "ks" else (kuiper_error, kuiper_p_value)

    def compute(event: Event, resampling: Resampling, *, law: Law) -> MeasureResult:
        value = error(event.cells)
        if law == "resampling":
            return MeasureResult(value, p_value=event_p_value(event, kind, value, resampling))
        return MeasureResult(value, p_value=p_value(event.cells, value))

    return compute


def _end(event: Event, resampling: Resampling, *, law: Law) -> MeasureResult:
    value = end_value(event.cells)
    if law == "resampling":
        return MeasureResult(value, p_value=event_p_value(event, "end", abs(value), resampling))
    return MeasureResult(
        value, p_value=tail(abs(value), chance_spread(event.cells), lambda x: math.erfc(x / math.sqrt(2.0)))
    )


def _over_classes(kind: Kind) -> Any:
    def p_value(classes: Classes, resampling: Resampling, *, law: Law) -> float | None:
        return classes_p_value(classes, kind, resampling) if law == "resampling" else None

    return p_value


def _end_influence(event: Event) -> Floats:
    off = event.y - event.p
    centred: Floats = off - (off.mean() if event.w is None else np.average(off, weights=event.w))
    return centred


def _by_class(vector: Vector, resampling: Resampling, *, law: Law) -> MeasureResult:
    value, errors = ks_by_predicted_class(vector)
    if law == "resampling":
        apart = [(share, own) for _, share, own in predicted_classes(vector)]
        p_value = parts_p_value(apart, "ks", value, resampling)
    else:
        p_value = ks_by_predicted_class_p_value(vector)
    return MeasureResult(value, p_value=p_value, parts={"classes": errors})


def _chance_seconds(rows: int, options: Mapping[str, Any], resampling: Resampling) -> float:
    return 0.0 if options["law"] == "asymptotic" else resampling.resamples * (1e-5 + 1e-7 * rows)


_LAW = {"law": Option("asymptotic", choices=("asymptotic", "resampling"))}
_PATH = "D_i = sum_{j<=i} (y_j - p_j) / n over rows sorted by prediction, at the end of each tie"

MEASURES = (
    Measure(
        "ks",
        "Kolmogorov-Smirnov calibration error",
        _FAMILY,
        f"max_i |D_i|, {_PATH}. The p-value is from the distribution of the supremum of |Brownian motion|, or from "
        "labels drawn from p",
        "Gupta et al. (2021), eq. 6; Erdos & Kac (1946) for the distribution",
        0.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        event=_compute("ks"),
        over_classes_p_value=_over_classes("ks"),
        options=_LAW,
        chance_seconds=_chance_seconds,
        distance=lambda event, _, **__: cumulative_distance(event, "ks"),
        triangle=True,
    ),
    Measure(
        "kuiper",
        "Kuiper calibration error",
        _FAMILY,
        f"max_i D_i - min_i D_i, D_0 = 0, {_PATH}. The p-value is from the distribution of the range of Brownian "
        "motion, or from labels drawn from p",
        "Kuiper (1960); Arrieta-Ibarra et al. (2022); Feller (1951) for the distribution",
        0.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        event=_compute("kuiper"),
        over_classes_p_value=_over_classes("kuiper"),
        options=_LAW,
        chance_seconds=_chance_seconds,
        distance=lambda event, _, **__: cumulative_distance(event, "kuiper"),
        triangle=True,
    ),
    Measure(
        "ks-end",
        "Mean label minus mean prediction",
        _FAMILY,
        "D_n, the end of the cumulative difference: mean label minus mean prediction. Below 0 predictions are too high "
        "overall. The p-value of |D_n| is from the normal distribution under calibration, or from labels drawn from p",
        "Gupta et al. (2021), section 4.1",
        -1.0,
        1.0,
        "O(n log n); law resampling O(n resamples)",
        event=_end,
        over_classes_p_value=_over_classes("end"),
        options=_LAW,
        chance_seconds=_chance_seconds,
        better="neither",
        influence=lambda event, _, **__: _end_influence(event),
    ),
    Measure(
        "ks-by-predicted-class",
        "Kolmogorov-Smirnov calibration error by predicted class, KS(f) = E[KS(f, C)]",
        _FAMILY,
        "sum_k P(C = k) times the ks of the confidence among the rows with predicted class k. It is not the top-label "
        "ks and not bounded by TCE_1. The p-value is from the distribution of a sum of independent suprema of "
        "|Brownian motion|, or from labels drawn from p",
        "Gruber & Buettner (2022), appendix C",
        0.0,
        1.0,
        "O(n log n + n K); law resampling O(n resamples)",
        vector=_by_class,
        needs="the whole vector",
        options=_LAW,
        chance_seconds=_chance_seconds,
        distance=lambda vector, _, **__: by_class_distance(vector),
        triangle=True,
    ),
)
