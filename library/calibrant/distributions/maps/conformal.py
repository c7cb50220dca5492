"""Conformal intervals: split conformal prediction and conformalised quantile regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.scales import ForecastScale, ScaleParameter, backward, forward
from calibrant.distributions.maps.tables import QuantileTable, table_of
from calibrant.maps.parameters import Parameter, ParameterChoice, Parametric, Probability, read_array

Ties = Literal["keep", "random"]
TIES: tuple[Ties, ...] = ("keep", "random")
#: Levels of normal forecasts and samples, if none are given.
LEVELS = (0.05, 0.5, 0.95)
#: Levels t and 1 - t differ from symmetry by at most this.
_SYMMETRY = 1e-9
#: Scores that differ by less than this fraction are tied.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Offsets(Parameter):
    """Numbers, of which infinite ones are null in documents."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the numbers."""
        numbers = read_array(parameters, name)
        offsets = super().read({name: [0.0 if offset is None else offset for offset in numbers]}, name, sizes)
        offsets[[offset is None for offset in numbers]] = np.inf
        return offsets

    def plain(self, value: Any) -> Any:
        """Return the numbers as plain JSON."""
        return [None if np.isinf(offset) else offset for offset in value.tolist()]


@dataclass(frozen=True)
class Conformal(Parametric):
    """The interval between levels t and 1 - t is widened by ``offsets``, outermost pair first; a median stays.

    Offsets are on the scale for quantiles, samples and intervals, and in standard deviations for normal forecasts,
    where the interval is the mean plus and minus the offset. An infinite offset is null in a document: then fewer rows
    than needed were given. With ``ties="random"``, a bound is excluded with probability 1 - ``keep``.
    """

    family: ClassVar[str] = "conformal"
    formula: ClassVar[str] = "quantiles at levels, each pair of which is moved apart by its offset"
    levels: Annotated[Floats, Probability("levels of the quantiles of the result", shape="Q", order="increasing")]
    offsets: Annotated[Floats, _Offsets("what both ends of a pair of levels move, outermost pair first", shape="P")]
    keep: Annotated[Floats, Probability("probability that a bound counts as inside", shape="P")]
    scale: ScaleParameter = "identity"
    ties: Annotated[Ties, ParameterChoice("whether bounds are moved inwards at random", choices=TIES)] = "keep"

    def __call__(self, forecasts: Forecasts, seed: int = 0) -> Forecasts:
        """Return quantiles at the levels of the map, or an interval if one was given. O(n Q)."""
        if forecasts.kind == "normal":
            table = QuantileTable(np.repeat(forecasts.mean[:, None], len(self.levels), axis=1), self.levels)
            unit = np.sqrt(forecasts.variance)
        else:
            table, unit = table_of(forecasts, self.levels), np.ones(len(forecasts))
        g = forward(table.q, self.scale, "quantiles").copy()
        random = np.random.default_rng(seed)
        last = g.shape[1] - 1
        for i, offset in enumerate(self.offsets):
            g[:, i] -= offset * unit
            g[:, last - i] += offset * unit
        q = backward(g, self.scale)
        if self.scale == "log1p" and np.isinf(self.offsets).any():
            q[:, : len(self.offsets)][:, np.isinf(self.offsets)] = -np.inf
        if self.ties == "random":
            for i, keep in enumerate(self.keep):
                out = random.random(len(q)) >= keep
                for column, sign in ((i, 1.0), (last - i, -1.0)):
                    inward = sign * _ROUNDING * np.maximum(1.0, np.abs(q[out, column]))
                    q[out, column] += np.where(np.isfinite(q[out, column]), inward, 0.0)
        return table.with_values(nested(q)).forecasts()

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the levels are not symmetric, or offsets do not belong to pairs of them."""
        if not symmetric(self.levels):
            raise InvalidDocument.at("/parameters/levels", "must be symmetric about 1/2, and above 0 and below 1")
        if len(self.offsets) != len(self.levels) // 2:
            raise InvalidDocument.at("/parameters/offsets", f"must contain {len(self.levels) // 2} numbers")


def symmetric(levels: Floats) -> bool:
    """Return whether levels lie in (0, 1), are symmetric about 1/2, and contain at least one pair."""
    inside = len(levels) > 1 and levels[0] > 0.0 and levels[-1] < 1.0
    return bool(inside and np.abs(levels + levels[::-1] - 1.0).max() <= _SYMMETRY)


def nested(q: Floats) -> Floats:
    """Return quantiles that do not cross: each interval is widened to contain the ones inside it."""
    half, widened = q.shape[1] // 2, q.copy()
    centre = widened[:, half] if q.shape[1] % 2 else None
    low, high = widened[:, :half], widened[:, q.shape[1] - half :]
    if centre is not None:
        low[:, -1], high[:, 0] = np.minimum(low[:, -1], centre), np.maximum(high[:, 0], centre)
    else:
        crossed = low[:, -1] > high[:, 0]
        middle = (low[crossed, -1] + high[crossed, 0]) / 2.0
        low[crossed, -1] = high[crossed, 0] = middle
    low[:] = np.minimum.accumulate(low[:, ::-1], axis=1)[:, ::-1]
    high[:] = np.maximum.accumulate(high, axis=1)
    return widened


def fit_conformal(
    forecasts: Forecasts, y: Floats, weights: Floats, levels: Floats, *, scale: ForecastScale, ties: Ties
) -> tuple[Conformal, dict[str, Any]]:
    """Fit the offset of each pair of levels: the k-th smallest score, k = ceil((n + 1) c) for coverage c.

    The score is |y - mean| / sd for normal forecasts (Lei et al. 2018, section 5.2), or max(lower - y, y - upper) on
    the scale (Romano, Patterson & Candes 2019). If the next row is exchangeable with these n, its interval
    covers it with probability at least c, and k / (n + 1) if scores are not tied, or if ties are broken at random. If
    k > n, the interval is infinite. A frequency weight counts rows. O(n Q log n).
    """
    n, pairs = float(weights.sum()), len(levels) // 2
    offsets, keep, needed = np.full(pairs, np.inf), np.ones(pairs), np.zeros(pairs, np.int64)
    scores = _scores(forecasts, y, levels, scale)
    for i in range(pairs):
        coverage = levels[-1 - i] - levels[i]
        k = float(np.ceil((n + 1.0) * coverage - _ROUNDING))
        needed[i] = int(np.ceil(coverage / (1.0 - coverage) - _ROUNDING))
        if k > n:
            continue
        order = np.argsort(scores[i], kind="stable")
        cumulative = np.cumsum(weights[order])
        offset = float(scores[i][order[np.searchsorted(cumulative, k - _ROUNDING)]])
        near = _ROUNDING * max(1.0, abs(offset))
        below = float(weights[scores[i] < offset - near].sum())
        tied = float(weights[np.abs(scores[i] - offset) <= near].sum())
        if ties == "random":  # a new score that ties has each of the tied + 1 ranks with the same probability
            keep[i] = (k - below) / (tied + 1.0)
        # rounding must not exclude an outcome on the bound, which has positive probability if scores are tied
        offsets[i] = offset + (near / 100.0 if tied > 1.0 else 0.0)
    diagnostics: dict[str, Any] = {"n_calibration": n, "coverage": [float(c) for c in (levels[::-1] - levels)[:pairs]]}
    infinite = np.isinf(offsets)
    if infinite.any():
        diagnostics["warning"] = (
            f"{n:g} rows are too few: the bounds of {int(infinite.sum())} of {pairs} intervals are infinite, and the "
            f"widest interval needs {needed[infinite].max()} rows"
        )
    return Conformal(levels, offsets, keep, scale, ties), diagnostics


def _scores(forecasts: Forecasts, y: Floats, levels: Floats, scale: ForecastScale) -> list[Floats]:
    pairs = range(len(levels) // 2)
    if forecasts.kind == "normal":
        absolute = np.abs(y - forecasts.mean) / np.sqrt(forecasts.variance)
        return [absolute for _ in pairs]
    g, target = forward(table_of(forecasts, levels).q, scale, "quantiles"), forward(y, scale)
    return [np.maximum(g[:, i] - target, target - g[:, -1 - i]) for i in pairs]
