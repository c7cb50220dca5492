"""Predictions that are ready to be counted: each with the cell, the group and the fold that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.batch import Integers
from calibrant.cells import Floats
from calibrant.tallies.grid import CELLS, place
from calibrant.tallies.tally import FOLDS, Tally, tally_of_keys
from monitoring.taking.entries import PREDICTION, WAITING_PREDICTION, Entries
from monitoring.taking.reducing import Reduced
from monitoring.taking.rows import Mask

#: The tallies that rows add to a time bucket: measured, and raw where there is a map.
Tallies = dict[int, tuple[Tally, Tally | None]]


@dataclass(frozen=True)
class Predicted:
    """``entries (n,)`` are of the type of a prediction that waits, whether it does or not."""

    entries: Entries
    mapped: bool

    @classmethod
    def of(cls, reduced: Reduced, times: Floats, bucket: int, groups: Integers | None, folds: Integers) -> Predicted:
        """Reduced predictions of ``times (n,)``, in time buckets of so many seconds, ``groups`` and ``folds (n,)``."""
        entries = np.zeros(len(times), PREDICTION)
        entries["kind"], entries["time"] = WAITING_PREDICTION, times
        entries["bucket"] = times // bucket
        base = folds if groups is None else groups * FOLDS + folds
        entries["p"], entries["event"], entries["key"] = reduced.p, reduced.event, _keys(base, reduced.p)
        if reduced.raw_p is None or reduced.raw_event is None:
            return cls(entries, mapped=False)
        entries["raw_p"], entries["raw_event"] = reduced.raw_p, reduced.raw_event
        entries["raw_key"] = _keys(base, reduced.raw_p)
        return cls(entries, mapped=True)

    def tallies(self, chosen: Mask, labels: Integers) -> Tallies:
        """The tallies of the chosen rows, with their ``labels (n,)``, by time bucket. O(n log n)."""
        rows, labels = (self.entries, labels) if chosen.all() else (self.entries[chosen], labels[chosen])
        if not len(rows):
            return {}
        buckets = rows["bucket"]
        if buckets.min() == buckets.max():
            return {int(buckets[0]): self._both(rows, labels)}
        order = np.argsort(buckets, kind="stable")
        rows, labels = rows[order], labels[order]
        begins = np.flatnonzero(np.diff(rows["bucket"], prepend=np.int64(-1)))
        ends = [*begins[1:].tolist(), len(rows)]
        return {
            int(rows["bucket"][first]): self._both(rows[first:last], labels[first:last])
            for first, last in zip(begins.tolist(), ends, strict=True)
        }

    def _both(self, rows: Entries, labels: Integers) -> tuple[Tally, Tally | None]:
        measured = tally_of_keys(rows["key"] + (rows["event"] == labels), rows["p"])
        raw = tally_of_keys(rows["raw_key"] + (rows["raw_event"] == labels), rows["raw_p"]) if self.mapped else None
        return measured, raw


def _keys(base: Integers, p: Floats) -> npt.NDArray[np.uint32]:
    """The keys of a tally, but for the outcome."""
    return ((base * CELLS + place(p)) * 2).astype(np.uint32)
