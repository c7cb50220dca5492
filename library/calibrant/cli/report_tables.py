"""A report as terminal tables: measures, improvement by the map, groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.cli.output import counted, plain, table
from calibrant.reports.lookup import gap_kind, kind
from calibrant.reports.lookup import shown as shown_number

if TYPE_CHECKING:
    from rich.table import Table

_NONE = "-"
Json = Mapping[str, Any]


def report_tables(report: Json, *, by: str = "group") -> Iterator[str | Table]:
    """Yield the tables and lines for the JSON of a ``ReportAnswer``, or of predictive distributions.

    ``by`` says what the groups are.
    """
    yield _rows(report)
    after = report.get("after")
    if after is None:
        yield _measures(report["measures"])
    else:
        yield _before_after(report["measures"], after["measures"], in_sample=bool(report["in_sample"]))
        yield from _gains(report)
    if report.get("groups"):
        yield _groups(report, by)
    if report.get("comparison"):
        yield from _compared(report["comparison"])
    yield from _problems(report)


def _rows(report: Json) -> str:
    facts = [f"{counted(report['n'])}, {report.get('reduction') or report['kind']}"]
    facts += [f"{report[name]:,} {name}" for name in ("clipped", "renormalised") if report.get(name)]
    if report.get("n_repaired"):
        facts.append(f"{counted(report['n_repaired'])} with quantiles that crossed by rounding")
    return "; ".join(facts)


def _measures(measures: Json) -> Table:
    rows = [
        (key, _number(m["value"]), _number(m["debiased"]), _interval(m["interval"]), _p(m["p_value"]))
        for key, m in measures.items()
    ]
    return _filled(("measure", "value", "debiased", "interval", "p-value"), rows)


def _before_after(before: Json, after: Json, *, in_sample: bool) -> Table:
    rows = []
    for key, was in before.items():
        now, again = after[key], after[key]["parts"]
        ends = [_number(found[kind]) for kind in ("value", "debiased") for found in (was, now)]
        out_of_fold = [_number(again.get(kind)) for kind in ("cross_fitted", "cross_fitted_debiased")]
        rows.append((key, *ends, *out_of_fold, _interval(now["interval"]), _p(now["p_value"])))
    shown = "after (in-sample)" if in_sample else "after"
    columns = ("measure", "before", shown, "debiased before", f"debiased {shown}", "cross-fitted")
    return _filled((*columns, "debiased cross-fitted", "interval after", "p-value after"), rows)


def _gains(report: Json) -> Iterator[str | Table]:
    improvement = report.get("improvement")
    if improvement is None:
        return
    if report["in_sample"]:
        yield (
            "The map was fitted to these rows: the values after it are in-sample and optimistic. "
            "Cross-fitted values are out-of-fold."
        )
    rows = [(key, _number(m["value"]), _interval(m["interval"]), _p(m["p_value"])) for key, m in improvement.items()]
    title = "improvement (cross-fitted)" if report["in_sample"] else "improvement"
    yield _filled((title, "value", "interval", "p-value"), rows)


def _compared(comparison: Json) -> Iterator[str | Table]:
    """Mean scores, best first, and the difference of each two forecasts."""
    means = [(name, _number(comparison["means"][name])) for name in comparison["ranking"]]
    yield _filled(("forecasts, best first", f"mean {comparison['score']}"), means)
    rows = [
        (
            f"{pair['between'][0]} - {pair['between'][1]}",
            _number(pair["difference"]),
            _interval(pair["interval"]),
            _p(pair["p_value"]),
            pair["problem"] or _NONE,
        )
        for pair in comparison["pairs"]
    ]
    yield _filled(("difference", "value", "interval", "p-value", "problem"), rows)


def _groups(report: Json, by: str) -> Table:
    """One row per group or period and the largest gap between two groups; with a map, after the map."""
    after = "after" in report
    keys = list(report["measures"])
    sides = {name: (group["after"] if after else group)["measures"] for name, group in report["groups"].items()}
    kinds = {key: kind(measures[key] for measures in sides.values()) for key in keys}
    heads = [key if kinds[key] is None else f"{key}, {kinds[key]}" for key in keys]
    shown = table(f"{by}, after the map" if after else by, "rows", *heads)
    for name, measures in sides.items():
        rows = f"{report['groups'][name]['n']:,}"
        shown.add_row(plain(name), rows, *(_number(shown_number(measures[key], kinds[key])) for key in keys))
    gaps = (report["after"] if after else report).get("gaps")
    if gaps is None:
        return shown
    shown.add_row("largest gap", "", *(_gap(gaps[key], kinds[key]) for key in keys))
    if any(gaps[key]["p_value"] is not None for key in keys):
        shown.add_row("p-value of the gap", "", *(_p(gaps[key]["p_value"]) for key in keys))
    return shown


def _gap(gap: Json, which: str | None) -> str:
    """The gap, with the kind of the values that it compares if they may be debiased."""
    of = gap_kind(gap, which)
    number = _number(gap["value"])
    return number if of is None or number == _NONE else f"{number}, {of}"


def _problems(report: Json) -> Iterator[str]:
    """The reasons why measures have no value or no interval."""
    for where, measures in (("", report["measures"]), (" after the map", report.get("after", {}).get("measures", {}))):
        for key, found in measures.items():
            if found["problem"]:
                yield f"{key}{where}: {found['problem']}"


def _filled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without its empty columns."""
    kept = [i for i in range(len(columns)) if any(row[i] != _NONE for row in rows)]
    shown = table(*(columns[i] for i in kept))
    for row in rows:
        shown.add_row(*(row[i] for i in kept))
    return shown


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


def _interval(ends: tuple[float, float] | None) -> str:
    return _NONE if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _p(value: float | None) -> str:
    return _NONE if value is None else "< 0.001" if value < 1e-3 else f"{value:.3f}"
