"""Routes of the catalogues: measures, diagrams and methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import Request, Response

from calibrant.calibrators import METHODS, Method
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.measure import Measure
from calibrant.sets.fitting import SET_METHODS
from schemas.base import Document
from schemas.catalogue import (
    CatalogueQuery,
    DiagramEntry,
    DiagramsAnswer,
    DistributionMeasureEntries,
    DistributionMeasureEntry,
    DistributionMethodEntries,
    DistributionMethodEntry,
    MeasureEntries,
    MeasureEntry,
    MeasuresAnswer,
    MethodEntries,
    MethodEntry,
    MethodsAnswer,
    MethodsQuery,
    SetMethodEntries,
    SetMethodEntry,
)
from schemas.distributions import PredictionKind
from service.calls import Call, Calls, ClientMethod, Sample
from service.errors import InvalidField
from service.paging import read_query, whole_list

SomeEntry = TypeVar("SomeEntry", bound=Document)

# --- The entries, as the catalogues of the library state them


def measure_entries(kind: PredictionKind) -> list[MeasureEntry] | list[DistributionMeasureEntry]:
    """The measures of one kind of predictions."""
    if kind == "regression":
        return [_entry(DistributionMeasureEntry, m, definition=m.text) for m in DISTRIBUTION_MEASURES.values()]
    return [_entry(MeasureEntry, m, range=(m.lowest, m.highest), of=_of(m)) for m in MEASURES.values()]


def diagram_entries(kind: PredictionKind) -> list[DiagramEntry]:
    """The diagrams of one kind of predictions."""
    return [
        _entry(
            DiagramEntry,
            d,
            prediction_kind=kind,
            data=dict(d.shown),
            runs=d.runs({n: o.default for n, o in d.options.items()}),
        )
        for d in (DISTRIBUTION_DIAGRAMS if kind == "regression" else DIAGRAMS).values()
    ]


def method_entries(kind: PredictionKind) -> list[MethodEntry] | list[DistributionMethodEntry]:
    """The calibration methods for one kind of predictions."""
    if kind == "regression":
        return [_entry(DistributionMethodEntry, m) for m in DISTRIBUTION_METHODS.values()]
    return [
        _entry(MethodEntry, m, of=_of(m), options=m.known_options(), **dataclasses.asdict(m.traits))
        for m in METHODS.values()
    ]


def set_method_entries() -> list[SetMethodEntry]:
    """The methods of prediction sets."""
    return [_entry(SetMethodEntry, m) for m in SET_METHODS.values()]


def _entry(model: type[SomeEntry], stated: Any, **others: Any) -> SomeEntry:
    """An entry with the fields that the catalogue of the library states by the same name, and others."""
    fields = {
        name: getattr(stated, name) for name in model.model_fields if name not in others and hasattr(stated, name)
    }
    options = {name: {"default": o.default, "allowed": o.allowed} for name, o in stated.options.items()}
    return model.model_validate({**fields, "options": options, **others})


def _of(stated: Measure | Method) -> list[str]:
    return [name for name, defined in (("event", stated.event), ("vector", stated.vector)) if defined is not None]


# --- The routes

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
    return _answer(request, measure_entries)


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
    return _answer(request, diagram_entries)


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
    if query.output == "sets" and query.prediction_kind == "regression":
        raise InvalidField.at("/output", "must be probabilities for regression")
    entries = set_method_entries() if query.output == "sets" else method_entries(query.prediction_kind)
    return whole_list([entry.model_dump() for entry in entries])


def _answer(request: Request, entries: Callable[[PredictionKind], Sequence[Document]]) -> Response:
    return whole_list([entry.model_dump() for entry in entries(read_query(request, CatalogueQuery).prediction_kind)])
