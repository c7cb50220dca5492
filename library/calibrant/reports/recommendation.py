"""The map that a report recommends, with its reasons, as an object of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant.core.arguments import explained
from calibrant.core.batch import Batch, Scale
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import CalibrationError
from calibrant.core.inputs import read_rows, reduction_by_name, reduction_with_name
from calibrant.core.results import PlainResult
from calibrant.evaluation import CheckedBatch
from calibrant.reports.advice import advice
from calibrant.reports.operations import ClassReport, default_report
from calibrant.reports.verdict import verdict


@dataclass(frozen=True, repr=False)
class RecommendedMap(PlainResult):
    """Result of ``recommend``, which prints as text.

    Attributes
    ----------
    method : str
        Method of the recommended map, for ``fit``; ``identity`` if the predictions should stay as they are.
    reduction : str
        Reduction of the fit.
    n : int
        Number of rows on which methods were compared.
    verdict : str
        Headline of the report: whether, how and by how much the predictions are miscalibrated.
    headline : str
        The recommendation as a sentence.
    reasons : tuple of str
        Why the map is recommended, or none.
    python : str or None
        The call that fits the map; None without one.
    candidates : tuple of mapping
        The compared methods with their ``gains`` in ``log-loss`` and ``brier`` on held-out rows, or their ``problem``.

    See Also
    --------
    recommend : Returns this result.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.recommend([0.1, 0.4, 0.6, 0.9] * 30, [0, 1, 0, 1] * 30).method
    'spline'
    """

    method: str
    reduction: str
    n: int
    verdict: str
    headline: str
    reasons: tuple[str, ...]
    python: str | None
    candidates: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        return "\n".join([self.verdict, self.headline, *self.reasons, *([] if self.python is None else [self.python])])

    __repr__ = __str__


@explained
def recommend(
    predictions: Any,
    labels: Any,
    *,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    clusters: Any = None,
    scale: Scale = "probability",
    seed: int = 0,
) -> RecommendedMap:
    """Recommend a calibration map, or none: what ``report`` recommends, with its reasons.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        As for ``evaluate``.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    reduction : str, optional
        As for ``evaluate``.
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``.
    clusters : array_like, shape (n,), or frame, optional
        As for ``evaluate``; rows of a cluster are in one fold.
    scale : {"probability", "logit"}, default "probability"
        Scale of ``predictions``.
    seed : int, default 0
        Seed of resamples, folds and, from 20,000 rows on, of the sample of rows.

    Returns
    -------
    RecommendedMap
        The method, with the verdict on the predictions and the reasons.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    report : Shows the recommendation beside the diagrams.
    fit : Fits the map.

    Notes
    -----
    Fast methods are compared by cross-fitting. Of those whose log loss improves significantly, and whose Brier score
    does not become significantly worse, it is the simplest within one standard error of the best. About 0.6 s for
    10,000 rows of one event.

    Examples
    --------
    >>> import numpy as np, calibrant
    >>> random = np.random.default_rng(0)
    >>> z = random.normal(0.0, 2.0, 4000)
    >>> p, y = 1.0 / (1.0 + np.exp(-z)), (random.random(4000) < 1.0 / (1.0 + np.exp(-z / 2.0))).astype(int)
    >>> found = calibrant.recommend(p, y)
    >>> found.method, found.python
    ('temperature', 'calibrant.fit("temperature", predictions, labels, reduction="binary")')
    """
    rows = read_rows(
        predictions,
        labels,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        clusters=clusters,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
    )
    rows.warn_of_kind()
    return recommendation_of(*checked_report(rows.batch, rows.class_names, reduction, seed=seed), rows.class_names)


def checked_report(
    batch: Batch, names: tuple[str, ...] | None, reduction: str | None, *, seed: int
) -> tuple[ClassReport, CheckedBatch]:
    """Return the report that recommends a map for rows, which is not computed yet, and the checked rows.

    The rows may have features, of which it searches no segments.
    """
    whole = replace(batch, predictions=replace(batch.predictions, features=None))
    report, rows, _ = default_report(whole, None, reduction_by_name(reduction, names), seed=seed)
    return report, rows


def recommendation_of(report: ClassReport, rows: CheckedBatch, names: tuple[str, ...] | None) -> RecommendedMap:
    """Compute a report, and return the map that it recommends."""
    document = report.document(rows)
    recommendation = document["recommendation"]
    advised = advice(document, lambda name: reduction_with_name(name, names))
    if advised is None:
        raise CalibrationError("the report has no recommendation")
    fitted = next(
        (
            candidate
            for candidate in recommendation["candidates"]
            if candidate["method"] == recommendation["recommended"]
        ),
        recommendation,
    )
    return RecommendedMap(
        recommendation["recommended"],
        fitted["reduction"],
        recommendation["n"],
        verdict(document, classes=names).headline,
        advised.headline,
        advised.reasons,
        advised.python,
        tuple(recommendation["candidates"]),
    )
