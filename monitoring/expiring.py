"""The ids of a monitor whose horizon has passed: forgotten, and counted where nothing joined them."""

from __future__ import annotations

import time

import numpy as np

from monitoring.taking.entries import WAITING_LABEL, WAITING_PREDICTION, Entries, came_after, known, nothing
from storage.monitors.ledger import Change, Ledger, Pieces


def expire(ledger: Ledger, now: float, seconds: float) -> bool:
    """Forget the ids of passed slots, for so many seconds at most; False where some are left."""
    deadline = time.monotonic() + seconds
    for slot in ledger.due_slots(now):
        while (pieces := ledger.oldest(slot)) is not None:
            if time.monotonic() > deadline:
                return False
            _forget(ledger, pieces, now)
    return True


def _forget(ledger: Ledger, pieces: Pieces, now: float) -> None:
    """Forget the ids of some pieces at once, unless another does; entries that change meanwhile are read again."""
    while True:
        entries = known(ledger.entries(pieces.ids))
        conflict = ledger.commit(_change(entries, pieces, now))
        if conflict is None or not len(conflict.indices):
            return


def _change(entries: Entries, pieces: Pieces, now: float) -> Change:
    """What becomes of the ids of some pieces: those stay whose predictions came later than they did themselves."""
    stays = came_after(entries, pieces.end)
    pending = entries["bucket"][entries["kind"] == WAITING_PREDICTION]
    buckets, expired = np.unique(pending, return_counts=True)
    counts = {int(bucket): {"expired": int(n)} for bucket, n in zip(buckets, expired, strict=True)}
    unmatched = int(np.count_nonzero(entries["kind"] == WAITING_LABEL))
    totals = {"expired": len(pending), "unmatched": unmatched}
    return Change(
        pieces.ids,
        entries,
        np.where(stays, entries, nothing(len(entries))) if stays.any() else None,
        now,
        counts=counts,
        totals={field: n for field, n in totals.items() if n},
        forgets=pieces,
    )
