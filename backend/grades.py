"""Tests of the default probabilities of rating grades."""

from __future__ import annotations

from typing import Any

from backend.batches import find_rows
from backend.kinds import Arrays, inline_bytes
from backend.requester import Requester
from backend.telemetry.observed import traced
from schemas.grades import GradesOptions


@traced("work")
def grade_tests(requester: Requester, arrays: Arrays, options: GradesOptions) -> dict[str, Any]:
    """Test the grades, which are the groups of the rows; weights are numbers of obligors."""
    from calibrant.decisions.grades import grade_results

    rows = find_rows(requester, arrays, options)
    requester.take_slot(1e-6 * len(rows) + 1e-3 * len(rows.groups.members if rows.groups else ()))
    requester.reserve(inline_bytes(len(rows), rows.numbers))
    return grade_results(rows.labelled, rows.groups, options.correlation, options.confidence).to_dict()
