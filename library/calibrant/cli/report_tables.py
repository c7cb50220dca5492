"""A report as terminal tables: measures, improvement by the map, groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.cli.output import counted, plain, table
from calibrant.core.inputs import reduction_with_name
from calibrant.core.results import MEASURE_COLUMNS
from calibrant.maps.calibration_map import scored
from calibrant.reports import lookup, numbers

if TYPE_CHECKING:
    from rich.table import Table

_NONE = "-"
Json = Mapping[str, Any]


def report_tables(
    report: Json, *, by: str = "group", level: float | None = None, classes: Sequence[str] | None = None
) -> Iterator[str | Table]:
    """Yield the tables and lines for the JSON of a ``ReportAnswer``, or of predictive distributions.

    ``by`` says what the groups are, ``level`` is that of the intervals, and ``classes`` are the names of the classes.
    """
    yield _rows(report, classes)
    after = report.get("after")
    if after is None:
        yield _measures(report["measures"])
    else:
        yield _before_after(report["measures"], after["measures"], in_sample=bool(report["in_sample"]))
        yield from _gains(report, classes)
    if report.get("groups"):
        yield from _groups(report, by, level)
    if report.get("comparison"):
        yield from _compared(report["comparison"])
    yield from _problems(report)


def _rows(report: Json, classes: Sequence[str] | None) -> str:
    named = reduction_with_name(report["reduction"], classes) if report.get("reduction") else report["kind"]
    facts = [f"{counted(report['n'])}, {named}"]
    facts += [f"{report[name]:,} {name}" for name in ("clipped", "renormalised") if report.get(name)]
    if report.get("weights_kind"):
        facts.append(f"{report['weights_kind']} weights")
    if report.get("n_repaired"):
        facts.append(f"{counted(report['n_repaired'])} with quantiles that crossed by rounding")
    return "; ".join(facts)


def _measures(measures: Json) -> Table:
    rows = [
        (key, _number(m["value"]), _number(m["debiased"]), _interval(m["interval"]), _p(m["p_value"]))
        for key, m in measures.items()
    ]
    return _filled(MEASURE_COLUMNS, rows)


def _before_after(before: Json, after: Json, *, in_sample: bool) -> Table:
    rows = []
    for key, was in before.items():
        now, again = after[key], after[key]["parts"]
        ends = [_number(side[kind]) for kind in ("value", "debiased") for side in (was, now)]
        out_of_fold = [_number(again.get(kind)) for kind in ("cross_fitted", "cross_fitted_debiased")]
        rows.append((key, *ends, *out_of_fold, _interval(now["interval"]), _p(now["p_value"])))
    shown = "after (in-sample)" if in_sample else "after"
    columns = ("measure", "before", shown, "debiased before", f"debiased {shown}", "cross-fitted")
    return _filled((*columns, "debiased cross-fitted", "interval after", "p-value after"), rows)


def _gains(report: Json, classes: Sequence[str] | None) -> Iterator[str | Table]:
    improvement = report.get("improvement")
    if improvement is None:
        return
    if report["in_sample"]:
        yield (
            "The map was fitted to these rows, or to some of them: the values after it are in-sample and optimistic. "
            "Cross-fitted values are out-of-fold."
        )
    rows = [(key, _number(m["value"]), _interval(m["interval"]), _p(m["p_value"])) for key, m in improvement.items()]
    reduction = next((m["definition"].get("reduction") for m in improvement.values()), None)
    of = "" if reduction is None else f" of {scored(reduction_with_name(reduction, classes))}"
    title = f"improvement{of} (cross-fitted)" if report["in_sample"] else f"improvement{of}"
    yield _filled((title, "value", "interval", "p-value"), rows)
    if report.get("warning"):
        yield f"fit of the map: {report['warning']}"


def _compared(comparison: Json) -> Iterator[str | Table]:
    """Mean scores, best first, and the difference of each two forecasts."""
    means = [(name, _number(comparison["means"][name])) for name in comparison["ranking"]]
    yield _filled(("forecasts, best first", f"mean {comparison['score']}"), means)
    rows = [
        (
            f"{pair['between'][0]} - {pair['between'][1]}",
            *_of_pair(pair),
            pair["problem"] or _NONE,
        )
        for pair in comparison["pairs"]
    ]
    yield _filled(("difference", "value", "interval", "p-value", "problem"), rows)


def comparison_tables(report: Json) -> Iterator[str | Table]:
    """Yield the tables of a comparison of models or maps: the measures of each, then the differences of all pairs."""
    comparison = report["comparison"]
    yield _rows(report, None)
    yield _contestants(comparison, comparison["rank_by"], "model")
    if comparison["rank_by"] is not None and comparison["measures"][comparison["rank_by"]]["ranks"]:
        level = numbers.level(comparison["level"])
        yield f"The rank is by {comparison['rank_by']}; its {level} intervals are simultaneous over all models."
    rows = [
        (key, plain(" - ".join(pair["between"])), *_of_pair(pair))
        for key, compared in comparison["measures"].items()
        for pair in compared["pairs"]
    ]
    if rows:
        yield _filled((f"difference ({comparison['correction']})", "pair", "value", "interval", "p-value"), rows)
    for name, part in (comparison.get("groups") or {}).items():
        yield _contestants(part, comparison["rank_by"], f"{plain(name)}, {counted(part['n'])}")


def _of_pair(pair: Json) -> tuple[str, str, str]:
    return _number(pair["difference"]), _interval(pair["interval"]), _p(pair["p_value"])


def _contestants(comparison: Json, rank_by: str | None, title: str) -> Table:
    """One row for each contestant: its measures, of the values that are compared, and its rank with the interval."""
    keys, ranks = list(comparison["measures"]), {}
    if rank_by is not None:
        ranked = comparison["measures"][rank_by]
        ends = ranked["ranks"] or {}
        for place, name in enumerate(ranked["ranking"] or (), 1):
            low, high = ends.get(name, (place, place))
            ranks[name] = str(place) if low == high else f"{place} ({low} to {high})"
    shown = table(title, *keys, *(["rank"] if ranks else []))
    for contestant in comparison["contestants"]:
        values = (
            _above(_number(contestant["measures"][key][comparison["measures"][key]["of"]]), contestant["measures"][key])
            for key in keys
        )
        name = f"{plain(contestant['name'])} (in-sample)" if contestant["in_sample"] else plain(contestant["name"])
        shown.add_row(name, *values, *([ranks.get(contestant["name"], _NONE)] if ranks else []))
    return shown


def _groups(report: Json, by: str, level: float | None) -> Iterator[str | Table]:
    """A table of the groups or periods; with a map, one before and one after it."""
    for side in lookup.sides_of_groups(report):
        yield _group_table(side, {name: group["n"] for name, group in report["groups"].items()}, by)
    if level is not None:
        resamples = lookup.resamples(report["groups"].values())
        for key, pooled in (report.get("pooled") or {}).items():
            another = _interval(pooled["prediction_interval"])
            yield (
                f"{key}, pooled: {_number(pooled['value'])}, interval {_interval(pooled['interval'])}, of another {by} "
                f"{another}" + (f"; {pooled['problem']}" if pooled["problem"] else "")
            )
        origin = "" if resamples is None else f", from {resamples:,} resamples,"
        yield f"The {numbers.level(level)} interval{origin} is below each value."


def _group_table(side: lookup.GroupSide, rows: Mapping[str, int], by: str) -> Table:
    """One row per group, and the largest gap between two groups."""
    keys = list(next(iter(side.measures.values())))
    kinds = {key: lookup.kind(measures[key] for measures in side.measures.values()) for key in keys}
    heads = [key if kinds[key] is None else f"{key}, {kinds[key]}" for key in keys]
    shown = table(f"{by}, {side.name}" if side.name else by, "rows", *heads)
    for name, measures in side.measures.items():
        values = (_above(_number(lookup.shown(measures[key], kinds[key])), measures[key]) for key in keys)
        shown.add_row(plain(name), f"{rows[name]:,}", *values)
    if not side.gaps:
        return shown
    shown.add_row("largest gap", "", *(_above(_gap(side.gaps[key], kinds[key]), side.gaps[key]) for key in keys))
    if any(side.gaps[key]["p_value"] is not None for key in keys):
        shown.add_row("p-value of the gap", "", *(_p(side.gaps[key]["p_value"]) for key in keys))
    return shown


def _above(number: str, measure: Json) -> str:
    """The number above its interval, if it has one."""
    return number if measure["interval"] is None else f"{number}\n{_interval(measure['interval'])}"


def _gap(gap: Json, which: str | None) -> str:
    """The gap, with the kind of the values that it compares if they may be debiased."""
    of = lookup.gap_kind(gap, which)
    number = _number(gap["value"])
    return number if of is None or number == _NONE else f"{number}, {of}"


def _problems(report: Json) -> Iterator[str]:
    """The reasons why measures have no value or no interval."""
    for where, measures in (("", report["measures"]), (" after the map", report.get("after", {}).get("measures", {}))):
        for key, measure in measures.items():
            if measure["problem"]:
                yield f"{key}{where}: {measure['problem']}"


def _filled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without its empty columns."""
    filled = [i for i in range(len(columns)) if any(row[i] != _NONE for row in rows)]
    return table(*(columns[i] for i in filled), rows=([row[i] for i in filled] for row in rows))


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


def _interval(ends: tuple[float, float] | None) -> str:
    return _NONE if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _p(value: float | None) -> str:
    return _NONE if value is None else "< 0.001" if value < 1e-3 else f"{value:.3f}"
