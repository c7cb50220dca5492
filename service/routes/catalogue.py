"""Routes of the catalogues: measures, diagrams and methods."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter, Response

from calibrant.calibrators import METHODS
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from schemas.catalogue import DiagramEntry, MeasureEntry, MethodEntry
from service.context import answer

router = APIRouter(tags=["catalogue"])


@router.get("/measures", response_model=list[MeasureEntry])
async def measures() -> Response:
    """List the measures with definition, range, options, cost and source, and whether each runs as a job."""
    return answer(
        [
            {
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
                "options": {n: {"default": o.default, "allowed": o.allowed} for n, o in m.options.items()},
            }
            for m in MEASURES.values()
        ]
    )


@router.get("/diagrams", response_model=list[DiagramEntry])
async def diagrams() -> Response:
    """List the diagrams with definition, data fields, options, cost and source, and whether each runs as a job."""
    return answer(
        [
            {
                "name": d.name,
                "title": d.title,
                "definition": d.definition,
                "data": dict(d.shown),
                "cost": d.cost,
                "source": d.source,
                "runs": d.runs({n: o.default for n, o in d.options.items()}),
                "options": {n: {"default": o.default, "allowed": o.allowed} for n, o in d.options.items()},
            }
            for d in DIAGRAMS.values()
        ]
    )


@router.get("/methods", response_model=list[MethodEntry])
async def methods() -> Response:
    """List the calibration methods with options and source, and whether each fit runs as a job."""
    return answer(
        [
            {
                "name": m.name,
                "title": m.title,
                "source": m.source,
                "runs": m.runs,
                "of": [of for of, fit in (("event", m.event), ("vector", m.vector)) if fit is not None],
                "definition": m.definition,
                **dataclasses.asdict(m.traits),
                "options": m.known_options(),
            }
            for m in METHODS.values()
        ]
    )
