"""Two models on the same rows, compared by what their decisions cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.batch import Scale, read_batch
from calibrant.cells import WeightsKind
from calibrant.measures.selective import ABSTENTION, COST_RATIOS, CostPlane
from calibrant.measures.selective import cost_plane as plane_of
from calibrant.reductions import reduce, resolve_event


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
