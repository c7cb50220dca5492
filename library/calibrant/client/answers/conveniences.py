"""What responses can do besides holding their fields: library results, frames, notebooks. Written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from calibrant.core.results import ByMeasure, Measured, above, frame_of, n_rows

if TYPE_CHECKING:
    from calibrant.client.answers import (
        After,
        ComparisonAnswer,
        DiagramAnswer,
        DistributionGroupAnswer,
        DistributionReportAnswer,
        GroupAnswer,
        GroupComparisonAnswer,
        MapRecord,
        MeasureAnswer,
        MonitorReading,
        ReportAnswer,
        RowsReading,
        SeriesAnswer,
    )
    from calibrant.client.answers.distributions import ForecastKind
    from calibrant.comparison import ComparisonReport
    from calibrant.distributions.evaluation import DistributionReport
    from calibrant.evaluation import GroupReport, Report
    from calibrant.measures.measure import MeasureResult
    from calibrant.plots.axes import Plotter

_RESULT = ("value", "debiased", "interval", "p_value", "parts", "definition", "problem")


class MeasuresByName(ByMeasure["MeasureAnswer"]):
    """Looks up measures by name, as in ``group["crps"]``."""

    __slots__ = ()


class GroupConveniences(MeasuresByName):
    """Shows a group as the library does."""

    __slots__ = ()

    def to_report(self) -> GroupReport:
        """Return the group as a result of the library."""
        from calibrant.evaluation import GroupReport  # which needs SciPy

        answer = cast("GroupAnswer", self)
        after = _after(answer.after)
        in_sample = after is not None and any("cross_fitted" in result.parts for result in after.values())
        return GroupReport(answer.n, _results(answer.measures), after, in_sample=in_sample)

    def __repr__(self) -> str:
        return repr(self.to_report())

    def _repr_html_(self) -> str:
        return self.to_report()._repr_html_()


class ReportConveniences(MeasuresByName):
    """Shows a report as the library does."""

    __slots__ = ()

    def to_report(self) -> Report | ComparisonReport:
        """Return the report as a result of the library, without the rows: a comparison if there is one."""
        from calibrant.evaluation import Report  # which needs SciPy

        answer = cast("ReportAnswer", self)
        after, groups = answer.after, answer.groups
        report = Report(
            answer.n,
            answer.reduction,
            answer.clipped,
            answer.renormalised,
            _results(answer.measures),
            after=_after(after),
            groups=None if groups is None else {name: group.to_report() for name, group in groups.items()},
            left_out=answer.left_out,
            diagrams=_drawn(answer.diagrams) or {},
            after_diagrams=None if after is None else _drawn(after.diagrams),
            improvement=None if answer.improvement is None else _results(answer.improvement),
            in_sample=answer.in_sample,
            warning=answer.warning,
            weights_kind=answer.weights_kind,
        )
        return report if answer.comparison is None else _comparison(report, answer.comparison)

    def to_frame(self, **options: Any) -> Any:
        """Return the results as a frame; ``groups=True`` gives one row for each group and measure."""
        return self.to_report().to_frame(**options)

    @property
    def plot(self) -> Plotter:
        """Draw the diagrams of the report on matplotlib axes, as ``report.plot()`` of the library does."""
        report: Any = self.to_report()
        drawn = report if cast("ReportAnswer", self).comparison is None else report.report
        plotter: Plotter = above("plots.axes.Plotter")(drawn)
        return plotter

    def __repr__(self) -> str:
        return repr(self.to_report())

    def _repr_html_(self) -> str:
        return self.to_report()._repr_html_()


class DistributionReportConveniences(MeasuresByName):
    """Shows a report of forecasts as the library does."""

    __slots__ = ()

    def to_report(self) -> DistributionReport:
        """Return the report before the map as a result of the library, without the rows."""
        answer = cast("DistributionReportAnswer", self)
        report = _distribution_report(answer.n, answer.kind, answer.n_repaired, answer.measures, answer.groups)
        return replace(report, weights_kind=answer.weights_kind)

    def to_frame(self) -> Any:
        """Return the results before the map as a frame, one row for each measure, and for each group."""
        return self.to_report().to_frame()

    def _sides(self) -> list[DistributionReport]:
        """The reports before and after the map."""
        answer = cast("DistributionReportAnswer", self)
        sides, after = [self.to_report()], answer.after
        if after is not None:
            sides.append(_distribution_report(answer.n, after.kind, 0, after.measures, after.groups))
        return sides

    def __repr__(self) -> str:
        return "\nAfter the map:\n".join(map(repr, self._sides()))

    def _repr_html_(self) -> str:
        return "<p>After the map:</p>".join(side._repr_html_() for side in self._sides())


class MapConveniences:
    """Shows a map in one line, without its parameters."""

    __slots__ = ()

    def __repr__(self) -> str:
        record = cast("MapRecord", self)
        named = "" if record.name is None else f"{record.name} {record.version}, "
        rows = "imported" if record.n is None else n_rows(record.n)
        event = "" if record.reduction is None else f", reduction {record.reduction}"
        return f"MapRecord: {named}{record.method}{event}, {rows}, id {record.id!r}"


class ReadingConveniences:
    """The measures of a monitor's windows as a frame."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """Return the measures as a frame, one row for each window and measure, and for each group of a window."""
        records = []
        for window in cast("MonitorReading", self).windows:
            records += _records({"window": window.name, "group": None}, window)
            for name, group in window.groups.items():
                records += _records({"window": window.name, "group": name}, group)
        return frame_of(records)


class SeriesConveniences:
    """The measures of a monitor over time as a frame."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """Return the measures as a frame, one row for each point and measure; times are in UTC."""
        records = []
        for point in cast("SeriesAnswer", self).points:
            start, end = (datetime.fromisoformat(time) for time in (point.start, point.end))
            about = {"start": start, "end": end, "predictions": point.predictions, "coverage": point.coverage}
            records += _records(about, point)
        return frame_of(records)


#: Response -> the base class with its conveniences.
OF: Mapping[str, type] = {
    "MeasureAnswer": Measured,
    "GroupAnswer": GroupConveniences,
    "ReportAnswer": ReportConveniences,
    "DistributionGroupAnswer": MeasuresByName,
    "DistributionAfter": MeasuresByName,
    "DistributionReportAnswer": DistributionReportConveniences,
    "MapRecord": MapConveniences,
    "MonitorReading": ReadingConveniences,
    "SeriesAnswer": SeriesConveniences,
}


# --- Results of the library from fields


def _results(measures: Mapping[str, MeasureAnswer]) -> dict[str, MeasureResult]:
    from calibrant.measures.measure import MeasureResult  # which needs SciPy

    return {key: MeasureResult(**{name: getattr(m, name) for name in _RESULT}) for key, m in measures.items()}


def _after(after: After | None) -> dict[str, MeasureResult] | None:
    return None if after is None else _results(after.measures)


def _drawn(diagrams: Mapping[str, DiagramAnswer] | None) -> dict[str, dict[str, Any]] | None:
    return None if diagrams is None else {key: diagram.to_dict() for key, diagram in diagrams.items()}


def _comparison(
    report: Report, comparison: ComparisonAnswer, group: GroupComparisonAnswer | None = None
) -> ComparisonReport:
    """Return the comparison on all rows, or on those of a group."""
    from calibrant.comparison import ComparisonReport, ContestantReport, MeasureComparison, Pair  # which need SciPy

    compared = group or comparison
    contestants = tuple(
        ContestantReport(
            contestant.name,
            _results(contestant.measures),
            contestant.classification_error,
            contestant.brier,
            contestant.in_sample,
            None if contestant.improvement is None else _results(contestant.improvement),
        )
        for contestant in compared.contestants
    )
    measures = {
        key: MeasureComparison(
            measure.of,
            None if measure.ranking is None else tuple(measure.ranking),
            None if measure.indistinguishable is None else tuple(measure.indistinguishable),
            tuple(
                Pair(**pair.to_dict() | {"between": pair.between, "interval": pair.interval}) for pair in measure.pairs
            ),
            {against: tuple(names) for against, names in measure.fronts.items()},
            measure.problem,
            measure.ranks,
        )
        for key, measure in compared.measures.items()
    }
    groups = {
        name: _comparison(replace(report, n=part.n), comparison, part)
        for name, part in ((comparison.groups if group is None else None) or {}).items()
    }
    return ComparisonReport(
        report,
        contestants,
        measures,
        comparison.correction,
        comparison.level,
        comparison.rank_by,
        groups or None,
    )


def _distribution_report(
    n: int,
    kind: ForecastKind,
    n_repaired: int,
    measures: Mapping[str, MeasureAnswer],
    groups: Mapping[str, DistributionGroupAnswer] | None,
) -> DistributionReport:
    from calibrant.distributions.evaluation import DistributionReport  # which needs SciPy

    by_group = None
    if groups is not None:
        by_group = {
            name: _distribution_report(group.n, kind, 0, group.measures, None) for name, group in groups.items()
        }
    return DistributionReport(n, kind, n_repaired, _results(measures), by_group)


def _records(about: Mapping[str, Any], rows: RowsReading) -> list[dict[str, Any]]:
    """Return a record of each measure of these rows."""
    records = []
    for key, measure in rows.measures.items():
        low, high = measure.interval or (None, None)
        numbers = {"value": measure.value, "debiased": measure.debiased, "low": low, "high": high}
        numbers["p_value"] = measure.p_value
        records.append({**about, "rows": rows.rows, "measure": key, **numbers, "problem": measure.problem})
    return records
