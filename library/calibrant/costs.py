"""Two models on the same rows, compared by what their decisions cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch, Scale, read_batch
from calibrant.cells import Floats, WeightsKind
from calibrant.errors import InvalidLabel, InvalidWeight, LengthMismatch, WrongShape
from calibrant.evaluation import Evaluation
from calibrant.measures.measure import extent_of
from calibrant.measures.selective import ABSTENTION, COST_RATIOS, CostPlane
from calibrant.measures.selective import cost_plane as plane_of
from calibrant.reductions import Event, reduce, resolve_event

#: Seconds that a probability costs one model, which is sorted by them.
_PROBABILITY = 3e-7


def cost_plane(
    first: Any,
    second: Any,
    labels: Any,
    *,
    abstention: Sequence[float] = ABSTENTION,
    cost_ratios: Sequence[float] = COST_RATIOS,
    reduction: str | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = "frequency",
    scale: Scale = "probability",
) -> CostPlane:
    """Which of two models' decisions cost less, where the least confident may be left to another at a price.

    The cost c_err P(accepted and wrong) + c_abst P(abstained) of each (Minderer et al. 2021, appendix B.3, Figure 12).

    Parameters
    ----------
    first, second : the models' predictions of the same rows, ``(n,)`` or ``(n, K)``, one shape each
    abstention : shares of the rows in [0, 1], the rows of the plane
    cost_ratios : c_err / c_abst above 0, its columns
    labels, reduction, weights, weights_kind, scale : as ``evaluate`` takes them; a reduction to one event a row

    Returns
    -------
    CostPlane
        ``relative``, in [-1, 1], is below 0 where the first model is the cheaper one

    Raises
    ------
    CalibrationError
        of the first thing wrong with the arguments

    Notes
    -----
    O(n log n + a r), the conversions of (n, K) apart.

    Examples
    --------
    >>> sure, unsure = [0.9, 0.8, 0.1, 0.6], [0.9, 0.4, 0.1, 0.6]
    >>> cost_plane(sure, unsure, [1, 1, 0, 0], abstention=[0.0, 0.25], cost_ratios=[10.0]).relative.round(3).tolist()
    [[-0.5], [-0.909]]
    """
    batches = (read_batch(p, labels, weights, scale=scale, kind=weights_kind) for p in (first, second))
    one, other = (reduce(batch, resolve_event(reduction, batch.predictions.n_classes)) for batch in batches)
    return plane_of(one, other, abstention=abstention, cost_ratios=cost_ratios)


@dataclass(frozen=True)
class SharedRows:
    """What two models' batches must have alike: labels, weights and the number of classes."""

    labels: npt.NDArray[np.int64]
    weights: Floats | None
    kind: WeightsKind
    n_classes: int | None

    @classmethod
    def of(cls, batch: Batch) -> SharedRows:
        """Those of a batch."""
        return cls(batch.labels, batch.weights, batch.weights_kind, batch.predictions.n_classes)

    def match(self, first: SharedRows, where: str) -> None:
        """Raise an error at ``where`` if these rows differ from those of the first model."""
        if len(self.labels) != len(first.labels):
            raise LengthMismatch.at(where, f"has {len(self.labels)} rows where the first has {len(first.labels)}")
        if self.n_classes != first.n_classes:
            raise WrongShape.at(where, "must have predictions of the first's shape")
        if not np.array_equal(self.labels, first.labels):
            raise InvalidLabel.at(where, "must have the labels of the first, row for row")
        if self.kind != first.kind or not _same(self.weights, first.weights):
            raise InvalidWeight.at(where, "must have the weights of the first, row for row, and of its kind")


@dataclass(frozen=True)
class Costs:
    """The checked options of ``cost_plane``, without the two models' batches, of which one is held at a time."""

    abstention: Sequence[float] = ABSTENTION
    cost_ratios: Sequence[float] = COST_RATIOS
    reduction: str | None = None

    @property
    def inline(self) -> bool:
        """True: no cost plane is a long fit."""
        return True

    def check(self, batch: Batch) -> str:
        """The full name of the reduction; raises what is wrong with one model's batch, without measuring."""
        name, _ = Evaluation((), self.reduction).check(batch)
        return resolve_event(name, batch.predictions.n_classes)

    def seconds(self, batch: Batch) -> float:
        """Estimated seconds that one model takes; raises what ``check`` does."""
        extent = extent_of(batch, self.check(batch))
        return _PROBABILITY * extent.rows * extent.n_classes

    def event(self, batch: Batch) -> Event:
        """What is kept of a model's batch: the event of its decisions."""
        return replace(reduce(batch, self.check(batch)), whole=None)

    def run(self, first: Event, second: Event) -> CostPlane:
        """Answer for the events of two models on the same rows."""
        return plane_of(first, second, abstention=self.abstention, cost_ratios=self.cost_ratios)


def _same(one: Floats | None, other: Floats | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
