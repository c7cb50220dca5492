"""The options of the model average. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.piecewise.options import PiecewiseOptions


@dataclass(frozen=True)
class AveragedOptions:
    """How the model average is fitted: ``folds`` of the cross-validation, and ``candidates`` as of PL and PL3."""

    candidates: tuple[int, ...] | None = None
    folds: int = 10

    def __post_init__(self) -> None:
        self.piecewise()

    def piecewise(self) -> PiecewiseOptions:
        """The same for PL and PL3; raises ``InvalidOption``."""
        return PiecewiseOptions(candidates=self.candidates, folds=self.folds)
