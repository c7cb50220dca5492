"""The catalogue of each kind of predictions: its measures, diagrams and methods, as calls and pages list them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from calibrant.calibrators import METHODS, Method
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.diagram import Diagram
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.io.errors import InvalidField
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.measure import Measure
from calibrant.sets.fitting import SET_METHODS
from schemas.base import Document
from schemas.catalogue import (
    DiagramEntry,
    DistributionMeasureEntry,
    DistributionMethodEntry,
    MeasureEntry,
    MethodEntry,
    SetMethodEntry,
)
from schemas.distributions import PredictionKind

SomeEntry = TypeVar("SomeEntry", bound=Document)
#: What the maps of a method give.
Output: TypeAlias = Literal["probabilities", "sets"]


class KindCatalogue(Protocol):
    """What there is for one kind of predictions."""

    def measures(self) -> Sequence[Document]:
        """Its measures."""

    def diagrams(self) -> Sequence[DiagramEntry]:
        """Its diagrams."""

    def methods(self, output: Output = "probabilities") -> Sequence[Document]:
        """Its methods whose maps give ``output``; raises ``InvalidField`` if the kind has no such methods."""


class _Classes:
    def measures(self) -> list[MeasureEntry]:
        return [_entry(MeasureEntry, m, range=(m.lowest, m.highest), of=_of(m)) for m in MEASURES.values()]

    def diagrams(self) -> list[DiagramEntry]:
        return _diagrams("classification", DIAGRAMS)

    def methods(self, output: Output = "probabilities") -> list[MethodEntry] | list[SetMethodEntry]:
        if output == "sets":
            return [_entry(SetMethodEntry, m) for m in SET_METHODS.values()]
        return [
            _entry(MethodEntry, m, of=_of(m), options=m.known_options(), **dataclasses.asdict(m.traits))
            for m in METHODS.values()
        ]


class _Distributions:
    def measures(self) -> list[DistributionMeasureEntry]:
        return [_entry(DistributionMeasureEntry, m, definition=m.text) for m in DISTRIBUTION_MEASURES.values()]

    def diagrams(self) -> list[DiagramEntry]:
        return _diagrams("regression", DISTRIBUTION_DIAGRAMS)

    def methods(self, output: Output = "probabilities") -> list[DistributionMethodEntry]:
        if output == "sets":
            raise InvalidField.at("/output", "must be probabilities for regression")
        return [_entry(DistributionMethodEntry, m) for m in DISTRIBUTION_METHODS.values()]


#: The catalogue of each kind of predictions.
CATALOGUES: Mapping[PredictionKind, KindCatalogue] = MappingProxyType(
    {"classification": _Classes(), "regression": _Distributions()}
)


def _diagrams(kind: PredictionKind, diagrams: Mapping[str, Diagram]) -> list[DiagramEntry]:
    return [
        _entry(
            DiagramEntry,
            d,
            prediction_kind=kind,
            data=dict(d.shown),
            runs=d.runs({n: o.default for n, o in d.options.items()}),
        )
        for d in diagrams.values()
    ]


def _entry(model: type[SomeEntry], stated: Any, **others: Any) -> SomeEntry:
    """An entry with the fields that the catalogue of the library states by the same name, and others."""
    options = {name: {"default": o.default, "allowed": o.allowed} for name, o in stated.options.items()}
    return model.with_fields_of(stated, **{"options": options, **others})


def _of(stated: Measure | Method) -> list[str]:
    return [name for name, defined in (("event", stated.event), ("vector", stated.vector)) if defined is not None]
