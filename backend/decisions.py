"""Decisions at thresholds: decision curves, and the threshold for decisions."""

from __future__ import annotations

from typing import Any

from backend.batches import find_rows, rows_of_models
from backend.kinds import Arrays, inline_bytes
from backend.kinds.classes import criterion_of, reduction_by_number
from backend.requester import Requester
from backend.telemetry.observed import traced
from calibrant.core.inputs import check_named_event, event_by_name
from calibrant.core.options import read_fraction
from calibrant.core.reductions import check_decided
from calibrant.decisions.decision_curve import check_models, curve_of, read_thresholds
from calibrant.decisions.thresholds import threshold_of
from calibrant.io.errors import InvalidField
from schemas.decisions import DecideOptions

#: Estimated seconds per number of the rows.
_NUMBER = 1e-6
#: How many times as long covariances of clusters take, at most about one for five rows.
_CLUSTERED = 10.0


@traced("work")
def decide(requester: Requester, arrays: Arrays, options: DecideOptions) -> dict[str, Any]:
    """Return the decision curve of rows, or their threshold if the options have a criterion; raises ``Busy``."""
    level = read_fraction(options.interval, "/interval")
    criterion = criterion_of(options)
    if criterion is not None and options.thresholds is not None:
        raise InvalidField.at("/thresholds", f"cannot be combined with {criterion.name}")
    models = rows_of_models(requester, arrays, options)
    if models and criterion is not None:
        raise InvalidField.at("/models", f"cannot be combined with {criterion.name}, which is for one model")
    rows = models or {"model": find_rows(requester, arrays, options)}
    n, numbers = len(next(iter(rows.values()))), sum(own.numbers for own in rows.values())
    clustered = any(own.labelled.clusters is not None for own in rows.values())
    requester.take_slot(_NUMBER * numbers * (_CLUSTERED if clustered else 1.0))
    requester.reserve(inline_bytes(n, numbers))
    reduction = reduction_by_number(options.reduction, next(iter(rows.values())).class_names)
    for own in rows.values():
        check_decided(reduction, own.labelled.predictions.n_classes)
        check_named_event(reduction, own.class_names, own.labelled.predictions.n_classes)
    events = {name: event_by_name(own.labelled, reduction, None) for name, own in rows.items()}
    if criterion is not None:
        return threshold_of(events["model"], criterion, level, options.seed).to_dict()
    check_models(events, "/models")
    return curve_of(events, read_thresholds(options.thresholds), level).to_dict()
