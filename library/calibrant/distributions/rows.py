"""Checked rows of predictive distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.core.arrays import numbered_names
from calibrant.core.batch import Fractional, Integers
from calibrant.core.cells import Floats, WeightsKind, take
from calibrant.core.digest import rows_digest
from calibrant.core.errors import InvalidOption
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.distribution_map import DistributionMap, Support
from calibrant.distributions.maps.scales import ForecastScale
from calibrant.distributions.maps.tables import table_of

#: The columns of forecasts with a name for each row.
NAMES = ("groups", "clusters", "by", "times")


@dataclass(frozen=True)
class ForecastRows:
    """Checked forecasts ``(n,)`` and their columns, which are checked when they are used; None for missing ones.

    ``known`` has when each outcome became known, or "". ``others`` are other forecasts of the same outcomes by name,
    which an evaluation compares.
    """

    forecasts: Forecasts
    observed: Any = None
    weights: Any = None
    weights_kind: WeightsKind | Fractional = "importance"
    groups: Sequence[str] | None = None
    clusters: Sequence[str] | None = None
    by: Sequence[str] | None = None
    times: Sequence[str] | None = None
    known: Sequence[str] | None = None
    others: Mapping[str, Forecasts] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.forecasts)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that there are."""
        return [name for name in ("observed", "weights", *NAMES) if getattr(self, name) is not None]

    def taken(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the chosen rows."""
        numbers = {name: getattr(self, name) for name in ("observed", "weights")}
        taken: dict[str, Any] = {name: None if own is None else own[chosen] for name, own in numbers.items()}
        taken |= {name: self._texts(name, chosen) for name in (*NAMES, "known")}
        return replace(self, forecasts=self.forecasts.take(np.flatnonzero(chosen)), **taken)

    def _texts(self, name: str, chosen: npt.NDArray[np.bool_]) -> list[str] | None:
        texts = getattr(self, name)
        return None if texts is None else [text for text, is_chosen in zip(texts, chosen, strict=True) if is_chosen]


@dataclass(frozen=True)
class Rows:
    """Checked rows of a fit: forecasts, outcomes ``y (n,)``, weights ``w (n,)``.

    One function is fitted for each value of ``by (n,)``. Rows with the same number in ``groups (n,)`` are in one fold.
    ``weights_kind`` is None without weights.
    """

    forecasts: Forecasts
    y: Floats
    w: Floats
    by: tuple[str, ...] | None
    groups: Integers | None
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

    def take(self, chosen: Integers) -> Rows:
        """Return the chosen rows."""
        by = None if self.by is None else tuple(self.by[i] for i in chosen)
        return replace(
            self,
            forecasts=self.forecasts.take(chosen),
            y=self.y[chosen],
            w=self.w[chosen],
            by=by,
            groups=take(self.groups, chosen),
        )

    def order(self) -> Integers:
        """Return the canonical order of the rows, so that results do not depend on the given one. O(Q n log n)."""
        given = self.forecasts
        columns = [given.mean, given.variance] if given.kind == "normal" else list(table_of(given).q.T)
        names = [] if self.by is None else [numbered_names(self.by)[1]]
        groups = [] if self.groups is None else [self.groups]
        return np.lexsort([*groups, *names, self.w, self.y, *columns])


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
