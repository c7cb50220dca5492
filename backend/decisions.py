"""Decisions at thresholds: decision curves, and the threshold for decisions."""

from __future__ import annotations

from typing import Any

from backend.batches import find_rows
from backend.kinds import Arrays, inline_bytes
from backend.requester import Requester
from backend.telemetry.observed import traced
from calibrant.decisions.costs import event_of
from calibrant.decisions.decision_curve import curve_of, read_thresholds
from calibrant.decisions.thresholds import read_criterion, threshold_of
from calibrant.io.errors import InvalidField
from schemas.decisions import DecideOptions

#: Estimated seconds per number of the rows.
_NUMBER = 3e-6


@traced("work")
def decide(requester: Requester, arrays: Arrays, options: DecideOptions) -> dict[str, Any]:
    """Return the decision curve of rows, or their threshold if the options have a criterion; raises ``Busy``."""
    criteria = {name: getattr(options, name) for name in ("costs", "capacity", "precision", "recall")}
    criterion = read_criterion(**criteria) if any(value is not None for value in criteria.values()) else None
    if criterion is not None and options.thresholds is not None:
        raise InvalidField.at("/thresholds", f"cannot be combined with {criterion.name}")
    rows = find_rows(requester, arrays, options)
    requester.take_slot(_NUMBER * rows.numbers)
    requester.reserve(inline_bytes(len(rows), rows.numbers))
    event = event_of(rows.labelled, options.reduction, rows.class_names)
    if criterion is not None:
        return threshold_of(event, criterion, options.interval, options.seed).to_dict()
    return curve_of({"model": event}, read_thresholds(options.thresholds), options.interval).to_dict()
