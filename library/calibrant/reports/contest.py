"""The comparison of maps or models in a report: which is best, by how much, and whether it is significant."""

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
_CAVEATS_OF_MODELS = (
    "Compare models on rows that none of them was fitted to.",
    "Calibration errors do not rank models, since a constant prediction of the base rate has none.",
)
#: The most contestants that the verdict compares with the best, and the most groups of the table.
_MOST, _MOST_GROUPS = 5, 50


@dataclass(frozen=True)
class ContestantRow:
    """A row of the comparison: a map, model or group, a note, and for each column the value and its interval."""

    name: str
    note: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DifferenceRow:
    """One map or model minus another by one measure: difference, interval and adjusted p-value, as text."""

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
    noun : str
        What is compared: ``map`` or ``model``.
    verdict : Verdict
        Headline and reasons.
    columns : list of str
        Titles of the rank, if there is one, and of the measures.
    rows : tuple of ContestantRow
        The maps or models.
    rankings : tuple of str
        One sentence for each measure that ranks them.
    differences : tuple of DifferenceRow
        The best minus each other.
    others : tuple of DifferenceRow
        All other pairs, also those of measures that do not rank and of maps that were fitted to these rows.
    how : str
        How to read the intervals and p-values.
    groups : GroupContest or None
        The comparison on the rows of each group.
    ranked : bool
        Whether the first column is the rank.
    """

    noun: str

    verdict: Verdict
    columns: list[str]
    rows: tuple[ContestantRow, ...]
    rankings: tuple[str, ...]
    differences: tuple[DifferenceRow, ...]
    others: tuple[DifferenceRow, ...]
    how: str
    groups: GroupContest | None = None
    ranked: bool = False


@dataclass(frozen=True)
class GroupContest:
    """The score that ranks models on the rows of each group: its title, the models, the groups, and how many more."""

    title: str
    columns: list[str]
    rows: tuple[ContestantRow, ...]
    hidden: int


def is_of_models(report: Mapping[str, Any]) -> bool:
    """Whether a report compares models; maps have improvements, and ids if they are stored."""
    contestants = (report.get("comparison") or {}).get("contestants", ())
    of_maps = any(
        contestant.get("improvement") is not None or contestant.get("map") is not None for contestant in contestants
    )
    return bool(contestants) and not of_maps


def contest(report: Mapping[str, Any]) -> Contest | None:
    """Describe the ``comparison`` of a report; returns None if it has none."""
    comparison = report.get("comparison")
    if not comparison:
        return None
    keys, noun = list(comparison["measures"]), "model" if is_of_models(report) else "map"
    first = comparison["contestants"][0]["measures"]
    kinds = {key: lookup.kind(contestant["measures"][key] for contestant in comparison["contestants"]) for key in keys}
    titles = {key: column(key, first[key]["definition"]) for key in keys}
    ranks = _ranks(comparison)
    rows = tuple(
        ContestantRow(
            cleaned(contestant["name"]),
            "fitted to these rows" if contestant["in_sample"] else "",
            (
                *((ranks[contestant["name"]],) if ranks else ()),
                *(cell(contestant["measures"][key], kinds[key]) for key in keys),
            ),
        )
        for contestant in sorted(
            comparison["contestants"], key=lambda contestant: [*ranks, contestant["name"]].index(contestant["name"])
        )
    )
    scores = {key: _Score.of(comparison, key, RAW if noun == "map" else None) for key in keys}
    rankings = tuple(_ranking(titles[key], score) for key, score in scores.items() if score.ranking)
    differences = tuple(row for key, score in scores.items() for row in _differences(titles[key], score))
    others = tuple(row for key, score in scores.items() for row in _other_differences(titles[key], score))
    level = numbers.level(comparison["level"])
    how = (
        f"First minus second, on the same rows. The {level} intervals and the p-values "
        f"are simultaneous over all pairs of a measure ({comparison['correction']})."
    )
    ranked_by = [f"Rank by {_score_named(comparison['rank_by'], titles)}"] if ranks else []
    return Contest(
        noun,
        _verdict_on_models(report, titles, scores) if noun == "model" else _verdict(comparison, titles, scores),
        [*ranked_by, *(titled(titles[key], kinds[key]) for key in keys)],
        rows,
        rankings,
        differences,
        others,
        how,
        _by_group(comparison, titles),
        bool(ranks),
    )


def _score_named(key: str, titles: Mapping[str, str]) -> str:
    """Return the name of a score in a sentence, without its unit."""
    return "log loss" if key == _PREFERRED else titles[key]


def _ranks(comparison: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the place of each contestant and the interval of its rank, the best first; empty without a ranking."""
    measure = comparison["measures"].get(comparison.get("rank_by")) or {}
    order, ranks = measure.get("ranking"), measure.get("ranks") or {}
    if not order:
        return {}
    others = [contestant["name"] for contestant in comparison["contestants"] if contestant["name"] not in order]
    ends = {name: f"{low} to {high}" if low < high else str(low) for name, (low, high) in ranks.items()}
    places = {name: (str(i), ends.get(name, "")) for i, name in enumerate(order, 1)}
    return places | dict.fromkeys(others, ("", ""))


def _by_group(comparison: Mapping[str, Any], titles: Mapping[str, str]) -> GroupContest | None:
    """Return the score that ranks on the rows of each group, the most rows first; None without groups or score."""
    groups, key = comparison.get("groups"), comparison.get("rank_by")
    if not groups or key is None:
        return None
    names = [contestant["name"] for contestant in comparison["contestants"]]
    order = sorted(groups, key=lambda name: -groups[name]["n"])
    rows = []
    for name in order[:_MOST_GROUPS]:
        part = groups[name]
        near = part["measures"][key]["indistinguishable"]
        best = "none" if not near else numbers.listed(near, most=3)
        values = (cell(contestant["measures"][key], None) for contestant in part["contestants"])
        rows.append(ContestantRow(cleaned(name), "", ((numbers.count(part["n"]), ""), (best, ""), *values)))
    columns = ["Rows", "Best, or not significantly worse", *map(cleaned, names)]
    return GroupContest(titles[key], columns, tuple(rows), len(order) - len(rows))


@dataclass(frozen=True)
class _Score:
    """The contestants by one measure; ``ranking`` has only those that were not fitted to these rows.

    ``raw`` is the name of the uncalibrated predictions; None among models.
    """

    ranking: tuple[str, ...]
    pairs: Mapping[frozenset[str], Mapping[str, Any]]
    level: float
    raw: str | None = RAW

    @classmethod
    def of(cls, comparison: Mapping[str, Any], key: str, raw: str | None) -> _Score:
        measure = comparison["measures"][key]
        in_sample = {contestant["name"] for contestant in comparison["contestants"] if contestant["in_sample"]}
        ranking = tuple(name for name in measure["ranking"] or () if name not in in_sample)
        pairs = {frozenset(pair["between"]): pair for pair in measure["pairs"]}
        return cls(ranking, pairs, comparison["level"], raw)

    def called(self, name: str) -> str:
        """Return a contestant in words."""
        return "the uncalibrated predictions" if name == self.raw else cleaned(name)

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


def _verdict_on_models(report: Mapping[str, Any], titles: Mapping[str, str], scores: Mapping[str, _Score]) -> Verdict:
    """Return the verdict, by the proper score that ranks the models."""
    key = report["comparison"].get("rank_by")
    if key is None or not scores[key].ranking:
        why = "the event depends on the model" if key is None else f"no model has a {titles[key].lower()}"
        return Verdict(f"No best model: {why}, so that no score ranks them", "unknown", _CAVEATS_OF_MODELS, ())
    score, measure = scores[key], report["comparison"]["measures"][key]
    title = _score_named(key, titles)
    best, *others = score.ranking
    tied = score.tied()
    headline = f"{cleaned(best)} is best by {title}"
    if any(score.pairs[frozenset((best, name))]["p_value"] is None for name in tied):
        headline += "; the significance is unknown"
    elif tied:
        headline += f"; {numbers.listed(tied)} {'is' if len(tied) == 1 else 'are'} not significantly worse"
    else:
        headline += ", significantly better than " + ("every other model" if len(others) > 1 else cleaned(others[0]))
    sentences = [_against(score, name, title) for name in others[:_MOST]]
    if len(others) > _MOST:
        sentences.append(f"The table has the differences from {len(others) - _MOST} more models.")
    problem = () if measure.get("problem") is None else (f"The comparison has {measure['problem']}.",)
    return Verdict(headline, "unknown", (*sentences, *problem, *_CAVEATS_OF_MODELS), ())


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
    by = f"{numbers.number(abs(pair['difference']))} {'lower' if _difference(pair, best) <= 0.0 else 'higher'}"
    text = f"The {title} of {score.called(best)} is {by} than that of {score.called(name)}"
    if pair["p_value"] is None:
        return f"{text}; the significance is unknown."
    significance = "significant" if score.is_significant(name) else "not significant"
    ends = f" ({numbers.level(score.level)} interval of the difference {_ends(pair, best)})" if pair["interval"] else ""
    return f"{text}{ends}; {significance}, {numbers.p_value(pair['p_value'])}."


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
    maps = [contestant for contestant in contestants if contestant["name"] != RAW]
    in_sample = [contestant["name"] for contestant in maps if contestant["in_sample"]]
    unknown = [contestant["name"] for contestant in maps if contestant["in_sample"] is None]
    sentences = []
    if in_sample:
        verb, whose = ("was", "its") if len(in_sample) == 1 else ("were", "their")
        names = numbers.listed(in_sample, most=10)
        sentences.append(f"{names} {verb} fitted to these rows; {whose} scores are optimistic and are not ranked.")
    if unknown:
        verb = "was" if len(unknown) == 1 else "were"
        sentences.append(f"It is unknown whether {numbers.listed(unknown, most=10)} {verb} fitted to these rows.")
    return (*sentences, _CAVEAT)


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
    text = f"{title}: {score.called(best)} {'are' if best == score.raw else 'is'} best"
    if len(score.ranking) == 1:
        return f"{text}; all others were fitted to these rows."
    if not tied:
        return f"{text}, significantly better than all others."
    unknown = [name for name in tied if score.pairs[frozenset((best, name))]["p_value"] is None]
    if unknown:
        return f"{text}; the significance is unknown."
    return (
        f"{text}, but not significantly better than {numbers.listed([score.called(name) for name in tied], most=10)}."
    )
