"""A comparison of maps as the page shows it: a row a contestant, a column a measure, and the letters between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from calibrant.comparing import RAW
from calibrant.measures.catalogue import MEASURES
from schemas.evaluate import ComparisonAnswer, ContestantAnswer, MeasureComparisonAnswer, PairAnswer
from service.web.letters import letters


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
