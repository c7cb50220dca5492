"""Reports of predictive distributions, and ``evaluate_distribution``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.core.arguments import explained
from calibrant.core.arrays import GroupNames, array_of, check_aligned, distinct_names, group_names, numbered_names
from calibrant.core.batch import check_kind, counted_kind, read_weights
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import InvalidOption, LengthMismatch
from calibrant.core.options import plain, read_seed
from calibrant.core.progress import step
from calibrant.core.results import ByMeasure, Framed, Table, WithRows, above, counted, n_rows
from calibrant.distributions.conditional import read_covariate
from calibrant.distributions.forecasts import ForecastRows, read_forecasts, read_observed
from calibrant.distributions.measures import (
    MeasuredForecasts,
    Requests,
    compute_measure,
    default_measures,
    read_measure_requests,
)
from calibrant.distributions.pit import ForecastSize
from calibrant.measures.measure import MeasureResult, plain_results

if TYPE_CHECKING:
    from calibrant.plots.distribution_axes import DistributionPlotter
#: The most groups of one evaluation.
_MOST_GROUPS = 1000


@dataclass(frozen=True, repr=False)
class DistributionReport(WithRows, Framed, ByMeasure[MeasureResult]):
    """Result of ``evaluate_distribution``; ``report["crps"]`` is the result of a measure.

    ``to_frame`` has a row for each measure, and for each group, with the columns ``measure``, ``value``, ``debiased``,
    ``low`` and ``high`` (the interval), ``p_value`` and ``problem``, and with groups also ``group`` and ``n``.

    Attributes
    ----------
    n : int
        Number of rows.
    kind : {"normal", "quantiles", "samples", "interval"}
        Kind of the forecasts.
    n_repaired : int
        Number of rows whose quantiles crossed only because of rounding, and were sorted.
    measures : mapping of str to MeasureResult
        Results by key.
    groups : mapping of str to DistributionReport or None
        Results by group name; None without groups.
    weights_kind : str or None
        ``importance`` or ``frequency``; None without weights.
    source : MeasuredForecasts or None
        The checked rows, from which ``plot`` computes diagrams; not part of documents and pickles.

    See Also
    --------
    evaluate_distribution : Returns these reports.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])
    >>> round(report["crps"].value, 3)
    0.5
    """

    n: int
    kind: str
    n_repaired: int
    measures: Mapping[str, MeasureResult]
    groups: Mapping[str, DistributionReport] | None = None
    weights_kind: WeightsKind | None = None
    source: MeasuredForecasts | None = field(default=None, compare=False)

    _what = "measure in this report"

    @property
    def plot(self) -> DistributionPlotter:
        """Draw diagrams on matplotlib axes.

        Returns
        -------
        DistributionPlotter
            ``report.plot()`` draws the coverage by level, and ``report.plot.pit()`` and so on the other diagrams.

        See Also
        --------
        evaluate_distribution : Returns these reports.

        Examples
        --------
        >>> import calibrant
        >>> report = calibrant.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])
        >>> report.plot().get_xlabel()
        'level of the interval'
        """
        plotter: DistributionPlotter = above("plots.distribution_axes.DistributionPlotter")(self)
        return plotter

    def _records(self) -> list[dict[str, Any]]:
        if self.groups is None:
            return _records(self)
        return [
            {"group": name, "n": report.n, **record}
            for name, report in self.groups.items()
            for record in _records(report)
        ]

    def _document(self) -> dict[str, Any]:
        names = ("n", "kind", "n_repaired")
        document: dict[str, Any] = {"prediction_kind": "regression", **{name: getattr(self, name) for name in names}}
        document |= {"measures": plain_results(self.measures), "groups": None}
        if self.groups is not None:
            document["groups"] = {name: group.to_dict() for name, group in self.groups.items()}
        return document | ({} if self.weights_kind is None else {"weights_kind": self.weights_kind})

    def _table(self) -> Table:
        notes = [f"{key}: {result.problem}" for key, result in self.measures.items() if result.problem]
        if self.n_repaired:
            notes.append(f"{n_rows(self.n_repaired)} had quantiles that crossed up to rounding, and were sorted")
        if self.weights_kind is not None:
            notes.append(f"weights: {self.weights_kind}")
        if self.groups is not None:
            notes.append(f"{counted(len(self.groups), 'group')}: to_frame() has their results")
        return Table.of_measures(f"Report: {n_rows(self.n)}, {self.kind}", self.measures, notes)


def _records(report: DistributionReport) -> list[dict[str, Any]]:
    records = []
    for key, result in report.measures.items():
        low, high = result.interval or (None, None)
        numbers = {"value": result.value, "debiased": result.debiased, "low": low, "high": high}
        records.append({"measure": key, **numbers, "p_value": result.p_value, "problem": result.problem})
    return records


# --- The call


@explained
def evaluate_distribution(
    observed: Any,
    *,
    mean: Any = None,
    variance: Any = None,
    std: Any = None,
    quantiles: Any = None,
    levels: Any = None,
    samples: Any = None,
    lower: Any = None,
    upper: Any = None,
    level: float | None = None,
    measures: str | Sequence[str | Mapping[str, Any]] | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = "importance",
    groups: Any = None,
    clusters: Any = None,
    by: Any = None,
    interval: float | None = None,
    seed: int = 0,
) -> DistributionReport:
    """Score predictive distributions of a real number and measure their calibration.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes.
    mean, variance, std : array_like, shape (n,), optional
        Normal distributions: the mean, and the variance or the standard deviation, above 0.
    quantiles, levels : array_like, shapes (n, Q) and (Q,), optional
        Quantiles at increasing levels in (0, 1), which may also be the names of the columns of a frame; ``levels`` that
        differ from such names are refused. Crossings of at most a millionth of the larger value are repaired and
        counted.
    samples : array_like, shape (n, S), optional
        Samples of each distribution.
    lower, upper : array_like, shape (n,), optional
        Ends of central intervals.
    level : float, optional
        Level of these intervals, a number in (0, 1).
    measures : str or sequence, optional
        Names in ``DISTRIBUTION_MEASURES``, or objects with a ``name``, options and ``as``. The default depends on the
        kind of forecast.
    weights : array_like, shape (n,), optional
        Non-negative weights, not all 0.
    weights_kind : {"importance", "frequency"}, default "importance"
        Only the ratios of importance weights matter; frequency weights are whole numbers of equal rows.
    groups : array_like, shape (n,), optional
        Group of each row; every group is also evaluated separately.
    clusters : array_like, shape (n,), optional
        Rows of a cluster may depend on each other: intervals and p-values use the variance between clusters.
    by : array_like, shape (n,), optional
        Numbers or names for ``{"name": "conditional-coverage", "by": "column"}``.
    interval : float, optional
        Level of confidence intervals, such as 0.95.
    seed : int, default 0
        Seed of randomised transforms and simulated null distributions.

    Returns
    -------
    DistributionReport
        The results by measure.

    Raises
    ------
    CalibrationError
        If an argument is invalid. The error names the argument and the first invalid rows.

    See Also
    --------
    fit_distribution : Fits a calibration map of predictive distributions.

    Notes
    -----
    Importance weights are used as in ``evaluate``.

    O(n) per measure of normal distributions, O(n Q) of quantiles, O(n S log S) of samples; ``skce`` is O(n^2).

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate_distribution([1.2, 0.4, 2.0], quantiles=[[0, 1, 2]] * 3, levels=[0.1, 0.5, 0.9])
    >>> round(report["quantile-score"].value, 3)
    0.167
    """
    arguments = {"mean": mean, "variance": variance, "std": std, "quantiles": quantiles, "samples": samples}
    arguments |= {"lower": lower, "upper": upper}
    columns = {"observed": observed, "weights": weights, "groups": groups, "clusters": clusters, "by": by}
    check_aligned({**columns, **arguments})
    forecasts = read_forecasts(**arguments, levels=levels, level=level)
    own = ForecastRows(forecasts, weights_kind=weights_kind, **columns)
    requests = read_measure_requests(list(default_measures(forecasts.kind)) if measures is None else measures)
    return report_of(*read_rows(own, interval=interval, seed=seed), requests)


def read_rows(
    unchecked: ForecastRows, *, interval: float | None = None, seed: int = 0
) -> tuple[MeasuredForecasts, GroupNames | None]:
    """Check the columns and the options of an evaluation; returns the rows with weight, and the group of each."""
    read_seed(seed)
    check_kind(counted_kind(unchecked.weights_kind))
    interval = plain(interval)
    if interval is not None and not (isinstance(interval, float) and 0.0 < interval < 1.0):
        raise InvalidOption.at("/interval", "must be a number above 0 and below 1")
    rows = MeasuredForecasts(
        unchecked.forecasts, read_observed(unchecked.observed, unchecked.forecasts), seed=seed, level=interval
    )
    groups, clusters = unchecked.groups, unchecked.clusters
    if unchecked.by is not None:
        rows = replace(rows, by=read_covariate(unchecked.by, len(rows)))
    if unchecked.weights is not None:
        w = read_weights(array_of(unchecked.weights, "weights"), len(rows), unchecked.weights_kind)
        weighted = np.flatnonzero(w)
        if len(weighted) < len(w):
            groups = None if groups is None else _chosen(_names(groups, len(w), "groups"), weighted)
            clusters = None if clusters is None else _chosen(_names(clusters, len(w), "clusters"), weighted)
        rows = replace(rows, w=w, weights_kind=counted_kind(unchecked.weights_kind)).rows(weighted)
    if clusters is not None:
        rows = replace(rows, clusters=numbered_names(_names(clusters, len(rows), "clusters"))[1])
    return rows, None if groups is None else _names(groups, len(rows), "groups")


def report_of(rows: MeasuredForecasts, names: GroupNames | None, requests: Requests) -> DistributionReport:
    """Measure checked rows, and those of each group if there are ``names`` of groups."""
    results = {}
    for i, (key, measure, options) in enumerate(requests):
        with step(i, len(requests), key):
            results[key] = compute_measure(measure, rows, options)
    groups = None
    if names is not None:
        distinct, of_rows = distinct_names(names), np.asarray(names, dtype=object)
        if len(distinct) > _MOST_GROUPS:
            raise InvalidOption.at("/groups", f"must name at most {_MOST_GROUPS} groups")
        groups = {name: report_of(rows.rows(np.flatnonzero(of_rows == name)), None, requests) for name in distinct}
    forecasts = rows.forecasts
    kind = None if rows.w is None else rows.weights_kind
    return DistributionReport(len(rows), forecasts.kind, forecasts.n_repaired, results, groups, kind, rows)


def seconds_of(requests: Requests, rows: ForecastRows) -> float:
    """Estimate the seconds of measures of rows, and of those of each group."""
    size = ForecastSize.of(rows.forecasts)
    n_groups = 0 if rows.groups is None else len(set(rows.groups))
    group = size._replace(rows=size.rows // max(n_groups, 1))
    return sum(measure.seconds(size) + n_groups * measure.seconds(group) for _, measure, _ in requests)


def _chosen(names: GroupNames, rows: npt.NDArray[np.int64]) -> GroupNames:
    return GroupNames(names[i] for i in rows.tolist()).ordered(names.order)


def _names(values: Any, n: int, name: str) -> GroupNames:
    names = values if isinstance(values, GroupNames) else group_names(values)
    if len(names) != n:
        raise LengthMismatch.at(f"/{name}", f"has {n_rows(len(names))}, but the forecasts have {n:,}")
    return names
