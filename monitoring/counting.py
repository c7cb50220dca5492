"""The counts of a monitor, with those that follow of what is counted."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.monitors import Counts


def counts_of(totals: Mapping[str, int]) -> Counts:
    """The counts of a ledger's totals: what has come and neither met its other half nor expired still waits.

    >>> counts_of({"predictions": 5, "labels": 3, "joined": 2, "expired": 1}).pending
    2
    >>> counts_of({"labels": 3, "joined": 2, "unmatched": 1}).waiting
    0
    """
    found = {name: totals.get(name, 0) for name in Counts.model_fields}
    pending = found["predictions"] - found["joined"] - found["expired"]
    waiting = found["labels"] - found["joined"] - found["unmatched"]
    return Counts.model_validate(found | {"pending": pending, "waiting": waiting})
