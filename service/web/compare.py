"""The page that compares maps on a stored batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import Request, Response

from backend.batches import find_rows
from backend.evaluations import evaluate_or_queue
from backend.jobs import INLINE_SECONDS
from backend.kinds.classes import implied_reduction, read_operation
from backend.store.errors import StorageError, problem_of
from backend.store.pages import PageRequest
from calibrant.comparison import RAW
from calibrant.core.errors import CalibrationError
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from calibrant.plots.canvas import NothingToDraw
from calibrant.reports.contest import contest
from calibrant.reports.pictures import draw_report, shown_error
from schemas.batches import BatchRecord
from schemas.diagrams import PictureQuery
from schemas.evaluate import (
    ComparisonAnswer,
    ContestantAnswer,
    EvaluateOptions,
    EvaluateSpec,
    MeasureComparisonAnswer,
    PairAnswer,
)
from schemas.jobs import JobRecord
from schemas.listing import ListedMap, MapQuery
from schemas.problems import Problem
from service.calls import Call
from service.context import Context
from service.errors import InvalidField, NotFound
from service.formats.options import read_options
from service.formats.payload import Payload
from service.pictures import picture
from service.threads import run_in_thread
from service.web.forms import Form, page_calls, text_of, texts_of
from service.web.maps import reference_of
from service.web.text import letters, sentence
from service.web.visit import Visit, Visiting, redirect_to

# --- The comparison table: one row per contestant, one column per measure, with letters for significance groups


class Cell(NamedTuple):
    """One contestant and measure; ``best`` marks the lowest held-out value, if any other differs from it."""

    value: float | None
    interval: tuple[float, float] | None
    letters: str
    best: bool


class ComparisonRow(NamedTuple):
    """One contestant; ``link`` is the page of its map, None for the uncalibrated predictions."""

    name: str
    link: str | None
    map: str | None
    in_sample: bool | None
    cells: list[Cell]


class ComparisonColumn(NamedTuple):
    """One measure: its title, the reduction of all its values, which value is shown, and why it was not compared."""

    key: str
    title: str
    reduction: str
    debiased: bool
    problem: str | None
    pairs: list[PairAnswer]


class ComparisonView(NamedTuple):
    """The table of a comparison."""

    columns: list[ComparisonColumn]
    rows: list[ComparisonRow]
    level: float
    correction: str


def view_of_comparison(report: Mapping[str, Any]) -> ComparisonView:
    """The table for a response of ``POST /evaluate`` with maps."""
    found = ComparisonAnswer.model_validate(report["comparison"])
    columns = [
        ComparisonColumn(key, _title(found, key), report["reduction"], each.of == "debiased", each.problem, each.pairs)
        for key, each in found.measures.items()
    ]
    held_out = {who.name for who in found.contestants if not who.in_sample}
    best = {key: _best(each, held_out) for key, each in found.measures.items()}
    shared = {key: _letters(each, found.level) for key, each in found.measures.items()}
    rows = [
        ComparisonRow(
            "Uncalibrated" if who.name == RAW else who.name,
            None if who.map is None else f"/ui/maps/{who.map}",
            who.map,
            who.in_sample,
            [_cell(who, key, each, shared[key], best=who.name == best[key]) for key, each in found.measures.items()],
        )
        for who in found.contestants
    ]
    return ComparisonView(columns, rows, found.level, found.correction)


def _cell(
    who: ContestantAnswer,
    key: str,
    each: MeasureComparisonAnswer,
    shared: Mapping[str, str],
    *,
    best: bool,
) -> Cell:
    answer = who.measures[key]
    value = answer.debiased if each.of == "debiased" else answer.value
    return Cell(value, answer.interval, shared.get(who.name, ""), best)


def _best(each: MeasureComparisonAnswer, held_out: Collection[str]) -> str | None:
    """The best held-out contestant; None if it does not differ significantly from any other."""
    ranking = [name for name in each.ranking or () if name in held_out]
    return None if set(ranking) <= set(each.indistinguishable or ()) else ranking[0]


def _letters(each: MeasureComparisonAnswer, level: float) -> dict[str, str]:
    if each.ranking is None:
        return {}
    different = [frozenset(pair.between) for pair in each.pairs if _differs(pair, level)]
    return letters(each.ranking, different)


def _differs(pair: PairAnswer, level: float) -> bool:
    return pair.p_value is not None and pair.p_value <= 1.0 - level


def _title(found: ComparisonAnswer, key: str) -> str:
    name = found.contestants[0].measures[key].definition.get("name", key)
    return MEASURES[name].title if name in MEASURES else key


# --- The comparison that the page requests: a stored batch, some maps, and their scores

#: Maximum number of maps in a comparison, and number of batches and maps on offer.
MOST_MAPS = 6
_OFFERED = 50
#: Measures of every comparison: both proper scores, and two calibration errors.
_COMPARED = ("log-loss", "brier", "ece", "ks")
DIAGRAM = "reliability"


class Offer(NamedTuple):
    """The available batches with labels and their file names, and the available maps by reference."""

    batches: list[tuple[BatchRecord, str | None]]
    maps: list[tuple[str, ListedMap]]


def offer(here: Context, *, name: str, chosen: Sequence[str]) -> Offer:
    """The newest batches and maps, optionally of one name; the chosen maps come first."""
    batches = [b for b in here.store.batches.page(PageRequest(_OFFERED)).items if "labels" in b.arrays]
    query = read_options(Payload({}, {"limit": str(_OFFERED), **_named(name)}, from_query=True), MapQuery)
    maps = [
        (reference_of(listed), listed)
        for listed in here.store.listing.page(query).items
        if listed.prediction_kind == "classification"
    ]
    maps.sort(key=lambda item: item[0] not in chosen)
    files = here.store.uploads.files([batch.id for batch in batches])
    return Offer(list(zip(batches, files, strict=True)), maps)


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def read_comparison(batch: str, maps: Sequence[str]) -> EvaluateOptions:
    """Create the evaluation that compares maps on a batch; raises ``InvalidField``."""
    if not batch:
        raise InvalidField("choose a batch")
    if not 1 <= len(maps) <= MOST_MAPS:
        raise InvalidField(f"choose one to {MOST_MAPS} maps")
    fields: dict[str, Any] = {"batch": batch, "maps": list(maps), "measures": list(_COMPARED)}
    return read_options(Payload({}, fields, from_query=False), EvaluateOptions)


def before_and_after(here: Context, batch_id: str, ref: str) -> dict[str, Any]:
    """The report behind the picture of one map on a batch.

    Raises ``NothingToDraw`` if it would take long, because a picture on the page cannot wait for a job.
    """
    error = shown_error({"name": DIAGRAM, **_defaults()}) | {"as": "error"}
    spec = EvaluateSpec(
        batch=batch_id,
        measures=[error],
        diagrams=[DIAGRAM],
        reduction=implied_reduction(here, None, [batch_id]),
        map=here.store.maps.get(ref).id,
        interval=None,
        resamples=1000,
        seed=0,
    )
    operation = read_operation(spec, here.store.maps.get)
    rows = operation.check(find_rows(here, {}, EvaluateOptions(batch=batch_id)).labelled)
    seconds = operation.seconds(rows)
    if not operation.inline or seconds > INLINE_SECONDS:
        raise NothingToDraw("the diagram would take too long to compute")
    here.take_slot(seconds)
    return operation.document(rows)


def _defaults() -> dict[str, Any]:

    return {name: option.default for name, option in DIAGRAMS[DIAGRAM].options.items()}


# --- The pages

calls = page_calls()

_PICTURE = PictureQuery(width=400)


@calls.add(Call("GET", "/ui/compare"))
async def form(request: Request, visit: Visiting) -> Response:
    """The form to choose a batch and maps; with ``job``, the comparison of a job."""
    query = request.query_params
    job_id = query.get("job")
    if job_id is None:
        return await _page(visit, query.get("batch", ""), query.getlist("map"), name=query.get("name", ""))
    record = await run_in_thread(visit.here.store.jobs.get, job_id)
    report = (record.result or {}).get("report", {})
    if "comparison" not in report:
        raise NotFound("the job has no comparison, or has not ended")
    chosen = [each["map"] for each in report["comparison"]["contestants"] if each["map"]]
    return await _page(visit, record.spec.get("batch") or "", chosen, report=report)


@calls.add(Call("POST", "/ui/compare", access="reads"))
async def compare(visit: Visiting, form: Form) -> Response:
    """Compare maps on a batch, directly or as a job if it takes long."""
    batch, maps = text_of(form, "batch"), texts_of(form, "map")
    try:
        options = read_comparison(batch, maps)
        made = await run_in_thread(evaluate_or_queue, visit.here, {}, options)
    except (CalibrationError, StorageError) as error:
        return await _page(visit, batch, maps, problem=problem_of(error))
    if isinstance(made, JobRecord):
        return redirect_to(visit, f"/ui/jobs/{made.id}")
    return await _page(visit, batch, maps, report=made)


@calls.add(Call("GET", "/ui/compare/picture.svg"))
async def compared_picture(batch: str, map: str, visit: Visiting) -> Response:
    """The reliability diagram of a batch before and after one map."""
    report = await run_in_thread(before_and_after, visit.here, batch, map)
    drawing = partial(draw_report, report, DIAGRAM, theme=_PICTURE.theme, width=_PICTURE.width)
    return await picture(visit.here, drawing, _PRIVATE)


_PRIVATE = {"Cache-Control": "private, no-cache"}


def _of_maps(problem: Problem, maps: Sequence[str]) -> str | None:
    """The message about maps, with their references instead of their places; None for another problem."""
    places = [(place.pointer.strip("/").split("/"), place.detail) for place in problem.errors or ()]
    messages = [
        sentence(f"the map {maps[int(parts[1])]}: {' '.join([*parts[2:], detail])}")
        for parts, detail in places
        if parts[0] == "maps" and len(parts) > 1 and parts[1].isdigit() and int(parts[1]) < len(maps)
    ]
    return " ".join(messages) if messages and len(messages) == len(places) else None


async def _page(
    visit: Visit,
    batch: str,
    maps: Sequence[str],
    *,
    name: str = "",
    report: dict[str, Any] | None = None,
    problem: Problem | None = None,
) -> Response:
    """The submitted form with its result; for htmx only the result."""
    values: dict[str, Any] = {
        "batch": batch,
        "report": report,
        "view": None if report is None else view_of_comparison(report),
        "contest": None if report is None else contest(report),
        "problem": problem,
        "message": None if problem is None else _of_maps(problem, maps),
    }
    status = 200 if problem is None else problem.status
    if visit.wants_part:
        return visit.page("message.html" if report is None else "comparison.html", status=status, **values)
    offered = await run_in_thread(partial(offer, visit.here, name=name, chosen=maps))
    return visit.page("compare.html", status=status, offered=offered, chosen=maps, name=name, most=MOST_MAPS, **values)
