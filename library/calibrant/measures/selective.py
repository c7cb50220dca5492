"""Selective prediction: the cost of decisions with abstention, and the comparison of two models by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.core.arrays import Compared
from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidOption, InvalidWeight, LengthMismatch
from calibrant.core.reductions import Event, Vector
from calibrant.core.results import Framed, Plotted, Table

#: Default abstention rates.
ABSTENTION = tuple(i / 20 for i in range(20))
#: Default costs of a wrong decision, in units of one abstention. At 1 and below abstaining never pays.
COST_RATIOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, eq=False, repr=False)
class CostPlane(Framed, Plotted, Compared):
    """Costs of selective prediction of two models, by abstention rate and cost ratio.

    Attributes
    ----------
    abstention : ndarray, shape (a,)
        Abstention rates in [0, 1].
    cost_ratios : ndarray, shape (r,)
        Cost of a wrong decision in units of one abstention.
    first, second : ndarray, shape (a, r)
        Costs of each model in units of one abstention; smaller is better.
    relative : ndarray, shape (a, r)
        (first - second) / max(first, second), in [-1, 1]. Below 0 the first model costs less: at -0.2, a fifth less
        than the second. 0 if both costs are 0.

    See Also
    --------
    cost_plane : Computes this result.

    Examples
    --------
    >>> import calibrant
    >>> plane = calibrant.cost_plane([0.9, 0.8, 0.1], [0.9, 0.4, 0.1], [1, 1, 0], abstention=[0.0], cost_ratios=[5.0])
    >>> plane.first.tolist(), plane.second.round(3).tolist()
    ([[0.0]], [[1.667]])
    >>> list(plane.to_frame()["cost_ratio"]), plane.plot().get_ylabel()
    ([5.0], 'abstention rate')
    """

    abstention: Floats
    cost_ratios: Floats
    first: Floats
    second: Floats
    relative: Floats

    _plot = "plots.results.plot_cost_plane"

    def _records(self) -> list[dict[str, float]]:
        costs = {"first": self.first, "second": self.second, "relative": self.relative}
        return [
            {"abstention": float(rate), "cost_ratio": float(ratio)}
            | {name: float(cost[i, j]) for name, cost in costs.items()}
            for i, rate in enumerate(self.abstention)
            for j, ratio in enumerate(self.cost_ratios)
        ]

    def _table(self) -> Table:
        rows = [(f"{rate:g}", *line.tolist()) for rate, line in zip(self.abstention, self.relative, strict=True)]
        title = "Relative difference of the costs by abstention rate and cost ratio; below 0 the first model costs less"
        return Table(title, ("abstention", *(f"ratio {ratio:g}" for ratio in self.cost_ratios)), rows)


def rejected_wrong(cells: Cells, abstention: Floats) -> Floats:
    """Return P(rejected and wrong) if the least confident fraction ``abstention (a,)`` is rejected: ``(a,)``.

    Ties at the threshold are rejected at random until the fraction is reached; the result is the expected value, so it
    does not depend on the order of the rows. O(m + a log m).
    """
    wrong = cells.cumulative_w - cells.cumulative_wy
    return np.interp(abstention * cells.mass, cells.cumulative_w, wrong) / cells.mass


def accepted_wrong(cells: Cells, abstention: Floats) -> Floats:
    """Return P(accepted and wrong) at each abstention rate ``(a,)``, in [0, 1 - abstention]. O(m + a log m)."""
    share = float(cells.mass - cells.cumulative_wy[-1]) / cells.mass
    return np.maximum(share - rejected_wrong(cells, abstention), 0.0)


def selective_costs(cells: Cells, abstention: Floats, cost_ratios: Floats) -> Floats:
    """Return the cost of selective prediction, ``(a, r)``, in units of one abstention; smaller is better, 0 is best.

    c_err P(accepted and wrong) + c_abst P(abstained) (Minderer et al. 2021, section 4.4 and appendix B.3), divided by
    c_abst: the cost ratio c_err / c_abst times P(accepted and wrong), plus the abstention rate. ``cells`` are those of
    the confidence, ``abstention (a,)`` is in [0, 1] and ``cost_ratios (r,)`` above 0.
    """
    return np.multiply.outer(accepted_wrong(cells, abstention), cost_ratios) + abstention[:, None]


def selective_influence(claim: Event, abstention: float, cost_ratio: float) -> Floats:
    """Return the influence of each row on the cost at one rate and ratio: ``(n,)``, weighted mean 0. O(n log n).

    A rejected row removes its own error from the cost, but another row is accepted in its place. The error rate of that
    row is estimated from the n^(2/3) rows nearest to the threshold.
    """
    cells = claim.cells
    mass = cells.mass
    reach = 0.5 * len(claim) ** (-1.0 / 3.0)
    ends = np.clip([abstention - reach, abstention + reach], 0.0, 1.0)
    low, high = rejected_wrong(cells, ends)
    threshold_error = (high - low) / (ends[1] - ends[0])
    share_rejected = np.clip((abstention * mass - cells.cumulative_w[:-1]) / cells.w, 0.0, 1.0)
    wrong_share = float(mass - cells.cumulative_wy[-1]) / mass
    removed = float(rejected_wrong(cells, np.array([abstention]))[0]) - threshold_error * abstention
    # A row of weight 0 has no cell; its influence is not used.
    rejected = share_rejected[np.minimum(np.searchsorted(cells.key, claim.key), len(cells) - 1)]
    wrong = 1.0 - claim.y
    influence: Floats = cost_ratio * (wrong - wrong_share - (wrong - threshold_error) * rejected + removed)
    return influence


def cost_plane(
    first: Event | Vector,
    second: Event | Vector,
    *,
    abstention: Sequence[float] = ABSTENTION,
    cost_ratios: Sequence[float] = COST_RATIOS,
) -> CostPlane:
    """Compare the costs of two models in selective prediction (Minderer et al. 2021, appendix B.3, Figure 12).

    Each model abstains from the least confident fraction of its own decisions; see ``selective_costs``.

    Parameters
    ----------
    first, second : Event or Vector
        The models on the same rows. For an event that is not a decision, the decision is p >= 1/2.
    abstention : sequence of float
        Rates in [0, 1]: the rows of the plane.
    cost_ratios : sequence of float
        c_err / c_abst above 0: the columns of the plane.

    Returns
    -------
    CostPlane
        ``relative`` is below 0 if the first model costs less.

    Raises
    ------
    LengthMismatch, InvalidWeight
        If the models have different numbers of rows or different weights.
    InvalidOption
        If a rate or ratio is out of range.

    Notes
    -----
    O(n log n + a r). The released code has no cost planes, and the unit of the figure is not stated. ``relative`` is
    relative to the larger cost, which keeps it finite if one cost is 0.
    """
    if len(first) != len(second):
        raise LengthMismatch("the two models have different numbers of rows")
    if first.kind != second.kind or not _same(first.w, second.w):
        raise InvalidWeight("the two models' rows have different weights")
    rates = _read(abstention, "/abstention", "must be numbers from 0 to 1", 0.0, 1.0)
    ratios = _read(cost_ratios, "/cost_ratios", "must be numbers above 0", np.nextafter(0.0, 1.0), 1e300)
    costs, other = (selective_costs(model.confidence().cells, rates, ratios) for model in (first, second))
    larger = np.maximum(costs, other)
    relative = np.divide(costs - other, larger, out=np.zeros_like(larger), where=larger > 0.0)
    return CostPlane(rates, ratios, costs, other, relative)


def _same(weights: Floats | None, other: Floats | None) -> bool:
    if weights is None or other is None:
        return weights is other
    return np.array_equal(weights, other)


def _read(values: Sequence[float], where: str, what: str, low: float, high: float) -> Floats:
    try:
        read = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidOption.at(where, what) from None
    if read.ndim != 1 or not len(read) or not np.all((read >= low) & (read <= high)):
        raise InvalidOption.at(where, what)
    return read
