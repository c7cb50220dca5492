"""Pictures over HTTP: which one a request names, its title, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from fastapi import Response
from pydantic import ValidationError

from backend.monitors.answers import Reader
from backend.monitors.readings import diagram_of, read_measures
from backend.pictured import BY_SIZE, COST_PLANE
from backend.store.clock import now, seconds
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest
from calibrant.errors import CalibrationError, Offence, UnknownDiagram
from calibrant.plots.by_size import draw_by_size
from calibrant.plots.canvas import About, Drawn, Format, PictureError
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import draw
from calibrant.plots.fit_bins import draw_fit_bins
from calibrant.plots.over_time import draw_over_time
from calibrant.plots.several import draw_several
from schemas.diagrams import DiagramOptions, OneEvaluated, PictureQuery
from schemas.evaluate import BySizePicture, CostPlanePicture
from schemas.maps import FitBins, MapRecord
from schemas.monitor_alarms import AlarmTold
from schemas.monitor_answers import SeriesPictureQuery, WindowPictureQuery
from service.context import Context, answer
from service.errors import InvalidField, NothingToDraw
from service.formats.media import JSON, PNG, SVG
from service.formats.options import invalid_field
from service.html import SEALED
from service.monitors import asked_of, begin_diagram, group_index, narrowed, reader_of, series_points, window_of

# --- The title of a figure: rows, reduction, and the error that the diagram shows

Definition = Mapping[str, Any]


def shown_error(definition: Definition) -> dict[str, Any]:
    """The measure that a diagram shows, as a request names it.

    Of bins it is their ECE, of a fitted curve its mean distance from the diagonal, which of CORP's is that of isotonic
    regression.
    """
    return _ERRORS[definition["name"]](definition)


def caption(report: Mapping[str, Any], key: str, name: str | None = None, *, after: bool = False) -> About:
    """What is said of a report's diagram of this key, or of that after the map; without an error that is not there."""
    side = report["after"] if after else report
    asked = shown_error(side["diagrams"][key]["definition"])
    found = _answer(side["measures"], asked)
    if found is None or found["value"] is None:
        return About(report["n"], report["reduction"], name)
    interval = None if found["interval"] is None else (found["interval"][0], found["interval"][1])
    return About(report["n"], report["reduction"], name, (_named(asked), found["value"]), interval)


def _answer(measures: Mapping[str, Any], asked: Definition) -> Mapping[str, Any] | None:
    """What a report says of a measure with these options, under whichever key."""
    return next((found for found in measures.values() if asked.items() <= found["definition"].items()), None)


def _of_bins(definition: Definition) -> dict[str, Any]:
    binning, count = definition["binning"], definition["count"]
    if count == "fixed" or binning == "adaptive":  # adaptive bins have no count but a fixed one, or no diagram either
        closed = definition.get("closed", "left")
        return {"name": "ece", "binning": binning, "n_bins": definition["n_bins"], "closed": closed, "norm": 1}
    return {"name": "ece-sweep" if count == "sweep" else "ece-cv", "binning": binning, "norm": 1}


def _of_fit(definition: Definition) -> dict[str, Any]:
    return {"name": f"ece-{definition['method']}", "norm": 1, "folds": definition["folds"]}


_ERRORS: Mapping[str, Callable[[Definition], dict[str, Any]]] = MappingProxyType(
    {
        "reliability": _of_bins,
        "logit-logit": _of_bins,
        "fit-on-test": _of_fit,
        "corp": lambda _: {"name": "ece-isotonic", "norm": 1},
        "ks-graphs": lambda _: {"name": "ks"},
    }
)


def _named(asked: Definition) -> str:
    """A measure's name as people read it."""
    name: str = asked["name"]
    if name == "ks":
        return "KS error"
    binned = name in ("ece", "ece-sweep", "ece-cv")
    return "ECE" if binned else f"ECE by {name.removeprefix('ece-')}"


# --- The pictures of what is stored or measured: a report's diagram, and the bins of a map's fit

#: The fields of a diagram, as reports hold it.
_SHOWN = ("data", "definition", "problem")


def draw_report(report: Mapping[str, Any], key: str, form: Format, look: PictureQuery) -> Drawn:
    """Draw a diagram; where there was a map before and after it; of several batches one beside the other."""
    style: dict[str, Any] = {"form": form, "theme": look.theme, "width": look.width}
    if "batches" in report:
        several = [
            (shown_of(each["report"], key), caption(each["report"], key, each["batch"])) for each in each_of(report)
        ]
        return draw_several(several[0][0]["definition"]["name"], several, each="samples", **style)
    shown = shown_of(report, key)
    name = shown["definition"]["name"]
    about = About(report["n"], report["reduction"])
    if name == BY_SIZE:
        return draw_by_size(shown["data"], about, **style)
    if name == COST_PLANE:
        one, other = shown["definition"]["batches"]
        return draw_cost_plane(shown["data"], about, names=(one, other), **style)
    if "after" not in report:
        return draw(name, shown, caption(report, key), **style)
    # A title names what the picture is not: rows that the map has not seen.
    title = "In sample: fitted to these rows" if report.get("in_sample") else None
    after = report["after"]["diagrams"][key], caption(report, key, title, after=True)
    return draw(name, shown, caption(report, key, title), after=after, **style)


def draw_fit(record: MapRecord, bins: FitBins, form: Format, look: PictureQuery) -> Drawn:
    """Draw the rows of a map's fit before and after it, from their bins."""
    called = record.id if record.name is None else f"{record.name}, version {record.version}"
    about = About(record.n or 0, bins.of, f"{called}, in sample")
    scores = record.in_sample
    errors = None if scores is None else (scores.before.ece, scores.after.ece)
    return draw_fit_bins(bins.model_dump(), about, errors=errors, form=form, theme=look.theme, width=look.width)


def keys_of(report: Mapping[str, Any]) -> list[str]:
    """The keys of the diagrams that a report holds, or each of several batches' reports."""
    holder = each_of(report)[0]["report"] if "batches" in report else report
    return list(holder.get("diagrams") or ())


def each_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reports of several batches."""
    found: list[dict[str, Any]] = report["batches"]
    return found


def shown_of(side: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The diagram of a key, as a report holds it."""
    return {name: side["diagrams"][key][name] for name in _SHOWN}


# --- Pictures over HTTP: drawn when it is their turn, and sealed

#: What the format of a picture is called on the wire.
FORMS: Mapping[str, Format] = {SVG: "svg", PNG: "png"}


async def picture(here: Context, work: Callable[[], Drawn], headers: Mapping[str, str] | None = None) -> Response:
    """The answer of a picture that is drawn when it is its turn; raises ``NothingToDraw``."""
    try:
        drawn = await here.draw(work)
    except PictureError as error:
        raise NothingToDraw(error.detail) from error
    return Response(drawn.content, headers={**SEALED, **(headers or {})}, media_type=drawn.media_type)


async def report_picture(here: Context, report: Mapping[str, Any], key: str, kind: str, look: PictureQuery) -> Response:
    """The diagram of this key of a report, or of several batches' reports: as a picture, or its numbers and words."""
    work = partial(draw_report, report, key, FORMS.get(kind, "svg"), look)
    if kind != JSON:
        return await picture(here, work, {"Vary": "Accept"})
    try:
        alt = (await here.draw(work)).alt
    except PictureError:
        alt = None  # the problem stands beside the data that is missing
    return answer({**_numbers(report, key), "alt": alt}, headers={"Vary": "Accept"})


def _numbers(report: Mapping[str, Any], key: str) -> dict[str, Any]:
    if "batches" in report:
        return {"batches": [{"batch": each["batch"], **shown_of(each["report"], key)} for each in each_of(report)]}
    after = shown_of(report["after"], key) if "after" in report else None
    return {**shown_of(report, key), "after": after}


# --- Which figure is requested: a diagram of the catalogue, measures by size, or a cost plane

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


# --- Pictures of monitors: a measure over time, and the reliability diagram of a window


def series_drawing(here: Context, name: str, query: SeriesPictureQuery) -> Callable[[], Drawn]:
    """Read one measure over time, which may take long; what draws it raises ``NothingToDraw`` if it has no value."""
    whole = reader_of(here, name)
    key = query.measure or read_measures(whole.record.measures, whole.record.reduction or "binary")[0].key
    reader = narrowed(whole, key)
    points = series_points(here, reader, asked_of(whole, query, now().timestamp()))
    told = [
        {"start": point.start, "end": point.end, "value": one.value, "interval": one.interval}
        for point in points
        for one in (point.measures[key],)
    ]
    about = About(sum(point.rows for point in points), reader.record.reduction or "binary", _called(name, query.group))
    shown = {"measure": key, "points": told, "alarms": _alarms(whole, key)}
    return partial(draw_over_time, shown, about, **_look(query))


def window_drawing(here: Context, name: str, query: WindowPictureQuery, form: Format) -> Callable[[], Drawn]:
    """Read the rows of a window, and give what draws their reliability diagram; raises ``NothingToDraw`` for none."""
    reader = reader_of(here, name)
    window = window_of(reader.record, query.window)
    group = group_index(reader, query.group)
    begin_diagram(here, reader.record)
    tally = reader.rows_of(reader.gathered(window, now().timestamp()), group)
    shown = diagram_of(tally, reader.record, reader.kept.memory)
    if shown is None:
        raise NothingToDraw("the window has no labelled rows")
    about = About(len(tally), reader.record.reduction or "binary", _called(f"{name}, {window.name}", query.group))
    return partial(draw, "reliability", shown, about, **{**_look(query), "form": form})


def _alarms(reader: Reader, key: str) -> list[dict[str, Any]]:
    """When alarms were raised that are about a measure, or about calibration as such."""
    told = [(event.timestamp, event.data) for event in reader.raised() if isinstance(event.data, AlarmTold)]
    return [{"at": seconds(at), "rule": data.rule} for at, data in told if data.measure in (None, key)]


def _called(name: str, group: str | None) -> str:
    return name if group is None else f"{name}, {group}"


def _look(query: PictureQuery) -> dict[str, Any]:
    return {"theme": query.theme, "width": query.width}
