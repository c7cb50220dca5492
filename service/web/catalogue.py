"""The pages of the catalogues: measures, diagrams and methods, as the API lists them."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Response

from backend.kinds.catalogues import CATALOGUES
from schemas.base import Document
from schemas.distributions import PredictionKind
from service.calls import Call
from service.web.forms import page_calls
from service.web.visit import Visit, Visiting

#: The fields in the table of all entries.
_COLUMNS = {"measures": ["family"], "diagrams": ["cost"], "methods": ["of", "monotone", "keeps_top_label"]}
_LEADS = {
    "measures": "What can be measured: how far predictions are from calibrated, and how good they are.",
    "diagrams": "What can be drawn of predictions and their outcomes.",
    "methods": "How a calibration map can be fitted. A method of an event calibrates one probability; a method of the "
    "vector calibrates all classes at once.",
}

calls = page_calls(reads="any")


@calls.add(Call("GET", "/ui/measures"))
async def measures(visit: Visiting, prediction_kind: PredictionKind = "classification") -> Response:
    """All measures, with definition, range, options and source."""
    return _page(visit, "measures", prediction_kind, CATALOGUES[prediction_kind].measures())


@calls.add(Call("GET", "/ui/diagrams"))
async def diagrams(visit: Visiting, prediction_kind: PredictionKind = "classification") -> Response:
    """All diagrams, with definition, data, options and source."""
    return _page(visit, "diagrams", prediction_kind, CATALOGUES[prediction_kind].diagrams())


@calls.add(Call("GET", "/ui/methods"))
async def methods(visit: Visiting, prediction_kind: PredictionKind = "classification") -> Response:
    """All calibration methods, with definition, options, properties and source."""
    return _page(visit, "methods", prediction_kind, CATALOGUES[prediction_kind].methods())


def _page(visit: Visit, noun: str, kind: PredictionKind, entries: Sequence[Document]) -> Response:
    stated = [entry.model_dump() for entry in entries]
    columns = ["kinds"] if "kinds" in stated[0] else _COLUMNS[noun]
    return visit.page("catalogue.html", noun=noun, lead=_LEADS[noun], kind=kind, columns=columns, entries=stated)
