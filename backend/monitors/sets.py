"""Prediction sets of monitors, which wait for their labels as bits and are counted by whether they have them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backend.monitors.outcomes import WAITING_PREDICTION, Entries, Tallies, by_bucket
from backend.monitors.rows import Mask
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.monitoring.tally import CELLS, Tally, place, tally_of_keys


def set_type(n_classes: int) -> np.dtype[Any]:
    """The layout of a waiting set of classes, one bit each; ``base`` is group * ``FOLDS`` + fold."""
    members = ("members", "u1", ((n_classes + 7) // 8,))
    return np.dtype([("kind", "u1"), ("bucket", "<u4"), ("time", "<f8"), ("base", "<u4"), members])


def entries_of_sets(members: Floats, times: Floats, bucket: int, base: Integers) -> Entries:
    """The entries of sets ``(n, K)`` of 0 and 1 with their ``times`` and ``base (n,)``; ``bucket`` is in seconds."""
    entries = np.zeros(len(times), set_type(members.shape[1]))
    entries["kind"], entries["time"], entries["base"] = WAITING_PREDICTION, times, base
    entries["bucket"], entries["members"] = times // bucket, np.packbits(members != 0.0, axis=1)
    return entries


@dataclass(frozen=True)
class CountedSets:
    """Sets ready to be counted, as predictions of their ``nominal`` coverage of the event that they have the label."""

    entries: Entries
    nominal: float

    def of(self, entries: Entries) -> CountedSets:
        """Sets of the same monitor with these entries."""
        return replace(self, entries=entries)

    def tallies(self, chosen: Mask, labels: Floats) -> Tallies:
        """The tallies of the chosen rows with their ``labels (n,)``, by time bucket. O(n)."""
        rows, classes = self.entries[chosen], labels[chosen].astype(np.int64)
        if not len(rows):
            return {}
        bits = rows["members"][np.arange(len(rows)), classes // 8]
        covered = (bits >> (7 - classes % 8).astype(np.uint8)) & 1
        p = np.full(len(rows), self.nominal)
        keys = ((rows["base"].astype(np.int64) * CELLS + place(p)) * 2 + covered).astype(np.uint32)
        return {bucket: (tally_of_keys(keys[at], p[at]), None) for bucket, at in by_bucket(rows["bucket"])}

    def waiting(self, begin: Mask, end: Mask) -> dict[int, Tally]:
        """Nothing: tallies of waiting rows are for estimates without labels, which sets do not have."""
        del begin, end
        return {}
