"""Comparison of several calibration maps on the same rows, and power laws of calibration error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.comparison.comparison import (
    MAX_MAPS,
    RAW,
    Comparison,
    ComparisonReport,
    Contestant,
    ContestantReport,
    MeasureComparison,
    RankedValues,
    pareto_front,
    read_contestants,
)
from calibrant.comparison.laws import LEAST_BATCHES, CalibrationLaw, Point, PowerLaw, PowerLaws, power_law
from calibrant.comparison.pairs import ContestantValue, Correction, Pair, compare_pairs
from calibrant.core.arguments import explained
from calibrant.core.batch import Scale
from calibrant.core.cells import WeightsKind
from calibrant.core.inputs import read_rows, reduction_by_name, reduction_with_name
from calibrant.evaluation import Evaluation
from calibrant.maps.calibration_map import CalibrationMap, check_class_names
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import Training, training_of
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
    "ContestantValue",
    "Correction",
    "MeasureComparison",
    "Pair",
    "Point",
    "PowerLaw",
    "PowerLaws",
    "Training",
    "compare",
    "compare_pairs",
    "pareto_front",
    "power_law",
    "read_contestants",
]


@explained
def compare(
    predictions: Any,
    labels: Any,
    maps: CalibrationMap | Sequence[CalibrationMap] | Mapping[str, CalibrationMap],
    *,
    measures: str | Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: Scale = "probability",
    correction: Correction = "max-t",
    of: RankedValues = "debiased",
    interval: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    trained: Mapping[str, Training] | None = None,
) -> ComparisonReport:
    """Compare calibration maps with each other and with the uncalibrated predictions.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        P(Y = 1), or one column per class; every map must accept them.
    labels : array_like, shape (n,)
        As for ``evaluate``. The rows should be held out from the fits of all maps.
    maps : mapping of str to CalibrationMap, or sequence of CalibrationMap
        1 to 20 maps. Maps in a sequence are named after their methods. ``uncalibrated`` is reserved for the predictions
        as given.
    measures : sequence of str or mapping, optional
        As for ``evaluate``.
    reduction : str, optional
        As for ``evaluate``. The default is the reduction of the first map that was fitted to a single event.
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``.
    scale : {"probability", "logit"}, default "probability"
        Scale of ``predictions``.
    correction : {"max-t", "holm"}, default "max-t"
        Correction for multiple comparisons over all pairs of one measure.
    of : {"debiased", "plain"}, default "debiased"
        Values that are ranked, and of the Pareto fronts: debiased ones if every contestant has one, or plain ones.
    interval : float, default 0.95
        Level of all intervals, in (0, 1).
    resamples, seed : int, default 1000 and 0
        Number and seed of the resamples. All contestants are evaluated on the same resampled rows.
    trained : mapping of str to Training, optional
        How each map was fitted; by default, this is read from the map. A map fitted to these rows is not ranked, gets
        no p-value, and its improvement is cross-fitted.

    Returns
    -------
    ComparisonReport
        Results of each contestant, and the ranking and all pairs for each measure.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    evaluate : Evaluates one map.

    Notes
    -----
    P-values and intervals are corrected for each measure separately. O(contestants x measures x (n log n + resamples)).

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
    named = _named(maps)
    known = named.items() if isinstance(named, Mapping) else ()
    fits = {name: training_of(fitted) for name, fitted in known if isinstance(fitted, CalibrationMap)}
    contestants = read_contestants(named, fits | dict(trained or {}))
    rows = read_rows(
        predictions,
        labels,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
        known=next((one.map.class_names for one in contestants if one.map.class_names), None),
    )
    for i, one in enumerate(contestants):
        check_class_names(one.map, rows.class_names, f"/maps/{i}")
    rows.warn_of_kind()
    reduction = reduction_by_name(reduction, rows.class_names)
    evaluation = Evaluation(read_requests(measures, reduction), reduction, None, resampling)
    comparison = Comparison(evaluation, contestants, correction, of)
    found = comparison.run(comparison.check(rows.batch))
    named = reduction_with_name(found.report.reduction, rows.class_names)
    return replace(found, report=replace(found.report, class_names=rows.class_names, reduction_name=named))


def _named(maps: Any) -> Any:
    """Return maps by name: those of a sequence by their methods, numbered if several have the same."""
    given = [maps] if isinstance(maps, CalibrationMap) else maps
    if isinstance(given, Mapping) or not isinstance(given, Sequence):
        return given
    named: dict[str, Any] = {}
    for fitted in given:
        method, number = getattr(fitted, "method", "map"), 2
        name = method
        while name in named:
            name, number = f"{method}-{number}", number + 1
        named[name] = fitted
    return named
