"""The route of the tests of rating grades."""

from __future__ import annotations

from fastapi import Request, Response

from backend.grades import grade_tests
from schemas.grades import GradesAnswer, GradesBody, GradesOptions
from service.calls import OF_ROWS, Call, Calls, ClientMethod, Sample, rows
from service.context import Here, answer
from service.formats.body import read_payload
from service.formats.options import read_options
from service.threads import run_in_thread

calls = Calls("grades")


@calls.add(
    Call(
        "POST",
        "/grades",
        access="maps:read",
        body=rows(GradesBody),
        answer=GradesAnswer,
        problems=(*OF_ROWS, "unknown-batch-reference", "prediction-kind-mismatch"),
        client=(ClientMethod("grade_tests"),),
        samples=(
            Sample(
                "a-table-of-grades",
                "Two grades of 1,000 and 200 obligors, with 16 and 17 defaults: two rows each",
                {
                    "predictions": [0.01, 0.01, 0.05, 0.05],
                    "groups": ["A", "A", "B", "B"],
                    "labels": [1, 0, 1, 0],
                    "weights": [16, 984, 17, 183],
                    "weights_kind": "frequency",
                    "correlation": 0.12,
                    "confidence": 0.75,
                },
            ),
        ),
    )
)
async def post_grades(request: Request, here: Here) -> Response:
    """Test whether the default probabilities (PDs) of rating grades are too low.

    The predictions are PDs, the labels defaults, and the groups grades. Weights are numbers of obligors, with
    ``weights_kind: "frequency"``. With ``correlation``, p-values of the one-factor model are beside those of
    independent defaults; ``confidence`` adds prudent PDs, for which no two grades may have the same PD.

    Examples
    --------
    >>> result = client.grade_tests(predictions=[0.01, 0.01], groups=["A", "A"], labels=[1, 0], weights=[16, 984],
    ...                             weights_kind="frequency")
    >>> round(result.grades[0].jeffreys_p, 5)
    0.03577
    """
    payload = await read_payload(request, here.settings)
    options = read_options(payload, GradesOptions)
    return answer(await run_in_thread(grade_tests, here, payload.arrays, options))
