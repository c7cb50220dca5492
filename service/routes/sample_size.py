"""The route of the number of rows that a validation needs."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Request, Response

from calibrant.core.errors import naming
from calibrant.measures.sample_size import sample_size
from schemas.sample_size import SampleSizeQuery
from service.calls import Call, Calls, ClientMethod, Sample
from service.context import answer
from service.paging import read_query
from service.threads import run_in_thread

calls = Calls("measures")


@calls.add(
    Call(
        "GET",
        "/sample-size",
        query=SampleSizeQuery,
        answer="SampleSizeAnswer",
        needs_store=False,
        problems=("invalid-option", "out-of-range"),
        client=(ClientMethod("sample_size"),),
        samples=(
            Sample(
                "sample-size",
                "Normal log-odds",
                query={"logit_mean": "-2", "logit_sd": "1"},
            ),
        ),
    )
)
async def get_sample_size(request: Request) -> Response:
    """Compute how many rows a validation needs for precise estimates of O/E and of the calibration slope.

    Give ``prevalence``, ``logit_mean`` with ``logit_sd``, or ``beta_a`` with ``beta_b``. The model is assumed to be
    calibrated (Riley et al. 2021).

    Examples
    --------
    >>> client.sample_size(logit_mean=-2.0, logit_sd=1.0).n
    4320
    """
    query = read_query(request, SampleSizeQuery)
    with naming({"logit_normal": "logit_mean", "beta": "beta_a"}):  # arguments that are pairs
        size = await run_in_thread(
            sample_size,
            prevalence=query.prevalence,
            logit_normal=_pair(query.logit_mean, query.logit_sd),
            beta=_pair(query.beta_a, query.beta_b),
            oe_width=query.oe_width,
            slope_width=query.slope_width,
            level=query.level,
        )
    return answer(asdict(size))


def _pair(first: float | None, second: float | None) -> tuple[float, float] | None:
    return None if first is None or second is None else (first, second)
