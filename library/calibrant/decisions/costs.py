"""Comparison of two models by the cost of their decisions on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.arguments import explained
from calibrant.core.arrays import check_aligned
from calibrant.core.batch import Batch, InputScale
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.errors import CalibrationError, InvalidLabel, InvalidWeight, LengthMismatch, WrongShape
from calibrant.core.inputs import event_by_name, read_rows
from calibrant.core.reductions import Event, check_decided, reduce, resolve_event
from calibrant.core.results import n_rows
from calibrant.evaluation import CheckedBatch, Evaluation
from calibrant.measures.measure import extent_of
from calibrant.measures.selective import ABSTENTION, COST_RATIOS, CostPlane
from calibrant.measures.selective import cost_plane as plane_of

#: Estimated seconds per probability of a model, for the sort.
_PROBABILITY = 3e-7


@explained
def cost_plane(
    first: Any,
    second: Any,
    labels: Any,
    *,
    abstention: Sequence[float] = ABSTENTION,
    cost_ratios: Sequence[float] = COST_RATIOS,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: InputScale = "probability",
) -> CostPlane:
    """Compare the costs of two models that may abstain from their least confident decisions.

    The cost of a model is c_err P(accepted and wrong) + c_abst P(abstained); smaller is better.

    Parameters
    ----------
    first : array_like, shape (n,) or (n, K)
        Predictions of the first model.
    second : array_like, shape (n,) or (n, K)
        Predictions of the second model for the same rows.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    abstention : sequence of float, default 0, 0.05, ..., 0.95
        Abstention rates in [0, 1]: the rows of the plane.
    cost_ratios : sequence of float, default 1, 2, 5, 10, 20, 50, 100
        Ratios c_err / c_abst above 0: the columns of the plane.
    reduction : str, optional
        As for ``evaluate``, but only reductions to one event per row.
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of the predictions.

    Returns
    -------
    CostPlane
        Costs of both models. ``relative``, in [-1, 1], is below 0 if the first model costs less.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    evaluate : Has the measure ``selective-cost`` for one model.

    Notes
    -----
    Costs are defined in Minderer et al. (2021), appendix B.3, Figure 12. Time is O(n log n + a r) for a rates and r
    ratios, plus the reduction of (n, K) predictions.

    Examples
    --------
    >>> from calibrant import cost_plane
    >>> first, second = [0.9, 0.8, 0.1, 0.6], [0.9, 0.4, 0.1, 0.6]
    >>> plane = cost_plane(first, second, [1, 1, 0, 0], abstention=[0.0, 0.25], cost_ratios=[10.0])
    >>> plane.relative.round(3).tolist()
    [[-0.5], [-0.909]]
    """
    events = read_models(
        {"first": first, "second": second},
        labels,
        reduction,
        by_threshold=False,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
    )
    return plane_of(events["first"], events["second"], abstention=abstention, cost_ratios=cost_ratios)


def read_models(
    models: Mapping[str, Any], labels: Any, reduction: str | None, *, by_threshold: bool = True, **options: Any
) -> dict[str, Event]:
    """Return the event of each model on the same rows; errors name the model, which stands for its predictions.

    Decisions ``by_threshold`` of several columns need a reduction. ``options`` are those of ``read_rows``.
    """
    check_aligned(models)
    events = {}
    for name, predictions in models.items():
        try:
            rows = read_rows(predictions, labels, **options)
        except CalibrationError as error:
            raise (error if name == "predictions" else error.about("predictions", name)) from None
        rows.warn_of_kind()
        if by_threshold:
            check_decided(reduction, rows.batch.predictions.n_classes)
        events[name] = event_by_name(rows.batch, reduction, rows.class_names)
    return events


@dataclass(frozen=True)
class SharedRows:
    """What the batches of two models must have in common: labels, weights and number of classes."""

    labels: npt.NDArray[np.int64]
    weights: Floats | None
    kind: WeightsKind
    n_classes: int | None

    @classmethod
    def of(cls, batch: Batch) -> SharedRows:
        """Return those of a batch."""
        return cls(batch.labels, batch.weights, batch.weights_kind, batch.predictions.n_classes)

    def match(self, first: SharedRows, where: str) -> None:
        """Raise an error at ``where`` if these rows differ from those of the first model."""
        if len(self.labels) != len(first.labels):
            raise LengthMismatch.at(where, f"has {n_rows(len(self.labels))}, but the first has {len(first.labels):,}")
        if self.n_classes != first.n_classes:
            raise WrongShape.at(where, "must have predictions of the same shape as the first")
        if not np.array_equal(self.labels, first.labels):
            raise InvalidLabel.at(where, "must have the same labels as the first, row by row")
        if self.kind != first.kind or not _same(self.weights, first.weights):
            raise InvalidWeight.at(
                where, "must have the same weights as the first, row by row, and the same weights_kind"
            )


@dataclass(frozen=True)
class Costs:
    """Checked options of ``cost_plane``, without the batches, of which only one is in memory at a time."""

    abstention: Sequence[float] = ABSTENTION
    cost_ratios: Sequence[float] = COST_RATIOS
    reduction: str | None = None

    @property
    def inline(self) -> bool:
        """Always True: a cost plane needs no long fit."""
        return True

    def check(self, batch: Batch) -> CheckedBatch:
        """Return the checked rows of one model; raise if they are invalid, without measuring."""
        checked = Evaluation((), self.reduction).check(batch)
        return replace(checked, reduction=resolve_event(checked.reduction, batch.predictions.n_classes))

    def seconds(self, rows: CheckedBatch) -> float:
        """Estimate the seconds for one model."""
        extent = extent_of(rows.batch, rows.reduction)
        return _PROBABILITY * extent.rows * extent.n_classes

    def event(self, rows: CheckedBatch) -> Event:
        """Return the event of the decisions of a model, which is all that is kept of its batch."""
        return replace(reduce(rows.batch, rows.reduction), whole=None, origin=None)

    def run(self, first: Event, second: Event) -> CostPlane:
        """Compare the events of two models on the same rows."""
        return plane_of(first, second, abstention=self.abstention, cost_ratios=self.cost_ratios)


def _same(values: Floats | None, other: Floats | None) -> bool:
    if values is None or other is None:
        return values is other
    return np.array_equal(values, other)
