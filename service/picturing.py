"""Which picture is asked for: a diagram of the catalogue, or one of the two beside it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest
from calibrant.errors import CalibrationError, Offence, UnknownDiagram
from schemas.diagrams import DiagramOptions, OneEvaluated, PictureQuery
from schemas.pictured import BySizePicture, CostPlanePicture
from service.captions import shown_error
from service.errors import InvalidField
from service.formats.options import invalid_field
from storage.pictured import BY_SIZE, COST_PLANE

#: The title's error is told under this key.
_ERROR = "error"
PICTURED: Mapping[str, type[BySizePicture | CostPlanePicture]] = MappingProxyType(
    {BY_SIZE: BySizePicture, COST_PLANE: CostPlanePicture}
)
_ROWS = {"diagram", "scale", "weights_kind", "reduction", "seed", *PictureQuery.model_fields}
_TAKES = {BY_SIZE: _ROWS | {"batch"}, COST_PLANE: _ROWS | {"batches"}}
#: What the library calls arguments are options of the picture here.
_OPTIONS = ("measures", "start", "start_repetitions", "abstention", "cost_ratios")


def read_diagram(asked: str | Mapping[str, Any]) -> DiagramRequest:
    """The one diagram of the catalogue; raises ``UnknownDiagram`` and ``InvalidOption`` at its own place."""
    try:
        return read_diagrams([asked])[0]
    except CalibrationError as error:
        place = error.offences[0]
        others = f", {', '.join(PICTURED)}" if isinstance(error, UnknownDiagram) else ""
        raise type(error).at(place.pointer.replace("/diagrams/0", "/diagram", 1), place.detail + others) from None


def evaluation_of(options: DiagramOptions, asked: DiagramRequest) -> OneEvaluated:
    """The evaluation of which the picture shows the diagram, and the error in its title."""
    if options.batches is not None and options.map is not None:
        raise InvalidField.at("/map", "stands beside batches, which are shown one beside the other without a map")
    measure = shown_error({"name": asked.diagram.name, **asked.options}) | {"as": _ERROR}
    given = options.model_dump(include=set(OneEvaluated.model_fields))
    return OneEvaluated(**given, diagrams=[options.diagram], measures=[measure])


def read_pictured(options: DiagramOptions) -> BySizePicture | CostPlanePicture | None:
    """The picture asked for, where it is one of these; raises ``InvalidField`` naming each place that is wrong."""
    given = options.diagram
    asked = {"name": given} if isinstance(given, str) else given
    name = asked.get("name")
    model = PICTURED.get(name) if isinstance(name, str) else None
    if model is None:
        return None
    try:
        pictured = model.model_validate(asked, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise invalid_field([{**each, "loc": ("diagram", *each["loc"])} for each in found]) from error
    for field in sorted(options.model_fields_set - _TAKES[pictured.name]):
        # Generated clients send defaults, as if the caller chose them.
        if getattr(options, field) not in (None, DiagramOptions.model_fields[field].default):
            raise InvalidField.at(f"/{field}", f"is no option beside {pictured.name}")
    if isinstance(pictured, CostPlanePicture) and len(options.batches or ()) != 2:
        raise InvalidField.at("/batches", "must name the stored batches of two models, of the same rows")
    return pictured


def named_in_diagram(error: CalibrationError) -> CalibrationError:
    """The same error, what is wrong with an option of the picture told below ``/diagram``."""
    return type(error)(error.detail, [_in_diagram(place) for place in error.offences])


def _in_diagram(place: Offence) -> Offence:
    is_option = place.pointer.split("/")[1:2] and place.pointer.split("/")[1] in _OPTIONS
    return Offence(f"/diagram{place.pointer}", place.detail) if is_option else place
