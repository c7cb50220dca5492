"""Selective prediction: what a decision costs that may be left to another, and two models compared by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidOption, InvalidWeight, LengthMismatch
from calibrant.reductions import Event, Vector

#: Abstention rates of the curve and of the plane.
ABSTENTION = tuple(i / 20 for i in range(20))
#: Costs of a wrong decision, in costs of an abstention. At 1 and below abstaining never pays.
COST_RATIOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True)
class CostPlane:
    """Two models' costs of selective prediction: ``abstention (a,)`` rates by ``cost_ratios (r,)``.

    ``first`` and ``second (a, r)`` are the costs in units of one abstention. ``relative (a, r)``, in [-1, 1], is
    (first - second) / max(first, second), 0 where neither costs anything: **below 0 the first model costs less**, at
    -0.2 by a fifth of what the second costs; above 0 the second does.
    """

    abstention: Floats
    cost_ratios: Floats
    first: Floats
    second: Floats
    relative: Floats


def rejected_wrong(cells: Cells, abstention: Floats) -> Floats:
    """P(rejected and wrong) where the least confident share ``abstention (a,)`` of the claims is rejected: ``(a,)``.

    Of claims of the same confidence as the threshold, as many are rejected as make up the share, at random; this is
    the expected value, so the order of rows cannot matter. O(m + a log m).
    """
    wrong = cells.cumulative_w - cells.cumulative_wy
    found: Floats = np.interp(abstention * cells.mass, cells.cumulative_w, wrong) / cells.mass
    return found


def accepted_wrong(cells: Cells, abstention: Floats) -> Floats:
    """P(accepted and wrong) at each of the abstention rates ``(a,)``, in [0, 1 - abstention]. O(m + a log m)."""
    share = float(cells.mass - cells.cumulative_wy[-1]) / cells.mass
    return np.maximum(share - rejected_wrong(cells, abstention), 0.0)


def selective_costs(cells: Cells, abstention: Floats, cost_ratios: Floats) -> Floats:
    """Cost of selective prediction, ``(a, r)``, in units of one abstention; smaller is better, 0 at best.

    c_err P(accepted and wrong) + c_abst P(abstained) (Minderer et al. 2021, section 4.4 and appendix B.3), divided by
    c_abst: cost ratio c_err / c_abst times P(accepted and wrong), plus the abstention rate. ``cells`` are those of
    claims to be right, ``abstention (a,)`` in [0, 1], ``cost_ratios (r,)`` above 0.
    """
    return np.multiply.outer(accepted_wrong(cells, abstention), cost_ratios) + abstention[:, None]


def selective_influence(claim: Event, abstention: float, cost_ratio: float) -> Floats:
    """By how much each row moves the cost at one rate and ratio: ``(n,)``, of weighted mean 0. O(n log n).

    A rejected row takes its wrongness out of the cost, but another is accepted in its place, which is wrong as often
    as rows at the threshold are: their share e is taken among the n^(2/3) rows nearest to it.
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
    # A row of weight 0 has no cell; its influence counts for nothing.
    rejected = share_rejected[np.minimum(np.searchsorted(cells.p, claim.p), len(cells) - 1)]
    wrong = 1.0 - claim.y
    found: Floats = cost_ratio * (wrong - wrong_share - (wrong - threshold_error) * rejected + removed)
    return found


def cost_plane(
    first: Event | Vector,
    second: Event | Vector,
    *,
    abstention: Sequence[float] = ABSTENTION,
    cost_ratios: Sequence[float] = COST_RATIOS,
) -> CostPlane:
    """Compare what two models cost in selective prediction (Minderer et al. 2021, appendix B.3, Figure 12).

    Each model decides, and leaves the least confident share of its own decisions to another; see ``selective_costs``.

    Parameters
    ----------
    first, second : the models' events or vectors on the same rows; of an undecided event the decision is p >= 1/2
    abstention : rates in [0, 1], the rows of the plane
    cost_ratios : c_err / c_abst above 0, its columns

    Returns
    -------
    CostPlane
        ``relative`` is below 0 where the first model is the cheaper one

    Raises
    ------
    LengthMismatch, InvalidWeight
        where the rows cannot be the same
    InvalidOption
        of rates or ratios out of range

    Notes
    -----
    O(n log n + a r). The released code has no cost planes; the figure's unit is not stated, so ``relative`` is
    relative to the dearer model, which keeps it finite where one of them costs nothing.
    """
    if len(first) != len(second):
        raise LengthMismatch("the two models have different numbers of rows")
    if first.kind != second.kind or not _same(first.w, second.w):
        raise InvalidWeight("the two models' rows have different weights")
    rates = _read(abstention, "/abstention", "must be numbers from 0 to 1", 0.0, 1.0)
    ratios = _read(cost_ratios, "/cost_ratios", "must be numbers above 0", np.nextafter(0.0, 1.0), 1e300)
    one, other = (selective_costs(model.confidence().cells, rates, ratios) for model in (first, second))
    larger = np.maximum(one, other)
    relative = np.divide(one - other, larger, out=np.zeros_like(larger), where=larger > 0.0)
    return CostPlane(rates, ratios, one, other, relative)


def _same(one: Floats | None, other: Floats | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _read(values: Sequence[float], where: str, what: str, low: float, high: float) -> Floats:
    try:
        read = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidOption.at(where, what) from None
    if read.ndim != 1 or not len(read) or not np.all((read >= low) & (read <= high)):
        raise InvalidOption.at(where, what)
    return read
