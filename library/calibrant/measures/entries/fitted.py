"""Catalogue entries of calibration errors from maps fitted to the test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from calibrant.calibrators import METHODS
from calibrant.calibrators.method import Method
from calibrant.measures.fitted import EVALUATORS, fit_options, fitted_error, fitted_log_loss, plugged_error
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.options import Option
from calibrant.reductions import Event

_FAMILY = "Fit on the test data"
#: The report contains the fitted map at this many quantiles of the predictions.
_PLACES = 101


def _compute(name: str) -> Callable[..., MeasureResult]:
    def compute(event: Event, resampling: Resampling, *, norm: float, folds: int, **options: Any) -> MeasureResult:
        # The posterior assumes independent rows, which those of a pooled event are not.
        level = resampling.level if event.per_row == 1 else None
        found = fitted_error(event, name, norm=norm, folds=folds, level=level, options=options)
        cells = event.cells
        at = np.unique(np.searchsorted(cells.cumulative_w[1:], cells.mass * np.arange(_PLACES) / (_PLACES - 1)))
        p = cells.p[np.minimum(at, len(cells) - 1)]
        parts = {
            "alpha_1": plugged_error(cells, found.curve, 1),
            "alpha_2": plugged_error(cells, found.curve, 2),
            "log_loss": fitted_log_loss(cells, found.curve),
            "map": {"predictions": p.tolist(), "calibrated": found.curve(p).tolist()},
        }
        return MeasureResult(found.value, found.debiased, found.interval, parts=parts, definition=found.diagnostics)

    return compute


def _seconds(method: Method) -> Callable[[int, int, Mapping[str, Any]], float]:
    known = method.known_options()

    def seconds(n: int, _classes: int, options: Mapping[str, Any]) -> float:
        chosen = method.read_options({name: value for name, value in options.items() if name in known})
        return 0.15 + method.seconds(n, 1 if method.event is not None else 2, chosen)

    return seconds


_DEBIASED = (
    "No root. Debiased: the average of mean |m - p|^norm and of mean s (y - p) (norm 1, with s the expected sign of "
    "c - p) or mean |m - p|^(norm - 1) sign(m - p) (y - p) (norm above 1), with m the fitted map and c over the curves "
    "of a Gaussian process"
)

MEASURES = tuple(
    Measure(
        f"ece-{name}",
        f"Calibration error by fitting: {method.title}",
        _FAMILY,
        f"mean |c(p) - p|^norm, with c the map that the method {name} fits to the same rows, not clipped to [0, 1]. "
        f"{_DEBIASED}",
        f"Kangsepp, Valk & Kull (2022), section 3; {method.source}; docs/explanation/debiasing.md",
        0.0,
        1.0,
        "O(n log n) and a fit to a few hundred cells",
        event=_compute(name),
        needs="both outcomes, different predictions, at least as many rows as folds",
        options={"norm": Option(1, low=1.0, high=1e9, real=True), **fit_options(name)},
        runs=method.runs,
        seconds=_seconds(method),
        own_interval=True,
        resampled=False,
    )
    for name, method in ((name, METHODS[name]) for name in EVALUATORS)
)
