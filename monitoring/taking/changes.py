"""What decided rows change in the store."""

from __future__ import annotations

from collections import Counter

import numpy as np

from monitoring.delays import BINS, FIELDS, place
from monitoring.taking.deciding import Decided, Outcome
from monitoring.taking.entries import Entries
from storage.monitors.ledger import Change
from storage.monitors.strings import Ids

#: Counts of time buckets: bucket -> field -> how many more.
Counts = dict[int, Counter[str]]


def change_of(decided: Decided, ids: Ids | None, read: Entries, now: float) -> Change:
    """The change of rows whose ids had the entries ``read (n,)`` when they were decided; ``ids`` None: none is kept."""
    kept, expected, entries = _kept(decided, ids, read)
    return Change(
        kept,
        expected,
        entries,
        now,
        tallies=decided.predicted.tallies(decided.counts, decided.labels),
        counts=_counts(decided),
        totals=_totals(decided),
    )


def _kept(decided: Decided, ids: Ids | None, read: Entries) -> tuple[Ids | None, Entries | None, Entries | None]:
    """The ids that change, what their entries are expected to be, and what they become."""
    chosen = decided.changes
    if ids is None or not chosen.any():
        return None, None, None
    expected, entries = read, decided.entries
    if not chosen.all():
        ids, expected, entries = ids.taken(chosen), read[chosen], entries[chosen]
    return ids, expected if expected["kind"].any() else None, entries


def _counts(decided: Decided) -> Counts:
    """The predictions that are new, the joined ones and their delays, by time bucket of the prediction."""
    buckets = decided.predicted.entries["bucket"].astype(np.int64)
    found: Counts = {}
    for bucket, n in zip(*_tallied(buckets[decided.arrives]), strict=True):
        found.setdefault(bucket, Counter())["predictions"] = n
    joined = buckets[decided.counts] * BINS + place(decided.delays[decided.counts])
    for code, n in zip(*_tallied(joined), strict=True):
        bucket, delay = divmod(code, BINS)
        found.setdefault(bucket, Counter()).update({"joined": n, FIELDS[delay]: n})
    return found


def _tallied(codes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[list[int], list[int]]:
    """The distinct codes, and how often each stands there."""
    if len(codes) and codes.min() == codes.max():
        return [int(codes[0])], [len(codes)]
    distinct, n = np.unique(codes, return_counts=True)
    return distinct.tolist(), n.tolist()


def _totals(decided: Decided) -> dict[str, int]:
    found = {
        "predictions": decided.arrives,
        "labels": decided.labelled,
        "joined": decided.counts,
        "duplicates": decided.outcome == Outcome.DUPLICATE,
        "contradicted": decided.outcome == Outcome.CONTRADICTED,
    }
    return {field: n for field, rows in found.items() if (n := int(np.count_nonzero(rows)))}
