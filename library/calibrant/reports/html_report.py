"""A full report of predictions as HTML, for notebooks and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from calibrant.core.applied import warn_of_training
from calibrant.core.arguments import explained
from calibrant.core.arrays import array_of, check_aligned, group_names, is_frame, texts_of_times
from calibrant.core.batch import InputScale, refuse_clusters
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import InvalidOption
from calibrant.core.inputs import Rows, read_rows, reduction_by_name, rows_of_models
from calibrant.core.results import n_rows, write_text
from calibrant.core.version import __version__
from calibrant.decisions.thresholds import criterion_in
from calibrant.distributions.forecasts import ForecastRows, read_forecasts, read_observed
from calibrant.distributions.maps.distribution_map import DistributionMap, Support
from calibrant.distributions.maps.scales import ForecastScale
from calibrant.kinds.distributions import ForecastReport
from calibrant.kinds.distributions import report_options as forecast_options
from calibrant.maps.calibration_map import CalibrationMap, check_class_names, check_map
from calibrant.reports.html import standalone
from calibrant.reports.operations import report_of_models, report_of_rows
from calibrant.reports.panel import ReportSubject
from calibrant.sets.evaluation import evaluate_sets
from calibrant.sets.set_map import SetMap

#: Height of a report in a notebook, in pixels.
_HEIGHT = 720


@dataclass(frozen=True, repr=False)
class HtmlReport:
    """A report as one HTML page; a notebook shows it.

    Attributes
    ----------
    html : str
        The page, without scripts and external resources.
    document : mapping
        The same results as plain JSON.

    See Also
    --------
    report : Makes reports.

    Examples
    --------
    >>> import calibrant
    >>> found = calibrant.report([0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 1, 1] * 10)
    >>> found.document["n"]
    40
    """

    html: str
    document: Mapping[str, Any] = field(compare=False)

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or pathlib.Path
            File to write; an existing file is replaced.

        See Also
        --------
        report : Makes reports.

        Examples
        --------
        >>> import calibrant, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     calibrant.report([0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 1, 1] * 10).save(folder + "/report.html")
        ...     [path.name for path in pathlib.Path(folder).iterdir()]
        ['report.html']
        """
        write_text(path, self.html)

    def __repr__(self) -> str:
        return f"HtmlReport: {n_rows(self.document['n'])}; save(path) writes it to a file"

    def _repr_html_(self) -> str:
        frame = f"width:100%;height:{_HEIGHT}px;border:1px solid #8884;border-radius:4px"
        return f'<iframe title="Calibration report" style="{frame}" sandbox srcdoc="{escape(self.html)}"></iframe>'


@explained
def report(
    predictions: Any,
    labels: Any,
    *,
    name: str | None = "predictions",
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    groups: Any = None,
    clusters: Any = None,
    grades: bool = False,
    costs: Sequence[float] | None = None,
    capacity: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
    features: Any = None,
    map: CalibrationMap | None = None,
    scale: InputScale = "probability",
    sets: Any = None,
    alpha: float | None = None,
    seed: int = 0,
) -> HtmlReport:
    """Make a full report: the verdict, the diagrams, the measures and a recommended map; or compare several models.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K), or mapping of str to array_like
        As for ``evaluate``. With a mapping, the predictions of 2 to 20 models by name, as for ``compare``: the report
        ranks the models and shows their differences and their diagrams side by side.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    name : str or None, default "predictions"
        Name of the model or data, for the title.
    reduction : str, optional
        As for ``evaluate``.
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``.
    groups, clusters, grades : optional
        As for ``evaluate``. With ``grades=True``, groups are rating grades, and the report tests their PDs.
    costs, capacity, precision, recall : optional
        At most one, as for ``best_threshold``: the report then has a section of the decisions at the threshold that it
        determines for each model, and the decision curve. Not with a map.
    features : frame, or mapping of str to array_like, optional
        As for ``find_segments``; the report then shows segments in which predictions are too high or too low, or says
        why it has none: the search assumes independent rows. A map of ``segments`` needs those of its fit.
    map : CalibrationMap, optional
        Map to apply; the report then shows the predictions before and after it, and recommends none. Not for models.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of ``predictions``.
    sets, alpha : optional
        Prediction sets of the rows as for ``evaluate_sets``, or a map whose ``apply`` returns them, and their error
        level; the report then has a section about their coverage. Rows in clusters are refused.
    seed : int, default 0
        Seed of resamples and folds.

    Returns
    -------
    HtmlReport
        The report, which a notebook shows.

    Raises
    ------
    CalibrationError
        If an argument is invalid.
    MissingExtra
        If matplotlib or Jinja2 is not installed.

    See Also
    --------
    evaluate : Returns the measures alone.
    evaluate_sets : Returns the coverage of sets alone.
    compare : Returns the comparison of models alone.

    Notes
    -----
    About 0.6 s for 10,000 rows of one event.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.report([0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 1, 1] * 10)
    HtmlReport: 40 rows; save(path) writes it to a file
    """
    check_map(map)
    criterion = criterion_in({"costs": costs, "capacity": capacity, "precision": precision, "recall": recall})
    columns: dict[str, Any] = {
        "weights": weights,
        "sample_weight": sample_weight,
        "weights_kind": weights_kind,
        "groups": groups,
        "clusters": clusters,
        "class_names": class_names,
        "pos_label": pos_label,
        "scale": scale,
    }
    if isinstance(predictions, Mapping):
        for name, value in {"map": map, "sets": sets, "features": features, "grades": grades or None}.items():
            if value is not None:
                raise InvalidOption.at(
                    f"/{name}", "cannot be combined with several models; report each of them with it"
                )
        models = rows_of_models(predictions, labels, **columns)
        rows = next(iter(models.values()))
        reduction = reduction_by_name(reduction, rows.class_names)
        document, options = report_of_models(models, reduction, criterion, seed=seed)
    else:
        if criterion is not None and map is not None:
            raise InvalidOption.at(f"/{criterion.name}", "is for decisions by these predictions; leave out map")
        known = None if map is None else map.class_names
        rows = read_rows(predictions, labels, **columns, features=features, known=known)
        check_class_names(map, rows.class_names)
        rows.warn_of_kind()
        warn_of_training(predictions, rows.batch)
        reduction = reduction_by_name(reduction, rows.class_names)
        document, options = report_of_rows(rows, reduction, map, grades=grades, criterion=criterion, seed=seed)
    if sets is not None:
        document = {**document, "sets": _of_sets(sets, alpha, predictions, rows, weights_kind, seed)}
    elif alpha is not None:
        raise InvalidOption.at("/alpha", "is the error level of sets, and there are none")
    about = ReportSubject(
        name="predictions" if name is None else name,
        version=__version__,
        options=options,
        classes=rows.class_names,
        weights=None if rows.batch.weights is None else weights_kind,
        map=None if map is None else map.method,
        scale=scale,
    )
    return HtmlReport(standalone(document, about), document)


def _of_sets(
    sets: Any, alpha: float | None, predictions: Any, rows: Rows, weights_kind: WeightsKind, seed: int
) -> dict[str, Any]:
    """Return the evaluation of the prediction sets of rows as plain JSON."""
    refuse_clusters(rows.batch, "the coverage of sets")
    in_sample = sets.is_in_sample(rows.batch) if isinstance(sets, SetMap) else None
    if callable(getattr(sets, "apply", None)) and not is_frame(sets):  # a set map
        used = {"groups": rows.groups} if getattr(sets, "groups", None) is not None else {}
        random = isinstance(sets, SetMap) and sets.function.is_random
        sets = sets.apply(predictions, **used, **({"seed": seed} if random else {}))
    evaluation = evaluate_sets(
        sets,
        rows.batch.labels,
        alpha=alpha,
        class_names=rows.class_names,
        groups=rows.groups,
        weights=rows.batch.weights,
        weights_kind=weights_kind,
    )
    return (evaluation if in_sample is None else replace(evaluation, in_sample=in_sample)).to_dict()


@explained
def report_distribution(
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
    name: str | None = "forecasts",
    weights: Any = None,
    weights_kind: WeightsKind = "importance",
    groups: Any = None,
    clusters: Any = None,
    by: Any = None,
    times: Any = None,
    map: DistributionMap | None = None,
    scale: ForecastScale = "identity",
    support: Support = (None, None),
    seed: int = 0,
) -> HtmlReport:
    """Make a full report of predictive distributions: the verdict, diagrams, measures and a recommended map.

    Parameters
    ----------
    observed, mean, variance, std, quantiles, levels, samples, lower, upper, level : array_like or float
        As for ``evaluate_distribution``.
    name : str or None, default "forecasts"
        Name of the model or data, for the title.
    weights, weights_kind, groups, clusters : optional
        As for ``evaluate_distribution``. Rows of a cluster are in one fold of the comparison of maps.
    by : array_like, shape (n,), optional
        Numbers or names, such as the horizon: the report has the coverage by them, and the compared maps have a
        function for each value if there are at most 50.
    times : array_like, shape (n,), optional
        Distinct times, for a fan chart.
    map : DistributionMap, optional
        Map to apply; the report then shows the forecasts before and after it, and recommends none.
    scale, support : optional
        As for ``fit_distribution``, for the compared maps.
    seed : int, default 0
        Seed of randomised transforms and folds.

    Returns
    -------
    HtmlReport
        The report, which a notebook shows.

    Raises
    ------
    CalibrationError
        If an argument is invalid.
    MissingExtra
        If matplotlib or Jinja2 is not installed.

    See Also
    --------
    evaluate_distribution : Returns the measures alone.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.report_distribution([0.5, 1.5, -2.0] * 20, mean=[0.0] * 60, variance=[1.0] * 60)
    HtmlReport: 60 rows; save(path) writes it to a file
    """
    if map is not None and not isinstance(map, DistributionMap):
        raise InvalidOption.at("/map", "must be a distribution map; calibrant.load_distribution(path) reads one")
    arguments = {"mean": mean, "variance": variance, "std": std, "quantiles": quantiles, "samples": samples}
    arguments |= {"lower": lower, "upper": upper}
    columns = {"weights": weights, "groups": groups, "clusters": clusters, "by": by}
    check_aligned({"observed": observed, **arguments, **columns})
    forecasts = read_forecasts(**arguments, levels=levels, level=level)
    names: dict[str, Any] = {
        name: None if columns[name] is None else group_names(columns[name]) for name in ("groups", "clusters", "by")
    }
    rows = ForecastRows(
        forecasts,
        read_observed(observed, forecasts),
        None if weights is None else array_of(weights, "weights"),
        weights_kind,
        **names,
        times=None if times is None else texts_of_times(times),
    )
    document = ForecastReport(map, seed, scale, support).document(rows)
    about = ReportSubject(
        name="forecasts" if name is None else name,
        version=__version__,
        options=forecast_options(forecasts.kind, rows.columns, seed),
        weights=None if weights is None else weights_kind,
        map=None if map is None else map.method,
        applying=None if map is None else 'calibrant.load_distribution("map.json")',
    )
    return HtmlReport(standalone(document, about), document)
