"""The comparison of maps in a report: which is best, by how much, and whether the difference is significant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.comparison import RAW
from calibrant.reports import lookup, numbers
from calibrant.reports.tables import cell, chance, column, titled
from calibrant.reports.text import cleaned
from calibrant.reports.verdict import Verdict

#: The measure of the verdict, if it was requested: a proper score.
_PREFERRED = "log-loss"
_CAVEAT = "Compare maps on held-out rows. A map is marked as in-sample if it was fitted to these rows or many of them."


@dataclass(frozen=True)
class ContestantRow:
    """A row of the comparison: the name of the map, a warning, and for each measure the value and its interval."""

    name: str
    note: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DifferenceRow:
    """One map minus another by one measure: difference, interval and adjusted p-value, as text."""

    measure: str
    between: str
    difference: str
    interval: str
    p_value: str


@dataclass(frozen=True)
class Contest:
    """The comparison as text.

    Attributes
    ----------
    verdict : Verdict
        Headline and reasons.
    columns : list of str
        Titles of the measures.
    rows : tuple of ContestantRow
        The maps.
    rankings : tuple of str
        One sentence for each measure that ranks maps.
    differences : tuple of DifferenceRow
        The best map minus each other map.
    others : tuple of DifferenceRow
        All other pairs, also those of measures that do not rank maps and of maps that were fitted to these rows.
    how : str
        How to read the intervals and p-values.
    """

    verdict: Verdict
    columns: list[str]
    rows: tuple[ContestantRow, ...]
    rankings: tuple[str, ...]
    differences: tuple[DifferenceRow, ...]
    others: tuple[DifferenceRow, ...]
    how: str


def contest(report: Mapping[str, Any]) -> Contest | None:
    """Describe the ``comparison`` of a report; returns None if it has none."""
    comparison = report.get("comparison")
    if not comparison:
        return None
    keys = list(comparison["measures"])
    first = comparison["contestants"][0]["measures"]
    kinds = {key: lookup.kind(each["measures"][key] for each in comparison["contestants"]) for key in keys}
    titles = {key: column(key, first[key]["definition"]) for key in keys}
    rows = tuple(
        ContestantRow(
            cleaned(each["name"]),
            "fitted to these rows" if each["in_sample"] else "",
            tuple(cell(each["measures"][key], kinds[key]) for key in keys),
        )
        for each in comparison["contestants"]
    )
    scores = {key: _Score.of(comparison, key) for key in keys}
    rankings = tuple(_ranking(titles[key], score) for key, score in scores.items() if score.ranking)
    differences = tuple(row for key, score in scores.items() for row in _differences(titles[key], score))
    others = tuple(row for key, score in scores.items() for row in _other_differences(titles[key], score))
    how = (
        f"First minus second, on the same rows. The {numbers.level(comparison['level'])} intervals and the p-values "
        f"are simultaneous over all pairs of a measure ({comparison['correction']})."
    )
    return Contest(
        _verdict(comparison, titles, scores),
        [titled(titles[key], kinds[key]) for key in keys],
        rows,
        rankings,
        differences,
        others,
        how,
    )


@dataclass(frozen=True)
class _Score:
    """The contestants by one measure; ``ranking`` has only those that were not fitted to these rows."""

    ranking: tuple[str, ...]
    pairs: Mapping[frozenset[str], Mapping[str, Any]]
    level: float

    @classmethod
    def of(cls, comparison: Mapping[str, Any], key: str) -> _Score:
        found = comparison["measures"][key]
        in_sample = {each["name"] for each in comparison["contestants"] if each["in_sample"]}
        ranking = tuple(name for name in found["ranking"] or () if name not in in_sample)
        pairs = {frozenset(pair["between"]): pair for pair in found["pairs"]}
        return cls(ranking, pairs, comparison["level"])

    def tied(self) -> list[str]:
        """Return the contestants that are not significantly worse than the best."""
        return [name for name in self.ranking[1:] if not self.is_significant(name)]

    def is_significant(self, name: str) -> bool:
        """Whether the best is significantly better than this contestant."""
        p = self.pairs[frozenset((self.ranking[0], name))]["p_value"]
        return p is not None and p <= 1.0 - self.level


def _verdict(comparison: Mapping[str, Any], titles: Mapping[str, str], scores: Mapping[str, _Score]) -> Verdict:
    """Return the verdict by log loss if it was requested, else by the first measure that ranks maps."""
    measures = comparison["contestants"][0]["measures"]
    ranked = [key for key, score in scores.items() if score.ranking]
    preferred = sorted(ranked, key=lambda key: measures[key]["definition"].get("name") != _PREFERRED)
    warned = _warnings(comparison["contestants"])
    if not preferred:
        return Verdict("No best map: none of the requested measures ranks maps", "unknown", warned, ())
    key = preferred[0]
    score, title = scores[key], titles[key]
    title = "log loss" if measures[key]["definition"].get("name") == _PREFERRED else title
    of_best = [_against(score, name, title) for name in score.ranking[1:]]
    return Verdict(_headline(score, title), "unknown", (*of_best, *warned), ())


def _headline(score: _Score, title: str) -> str:
    if score.ranking == (RAW,):
        return "No best map: every map was fitted to these rows"
    best, *others = score.ranking
    if best == RAW or (RAW in others and not score.is_significant(RAW)):
        return "No map is significantly better than the uncalibrated predictions"
    named, tied = f"{cleaned(best)} is best by {title}", score.tied()
    if tied:
        return f"{named}; {numbers.listed(tied)} {'is' if len(tied) == 1 else 'are'} not significantly worse"
    return f"{named}, significantly better than the uncalibrated predictions" + (
        " and every other map" if len(others) > 1 else ""
    )


def _against(score: _Score, name: str, title: str) -> str:
    """Compare the best with another contestant by the measure of the verdict, in one sentence."""
    best = score.ranking[0]
    pair = score.pairs[frozenset((best, name))]
    by = f"{numbers.number(abs(pair['difference']))} {'lower' if _is_less(pair, best) else 'higher'}"
    text = f"The {title} of {_called(best)} is {by} than that of {_called(name)}"
    if pair["p_value"] is None:
        return f"{text}; the significance is unknown."
    significance = "significant" if score.is_significant(name) else "not significant"
    ends = f" ({numbers.level(score.level)} interval of the difference {_ends(pair, best)})" if pair["interval"] else ""
    return f"{text}{ends}; {significance}, {numbers.p_value(pair['p_value'])}."


def _called(name: str) -> str:
    return "the uncalibrated predictions" if name == RAW else cleaned(name)


def _is_less(pair: Mapping[str, Any], best: str) -> bool:
    return _difference(pair, best) <= 0.0


def _difference(pair: Mapping[str, Any], best: str) -> float:
    """Return the best minus the other, in whatever order the pair is."""
    return float(pair["difference"]) if pair["between"][0] == best else -float(pair["difference"])


def _ends(pair: Mapping[str, Any], best: str) -> str:
    if pair["interval"] is None:
        return ""
    low, high = pair["interval"]
    return numbers.interval((low, high) if pair["between"][0] == best else (-high, -low))


def _warnings(contestants: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return warnings about maps that were, or may have been, fitted to these rows."""
    maps = [each for each in contestants if each["name"] != RAW]
    in_sample = [each["name"] for each in maps if each["in_sample"]]
    unknown = [each["name"] for each in maps if each["in_sample"] is None]
    found = []
    if in_sample:
        verb, whose = ("was", "its") if len(in_sample) == 1 else ("were", "their")
        names = numbers.listed(in_sample, most=10)
        found.append(f"{names} {verb} fitted to these rows; {whose} scores are optimistic and are not ranked.")
    if unknown:
        verb = "was" if len(unknown) == 1 else "were"
        found.append(f"It is unknown whether {numbers.listed(unknown, most=10)} {verb} fitted to these rows.")
    return (*found, _CAVEAT)


def _differences(title: str, score: _Score) -> list[DifferenceRow]:
    """Return the best minus each other of the ranking."""
    best = score.ranking[0] if score.ranking else ""
    return [_row(title, best, name, pair=score.pairs[frozenset((best, name))]) for name in score.ranking[1:]]


def _other_differences(title: str, score: _Score) -> list[DifferenceRow]:
    """Return the pairs without the best, and those of maps that are not ranked."""
    of_best = {frozenset((score.ranking[0], name)) for name in score.ranking[1:]}
    return [_row(title, *pair["between"], pair=pair) for names, pair in score.pairs.items() if names not in of_best]


def _row(title: str, first: str, second: str, *, pair: Mapping[str, Any]) -> DifferenceRow:
    difference = "" if pair["difference"] is None else numbers.number(_difference(pair, first))
    between = f"{cleaned(first)} minus {cleaned(second)}"
    return DifferenceRow(title, between, difference, _ends(pair, first), chance(pair["p_value"]))


def _ranking(title: str, score: _Score) -> str:
    """Return the best by one measure of those not fitted to these rows, and whether it is significantly better."""
    best, tied = score.ranking[0], score.tied()
    text = f"{title}: {_called(best)} {'are' if best == RAW else 'is'} best"
    if len(score.ranking) == 1:
        return f"{text}; all others were fitted to these rows."
    if not tied:
        return f"{text}, significantly better than all others."
    unknown = [name for name in tied if score.pairs[frozenset((best, name))]["p_value"] is None]
    if unknown:
        return f"{text}; the significance is unknown."
    return f"{text}, but not significantly better than {numbers.listed([_called(name) for name in tied], most=10)}."
