"""Tests of the default probabilities of rating grades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.batches import find_rows
from backend.kinds import Arrays, inline_bytes
from backend.requester import Requester
from backend.telemetry.observed import traced
from calibrant.io.errors import InvalidField
from schemas.grades import GradeRow, GradesOptions


@traced("work")
def grade_tests(requester: Requester, arrays: Arrays, options: GradesOptions) -> dict[str, Any]:
    """Test the grades of a table, or those that are the groups of rows, whose weights are numbers of obligors."""
    from calibrant.decisions.grades import grade_results

    if options.table is not None:
        if arrays or options.batch is not None:
            raise InvalidField.at("/table", "cannot be combined with rows")
        requester.take_slot(1e-3 * len(options.table))
        return _of_table(options.table, options.correlation, options.confidence)
    rows = find_rows(requester, arrays, options)
    requester.take_slot(1e-6 * len(rows) + 1e-3 * len(rows.groups.members if rows.groups else ()))
    requester.reserve(inline_bytes(len(rows), rows.numbers))
    return grade_results(rows.labelled, rows.groups, options.correlation, options.confidence).to_dict()


def _of_table(table: Sequence[GradeRow], correlation: float | None, confidence: float | None) -> dict[str, Any]:
    from calibrant.decisions import grades

    for i, row in enumerate(table):
        if row.defaults > row.n:
            raise InvalidField.at(f"/table/{i}/defaults", "must be at most n, the number of obligors")
    pds, names = [row.pd for row in table], [row.grade for row in table]
    defaults, n = [row.defaults for row in table], [row.n for row in table]
    return grades.grade_tests(pds, names, defaults, n=n, correlation=correlation, confidence=confidence).to_dict()
