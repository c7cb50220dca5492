"""The route of the tests of rating grades."""

from __future__ import annotations

from fastapi import Request, Response

from backend.grades import grade_tests
from schemas.grades import GradesBody, GradesOptions
from service.calls import OF_ROWS, Call, Calls, ClientMethod, Sample, rows
from service.context import Here
from service.jobs import respond_on_rows

calls = Calls("grades")


@calls.add(
    Call(
        "POST",
        "/grades",
        access="maps:read",
        body=rows(GradesBody),
        answer="GradesAnswer",
        problems=(*OF_ROWS, "unknown-batch-reference", "prediction-kind-mismatch"),
        client=(ClientMethod("grade_tests"),),
        samples=(
            Sample(
                "a-table-of-grades",
                "Two grades of 1,000 and 200 obligors, with 16 and 17 defaults",
                {
                    "table": [
                        {"grade": "A", "n": 1000, "defaults": 16, "pd": 0.01},
                        {"grade": "B", "n": 200, "defaults": 17, "pd": 0.05},
                    ],
                    "correlation": 0.12,
                    "confidence": 0.75,
                },
            ),
            Sample(
                "rows-of-obligors",
                "The same grades as rows of obligors, which weights count",
                {
                    "predictions": [0.01, 0.01, 0.05, 0.05],
                    "groups": ["A", "A", "B", "B"],
                    "labels": [1, 0, 1, 0],
                    "weights": [16, 984, 17, 183],
                    "weights_kind": "frequency",
                },
            ),
        ),
    )
)
async def post_grades(request: Request, here: Here) -> Response:
    """Test whether the default probabilities (PDs) of rating grades are too low.

    Send a ``table`` with a row for each grade, or rows of obligors: predictions are then PDs, labels defaults, and
    groups grades, and weights are numbers of obligors, with ``weights_kind: "frequency"``. With ``correlation``,
    p-values of the one-factor model are beside those of independent defaults; ``confidence`` adds prudent PDs, for
    which no two grades may have the same PD.

    Examples
    --------
    >>> result = client.grade_tests(table=[{"grade": "A", "n": 1000, "defaults": 16, "pd": 0.01}])
    >>> round(result.grades[0].jeffreys_p, 5)
    0.03577
    """
    return await respond_on_rows(request, here, GradesOptions, grade_tests)
