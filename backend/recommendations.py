"""The recommended map of rows, with its reasons."""

from __future__ import annotations

from typing import Any

from backend.batches import find_rows
from backend.kinds import Arrays, inline_bytes
from backend.kinds.classes import implied_reduction
from backend.requester import Requester
from backend.telemetry.observed import traced
from schemas.recommendations import RecommendOptions


@traced("work")
def recommend(requester: Requester, arrays: Arrays, options: RecommendOptions) -> dict[str, Any]:
    """Compare fast methods on the rows and recommend one, or none; raises a ``CalibrationError``, ``Busy``."""
    from calibrant.reports.recommendation import checked_report, recommendation_of

    reduction = implied_reduction(requester, options, [] if options.batch is None else [options.batch])
    rows = find_rows(requester, arrays, options)
    report, checked = checked_report(rows.labelled, rows.class_names, reduction, seed=options.seed)
    requester.take_slot(report.seconds(checked))
    requester.reserve(inline_bytes(len(rows), rows.numbers))
    return recommendation_of(report, checked, rows.class_names).to_dict()
