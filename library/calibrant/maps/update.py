"""Updates of a model on new rows: none, of the intercept, or of intercept and slope, by a closed testing procedure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import chdtrc, expit, fdtrc

from calibrant.core.cells import Cells, Floats
from calibrant.core.clusters import ClusterDeviation, cluster_deviation, needing_clusters
from calibrant.core.errors import NotConverged, TooFewRows
from calibrant.core.reductions import Event
from calibrant.maps.curves import Curve, Identity, check_outcomes, check_squares, logit_of
from calibrant.maps.platt import Platt, fit_platt

#: Significance level of the tests.
_LEVEL = 0.05
#: With fewer events or non-events, the update is shrunken.
_FEW = 100.0
#: Above this condition number, a covariance of two parameters has the information of one.
_MOST_CONDITION = 1e12
#: Degrees of freedom of the tests.
_FREEDOM = {"none_to_intercept": 1.0, "intercept_to_both": 1.0, "none_to_both": 2.0}


def fit_update(event: Event) -> tuple[Curve, dict[str, Any]]:
    """Choose and fit an update by a closed testing procedure (Vergouwe et al. 2017), with diagnostics. O(n log n).

    Of few events, it is shrunken by a factor of van Houwelingen & Le Cessie (1990), as Steyerberg et al. (2004) do.
    Importance weights count as (sum w)^2 / sum w^2 rows. Of rows in clusters the tests are Wald's with CR2 variances,
    and that of both parameters has Hotelling's distribution (Pustejovsky & Tipton 2018). Raises ``OneClass``,
    ``NotConverged`` for separable labels, and ``TooFewRows`` for too few clusters.
    """
    cells = event.cells
    positives, z = check_outcomes(cells), check_squares(logit_of(cells))
    rows = cells.rows_per_weight
    try:
        both = fit_platt(cells, target_smoothing=False)
    except NotConverged:
        raise NotConverged.at("/labels", "are separable, so that no update is the most likely; use platt") from None
    intercept = Platt(1.0, _intercept(cells, z, positives))
    none, by_intercept, two = (
        rows * float(cells.wy @ logit - cells.w @ np.logaddexp(0.0, logit))
        for logit in (z, intercept.line(z), both.line(z))
    )
    ratios = {
        "none_to_intercept": by_intercept - none,
        "intercept_to_both": two - by_intercept,
        "none_to_both": two - none,
    }
    ratios = {name: max(2.0 * gain, 0.0) for name, gain in ratios.items()}
    tests = {name: (ratios[name], float(chdtrc(df, ratios[name]))) for name, df in _FREEDOM.items()}
    if event.clusters is not None:
        with needing_clusters():
            tests = _of_clusters(event, both, intercept)
    p_values = {name: tests[name][1] for name in ("none_to_both", "intercept_to_both")}
    update, chosen = "none", Platt(1.0, 0.0)
    if p_values["none_to_both"] < _LEVEL:
        slope_matters = p_values["intercept_to_both"] < _LEVEL
        update, chosen = ("intercept and slope", both) if slope_matters else ("intercept", intercept)
    shrinkage = 1.0
    if update != "none" and rows * min(positives, cells.mass - positives) < _FEW:
        name = "none_to_both" if chosen is both else "none_to_intercept"
        shrinkage = max(1.0 - _FREEDOM[name] / max(tests[name][0], 1e-300), 0.0)
    diagnostics = {"update": update, "likelihood_ratios": ratios, "p_values": p_values, "shrinkage": shrinkage}
    if update == "none":
        return Identity(), diagnostics
    return Platt(1.0 + shrinkage * (chosen.slope - 1.0), shrinkage * chosen.intercept), diagnostics


def _of_clusters(event: Event, both: Platt, intercept: Platt) -> dict[str, tuple[float, float]]:
    """Return the statistic and the p-value of each test of rows in clusters; raises ``TooFewRows``.

    Of both parameters, the degrees of freedom of the covariance are the fewer of those of its variances.
    """
    logit = check_squares(logit_of(event))
    w = np.ones(len(event)) if event.w is None else event.w

    def deviations(curve: Platt, *features: Floats) -> list[ClusterDeviation]:
        chance = expit(curve.line(logit))
        residual, information = w * (event.y - chance), w * chance * (1.0 - chance)
        return [
            cluster_deviation(event, residual, information, contrast, variance="cr2", features=features)
            for contrast in np.eye(1 + len(features))
        ]

    (alone,), of_both = deviations(intercept), deviations(both, logit)
    parts, off = np.stack([of.parts for of in of_both]), np.array([both.intercept, both.slope - 1.0])
    freedom, covariance = min(of.freedom for of in of_both), parts @ parts.T
    if freedom <= 1.0 + 1e-6 or not alone.error or np.linalg.cond(covariance) > _MOST_CONDITION:
        raise TooFewRows("clusters that are nearly the same, or too few")  # ``needing_clusters`` names the field
    statistic = float(off @ np.linalg.solve(covariance, off))
    chance = float(fdtrc(2.0, freedom - 1.0, statistic * (freedom - 1.0) / (2.0 * freedom)))

    def of_one(deviation: ClusterDeviation, difference: float) -> tuple[float, float]:
        return (difference / deviation.error) ** 2, float(deviation.p_value(difference) or 0.0)

    return {
        "none_to_intercept": of_one(alone, intercept.intercept),
        "intercept_to_both": of_one(of_both[1], both.slope - 1.0),
        "none_to_both": (statistic, chance),
    }


def _intercept(cells: Cells, z: Floats, positives: float) -> float:
    """Return the number that, added to the logits, makes as many events expected as happened."""
    from scipy.optimize import brentq

    odds = math.log(positives) - math.log(cells.mass - positives)

    def excess(intercept: float) -> float:
        return float(cells.w @ expit(z + intercept)) - positives

    # If all logits were the smallest one, or the largest, the intercept would be the odds minus this one.
    return float(brentq(excess, odds - z.max() - 1.0, odds - z.min() + 1.0, xtol=1e-15, maxiter=1000))
