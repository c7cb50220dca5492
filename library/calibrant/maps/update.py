"""Updates of a model on new rows: none, of the intercept, or of intercept and slope, by a closed testing procedure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import chdtrc, expit

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidOption, NotConverged
from calibrant.core.reductions import Event
from calibrant.maps.curves import Curve, Identity, check_outcomes, check_squares, logit_of
from calibrant.maps.platt import Platt, fit_platt

#: Significance level of the tests.
_LEVEL = 0.05
#: With fewer events or non-events, the update is shrunken.
_FEW = 100.0


def fit_update(event: Event) -> tuple[Curve, dict[str, Any]]:
    """Choose and fit an update by a closed testing procedure (Vergouwe et al. 2017), with diagnostics. O(n log n).

    Of few events, it is shrunken by a factor of van Houwelingen & Le Cessie (1990), as Steyerberg et al. (2004) do.
    Importance weights count as (sum w)^2 / sum w^2 rows. Raises ``OneClass``, and ``NotConverged`` for separable
    labels.
    """
    if event.clusters is not None:
        raise InvalidOption.at("/clusters", "are unknown to the tests of update, of independent rows; leave them out")
    cells = event.cells
    positives, z = check_outcomes(cells), check_squares(logit_of(cells))
    rows = 1.0 if cells.kind == "frequency" else cells.mass / float(cells.w2.sum())
    try:
        both = fit_platt(cells, target_smoothing=False)
    except NotConverged:
        raise NotConverged.at("/labels", "are separable, so that no update is the most likely; use platt") from None
    intercept = Platt(1.0, _intercept(cells, z, positives))
    none, one, two = (
        rows * float(cells.wy @ logit - cells.w @ np.logaddexp(0.0, logit))
        for logit in (z, intercept.line(z), both.line(z))
    )
    ratios = {"none_to_intercept": one - none, "intercept_to_both": two - one, "none_to_both": two - none}
    ratios = {name: max(2.0 * gain, 0.0) for name, gain in ratios.items()}
    p_values = {
        name: float(chdtrc(df, ratios[name])) for name, df in (("none_to_both", 2.0), ("intercept_to_both", 1.0))
    }
    update, chosen = "none", Platt(1.0, 0.0)
    if p_values["none_to_both"] < _LEVEL:
        slope_matters = p_values["intercept_to_both"] < _LEVEL
        update, chosen = ("intercept and slope", both) if slope_matters else ("intercept", intercept)
    shrinkage = 1.0
    if update != "none" and rows * min(positives, cells.mass - positives) < _FEW:
        df, name = (2, "none_to_both") if chosen is both else (1, "none_to_intercept")
        shrinkage = 1.0 - df / ratios[name]
    diagnostics = {"update": update, "likelihood_ratios": ratios, "p_values": p_values, "shrinkage": shrinkage}
    if update == "none":
        return Identity(), diagnostics
    return Platt(1.0 + shrinkage * (chosen.slope - 1.0), shrinkage * chosen.intercept), diagnostics


def _intercept(cells: Cells, z: Floats, positives: float) -> float:
    """Return the number that, added to the logits, makes as many events expected as happened."""
    from scipy.optimize import brentq

    odds = math.log(positives) - math.log(cells.mass - positives)

    def excess(intercept: float) -> float:
        return float(cells.w @ expit(z + intercept)) - positives

    # If all logits were the smallest one, or the largest, the intercept would be the odds minus this one.
    return float(brentq(excess, odds - z.max() - 1.0, odds - z.min() + 1.0, xtol=1e-15, maxiter=1000))
