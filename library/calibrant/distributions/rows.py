"""Checked rows of predictive distributions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.core.arrays import numbered_names
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats, WeightsKind, take
from calibrant.core.digest import rows_digest
from calibrant.core.errors import InvalidOption
from calibrant.distributions.forecasts import ForecastRows, Forecasts
from calibrant.distributions.maps.distribution_map import DistributionMap, Support
from calibrant.distributions.maps.scales import ForecastScale
from calibrant.distributions.maps.tables import table_of


@dataclass(frozen=True)
class ForecastFitRows:
    """Checked rows of a fit: forecasts, outcomes ``y (n,)``, weights ``w (n,)``.

    One function is fitted for each value of ``by (n,)``. Rows with the same number in ``clusters (n,)`` are in one
    fold. ``weights_kind`` is None without weights.
    """

    forecasts: Forecasts
    y: Floats
    w: Floats
    by: tuple[str, ...] | None
    clusters: Integers | None
    levels: Floats
    scale: ForecastScale
    support: Support
    weights_kind: WeightsKind | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def share(self) -> Floats:
        """The weights over their sum."""
        return np.asarray(self.w / self.w.sum())

    def take(self, chosen: Integers) -> ForecastFitRows:
        """Return the chosen rows."""
        by = None if self.by is None else tuple(self.by[i] for i in chosen)
        return replace(
            self,
            forecasts=self.forecasts.take(chosen),
            y=self.y[chosen],
            w=self.w[chosen],
            by=by,
            clusters=take(self.clusters, chosen),
        )

    def order(self) -> Integers:
        """Return the canonical order of the rows, so that results do not depend on the given one. O(Q n log n)."""
        forecasts = self.forecasts
        columns = [forecasts.mean, forecasts.variance] if forecasts.kind == "normal" else list(table_of(forecasts).q.T)
        names = [] if self.by is None else [numbered_names(self.by)[1]]
        clusters = [] if self.clusters is None else [self.clusters]
        return np.lexsort([*clusters, *names, self.w, self.y, *columns])


def digest_of(forecasts: Forecasts, y: Floats) -> str:
    """Return the digest of forecasts and outcomes, independent of their order; see ``calibrant.core.digest.digest``."""
    normal = forecasts.kind == "normal"
    table = np.column_stack([forecasts.mean, forecasts.variance]) if normal else table_of(forecasts).q
    return rows_digest(np.column_stack([table, y]), np.zeros(len(y), np.int64))


def is_in_sample(fitted: DistributionMap, rows: ForecastRows) -> bool:
    """Whether a map was fitted to exactly these rows."""
    y = np.asarray(rows.observed, dtype=np.float64)
    return fitted.training_digest is not None and fitted.training_digest == digest_of(rows.forecasts, y)


def refuse_infinite(calibrated: Forecasts) -> None:
    """Raise ``InvalidOption`` at ``/map`` if a map returned infinite bounds."""
    if not all(np.isfinite(calibrated[name]).all() for name in calibrated):
        raise InvalidOption.at("/map", "returns infinite bounds, which have no measures: fit it to more rows")
