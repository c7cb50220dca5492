"""Forecasts and the columns that come with them, before an evaluation or a fit checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Fractional
from calibrant.core.cells import WeightsKind
from calibrant.distributions.forecasts import Forecasts

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
