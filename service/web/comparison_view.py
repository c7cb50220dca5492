"""Comparisons of maps on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backend.evaluations import read_asked
from backend.store.pages import Asked
from calibrant.comparison import RAW
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.measures.catalogue import MEASURES
from calibrant.reports.pictures import shown_error
from schemas.batches import BatchRecord
from schemas.evaluate import (
    ComparisonAnswer,
    ContestantAnswer,
    EvaluateOptions,
    EvaluateSpec,
    MeasureComparisonAnswer,
    PairAnswer,
)
from schemas.listing import ListedMap, MapQuery
from service.context import INLINE_SECONDS, Context
from service.errors import InvalidField, NothingToDraw
from service.formats.options import read_options
from service.formats.payload import Payload
from service.rows import find_arrays, labelled
from service.web.registry_view import reference_of
from service.web.words import letters

# --- A comparison of maps as the page shows it: a row a contestant, a column a measure, and the letters between them


class Cell(NamedTuple):
    """One contestant by one measure; ``best`` is the first of the ranking that has not seen the rows."""

    value: float | None
    interval: tuple[float, float] | None
    letters: str
    best: bool


class Row(NamedTuple):
    """One contestant; ``link`` is its map's page, None for the predictions as they came."""

    name: str
    link: str | None
    map: str | None
    in_sample: bool | None
    cells: list[Cell]


class Column(NamedTuple):
    """One measure: its title, which value is shown, and what could not be compared."""

    key: str
    title: str
    debiased: bool
    problem: str | None
    pairs: list[PairAnswer]


class ComparisonView(NamedTuple):
    """The table of a comparison."""

    columns: list[Column]
    rows: list[Row]
    level: float
    correction: str


def view_of_comparison(answer: Mapping[str, Any]) -> ComparisonView:
    """The table of an answer of ``POST /evaluate`` with maps."""
    found = ComparisonAnswer.model_validate(answer)
    columns = [
        Column(key, _title(found, key), each.of == "debiased", each.problem, each.pairs)
        for key, each in found.measures.items()
    ]
    seen = {who.name for who in found.contestants if who.in_sample}
    best = {key: next((n for n in each.ranking or () if n not in seen), None) for key, each in found.measures.items()}
    shared = {key: _letters(each, found.level) for key, each in found.measures.items()}
    rows = [
        Row(
            "As they came" if who.name == RAW else who.name,
            None if who.map is None else f"/ui/maps/{who.map}",
            who.map,
            who.in_sample,
            [_cell(who, key, each, shared[key], best=who.name == best[key]) for key, each in found.measures.items()],
        )
        for who in found.contestants
    ]
    return ComparisonView(columns, rows, found.level, found.correction)


def _cell(
    who: ContestantAnswer, key: str, each: MeasureComparisonAnswer, shared: Mapping[str, str], *, best: bool
) -> Cell:
    answer = who.measures[key]
    value = answer.debiased if each.of == "debiased" else answer.value
    return Cell(value, answer.interval, shared.get(who.name, ""), best)


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

#: Maps that are compared at once, and batches and maps that are offered.
MOST_MAPS = 6
_OFFERED = 50
#: What every comparison tells: both proper scores, and two errors of calibration.
_COMPARED = ("log-loss", "brier", "ece", "ks")
DIAGRAM = "reliability"


class Offer(NamedTuple):
    """What there is to choose from: batches with labels and their files' names, and maps by their references."""

    batches: list[tuple[BatchRecord, str | None]]
    maps: list[tuple[str, ListedMap]]


def offer(here: Context, *, name: str, chosen: Sequence[str]) -> Offer:
    """The newest batches and maps, of one name where it is given; those chosen always among them."""
    batches = [b for b in here.store.batches.page(Asked(_OFFERED)).items if "labels" in b.arrays]
    query = read_options(Payload({}, {"limit": str(_OFFERED), **_named(name)}, from_query=True), MapQuery)
    maps = [(reference_of(listed), listed) for listed in here.store.listing.page(query).items]
    maps.sort(key=lambda item: item[0] not in chosen)
    files = here.store.uploads.files([batch.id for batch in batches])
    return Offer(list(zip(batches, files, strict=True)), maps)


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def read_comparison(batch: str, maps: Sequence[str]) -> EvaluateOptions:
    """The evaluation that compares maps on a batch; raises ``InvalidField`` for what is missing or too much."""
    if not batch:
        raise InvalidField("choose a batch")
    if not 1 <= len(maps) <= MOST_MAPS:
        raise InvalidField(f"choose from one to {MOST_MAPS} maps")
    asked: dict[str, Any] = {"batch": batch, "maps": list(maps), "measures": list(_COMPARED)}
    return read_options(Payload({}, asked, from_query=False), EvaluateOptions)


def before_and_after(here: Context, batch_id: str, ref: str) -> dict[str, Any]:
    """The report behind the picture of one map on a batch.

    Raises ``NothingToDraw`` where it would take long: a picture is no job.
    """
    error = shown_error({"name": DIAGRAM, **_defaults()}) | {"as": "error"}
    spec = EvaluateSpec(
        batch=batch_id,
        measures=[error],
        diagrams=[DIAGRAM],
        reduction=None,
        map=here.store.maps.get(ref).id,
        interval=None,
        resamples=1000,
        seed=0,
    )
    asked = read_asked(spec, here.store.maps)
    batch, _ = labelled(*find_arrays(here, Payload({}, {}, from_query=True), EvaluateOptions(batch=batch_id)))
    seconds = asked.seconds(batch, None)
    if not asked.task.inline or seconds > INLINE_SECONDS:
        raise NothingToDraw("it would take longer than a picture may")
    here.take_place(seconds)
    return asked.document(batch, None)


def _defaults() -> dict[str, Any]:

    return {name: option.default for name, option in DIAGRAMS[DIAGRAM].options.items()}
