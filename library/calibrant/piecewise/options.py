"""Options of PL, PL3 and their average, and checks of their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from calibrant.core.cells import Floats, Outcomes
from calibrant.core.errors import InvalidOption, OneClass, OnePrediction, TooFewRows
from calibrant.core.options import OFF, Option
from calibrant.core.validation import TOLERANCE

Loss = Literal["log-loss", "brier"]
Final = Literal["fold-average", "refit", "weighted"]
Starts = Literal["quantiles", "several"]

MAX_PIECES = 64
MAX_FOLDS = 100

#: The options of PL and PL3.
CHOICES: Mapping[str, Option] = MappingProxyType(
    {
        "candidates": Option(None, high=MAX_PIECES, most=MAX_PIECES),
        "folds": Option(10, low=2, high=MAX_FOLDS),
        "loss": Option("log-loss", choices=get_args(Loss)),
        "select": Option("brier", choices=get_args(Loss)),
        "final": Option("fold-average", choices=get_args(Final)),
        "monotone": OFF,
        "starts": Option("quantiles", choices=get_args(Starts)),
        "tolerance": Option(TOLERANCE, low=0.0, high=1.0, real=True),
    }
)
#: The options of their average.
AVERAGED_CHOICES: Mapping[str, Option] = MappingProxyType(
    {
        "candidates": CHOICES["candidates"],
        "folds": Option(None, choices=(None,), low=2, high=MAX_FOLDS, whole=True),
        "keep_order": Option(None, choices=(None, False, True)),
    }
)


@dataclass(frozen=True)
class PiecewiseOptions:
    """Options of PL and PL3; the defaults are the procedure of the paper (Kangsepp et al. 2022, C.2).

    ``candidates`` are numbers of pieces, by default 1, ..., min(n // 200, 15) + 1; ``folds`` is the number of
    folds; ``loss`` is minimised by the fits; ``select`` is the held-out loss that chooses a candidate.
    ``final`` averages the chosen fold models, refits one model to all rows, or averages the fold models of
    all candidates with weights (``search.weights``). ``monotone`` curves are non-decreasing. ``starts`` are
    knots at quantiles, as published, or the best of several searches, which is closer to the minimum of the
    training loss but not better on held-out rows (docs/explanation/pl-engine.md). The fewest pieces with a score
    within ``tolerance`` (a fraction) of the best score are chosen; 0 chooses the best.
    """

    candidates: tuple[int, ...] | None = None
    folds: int = 10
    loss: Loss = "log-loss"
    select: Loss = "brier"
    final: Final = "fold-average"
    monotone: bool = False
    starts: Starts = "quantiles"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        _check(self, CHOICES)

    def piece_counts(self, n: int) -> tuple[int, ...]:
        """Return the candidates for ``n`` rows, ascending."""
        if self.candidates is not None:
            return tuple(sorted(self.candidates))
        return tuple(range(1, min(n // 200, 15) + 2))


@dataclass(frozen=True)
class AveragedOptions:
    """Options of the model average.

    ``candidates`` as for PL and PL3, for an event alone; ``folds``, by default 10 for an event and 5 for the whole
    vector. ``keep_order`` preserves the order of the rows of an event, by default, and if true also the order of the
    classes of each row of the whole vector.
    """

    candidates: tuple[int, ...] | None = None
    folds: int | None = None
    keep_order: bool | None = None

    def __post_init__(self) -> None:
        _check(self, AVERAGED_CHOICES)

    @property
    def rows_in_order(self) -> bool:
        """Whether the map of an event is increasing."""
        return self.keep_order is not False

    def piecewise(self) -> PiecewiseOptions:
        """Return the options for PL and PL3."""
        return PiecewiseOptions(candidates=self.candidates, folds=10 if self.folds is None else self.folds)


def _check(stated: PiecewiseOptions | AveragedOptions, options: Mapping[str, Option]) -> None:
    for name, option in options.items():
        if not option.accepts(getattr(stated, name)):
            raise InvalidOption.at(f"/{name}", f"must be {option.allowed}")


def check_rows(p: Floats, y: Outcomes, options: PiecewiseOptions) -> None:
    """Check that rows with weight can be fitted.

    Raises ``TooFewRows`` for fewer rows than folds, ``OneClass`` for labels of one class, and ``OnePrediction`` for
    equal predictions.
    """
    n = len(p)
    if n < options.folds:
        raise TooFewRows.at(
            "/predictions",
            f"has {n} row{'' if n == 1 else 's'}, but {options.folds} folds need at least {options.folds}; "
            "use more rows or fewer folds",
        )
    if not 0 < np.count_nonzero(y) < n:
        raise OneClass.at("/labels", "contain one class, but a fit needs both")
    if p.min() == p.max():
        raise OnePrediction.at("/predictions", "are all equal, but a fit needs at least two distinct ones")
