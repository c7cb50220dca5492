"""Routes of the catalogues: measures, diagrams and methods."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response

from backend.kinds.catalogues import CATALOGUES
from schemas.base import Document
from schemas.catalogue import (
    CatalogueQuery,
    DiagramsAnswer,
    DistributionMeasureEntries,
    DistributionMethodEntries,
    MeasureEntries,
    MeasuresAnswer,
    MethodEntries,
    MethodsAnswer,
    MethodsQuery,
    SetMethodEntries,
)
from service.calls import Call, Calls, ClientMethod, Sample
from service.paging import read_query, whole_list

calls = Calls("catalogue", reads="any")

_REGRESSION = {"prediction_kind": "regression"}


@calls.add(
    Call(
        "GET",
        "/measures",
        needs_store=False,
        query=CatalogueQuery,
        answer=MeasuresAnswer,
        client=(
            ClientMethod("measures", answer_field="items", answer=MeasureEntries),
            ClientMethod(
                "distribution_measures",
                answer_field="items",
                answer=DistributionMeasureEntries,
                query=_REGRESSION,
                summary="List the measures of predictive distributions with definition, range, options and source.",
            ),
        ),
        samples=(
            Sample("regression", "Measures of predictive distributions", query=_REGRESSION),
            Sample("measures", "The first of the measures"),
        ),
    )
)
async def measures(request: Request) -> Response:
    """List the measures with definition, range, options, cost and source, and whether each runs as a job.

    With ``prediction_kind=regression``, lists those of predictive distributions.

    Examples
    --------
    >>> "ece" in [measure.name for measure in client.measures()]
    True

    >>> "crps" in [measure.name for measure in client.distribution_measures()]
    True
    """
    return _answer(CATALOGUES[read_query(request, CatalogueQuery).prediction_kind].measures())


@calls.add(
    Call(
        "GET",
        "/diagrams",
        needs_store=False,
        query=CatalogueQuery,
        answer=DiagramsAnswer,
        client=(
            ClientMethod("diagrams", answer_field="items"),
            ClientMethod(
                "distribution_diagrams",
                answer_field="items",
                query=_REGRESSION,
                summary="List the diagrams of predictive distributions with definition, options and source.",
            ),
        ),
        samples=(Sample("diagrams", "The first of the diagrams"),),
    )
)
async def diagrams(request: Request) -> Response:
    """List the diagrams with definition, data fields, options, cost and source, and whether each runs as a job.

    With ``prediction_kind=regression``, lists those of predictive distributions.

    Examples
    --------
    >>> "reliability" in [diagram.name for diagram in client.diagrams()]
    True

    >>> "pit" in [diagram.name for diagram in client.distribution_diagrams()]
    True
    """
    return _answer(CATALOGUES[read_query(request, CatalogueQuery).prediction_kind].diagrams())


@calls.add(
    Call(
        "GET",
        "/methods",
        needs_store=False,
        query=MethodsQuery,
        answer=MethodsAnswer,
        client=(
            ClientMethod("methods", answer_field="items", answer=MethodEntries),
            ClientMethod(
                "distribution_methods",
                answer_field="items",
                answer=DistributionMethodEntries,
                query=_REGRESSION,
                summary="List the calibrators of predictive distributions with options and source.",
            ),
            ClientMethod(
                "set_methods",
                answer_field="items",
                answer=SetMethodEntries,
                query={"output": "sets"},
                summary="List the methods of prediction sets with options, guarantee and source.",
            ),
        ),
        samples=(
            Sample("regression", "Calibrators of predictive distributions", query=_REGRESSION),
            Sample("sets", "Methods of prediction sets", query={"output": "sets"}),
            Sample("methods", "The first of the methods"),
        ),
    )
)
async def methods(request: Request) -> Response:
    """List the calibration methods with options and source, and whether each fit runs as a job.

    With ``prediction_kind=regression``, lists those of predictive distributions, and with ``output=sets`` those of
    prediction sets.

    Examples
    --------
    >>> [method.runs for method in client.methods() if method.name == "averaged"]
    ['job']

    >>> [method.kinds for method in client.distribution_methods() if method.name == "variance-platt"]
    [['normal']]

    >>> [method.name for method in client.set_methods()]
    ['lac', 'aps', 'raps', 'crc']
    """
    query = read_query(request, MethodsQuery)
    return _answer(CATALOGUES[query.prediction_kind].methods(query.output))


def _answer(entries: Sequence[Document]) -> Response:
    return whole_list([entry.model_dump() for entry in entries])
