"""The tables of a report, with an explanation of each measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.core.results import counted, from_plain_json, n_rows
from calibrant.decisions.segments import SegmentSearch
from calibrant.distributions.measures import DistributionMeasure
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.intervals import NO_WIDTH
from calibrant.measures.measure import Measure
from calibrant.reports import lookup, numbers
from calibrant.reports.figures import Figure
from calibrant.reports.panel import RESAMPLES, ReportSubject
from calibrant.reports.regions import ALPHA, error_interval
from calibrant.reports.text import cleaned

# --- Titles and explanations of the measures

#: The measures of a kind of predictions, by name.
Entries: TypeAlias = Mapping[str, Measure] | Mapping[str, DistributionMeasure]


def column(key: str, definition: Mapping[str, Any], entries: Entries = MEASURES) -> str:
    """Return the column title of a measure, with its key if that is not its name."""
    entry = _entry(key, definition, entries)
    return entry.title if key == entry.name else f"{entry.title} ({key})"


def _entry(key: str, definition: Mapping[str, Any], entries: Entries) -> Measure | DistributionMeasure:
    return entries[str(definition.get("name", definition.get("measure", key)))]


# --- Tables of measures, groups and facts, as text

#: The most groups in the table, those with the largest errors; the rest are counted.
MOST_GROUPS = 50


@dataclass(frozen=True)
class MeasureRow:
    """A row of the table of measures, as text; empty if not available. ``after`` are the numbers after the map."""

    key: str
    title: str
    meaning: str
    value: str
    debiased: str
    interval: str
    p_value: str
    after: str
    after_debiased: str
    after_interval: str
    problem: str


def measured(report: Mapping[str, Any], entries: Entries = MEASURES) -> list[MeasureRow]:
    """Return the rows of the table of measures, in the order of the request."""
    later = (report.get("after") or {}).get("measures", {})
    alike, alike_later = _alike(report), _alike(report.get("after"))
    return [
        _measured(key, answer, later.get(key), entries, alike=key in alike, alike_later=key in alike_later)
        for key, answer in report["measures"].items()
    ]


def _alike(side: Mapping[str, Any] | None) -> set[str]:
    """Return the keys of the measures whose interval is invalid because the rows vary too little."""
    if side is None:
        return set()
    error = lookup.measure(side, "ece", norm=1)
    keys = {key for key, answer in side["measures"].items() if lookup.too_alike(answer)}
    if error is not None and error_interval(side) is None:
        keys |= {key for key, answer in side["measures"].items() if answer is error and answer.get("interval")}
    return keys


def _measured(
    key: str,
    answer: Mapping[str, Any],
    later: Mapping[str, Any] | None,
    entries: Entries,
    *,
    alike: bool,
    alike_later: bool,
) -> MeasureRow:
    entry = _entry(key, answer["definition"], entries)
    problem = answer.get("problem") or (f"no interval: {NO_WIDTH}" if alike else "")
    return MeasureRow(
        key,
        entry.title,
        entry.text if isinstance(entry, DistributionMeasure) else entry.meaning or entry.definition,
        _value(answer),
        _debiased(answer),
        "" if alike else numbers.interval(lookup.interval(answer)),
        chance(answer.get("p_value")),
        "" if later is None else _value(later),
        "" if later is None else _debiased(later),
        "" if later is None or alike_later else numbers.interval(lookup.interval(later)),
        # A test has no interval, so nothing is missing.
        "" if problem.startswith("no interval") and answer.get("p_value") is not None else problem,
    )


def chance(p: float | None) -> str:
    """Format a p-value for a table; empty for None."""
    return "" if p is None else numbers.p_value(p).removeprefix("p ").removeprefix("= ")


def _value(answer: Mapping[str, Any]) -> str:
    return "" if answer["value"] is None else numbers.number(answer["value"])


def _debiased(answer: Mapping[str, Any]) -> str:
    return "" if answer.get("debiased") is None else numbers.number(answer["debiased"])


def fewer(report: Mapping[str, Any]) -> str:
    """Return a sentence on intervals with fewer resamples than the default; empty if there are none."""
    number = lookup.resamples([report])
    return "" if number is None or number >= RESAMPLES else f" Intervals are from {numbers.count(number)} resamples."


@dataclass(frozen=True)
class GroupRow:
    """A row of the table of groups; each cell is a value and its interval."""

    name: str
    n: str
    cells: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class GroupTable:
    """The table of groups: titles of measures, rows, sentences on the gaps, and the number of hidden groups.

    ``order`` says by what the rows are sorted, and ``resamples`` how many resamples the intervals have, if known.
    """

    columns: list[str]
    rows: tuple[GroupRow, ...]
    gaps: tuple[str, ...]
    hidden: int
    order: str = "The largest error first"
    resamples: str = ""


def grouped(
    report: Mapping[str, Any],
    entries: Entries = MEASURES,
    keys: Sequence[str] | None = None,
    leading: str | None = None,
    sentences: Callable[[lookup.GroupSide], Sequence[str]] | None = None,
) -> GroupTable | None:
    """Return the table of groups, the largest error first, before and after a map; None without groups.

    ``keys`` are those of the measures that are shown, and ``leading`` that of the error; by default all and the first.
    ``sentences`` are in place of those on the gaps.
    """
    groups = report.get("groups")
    if not groups:
        return None
    sides = lookup.sides_of_groups(report)
    answers = next(iter(groups.values()))["measures"]
    first = {key: answers[key] for key in keys or answers}
    kinds = [{key: lookup.kind(m[key] for m in side.measures.values()) for key in first} for side in sides]
    leading = leading or next(iter(first))
    ranked = sorted(groups, key=lambda name: -_size(groups[name]["measures"][leading], kinds[0][leading]))
    shown = [(key, side, kind[key]) for key in first for side, kind in zip(sides, kinds, strict=True)]
    rows = tuple(
        GroupRow(
            cleaned(name),
            numbers.count(groups[name]["n"]),
            tuple(cell(side.measures[name].get(key), which) for key, side, which in shown),
        )
        for name in ranked[:MOST_GROUPS]
    )
    titles = {key: column(key, answer["definition"], entries) for key, answer in first.items()}
    level = lookup.level(report)
    gaps = (
        tuple(sentence for side in sides for sentence in sentences(side))
        if sentences is not None
        else tuple(
            _gap(titled(titles[key], lookup.gap_kind(side.gaps[key], which), side.name), side.gaps[key], level)
            for key, side, which in shown
            if key in side.gaps
        )
    )
    return GroupTable(
        [titled(titles[key], which, side.name) for key, side, which in shown],
        rows,
        gaps,
        len(ranked) - len(rows),
        order_of(sides),
        resampled(groups.values()),
    )


def order_of(sides: Sequence[lookup.GroupSide]) -> str:
    """Return by what the groups are sorted."""
    return f"The largest error {sides[0].name} first" if sides[0].name else "The largest error first"


def resampled(sides: Iterable[Mapping[str, Any]]) -> str:
    """Return the number of resamples of the intervals in words; empty if there are none."""
    number = lookup.resamples(sides)
    return "" if number is None else f", from {numbers.count(number)} resamples,"


def _size(answer: Mapping[str, Any] | None, which: str | None) -> float:
    number = None if answer is None else lookup.shown(answer, which)
    return -1.0 if number is None else abs(float(number))


def titled(title: str, *kinds: str | None) -> str:
    """Return the column title with the kinds of its numbers."""
    return ", ".join([title, *(kind for kind in kinds if kind)])


def cell(answer: Mapping[str, Any] | None, which: str | None) -> tuple[str, str]:
    """Return the number of a measure in a column of the kind ``which``, and its interval, as text."""
    number = None if answer is None else lookup.shown(answer, which)
    if answer is None or number is None:
        return "none", ""
    return numbers.number(number), numbers.interval(lookup.interval(answer))


def _gap(title: str, gap: Mapping[str, Any], level: float) -> str:
    if gap.get("between") is None or gap.get("value") is None:
        return f"{title}: {gap.get('problem') or 'no gap'}."
    low, high = (numbers.listed([name]) for name in gap["between"])
    text = f"{title}: the largest difference is {numbers.number(gap['value'])}, between {low} and {high}"
    ends = lookup.interval(gap)
    text += "" if ends is None else f" ({numbers.level(level)} interval {numbers.interval(ends)})"
    if gap.get("p_value") is None:
        return f"{text}."
    significance = "not significant" if gap["p_value"] >= 0.05 else "significant"
    return f"{text}; {significance}, {numbers.p_value(gap['p_value'])}."


@dataclass(frozen=True)
class NamedRows:
    """Rows with names as text: sentences, the caption, and the columns of each row with what is below a number.

    ``figures`` stand above the table.
    """

    sentences: tuple[str, ...]
    caption: str
    columns: list[str]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    figures: Sequence[Figure] = ()


def segmented(report: Mapping[str, Any]) -> NamedRows | None:
    """Return the segments of a report, or why it has none; None if it was made without features."""
    if problem := report.get("segments_problem"):
        return NamedRows((f"No segments were searched: {problem}.",), "", [], ())
    if report.get("segments") is None:
        return None
    search = from_plain_json(SegmentSearch, report["segments"])
    level, tested = numbers.level(search.confidence), counted(search.tested, "segment")
    rows = tuple(
        (
            str(segment),
            (
                (numbers.count(segment.n), ""),
                (numbers.number(segment.mean_prediction), ""),
                (numbers.number(segment.mean_label), ""),
                (numbers.number(segment.gap), numbers.interval(segment.interval)),
            ),
        )
        for segment in search.segments
    )
    side = " before the map" if report.get("after") is not None else ""
    sentences = [
        f"Of {tested}, {search.significant:,} have a significant gap{side}, at a confidence of {level} for all."
    ]
    if not rows:
        sentences = [f"No gap of {tested} is significant{side} (adjusted {numbers.p_value(search.p_value)})."]
    elif search.significant > len(rows):
        sentences.append("Those that overlap with the listed ones, and whose gaps these explain, are not listed.")
    caption = f"The clearest first; below each gap, its {level} interval. All intervals hold together."
    columns = ["Rows", "Mean prediction", "Mean label", "Gap: label - prediction"]
    return NamedRows((*sentences, *search.notes), caption, columns, rows)


def graded(report: Mapping[str, Any]) -> NamedRows | None:
    """Return the tests of the rating grades of a report; None without them."""
    tests = report.get("grades")
    if tests is None:
        return None
    low = [grade["grade"] for grade in tests["grades"] if grade["jeffreys_holm"] <= ALPHA]
    count = counted(len(tests["grades"]), "grade")
    named = f"of {len(low)} of {count}: {', '.join(low)}" if low else f"of none of {count}"
    sentences = [f"By Jeffreys' test with Holm's correction, the PD is too low {named}."]
    if test := tests["hosmer_lemeshow"]:
        for_all = numbers.p_value(test["p_value"])
        sentences.append(f"Hosmer-Lemeshow over the grades, for PDs too low or too high: {for_all}.")
    rows = tuple(
        (
            grade["grade"],
            (
                (numbers.count(grade["n"]), ""),
                (numbers.count(grade["defaults"]), ""),
                (numbers.number(grade["pd"]), ""),
                (numbers.number(grade["rate"]), ""),
                (chance(grade["jeffreys_p"]), _adjusted(grade["jeffreys_holm"])),
                (chance(grade["binomial_p"]), _adjusted(grade["binomial_holm"])),
                (grade["light"], ""),
            ),
        )
        for grade in (*tests["grades"], tests["total"])
    )
    caption = "P-values are small if the PD is too low; below them, with Holm's correction. (all) is the portfolio."
    columns = ["Obligors", "Defaults", "PD", "Rate of defaults", "Jeffreys", "Binomial", "Traffic light"]
    return NamedRows((*sentences, *tests["notes"]), caption, columns, rows)


def _adjusted(p_value: float | None) -> str:
    return "" if p_value is None else chance(p_value)


def facts(report: Mapping[str, Any], about: ReportSubject) -> list[tuple[str, str]]:
    """Return facts about the data: terms and descriptions."""
    rows = [("Rows", numbers.count(report["n"])), ("Reduction", describe_reduction(about.named(report["reduction"])))]
    if models := about.options.get("models") or about.options.get("batches"):
        rows.append(("Models", f"{len(models)}: {numbers.listed(list(models), most=10)}"))
    if about.classes is not None:
        rows.append(("Classes", f"{len(about.classes)}: {numbers.listed(about.classes, most=10)}"))
    if about.scale == "logit":
        rows.append(("Scale", "the predictions are logits"))
    rows.append(("Weights", about.weights or "none"))
    changes = {
        "left_out": "Left out (other classes)",
        "clipped": "Clipped to [0, 1]",
        "renormalised": "Renormalised to a sum of 1",
    }
    rows += [(title, n_rows(report[key])) for key, title in changes.items() if report.get(key)]
    if report.get("map") is not None:
        rows.append(("Map applied", str(report["map"]) if about.map is None else about.map))
    return rows


def describe_reduction(reduction: str) -> str:
    """Return a reduction with its meaning, if it has one."""
    descriptions = {
        "binary": "the probability of the positive label",
        "confidence": "the probability that the predicted class is right",
        "classwise": "the probability of each class separately",
        "canonical": "the whole probability vector",
        "pooled": "all probabilities of all rows together",
    }
    return f"{reduction}: {descriptions[reduction]}" if reduction in descriptions else reduction
