"""Routes of the catalogues: measures, diagrams and methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from calibrant.calibrators import METHODS
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.measures.catalogue import MEASURES
from schemas.catalogue import (
    CatalogueQuery,
    DiagramEntry,
    DistributionMeasureEntry,
    DistributionMethodEntry,
    MeasureEntry,
    MethodEntry,
)
from service.calls import Call, Calls, ClientMethod, Sample
from service.context import answer
from service.paging import read_query

calls = Calls("catalogue")

_REGRESSION = {"prediction_kind": "regression"}


@calls.add(
    Call(
        "GET",
        "/measures",
        needs_store=False,
        query=CatalogueQuery,
        answer=list[MeasureEntry] | list[DistributionMeasureEntry],
        client=(
            ClientMethod("measures", answer=list[MeasureEntry]),
            ClientMethod(
                "distribution_measures",
                answer=list[DistributionMeasureEntry],
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
    if read_query(request, CatalogueQuery).prediction_kind == "regression":
        return answer(
            [
                {
                    "prediction_kind": "regression",
                    "name": m.name,
                    "definition": m.text,
                    "range": m.range,
                    "kinds": m.kinds,
                    "source": m.source,
                    "options": _options(m.options),
                }
                for m in DISTRIBUTION_MEASURES.values()
            ]
        )
    return answer(
        [
            {
                "prediction_kind": "classification",
                "name": m.name,
                "title": m.title,
                "definition": m.definition,
                "range": [m.lowest, m.highest],
                "better": m.better,
                "family": m.family,
                "needs": m.needs,
                "cost": m.cost,
                "of": [of for of, compute in (("event", m.event), ("vector", m.vector)) if compute is not None],
                "source": m.source,
                "runs": m.runs,
                "options": _options(m.options),
            }
            for m in MEASURES.values()
        ]
    )


@calls.add(
    Call(
        "GET",
        "/diagrams",
        needs_store=False,
        query=CatalogueQuery,
        answer=list[DiagramEntry],
        client=(
            ClientMethod("diagrams"),
            ClientMethod(
                "distribution_diagrams",
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
    kind = read_query(request, CatalogueQuery).prediction_kind
    return answer(
        [
            {
                "prediction_kind": kind,
                "name": d.name,
                "title": d.title,
                "definition": d.definition,
                "data": dict(d.shown),
                "cost": d.cost,
                "source": d.source,
                "runs": d.runs({n: o.default for n, o in d.options.items()}),
                "options": _options(d.options),
            }
            for d in (DISTRIBUTION_DIAGRAMS if kind == "regression" else DIAGRAMS).values()
        ]
    )


@calls.add(
    Call(
        "GET",
        "/methods",
        needs_store=False,
        query=CatalogueQuery,
        answer=list[MethodEntry] | list[DistributionMethodEntry],
        client=(
            ClientMethod("methods", answer=list[MethodEntry]),
            ClientMethod(
                "distribution_methods",
                answer=list[DistributionMethodEntry],
                query=_REGRESSION,
                summary="List the calibrators of predictive distributions with options and source.",
            ),
        ),
        samples=(
            Sample("regression", "Calibrators of predictive distributions", query=_REGRESSION),
            Sample("methods", "The first of the methods"),
        ),
    )
)
async def methods(request: Request) -> Response:
    """List the calibration methods with options and source, and whether each fit runs as a job.

    With ``prediction_kind=regression``, lists those of predictive distributions.

    Examples
    --------
    >>> [method.runs for method in client.methods() if method.name == "averaged"]
    ['job']

    >>> [method.kinds for method in client.distribution_methods() if method.name == "variance-platt"]
    [['normal']]
    """
    if read_query(request, CatalogueQuery).prediction_kind == "regression":
        return answer(
            [
                {
                    "prediction_kind": "regression",
                    "name": m.name,
                    "title": m.title,
                    "definition": m.definition,
                    "source": m.source,
                    "kinds": m.kinds,
                    "returns": m.returns,
                    "options": _options(m.options),
                }
                for m in DISTRIBUTION_METHODS.values()
            ]
        )
    return answer(
        [
            {
                "prediction_kind": "classification",
                "name": m.name,
                "title": m.title,
                "source": m.source,
                "runs": m.runs,
                "of": [of for of, fit in (("event", m.event), ("vector", m.vector)) if fit is not None],
                "definition": m.definition,
                "parameters": m.parameters,
                **dataclasses.asdict(m.traits),
                "options": m.known_options(),
            }
            for m in METHODS.values()
        ]
    )


def _options(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {"default": option.default, "allowed": option.allowed} for name, option in options.items()}
