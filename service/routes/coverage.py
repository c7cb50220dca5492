"""The route of the coverage of prediction sets."""

from __future__ import annotations

from fastapi import Request, Response

from backend.coverage import evaluate_sets
from schemas.coverage import CoverageBody, CoverageOptions
from service.calls import OF_ROWS, Call, Calls, Sample, rows
from service.context import Here
from service.jobs import respond_on_rows

calls = Calls("evaluate")


@calls.add(
    Call(
        "POST",
        "/coverage",
        access="maps:read",
        body=rows(CoverageBody),
        answer="CoverageAnswer",
        problems=OF_ROWS,
        samples=(
            Sample(
                "sets-of-names",
                "Four sets of two classes, by name",
                {
                    "sets": [["cat"], ["cat", "dog"], ["dog"], []],
                    "labels": ["cat", "dog", "cat", "dog"],
                    "class_names": ["cat", "dog"],
                    "alpha": 0.1,
                },
            ),
            Sample(
                "rows-of-0-and-1",
                "Whether the set of each row has each of three classes, by group",
                {"predictions": [[1, 0, 0], [1, 1, 0], [0, 1, 1]], "labels": [0, 1, 0], "groups": ["a", "a", "b"]},
            ),
        ),
    )
)
async def post_coverage(request: Request, here: Here) -> Response:
    """Measure how often prediction sets have the label of their row, by class, size and group, and how large they are.

    The sets are lists of classes in ``sets``, up to 10,000 in JSON, or ``predictions`` of 0 and 1 in any format. With
    ``alpha``, the answer has the size-stratified violation and the class-conditional gap. Intervals are those of
    Clopper and Pearson; each holds alone.
    """
    return await respond_on_rows(request, here, CoverageOptions, evaluate_sets)
