"""Several maps side by side, where a report compares them: which is best, what is proven of it, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.comparison import RAW
from calibrant.reports import numbers
from calibrant.reports.tables import cell, chance, column
from calibrant.reports.text import cleaned
from calibrant.reports.verdict import Verdict

#: The measure by which a map is called best: a proper score, which no map improves by hiding what it does not know.
_JUDGED = "log-loss"
_HOW_TO_JUDGE = (
    "Judge on rows that no map was fitted to: a map is known to have seen these rows only where it was fitted to them "
    "all, and to no others."
)


@dataclass(frozen=True)
class ContestantRow:
    """A row of the comparison: its name, and for each measure the value and its interval; ``note`` a warning."""

    name: str
    note: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DifferenceRow:
    """By one measure, the best less another: the difference, its interval and its adjusted p-value as texts."""

    measure: str
    between: str
    difference: str
    interval: str
    p_value: str


@dataclass(frozen=True)
class Contest:
    """The comparison: its ``verdict``; ``columns`` are titles of measures, ``rankings`` a sentence for each that ranks.

    ``differences`` are those of the best from each other contestant, ``how`` the interval and p-values are to be read.
    """

    verdict: Verdict
    columns: list[str]
    rows: tuple[ContestantRow, ...]
    rankings: tuple[str, ...]
    differences: tuple[DifferenceRow, ...]
    how: str


def contest(report: Mapping[str, Any]) -> Contest | None:
    """What a report's ``comparison`` of maps says; None where it has none."""
    comparison = report.get("comparison")
    if not comparison:
        return None
    keys = list(comparison["measures"])
    first = comparison["contestants"][0]["measures"]
    titles = {key: column(key, first[key]["definition"]) for key in keys}
    rows = tuple(
        ContestantRow(
            cleaned(each["name"]),
            "fitted to these rows" if each["in_sample"] else "",
            tuple(cell(each["measures"][key]) for key in keys),
        )
        for each in comparison["contestants"]
    )
    scores = {key: _Score.of(comparison, key) for key in keys}
    rankings = tuple(_ranking(titles[key], score) for key, score in scores.items() if score.ranking)
    differences = tuple(each for key, score in scores.items() for each in _differences(titles[key], score))
    how = (
        f"The first less the second, on the same rows; intervals, at {numbers.level(comparison['level'])}, and "
        f"p-values hold for all pairs of a measure at once ({comparison['correction']})."
    )
    return Contest(_verdict(comparison, titles, scores), list(titles.values()), rows, rankings, differences, how)


@dataclass(frozen=True)
class _Score:
    """The contestants by one measure: in their ``ranking`` are those alone that were not fitted to these rows."""

    ranking: tuple[str, ...]
    pairs: Mapping[frozenset[str], Mapping[str, Any]]
    level: float

    @classmethod
    def of(cls, comparison: Mapping[str, Any], key: str) -> _Score:
        found = comparison["measures"][key]
        seen = {each["name"] for each in comparison["contestants"] if each["in_sample"]}
        ranking = tuple(name for name in found["ranking"] or () if name not in seen)
        pairs = {frozenset(pair["between"]): pair for pair in found["pairs"]}
        return cls(ranking, pairs, comparison["level"])

    def tied(self) -> list[str]:
        """Those that are not proven to be worse than the best."""
        return [name for name in self.ranking[1:] if not self.is_proven(name)]

    def is_proven(self, name: str) -> bool:
        """Whether chance does not explain the lead of the best over this one."""
        p = self.pairs[frozenset((self.ranking[0], name))]["p_value"]
        return p is not None and p <= 1.0 - self.level


def _verdict(comparison: Mapping[str, Any], titles: Mapping[str, str], scores: Mapping[str, _Score]) -> Verdict:
    """What is proven of the maps, by log loss where that was measured, else by the first measure that ranks."""
    measures = comparison["contestants"][0]["measures"]
    ranked = [key for key, score in scores.items() if score.ranking]
    judged = sorted(ranked, key=lambda key: measures[key]["definition"].get("name") != _JUDGED)
    warned = _warnings(comparison["contestants"])
    if not judged:
        return Verdict("No map is called best: nothing that was measured ranks them", "unknown", warned, ())
    key = judged[0]
    score, title = scores[key], titles[key]
    title = "log loss" if measures[key]["definition"].get("name") == _JUDGED else title
    of_best = [_against(score, name, title) for name in score.ranking[1:]]
    return Verdict(_headline(score, title), "unknown", (*of_best, *warned), ())


def _headline(score: _Score, title: str) -> str:
    if score.ranking == (RAW,):
        return "No map is called best: every one was fitted to these very rows"
    best, *others = score.ranking
    if best == RAW or (RAW in others and not score.is_proven(RAW)):
        return "No map is proven better than the predictions as they came"
    named, tied = f"{cleaned(best)} is best by {title}", score.tied()
    if tied:
        return f"{named}; {numbers.listed(tied)} cannot be told apart from it"
    return f"{named}, and proven better than the predictions as they came" + (
        " and every other map" if len(others) > 1 else ""
    )


def _against(score: _Score, name: str, title: str) -> str:
    """The best less another, by the measure of the verdict, in a sentence."""
    best = score.ranking[0]
    pair = score.pairs[frozenset((best, name))]
    by = f"{numbers.number(abs(pair['difference']))} {'less' if _is_less(pair, best) else 'more'}"
    # A name is written as it is, also where a sentence begins.
    has = f"The predictions as they came have a {title} of" if best == RAW else f"{_called(best)} has a {title} of"
    text = f"{has} {by} than {_called(name)}"
    if pair["p_value"] is None:
        return f"{text}; whether chance explains that is not known."
    chance = "chance does not explain it" if score.is_proven(name) else "chance could explain it"
    ends = f" ({numbers.level(score.level)} interval of the difference {_ends(pair, best)})" if pair["interval"] else ""
    return f"{text}{ends}; {chance}, {numbers.p_value(pair['p_value'])}."


def _called(name: str) -> str:
    return "the predictions as they came" if name == RAW else cleaned(name)


def _is_less(pair: Mapping[str, Any], best: str) -> bool:
    return _difference(pair, best) <= 0.0


def _difference(pair: Mapping[str, Any], best: str) -> float:
    """Best less other, whichever of them the pair names first."""
    return float(pair["difference"]) if pair["between"][0] == best else -float(pair["difference"])


def _ends(pair: Mapping[str, Any], best: str) -> str:
    if pair["interval"] is None:
        return ""
    low, high = pair["interval"]
    return numbers.interval((low, high) if pair["between"][0] == best else (-high, -low))


def _warnings(contestants: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What is known of the rows that the maps were fitted to, and what is not."""
    maps = [each for each in contestants if each["name"] != RAW]
    seen = [each["name"] for each in maps if each["in_sample"]]
    unknown = [each["name"] for each in maps if each["in_sample"] is None]
    found = []
    if seen:
        verb = "was" if len(seen) == 1 else "were"
        names = numbers.listed(seen, most=10)
        found.append(f"{names} {verb} fitted to these very rows: the scores flatter, and count for nothing.")
    if unknown:
        found.append(f"Whether {numbers.listed(unknown, most=10)} saw these rows in the fit is not known.")
    return (*found, _HOW_TO_JUDGE)


def _differences(title: str, score: _Score) -> list[DifferenceRow]:
    found = []
    for name in score.ranking[1:]:
        best = score.ranking[0]
        pair = score.pairs[frozenset((best, name))]
        between = f"{cleaned(best)} less {cleaned(name)}"
        found.append(
            DifferenceRow(
                title, between, numbers.number(_difference(pair, best)), _ends(pair, best), chance(pair["p_value"])
            )
        )
    return found


def _ranking(title: str, score: _Score) -> str:
    """The best by one measure of those that have not seen the rows, and whom chance could have put first."""
    best, tied = score.ranking[0], score.tied()
    text = f"{title}: {_called(best)} {'are' if best == RAW else 'is'} best"
    if len(score.ranking) == 1:
        return f"{text} of what was not fitted to these rows."
    if not tied:
        return f"{text}, and chance does not explain the lead over any other."
    unknown = [name for name in tied if score.pairs[frozenset((best, name))]["p_value"] is None]
    if unknown:
        return f"{text}; whether chance explains the lead is not known."
    return f"{text}; chance could explain the lead over {numbers.listed([_called(name) for name in tied], most=10)}."
