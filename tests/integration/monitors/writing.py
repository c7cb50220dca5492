"""Rows put straight into a monitor's buckets, as if they had been taken in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
from redis import Redis

from backend.monitors.outcomes import DELAY_FIELDS, delay_bins
from backend.store.keyspace import Keyspace
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger, MonitorGroups, RowChanges
from calibrant.monitoring.tally import FOLDS, Tally, tally_of
from schemas.monitors import MonitorRecord

Floats = npt.NDArray[np.float64]
Outcomes = npt.NDArray[np.int8]


class Writer:
    """Writes to one monitor of the default tenant."""

    def __init__(self, redis: Redis, name: str) -> None:
        keys = Keyspace()
        self.record: MonitorRecord = Definitions(redis, keys).get(name)
        self.ledger = Ledger(redis, keys, self.record)
        self._groups = MonitorGroups(redis, keys, self.record)

    def labelled(
        self, p: Floats, y: Outcomes, at: float, *, groups: list[str] | None = None, delay: float = 60.0
    ) -> None:
        """Rows predicted at a time, labelled so much later."""
        indices = None if groups is None else np.array(self._groups.indices(groups), dtype=np.int64)
        folds = np.arange(len(p)) % FOLDS
        self.tallied(tally_of(p, y, indices, folds), at, delay=delay)

    def tallied(self, tally: Tally, at: float, *, delay: float = 60.0) -> None:
        """The rows of a tally, predicted at a time."""
        n = len(tally)
        counts = Counter({"predictions": n, "joined": n})
        counts[DELAY_FIELDS[int(delay_bins(np.array([delay]))[0])]] += n
        totals = {"predictions": n, "labels": n, "joined": n}
        bucket = int(at // (self.record.bucket or 1))
        change = RowChanges(
            None, None, None, at, tallies={bucket: (tally, None)}, counts={bucket: counts}, totals=totals
        )
        assert self.ledger.commit(change) is None

    def predicted(self, n: int, at: float) -> None:
        """Predictions that wait for their labels."""
        bucket = int(at // (self.record.bucket or 1))
        totals = {"predictions": n, "pending": n}
        assert (
            self.ledger.commit(RowChanges(None, None, None, at, counts={bucket: {"predictions": n}}, totals=totals))
            is None
        )
