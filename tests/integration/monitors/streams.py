"""Streams of labelled rows, calibrated or not, as a monitor has counted them."""

from __future__ import annotations

import numpy as np

from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.store import Store
from calibrant.monitoring.tally import FOLDS, Tally, tally_of
from schemas.monitors import MonitorRecord

#: When the streams begin, at the beginning of a bucket of an hour.
BEGAN = 1_699_999_200.0
HOUR = 3600.0


def rows(n: int, seed: int, *, shift: float = 0.0, group: int = 0) -> Tally:
    """Rows whose log-odds are ``shift`` above those of the predictions, dealt to the folds."""
    random = np.random.default_rng(seed)
    p = random.uniform(0.02, 0.98, size=n)
    true = p / (p + (1.0 - p) * np.exp(-shift))
    y = (random.random(n) < true).astype(np.int8)
    return tally_of(p, y, np.full(n, group), random.integers(0, FOLDS, n))


def pour(store: Store, record: MonitorRecord, hour: int, tally: Tally, *, raw: Tally | None = None) -> float:
    """Count rows that were predicted in an hour of the stream; gives the end of the hour."""
    bucket, end = int(BEGAN // HOUR) + hour, BEGAN + (hour + 1) * HOUR
    counts = {bucket: {"predictions": len(tally), "joined": len(tally)}}
    change = RowChanges(None, None, None, end, {bucket: (tally, raw)}, counts, {"joined": len(tally)})
    assert Ledger(store.redis, store.keys, record).commit(change) is None
    return end
