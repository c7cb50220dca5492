"""The route of evaluations: run directly if they are quick, otherwise as a job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import Request, Response

from backend.evaluations import ReportOptions, evaluate_or_queue
from calibrant.decisions.thresholds import CRITERIA
from schemas.evaluations import (
    CompareBody,
    CompareOptions,
    EvaluateBody,
    EvaluateDistributionBody,
    EvaluateDistributionOptions,
    EvaluateOptions,
)
from service.calls import (
    LABELS,
    OF_ENDED_JOBS,
    OF_EVALUATIONS,
    OF_FORECASTS,
    OF_SOURCES,
    PREDICTIONS,
    Call,
    Calls,
    ClientMethod,
    Sample,
    rows,
)
from service.context import Context, Here
from service.formats.body import read_payload
from service.formats.format import Payload
from service.formats.media import HTML, JSON
from service.formats.options import read_options, read_options_of_kind
from service.headers import choose, read_header
from service.jobs import respond_with_answer
from service.reports import report_response
from service.threads import run_in_thread

calls = Calls("evaluate")


#: Options of several batches or maps, and those that a report chooses.
_SEVERAL = ("batches", "maps", "correction", "of")
_CHOSEN = ("measures", "diagrams", "against", "score", "lags", "interval")


@calls.add(
    Call(
        "POST",
        "/evaluate",
        access="maps:read",
        body=rows(EvaluateBody, EvaluateDistributionBody),
        answer="ReportAnswer | ReportsAnswer | DistributionReportAnswer",
        media=(HTML,),
        queues="A job, if a measure or diagram needs a long fit or the estimated total exceeds 2 s",
        problems=(*OF_EVALUATIONS, *OF_SOURCES, *OF_FORECASTS, *OF_ENDED_JOBS),
        client=(
            ClientMethod(
                "evaluate",
                rows=EvaluateOptions,
                without=(*_SEVERAL, "sets", "grades", *CRITERIA),
                answer="ReportAnswer",
                summary="Measure the calibration of a stored batch or of rows; with ``map``, before and after it.",
            ),
            ClientMethod(
                "power_law",
                rows=EvaluateOptions,
                first="batches",
                without=(
                    *(
                        "map",
                        "sets",
                        "grades",
                        *CRITERIA,
                        "diagrams",
                        "classes",
                        "correction",
                        "of",
                        "resamples",
                        "seed",
                    ),
                    "source",
                ),
                answer="ReportsAnswer",
                summary="Evaluate several stored batches, and relate their calibration and classification errors.",
            ),
            ClientMethod(
                "report_html",
                rows=EvaluateOptions,
                without=(*_SEVERAL, "source"),
                media=HTML,
                summary="Create an HTML report of a stored batch or of rows, with a verdict and a recommended map.",
            ),
            ClientMethod(
                "evaluate_distribution",
                rows=EvaluateDistributionOptions,
                answer="DistributionReportAnswer",
                summary="Score predictive distributions and measure their calibration; with ``map``, also after it.",
            ),
            ClientMethod(
                "distribution_report_html",
                rows=EvaluateDistributionOptions,
                without=_CHOSEN,
                media=HTML,
                summary="Create an HTML report of predictive distributions, with a fan chart if there are ``times``.",
            ),
        ),
        samples=(
            Sample(
                "one-measure",
                "The expected calibration error, with an interval",
                {
                    "predictions": PREDICTIONS,
                    "labels": LABELS,
                    "measures": [{"name": "ece", "n_bins": 4}],
                    "interval": 0.9,
                },
            ),
            Sample(
                "as-a-page",
                "A report in one HTML file",
                {"predictions": PREDICTIONS, "labels": LABELS},
                headers={"Accept": "text/html"},
            ),
        ),
    )
)
async def evaluate(request: Request, here: Here) -> Response:
    """Measure the calibration of a batch; with ``map``, before and after the map; with ``maps``, side by side.

    With ``Accept: text/html``, returns a self-contained HTML report. If the request names no measures or diagrams, the
    report chooses its own and recommends a map. Rows with features have a section of segments; with ``sets``, a map
    to prediction sets, there is one about their coverage, with ``grades``, one that tests the PDs of rating grades, and
    with ``costs``, ``capacity``, ``precision`` or ``recall``, one of the decisions at the threshold that it determines.

    With ``batches``, each batch is evaluated; five or more batches also give the power law between calibration and
    classification error. With a map, ``improvement`` gives the gain in Brier score and log loss. ``diagrams`` are
    returned as data. An evaluation that needs a long fit, or is estimated to take more than 2 s, runs as a job.

    With ``prediction_kind: "regression"``, the rows are predictive distributions of a number, ``observed`` with
    ``mean`` and ``variance``, ``quantiles`` and ``levels``, ``samples``, or ``lower``, ``upper`` and ``level``.

    Examples
    --------
    >>> report = client.evaluate(predictions=p, labels=y, measures=["ece", "brier"], interval=0.95)
    >>> list(report.measures), report.measures["ece"].interval is not None
    (['ece', 'brier'], True)

    >>> stored = [client.upload(p, y).id for _ in range(2)]
    >>> [each.report.n for each in client.power_law(stored, measures=["ece"]).batches]
    [200, 200]

    >>> client.report_html(predictions=p, labels=y).startswith("<!doctype html>")
    True

    >>> report = client.evaluate_distribution([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])
    >>> round(report.measures["crps"].value, 3)
    0.5

    >>> client.distribution_report_html([0.0, 1.0, 3.0], mean=[0.0, 0.0, 2.0], variance=[1.0, 1.0, 4.0])[:15]
    '<!doctype html>'
    """
    read = partial(read_options_of_kind, model=EvaluateOptions, distributions=EvaluateDistributionOptions)
    return await _respond(request, here, read)


@calls.add(
    Call(
        "POST",
        "/compare",
        access="maps:read",
        body=rows(CompareBody),
        answer="ReportAnswer",
        media=(HTML,),
        queues="A job, if a measure needs a long fit or the estimated total exceeds 2 s",
        problems=(*OF_EVALUATIONS, *OF_SOURCES, *OF_ENDED_JOBS),
        client=(
            ClientMethod("compare", rows=CompareBody, without=CRITERIA, answer="ReportAnswer"),
            ClientMethod(
                "comparison_report_html",
                rows=CompareBody,
                media=HTML,
                summary="Create an HTML report of several models on the same rows, or of stored maps.",
            ),
        ),
        samples=(
            Sample(
                "two-models",
                "Two models on the same rows, ranked by the log loss",
                {
                    "models": {"forest": PREDICTIONS, "boosting": [round(p**0.8, 3) for p in PREDICTIONS]},
                    "labels": LABELS,
                    "measures": ["log-loss", "auroc"],
                },
            ),
        ),
    )
)
async def compare(request: Request, here: Here) -> Response:
    """Compare several models on the same rows, or stored maps with each other and with the uncalibrated predictions.

    Models are ``models``, predictions by name with ``labels``, or ``batches``, ids of stored batches by name. They are
    ranked by a proper score, with simultaneous intervals of the ranks; calibration errors do not rank models, since
    a constant prediction of the base rate has none. The differences of all pairs have intervals and adjusted p-values;
    those of the AUROC are DeLong's. With ``groups``, the comparison is repeated on the rows of each group.

    With ``maps``, the rows are ``predictions`` and ``labels``, or a ``batch``. With ``Accept: text/html``, returns a
    self-contained HTML report, with the diagrams of the models side by side, and with a criterion of the threshold,
    such as ``costs``, the decisions of each.

    Examples
    --------
    >>> report = client.compare(models={"forest": p, "coin": [0.5] * len(p)}, labels=y)
    >>> report.comparison.rank_by, len(report.comparison.measures["auroc"].pairs)
    ('log-loss', 1)

    >>> report = client.compare(maps=["spam:1"], predictions=p, labels=y, measures=["brier"])
    >>> [contestant.name for contestant in report.comparison.contestants]
    ['uncalibrated', 'spam:1']

    >>> client.comparison_report_html(models={"forest": p, "coin": [0.5] * len(p)}, labels=y)[:15]
    '<!doctype html>'
    """
    return await _respond(request, here, partial(read_options, model=CompareOptions))


async def _respond(request: Request, here: Context, read: Callable[[Payload], ReportOptions]) -> Response:
    """Respond with a report as JSON or as a page, or with its job; ``read`` reads the options."""
    kind = choose(read_header(request, b"accept"), (JSON, HTML))
    payload = await read_payload(request, here.settings)
    options = read(payload)
    if kind == HTML:
        return await report_response(here, payload.arrays, options)
    response = await respond_with_answer(here, await run_in_thread(evaluate_or_queue, here, payload.arrays, options))
    response.headers["Vary"] = "Accept"
    return response
