"""The route of decisions: decision curves, and the threshold for decisions."""

from __future__ import annotations

from fastapi import Request, Response

from backend.decisions import decide
from calibrant.decisions.thresholds import CRITERIA
from schemas.decisions import DecideBody, DecideOptions
from service.calls import LABELS, OF_ROWS, PREDICTIONS, Call, Calls, ClientMethod, Sample, rows
from service.context import Here
from service.jobs import respond_on_rows

calls = Calls("evaluate")


@calls.add(
    Call(
        "POST",
        "/decisions",
        access="maps:read",
        body=rows(DecideBody),
        answer="DecisionCurveAnswer | DecisionThresholdAnswer",
        problems=(*OF_ROWS, "unknown-batch-reference", "unknown-reduction", "prediction-kind-mismatch"),
        client=(
            ClientMethod(
                "decision_curve",
                rows=DecideBody,
                without=(*CRITERIA, "seed"),
                answer="DecisionCurveAnswer",
                summary="Judge models by the net benefit of decisions at thresholds.",
            ),
            ClientMethod(
                "best_threshold",
                rows=DecideOptions,
                without=("thresholds",),
                answer="DecisionThresholdAnswer",
                summary="Return the threshold that costs, a capacity, or a bound on precision or recall determine.",
            ),
        ),
        samples=(
            Sample(
                "a-curve",
                "The net benefit of decisions at two thresholds",
                {"predictions": PREDICTIONS, "labels": LABELS, "thresholds": [0.1, 0.5]},
            ),
            Sample(
                "from-costs",
                "The threshold if a false negative costs five times as much as a false positive",
                {"predictions": PREDICTIONS, "labels": LABELS, "costs": [1, 5]},
            ),
        ),
    )
)
async def post_decisions(request: Request, here: Here) -> Response:
    """Judge decisions at thresholds, or return the threshold that a criterion determines.

    Without a criterion, the answer is the decision curve: the net benefit of positive decisions at each threshold, and
    that of positive decisions for all rows or none. With ``models``, predictions by name, it has the curve of each
    model, and the differences of all pairs. A criterion is ``costs``, ``capacity``, ``precision`` or ``recall``; a
    bound of the last two is guaranteed at the level of ``interval``, or the request is refused.

    Examples
    --------
    >>> curve = client.decision_curve(predictions=p, labels=y, thresholds=[0.2])
    >>> sorted(curve.net_benefit)
    ['model', 'treat all', 'treat none']

    >>> curve = client.decision_curve(models={"a": p, "b": 1 - p}, labels=y, thresholds=[0.2])
    >>> list(curve.differences)
    ['a - b']

    >>> best = client.best_threshold(predictions=p, labels=y, costs=[1, 4])
    >>> best.threshold, best.measures["cost"].interval is not None
    (0.2, True)
    """
    return await respond_on_rows(request, here, DecideOptions, decide)
