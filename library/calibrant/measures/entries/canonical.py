"""Catalogue entry of the calibration error of the whole vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.measures.dirichlet import BANDWIDTHS, Bandwidth, canonical_error
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.options import Option
from calibrant.reductions import Event, Vector

#: The problem of a value with the default bandwidth.
_BIASED = (
    "biased: the bandwidth likelihood is usually too small for this error, whose value is then too large; "
    "prefer the bandwidth cross-validated"
)


def _of_vector(vector: Vector, _: Resampling, *, norm: int, bandwidth: Bandwidth) -> MeasureResult:
    found = canonical_error(vector, norm, bandwidth)
    parts: dict[str, Any] = {"power": found.power}
    debiased = None
    if found.debiased_power is not None:
        parts["debiased_power"] = found.debiased_power
        debiased = max(found.debiased_power, 0.0) ** 0.5
    definition = {"bandwidth_used": found.bandwidth}
    problem = _BIASED if bandwidth == "likelihood" else None
    return MeasureResult(found.power ** (1.0 / norm), debiased, parts=parts, definition=definition, problem=problem)


def _of_event(event: Event, resampling: Resampling, **options: Any) -> MeasureResult:
    columns = np.stack([1.0 - event.p, event.p], axis=1)
    return _of_vector(Vector(columns, event.y.astype(np.int64), event.w, event.kind), resampling, **options)


def _seconds(n: int, n_classes: int, options: Mapping[str, Any]) -> float:
    passes = 1 if isinstance(options["bandwidth"], float | int) else len(BANDWIDTHS) + 1
    return 1e-8 * n * n * passes + 1e-10 * n * n * max(n_classes, 2)


MEASURES = (
    Measure(
        "kde-ce",
        "Canonical calibration error CE_p by Dirichlet kernels",
        "Canonical calibration errors",
        "(mean |m_j - p_j|_r^r)^(1/r), with r the norm, m_j = sum_{i != j} k(p_j; p_i) e_{y_i} / sum_{i != j} k(p_j; "
        "p_i) and k(.; p_i) the Dirichlet density with parameters p_i / h + 1. The bandwidth h is given or from a grid "
        "from 1e-5 to 1. likelihood maximises the leave-one-out likelihood of the predictions, as in the paper; it is "
        "usually so small that the value is far too large. cross-validated minimises the leave-one-out Brier score of "
        "m. Logarithms clip p at 2^-52. power: without the root. Debiased (norm 2): the root of the mean of |m_j - "
        "p_j|^2 - sum_i u_ji^2 |e_{y_i} - m_j|^2 / (1 - sum_i u_ji^2), with u the normalised kernel, or 0 if that is "
        "negative. For an event, the vector is (1 - p, p)",
        "Popordanoska, Sayer & Blaschko (2022); Kumar, Liang & Ma (2019)",
        0.0,
        2.0,
        "O(n^2 (K + bandwidths)), linear memory",
        event=_of_event,
        vector=_of_vector,
        needs="at least two rows",
        options={
            "norm": Option(2, choices=(1, 2)),
            "bandwidth": Option(
                "likelihood", choices=("likelihood", "cross-validated"), low=1e-6, high=100.0, real=True
            ),
        },
        seconds=_seconds,
        resampled=False,
    ),
)
