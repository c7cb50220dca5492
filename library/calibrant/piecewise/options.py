"""The options of PL, PL3 and their average, and what a batch needs for them. No torch here: the API checks requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from calibrant.cells import Floats, Outcomes
from calibrant.errors import InvalidOption, OneClass, OnePrediction, TooFewRows

Loss = Literal["log-loss", "brier"]
Final = Literal["fold-average", "refit", "weighted"]
Starts = Literal["quantiles", "several"]

MAX_PIECES = 64
MAX_FOLDS = 100


@dataclass(frozen=True)
class PiecewiseOptions:
    """How a PL or PL3 map is fitted; the defaults are the paper's procedure (Kangsepp et al. 2022, C.2).

    ``candidates`` numbers of pieces tried, by default 1, ..., min(n // 200, 15) + 1;
    ``folds`` of the cross-validation; ``loss`` the fits minimise; ``select`` the loss on held-out
    folds that chooses among candidates; ``final`` whether the chosen fold models are averaged, or one
    model is fitted to all rows, or the fold models of every candidate are averaged with weights
    (``selection.weights``); ``monotone`` whether the curves may not decrease; ``starts`` whether
    a fit begins with its knots at quantiles, as published, or the best of several searches is taken:
    closer to the least training loss, and on held-out rows no better (docs/explanation/pl-engine.md).
    """

    candidates: tuple[int, ...] | None = None
    folds: int = 10
    loss: Loss = "log-loss"
    select: Loss = "brier"
    final: Final = "fold-average"
    monotone: bool = False
    starts: Starts = "quantiles"

    def __post_init__(self) -> None:
        if self.candidates is not None and not _are_piece_counts(self.candidates):
            raise InvalidOption.at("/candidates", f"must be different numbers of pieces from 1 to {MAX_PIECES}")
        if type(self.folds) is not int or not 2 <= self.folds <= MAX_FOLDS:
            raise InvalidOption.at("/folds", f"must be an integer from 2 to {MAX_FOLDS}")
        for name, kind in (("loss", Loss), ("select", Loss), ("final", Final), ("starts", Starts)):
            if getattr(self, name) not in get_args(kind):
                raise InvalidOption.at(f"/{name}", f"must be one of: {', '.join(get_args(kind))}")
        if not isinstance(self.monotone, bool):
            raise InvalidOption.at("/monotone", "must be true or false")

    def piece_counts(self, n: int) -> tuple[int, ...]:
        """The candidates for ``n`` rows, ascending."""
        if self.candidates is not None:
            return tuple(sorted(self.candidates))
        return tuple(range(1, min(n // 200, 15) + 2))


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


def _are_piece_counts(candidates: object) -> bool:
    return (
        isinstance(candidates, tuple)
        and len(candidates) > 0
        and all(type(count) is int and 1 <= count <= MAX_PIECES for count in candidates)
        and len(set(candidates)) == len(candidates)
    )


def check_rows(p: Floats, y: Outcomes, options: PiecewiseOptions) -> None:
    """Refuse what cannot be fitted, of rows that all have mass.

    Fewer rows than folds (``TooFewRows``), labels of one class (``OneClass``), equal predictions (``OnePrediction``).
    """
    n = len(p)
    if n < options.folds:
        raise TooFewRows.at(
            "/predictions",
            f"has {n} row{'' if n == 1 else 's'}; {options.folds} folds need at least {options.folds}: "
            "send more or fewer folds",
        )
    if not 0 < np.count_nonzero(y) < n:
        raise OneClass.at("/labels", "hold one class only, where a fit needs both: send rows of the other")
    if p.min() == p.max():
        raise OnePrediction.at("/predictions", "are all equal: a map needs two different ones to be fitted")
