"""Comparison of several models or calibration maps on the same rows, and power laws of calibration error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.comparison.comparison import (
    MAX_MAPS,
    RAW,
    Comparison,
    Contestant,
    pareto_front,
    read_contestants,
)
from calibrant.comparison.laws import LEAST_BATCHES, CalibrationLaw, Point, PowerLaw, PowerLaws, power_law
from calibrant.comparison.pairs import ContestantValue, Correction, Pair, compare_pairs
from calibrant.comparison.results import ComparisonReport, ContestantReport, MeasureComparison, RankedValues
from calibrant.core.arguments import explained
from calibrant.core.batch import InputScale
from calibrant.core.cells import WeightsKind
from calibrant.core.clusters import ClusterVariance
from calibrant.core.errors import InvalidOption
from calibrant.core.inputs import read_rows, reduction_by_name, reduction_with_name, rows_of_models
from calibrant.core.results import ByName
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
    maps: CalibrationMap | Sequence[CalibrationMap] | Mapping[str, CalibrationMap] | None = None,
    *,
    measures: str | Sequence[str | Mapping[str, Any]] | None = None,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: InputScale = "probability",
    groups: Any = None,
    clusters: Any = None,
    features: Any = None,
    cluster_variance: ClusterVariance = "cr2",
    rank_by: str | None = None,
    correction: Correction | None = None,
    of: RankedValues = "debiased",
    interval: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    trained: Mapping[str, Training] | None = None,
) -> ComparisonReport:
    """Compare several models on the same rows, or calibration maps with each other and with no map.

    Parameters
    ----------
    predictions : mapping of str to array_like, frame, or array_like
        Models: 2 to 20 predictions by name, ``(n,)`` or ``(n, K)``, or a frame with a column for each. With ``maps``,
        the predictions that every map must accept.
    labels : array_like, shape (n,)
        As for ``evaluate``. The rows should be held out from the fits of all models and maps.
    maps : mapping of str to CalibrationMap, or sequence of CalibrationMap, optional
        1 to 20 maps, those of a sequence named after their methods. ``uncalibrated`` is no name of a map.
    measures : sequence of str or mapping, optional
        As for ``evaluate``. The default for models is ``log-loss``, ``brier``, ``auroc`` and ``ece``, and under
        ``canonical`` ``log-loss``, ``brier``, ``accuracy`` and ``ks-by-predicted-class``.
    reduction : str, optional
        As for ``evaluate``. The default is that of the first map of one event, and ``canonical`` for models (n, K).
    class_names, pos_label, weights, sample_weight, weights_kind, scale : optional
        As for ``evaluate``.
    groups : array_like, shape (n,), or frame, optional
        As for ``evaluate``. The comparison is repeated on the rows of each group, without correction for their number.
    clusters, features, cluster_variance : optional
        As for ``evaluate``; features are for maps.
    rank_by : {"log-loss", "brier"}, optional
        Score that ranks all. For models the default is ``log-loss``, or ``brier`` if one gives a label probability 0.
    correction : {"max-t", "holm"}, optional
        Correction over all pairs of a measure. The default is ``holm`` for models, and ``max-t`` for maps.
    of : {"debiased", "plain"}, default "debiased"
        Values that are compared: debiased ones if every contestant has one, or plain ones.
    interval : float, default 0.95
        Level of all intervals, in (0, 1).
    resamples, seed : int, default 1000 and 0
        Number and seed of the resamples. All contestants are evaluated on the same resampled rows.
    trained : mapping of str to Training, optional
        How maps were fitted; by default, this is read from the maps. A map fitted to these rows is not ranked.

    Returns
    -------
    ComparisonReport
        Results of each contestant, all pairs for each measure, and the ranking with an interval of each rank.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    plot : Draws the diagrams of a comparison side by side.

    Notes
    -----
    Under ``holm``, means over rows have normal intervals and the AUROC those of DeLong (1988); others are resampled.
    Intervals of ranks are simultaneous (Mogstad et al. 2024). O(contestants x measures x (n log n + resamples)).

    Examples
    --------
    >>> import numpy as np, calibrant
    >>> random = np.random.default_rng(0)
    >>> true = random.random(4000)
    >>> y = (random.random(4000) < true).astype(int)
    >>> found = calibrant.compare({"good": true, "biased": true**2}, y)
    >>> found.rank_by, found.ranking, found.ranks["biased"]
    ('log-loss', ('good', 'biased'), (2, 2))
    """
    resampling = Resampling.read(0.95 if interval is None else interval, resamples, seed, cluster_variance)
    options: dict[str, Any] = {
        "weights": weights,
        "sample_weight": sample_weight,
        "weights_kind": weights_kind,
        "groups": groups,
        "clusters": clusters,
        "class_names": class_names,
        "pos_label": pos_label,
        "scale": scale,
    }
    if maps is None:
        if trained is not None:
            raise InvalidOption.at("/trained", "is for maps")
        if features is not None:
            raise InvalidOption.at("/features", "are for maps")
        models = rows_of_models(predictions, labels, **options)
        rows = next(iter(models.values()))
        reduction = reduction_by_name(reduction, rows.class_names)
        batches = {name: own.batch for name, own in models.items()}
        comparison = Comparison.of_models(batches, measures, reduction, resampling, correction, of, rank_by)
    else:
        named = _named(maps)
        known = named.items() if isinstance(named, Mapping) else ()
        fits = {name: training_of(fitted) for name, fitted in known if isinstance(fitted, CalibrationMap)}
        contestants = read_contestants(named, fits | dict(trained or {}))
        names = next((contestant.map.class_names for contestant in contestants if contestant.map.class_names), None)
        rows = read_rows(predictions, labels, **options, features=features, known=names)
        for i, contestant in enumerate(contestants):
            check_class_names(contestant.map, rows.class_names, f"/maps/{i}")
        rows.warn_of_kind()
        reduction = reduction_by_name(reduction, rows.class_names)
        evaluation = Evaluation(read_requests(measures, reduction), reduction, None, resampling)
        comparison = Comparison(evaluation, contestants, correction, of, rank_by=rank_by)
    compared_maps = comparison.run(comparison.check(rows.batch, rows.groups))
    shown = reduction_with_name(compared_maps.report.reduction, rows.class_names)

    def named_report(compared: ComparisonReport) -> ComparisonReport:
        return replace(compared, report=replace(compared.report, class_names=rows.class_names, reduction_name=shown))

    parts = {name: named_report(part) for name, part in (compared_maps.groups or {}).items()}
    return replace(named_report(compared_maps), groups=ByName("group", parts) if parts else None)


def _named(maps: Any) -> Any:
    """Return maps by name: those of a sequence by their methods, numbered if several have the same."""
    listed = [maps] if isinstance(maps, CalibrationMap) else maps
    if isinstance(listed, Mapping) or not isinstance(listed, Sequence):
        return listed
    named: dict[str, Any] = {}
    for fitted in listed:
        method, number = getattr(fitted, "method", "map"), 2
        name = method
        while name in named:
            name, number = f"{method}-{number}", number + 1
        named[name] = fitted
    return named
