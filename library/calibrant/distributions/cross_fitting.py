"""Cross-fitted predictions of maps, their gain, and the shares of an average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import scipy

from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, TooFewRows
from calibrant.core.validation import fold_of_rows
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.combined import applied, averaged
from calibrant.distributions.maps.distribution_map import clipped
from calibrant.distributions.maps.location_scale import (
    crps_normal,
    crps_normal_slopes,
    dawid_sebastiani,
    quantile_score,
)
from calibrant.distributions.maps.tables import normal_of, table_of
from calibrant.distributions.rows import ForecastFitRows

Loss = Literal["dss", "crps", "quantile-score"]
#: Fits a function to rows, and returns it with diagnostics.
MemberFit = Callable[[ForecastFitRows], tuple[Any, dict[str, Any]]]

#: Folds and the most rows, drawn at random from more, of cross-fitted gains and shares.
FOLDS, MOST_ROWS = 3, 5000
#: Members with a smaller share are left out.
LEAST_SHARE = 1e-3


def sample(rows: ForecastFitRows, seed: int) -> ForecastFitRows:
    """Return the rows in canonical order, at most ``MOST_ROWS`` of them, without those of weight 0."""
    order = rows.order()
    order = order[rows.w[order] > 0.0]
    if len(order) > MOST_ROWS:
        order = order[np.sort(np.random.default_rng(seed).choice(len(order), MOST_ROWS, replace=False))]
    return rows.take(order)


def cross_fitted(rows: ForecastFitRows, fit: MemberFit, seed: int) -> Forecasts | None:
    """Predict each row by the function fitted to the other folds; None if a fit fails."""
    if len(rows) < 2 * FOLDS:
        return None
    fold = fold_of_rows(len(rows), FOLDS, seed, rows.clusters)
    parts, chosen = [], []
    try:
        for held_out in range(FOLDS):
            function = fit(rows.take(np.flatnonzero(fold != held_out)))[0]
            inside = rows.take(np.flatnonzero(fold == held_out))
            parts.append(clipped(applied(function, inside.forecasts, inside.by), rows.support))
            chosen.append(np.flatnonzero(fold == held_out))
    except CalibrationError:
        return None
    back = np.argsort(np.concatenate(chosen), kind="stable")
    if parts[0].kind == "normal":
        mean, v = (np.concatenate([getattr(part, name) for part in parts])[back] for name in ("mean", "variance"))
        return normal_of(mean, v)
    tables = [table_of(part) for part in parts]
    return tables[0].with_values(np.concatenate([table.q for table in tables])[back]).forecasts()


def _losses(forecasts: Forecasts, rows: ForecastFitRows, loss: Loss, levels: Floats | None = None) -> Floats:
    """Return the loss of each row; that of normal forecasts at ``levels`` if these are given."""
    if forecasts.kind == "normal" and levels is None:
        if loss == "dss":
            return dawid_sebastiani(forecasts.mean, forecasts.variance, rows.y)
        return crps_normal(forecasts.mean, np.sqrt(forecasts.variance), rows.y)
    table = table_of(forecasts, levels)
    return quantile_score(table.q, table.levels, rows.y)


def _gain(before: Floats, after: Floats, rows: ForecastFitRows, name: str) -> dict[str, Any] | None:
    gained, share = before - after, rows.share
    if not np.isfinite(gained).all():
        return None
    mean = float(share @ gained)
    parts: Floats = share * (gained - mean)
    if rows.clusters is not None:
        parts = np.asarray(np.bincount(rows.clusters, parts), np.float64)
    error = float(np.linalg.norm(parts))
    if not np.isfinite(error):  # the squares of the losses overflow
        return None
    relative = mean / float(share @ before) if name != "dss" and float(share @ before) > 0.0 else None
    return {
        "score": name,
        "gain": mean,
        "standard_error": error,
        "relative": relative,
        "folds": FOLDS,
        "rows": len(rows),
    }


def best_shares(results: Sequence[Forecasts], rows: ForecastFitRows) -> tuple[Floats, dict[str, Any] | None]:
    """Return the share of each member with the least mean loss, shrunk to the first member, the identity.

    The loss is convex in the shares. They are shrunk by 1 - (standard error / gain)^2, and to the identity alone if the
    gain does not exceed its standard error.
    """
    M, share = len(results), rows.share
    normal = results[0].kind == "normal"
    first = np.eye(M)[0]
    if M == 1:
        return first, None
    stack = (
        np.stack([np.stack([result.mean, np.sqrt(result.variance)]) for result in results])
        if normal
        else np.stack([table_of(result).q for result in results])
    )
    levels = None if normal else table_of(results[0]).levels

    def objective(w: Floats) -> tuple[float, Floats]:
        mixed = np.tensordot(w, stack, axes=1)
        if levels is None:
            slopes = np.stack(crps_normal_slopes(mixed[0], mixed[1], rows.y))
            return float(share @ crps_normal(mixed[0], mixed[1], rows.y)), (stack * (slopes * share)).sum(axis=(1, 2))
        slope = 2.0 / len(levels) * ((rows.y[:, None] < mixed) - levels) * share[:, None]
        return float(share @ quantile_score(mixed, levels, rows.y)), np.tensordot(stack, slope, axes=2)

    unit = objective(first)[0] or 1.0
    optimum = scipy.optimize.minimize(
        lambda w: tuple(part / unit for part in objective(w)),
        np.full(M, 1.0 / M),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * M,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda _w: np.ones(M)},
    ).x
    w = np.where(optimum > LEAST_SHARE, optimum, 0.0)
    candidates = [w / w.sum(), *np.eye(M)]
    best = min(candidates, key=lambda w: objective(w)[0])
    name: Loss = "crps" if normal else "quantile-score"
    before = _losses(results[0], rows, name)
    gain = _gain(before, _losses(averaged(results, best), rows, name), rows, name)
    if gain is None or gain["gain"] <= gain["standard_error"]:
        return first, gain
    shrink = 1.0 - (gain["standard_error"] / gain["gain"]) ** 2
    final = shrink * best + (1.0 - shrink) * first
    return final, _gain(before, _losses(averaged(results, final), rows, name), rows, name)


def held_out_gain(rows: ForecastFitRows, fit: MemberFit, loss: Loss, seed: int) -> dict[str, Any] | None:
    """Return the cross-fitted gain of a fit: the mean decrease of the score per row, and its standard error."""
    held_out = sample(rows, seed)
    try:
        after = cross_fitted(held_out, fit, seed)
    except TooFewRows:  # fewer clusters than folds
        return None
    return None if after is None else gain_of(held_out.forecasts, after, held_out, loss)


def gain_of(before: Forecasts, after: Forecasts, rows: ForecastFitRows, loss: Loss) -> dict[str, Any] | None:
    """Return the mean decrease of the score per row, and its standard error with the fitted maps as fixed.

    The score of results that are not normal is the quantile score. None if a loss is infinite.
    """
    levels = table_of(after).levels if after.kind != "normal" else None
    name: Loss = loss if after.kind == "normal" else "quantile-score"
    return _gain(_losses(before, rows, name, levels), _losses(after, rows, name, levels), rows, name)
