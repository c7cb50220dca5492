"""Comparing: several calibration maps side by side on the same rows, and calibration error against error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.batch import Scale, read_batch
from calibrant.cells import WeightsKind
from calibrant.comparison.comparison import (
    MAX_MAPS,
    RAW,
    Comparison,
    ComparisonReport,
    Contestant,
    ContestantReport,
    MeasureComparison,
    pareto_front,
    read_contestants,
)
from calibrant.comparison.laws import LEAST_BATCHES, CalibrationLaw, Point, PowerLaw, PowerLaws, power_law
from calibrant.comparison.pairs import Correction, Pair, Standing, compare_pairs
from calibrant.evaluation import Evaluation
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import Training
from calibrant.measures.intervals import Resampling

__all__ = [
    "LEAST_BATCHES",
    "MAX_MAPS",
    "RAW",
    "CalibrationLaw",
    "Comparison",
    "ComparisonReport",
    "Contestant",
    "ContestantReport",
    "Correction",
    "MeasureComparison",
    "Pair",
    "Point",
    "PowerLaw",
    "PowerLaws",
    "Standing",
    "Training",
    "compare",
    "compare_pairs",
    "pareto_front",
    "power_law",
    "read_contestants",
]


def compare(
    predictions: Any,
    labels: Any,
    maps: Mapping[str, CalibrationMap],
    *,
    measures: Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = "frequency",
    scale: Scale = "probability",
    correction: Correction = "max-t",
    interval: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    trained: Mapping[str, Training] | None = None,
) -> ComparisonReport:
    """Compare calibration maps with each other, and with the predictions as they came, on the same rows.

    Parameters
    ----------
    predictions : (n,) P(Y=1), or (n, K) by class; what every map takes
    labels : (n,) integers, 0 or 1, or 0 to K - 1; rows that no map was fitted to
    maps : 1 to 20 by name; ``uncalibrated`` is the name of the predictions as they came
    measures, reduction, weights, weights_kind, scale : as ``evaluate`` takes them
    correction : over all pairs of a measure: ``max-t``, or ``holm``
    interval : level of all intervals, in (0, 1)
    resamples, seed : of the bootstrap, whose resamples are the same rows for all contestants
    trained : by a map's name, the digest of the rows it was fitted to and how to fit it again; a map known to be
        fitted to these very rows gets no p-value, and its improvement is of maps fitted without each of five folds

    Returns
    -------
    ComparisonReport
        ``contestants`` with their measures, and by key of a measure ``measures[key].ranking``, ``.indistinguishable``
        (from the best), ``.pairs`` with differences, intervals and adjusted p-values, and ``.fronts`` of the measure
        against the classification error and the Brier score

    Raises
    ------
    CalibrationError
        of the first thing wrong with the arguments

    Notes
    -----
    Measures are corrected over their pairs, not over each other. O(contestants x measures x (n log n + resamples)).

    Examples
    --------
    >>> import numpy as np, calibrant
    >>> random = np.random.default_rng(0)
    >>> true = random.random(4000)
    >>> p, y = true**2, (random.random(4000) < true).astype(int)
    >>> maps = {name: calibrant.fit(name, p[:2000], y[:2000]) for name in ("beta", "isotonic")}
    >>> found = calibrant.compare(p[2000:], y[2000:], maps, measures=["brier"]).measures["brier"]
    >>> found.ranking
    ('beta', 'isotonic', 'uncalibrated')
    >>> found.indistinguishable
    ('beta',)
    """
    resampling = Resampling.read(0.95 if interval is None else interval, resamples, seed)
    evaluation = Evaluation(read_requests(measures), reduction, None, resampling)
    comparison = Comparison(evaluation, read_contestants(maps, trained or {}), correction)
    return comparison.run(read_batch(predictions, labels, weights, scale=scale, kind=weights_kind))
