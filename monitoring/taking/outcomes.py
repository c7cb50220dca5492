"""The account of a request: what became of its rows, added up piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from calibrant.batch import Integers
from monitoring.taking.deciding import Outcome
from monitoring.taking.reasons import REASONS, Why
from schemas.monitors import RefusedRow, Taken

#: So many of the rows that are refused or contradicted are named.
MOST_NAMED = 20


class Account:
    """Counts outcomes, and remembers the first rows that must be told of."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._other = 0
        self._ignored = 0
        self._named: list[tuple[int, Why]] = []

    def add(self, outcome: npt.NDArray[np.uint8], numbers: Integers, *, other: int = 0) -> None:
        """Add rows that were decided, of which ``other`` are new and of a group beyond the bound."""
        counts = np.bincount(outcome, minlength=len(Outcome))
        self._counts.update({kind: int(counts[kind]) for kind in Outcome})
        self._other += other
        if counts[Outcome.CONTRADICTED]:
            told = np.flatnonzero(outcome == Outcome.CONTRADICTED)[:MOST_NAMED]
            self._name((int(row), Why.CONTRADICTED) for row in numbers[told])

    def refuse(self, why: npt.NDArray[np.uint8], numbers: Integers) -> None:
        """Add rows that are refused, each for its reason."""
        self._counts[Outcome.REFUSED] += len(why)
        self._name(
            (int(row), Why(int(reason))) for row, reason in zip(numbers[:MOST_NAMED], why[:MOST_NAMED], strict=True)
        )

    @property
    def refused(self) -> int:
        """How many rows were refused."""
        return self._counts[Outcome.REFUSED]

    def ignore(self, events: int) -> None:
        """Add events that say nothing of predictions or labels."""
        self._ignored += events

    def taken(self) -> Taken:
        """The account as it is told."""
        count = self._counts
        return Taken(
            accepted=count[Outcome.STORED] + count[Outcome.JOINED] + count[Outcome.WAITING],
            joined=count[Outcome.JOINED],
            waiting=count[Outcome.WAITING],
            duplicates=count[Outcome.DUPLICATE],
            contradicted=count[Outcome.CONTRADICTED],
            refused=count[Outcome.REFUSED],
            other_group=self._other,
            ignored=self._ignored,
            refusals=[
                RefusedRow(row=row, code=REASONS[why].code, detail=REASONS[why].detail) for row, why in self._named
            ],
        )

    def _name(self, rows: Iterable[tuple[int, Why]]) -> None:
        self._named = sorted([*self._named, *rows])[:MOST_NAMED]
