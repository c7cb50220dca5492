"""Pictures over HTTP: the requested picture, its title, and its drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from fastapi import Response
from pydantic import ValidationError

from backend.monitors.answers import (
    MonitorReader,
    begin_diagram,
    group_index,
    narrowed,
    reader_of,
    series_options,
    series_points,
    window_of,
)
from backend.monitors.kinds import kind_of_monitor, measure_keys
from backend.store.clock import now, seconds
from calibrant.core.errors import CalibrationError
from calibrant.diagrams.diagram import DiagramRequest
from calibrant.diagrams.forecasts import read_distribution_diagrams
from calibrant.plots.canvas import Caption, Drawn, Format, NothingToDraw, PictureError
from calibrant.plots.diagram import draw
from calibrant.plots.over_time import draw_over_time
from calibrant.plots.reliability import draw_fit_bins
from calibrant.reports.pictures import BY_SIZE, COST_PLANE, draw_report, each_of, shown_error, shown_of
from schemas.diagrams import DiagramOptions, DistributionDiagramOptions, OneEvaluated, PictureQuery
from schemas.evaluations import BySizePicture, CostPlanePicture, EvaluateDistributionOptions
from schemas.maps import FitBins, MapRecord
from schemas.monitor_alarms import AlarmData
from schemas.monitor_answers import SeriesPictureQuery, WindowPictureQuery
from service.context import Context, answer
from service.errors import InvalidField
from service.formats.media import JSON, PNG, SVG
from service.formats.options import invalid_field
from service.html import SEALED

# --- The bins of a map's fit


def draw_fit(record: MapRecord, bins: FitBins, form: Format, look: PictureQuery) -> Drawn:
    """Draw the rows of a map's fit before and after the map, from their bins."""
    called = record.id if record.name is None else f"{record.name}, version {record.version}"
    about = Caption(record.n or 0, bins.of, f"{called}, in-sample")
    scores = record.in_sample
    errors = None if scores is None else (scores.before["ece"], scores.after["ece"])
    return draw_fit_bins(bins.model_dump(), about, errors=errors, form=form, theme=look.theme, width=look.width)


# --- Pictures over HTTP: queued for drawing, and sent with headers that seal them

#: Content types and their formats.
FORMS: Mapping[str, Format] = {SVG: "svg", PNG: "png"}


async def picture(here: Context, work: Callable[[], Drawn], headers: Mapping[str, str] | None = None) -> Response:
    """Draw a picture when it is its turn; raises ``NothingToDraw``."""
    try:
        drawn = await here.draw(work)
    except PictureError as error:
        raise NothingToDraw(error.detail) from error
    return Response(drawn.content, headers={**SEALED, **(headers or {})}, media_type=drawn.media_type)


async def report_picture(here: Context, report: Mapping[str, Any], key: str, kind: str, look: PictureQuery) -> Response:
    """The diagram with this key of one or several reports: as a picture, or as its data and text description."""
    work = partial(draw_report, report, key, form=FORMS.get(kind, "svg"), theme=look.theme, width=look.width)
    if kind != JSON:
        return await picture(here, work, {"Vary": "Accept"})
    try:
        alt = (await here.draw(work)).alt
    except PictureError:
        alt = None  # the data has the problem
    return answer({**_numbers(report, key), "alt": alt}, headers={"Vary": "Accept"})


def _numbers(report: Mapping[str, Any], key: str) -> dict[str, Any]:
    if "batches" in report:
        return {"batches": [{"batch": batch["batch"], **shown_of(batch["report"], key)} for batch in each_of(report)]}
    after = shown_of(report["after"], key) if report.get("after") is not None else None
    return {**shown_of(report, key), "after": after}


# --- Which picture is requested: a diagram in the catalogue, measures by size, or a cost plane

#: The key of the error in the title.
_ERROR = "error"
PICTURED: Mapping[str, type[BySizePicture | CostPlanePicture]] = MappingProxyType(
    {BY_SIZE: BySizePicture, COST_PLANE: CostPlanePicture}
)
_ROWS = {"diagram", "scale", "weights_kind", "class_names", "reduction", "seed", *PictureQuery.model_fields}
_TAKES = {BY_SIZE: _ROWS | {"batch", "map"}, COST_PLANE: _ROWS | {"batches"}}


def evaluation_of(options: DiagramOptions, diagram: DiagramRequest) -> OneEvaluated:
    """The evaluation that computes the diagram of the picture and the error in its title."""
    if options.batches is not None and options.map is not None:
        raise InvalidField.at("/map", "cannot be combined with batches")
    measure = shown_error({"name": diagram.diagram.name, **diagram.options}) | {"as": _ERROR}
    fields = options.model_dump(include=set(OneEvaluated.model_fields))
    return OneEvaluated(**fields, diagrams=[options.diagram], measures=[measure])


def evaluation_of_forecasts(options: DistributionDiagramOptions) -> tuple[EvaluateDistributionOptions, str]:
    """The evaluation that computes the diagram of the picture of forecasts, and the key of the diagram."""
    try:
        (request,) = read_distribution_diagrams([options.diagram])
    except CalibrationError as error:
        place = error.offences[0]
        raise type(error).at(place.pointer.replace("/diagrams/0", "/diagram", 1), place.detail) from None
    fields = options.model_dump(include=set(EvaluateDistributionOptions.model_fields))
    return EvaluateDistributionOptions(**fields, diagrams=[options.diagram], measures=["mae"]), request.key


def read_pictured(options: DiagramOptions) -> BySizePicture | CostPlanePicture | None:
    """The requested ``by-size`` or ``cost-plane`` picture, else None; raises ``InvalidField`` for invalid fields."""
    diagram = options.diagram
    fields = {"name": diagram} if isinstance(diagram, str) else diagram
    name = fields.get("name")
    model = PICTURED.get(name) if isinstance(name, str) else None
    if model is None:
        return None
    try:
        pictured = model.model_validate(fields, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise invalid_field([{**invalid, "loc": ("diagram", *invalid["loc"])} for invalid in errors]) from error
    for field in sorted(options.model_fields_set - _TAKES[pictured.name]):
        # Generated clients send default values as if the caller had set them.
        if getattr(options, field) not in (None, DiagramOptions.model_fields[field].default):
            raise InvalidField.at(f"/{field}", f"is not an option of {pictured.name}")
    if isinstance(pictured, CostPlanePicture) and len(options.batches or ()) != 2:
        raise InvalidField.at(
            "/batches", "must name two stored batches: the predictions of two models for the same rows"
        )
    return pictured


# --- Pictures of monitors: a measure over time, and the reliability diagram of a window


def series_drawing(here: Context, name: str, query: SeriesPictureQuery) -> Callable[[], Drawn]:
    """Read one measure over time, which may take long, and return its drawing function."""
    whole = reader_of(here, here.process.monitors, name)
    key = query.measure or measure_keys(whole.record)[0]
    reader = narrowed(whole, key)
    points = series_points(here, reader, series_options(whole, query, now().timestamp()))
    drawn = [
        {"start": point.start, "end": point.end, "value": measured.value, "interval": measured.interval}
        for point in points
        for measured in (point.measures[key],)
    ]
    about = Caption(
        sum(point.rows for point in points), kind_of_monitor(whole.record).counted_as, _called(name, query.group)
    )
    shown = {"measure": key, "points": drawn, "alarms": _alarms(whole, key)}
    return partial(draw_over_time, shown, about, **_look(query))


def window_drawing(here: Context, name: str, query: WindowPictureQuery, form: Format) -> Callable[[], Drawn]:
    """Read the rows of a window and return the drawing function; raises ``NothingToDraw`` if there are none.

    Of forecasts, the diagram is the PIT histogram.
    """
    reader = reader_of(here, here.process.monitors, name)
    window = window_of(reader.record, query.window)
    group = group_index(reader, query.group)
    begin_diagram(here, reader.record)
    tally = reader.rows_of(reader.gathered(window, now().timestamp()), group)
    kind = kind_of_monitor(reader.record)
    shown = kind.diagram(tally, reader.kept.memory)
    if shown is None:
        raise NothingToDraw("the window has no labelled rows")
    about = Caption(len(tally), kind.counted_as, _called(f"{name}, {window.name}", query.group))
    return partial(draw, shown["definition"]["name"], shown, about, **{**_look(query), "form": form})


def _alarms(reader: MonitorReader, key: str) -> list[dict[str, Any]]:
    """Alarms about one measure or about calibration in general, with the times when they were raised."""
    raised = [(event.timestamp, event.data) for event in reader.raised() if isinstance(event.data, AlarmData)]
    return [{"at": seconds(at), "rule": data.rule} for at, data in raised if data.measure in (None, key)]


def _called(name: str, group: str | None) -> str:
    return name if group is None else f"{name}, {group}"


def _look(query: PictureQuery) -> dict[str, Any]:
    return {"theme": query.theme, "width": query.width}
