"""What responses can do besides holding their fields: library results, frames, notebooks. Written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from calibrant.core.results import ByMeasure, Measured, above, frame_of, from_plain_json, n_rows

if TYPE_CHECKING:
    from calibrant.client.answers import (
        DistributionReportAnswer,
        GroupAnswer,
        MapRecord,
        MeasureAnswer,  # noqa: F401 - in a type hint as text
        MonitorReading,
        ReportAnswer,
        RowsReading,
        SeriesAnswer,
    )
    from calibrant.comparison import ComparisonReport
    from calibrant.distributions.evaluation import DistributionReport
    from calibrant.evaluation import GroupReport, Report
    from calibrant.plots.axes import Plotter


class MeasuresByName(ByMeasure["MeasureAnswer"]):
    """Looks up measures by name, as in ``group["crps"]``."""

    __slots__ = ()


class GroupConveniences(MeasuresByName):
    """Shows a group as the library does."""

    __slots__ = ()

    def to_report(self) -> GroupReport:
        """Return the group as a result of the library."""
        from calibrant.evaluation import GroupReport  # which needs SciPy

        group: GroupReport = from_plain_json(GroupReport, _of_group(cast("GroupAnswer", self).to_dict()))
        return group

    def __repr__(self) -> str:
        return repr(self.to_report())

    def _repr_html_(self) -> str:
        return self.to_report()._repr_html_()


class ReportConveniences(MeasuresByName):
    """Shows a report as the library does."""

    __slots__ = ()

    def to_report(self) -> Report | ComparisonReport:
        """Return the report as a result of the library, without the rows: a comparison if there is one."""
        from calibrant.comparison import ComparisonReport  # which needs SciPy
        from calibrant.evaluation import Report

        document = _beside(cast("ReportAnswer", self).to_dict())
        document["groups"] = _mapped(document["groups"], _of_group)
        report: Report = from_plain_json(Report, document)
        if document["comparison"] is None:
            return report
        own = ("correction", "level", "rank_by")
        whole = document["comparison"] | {"report": report}
        shared = {name: whole[name] for name in own}
        whole["groups"] = _mapped(
            whole["groups"], lambda part: part | shared | {"report": replace(report, n=part["n"])}
        )
        comparison: ComparisonReport = from_plain_json(ComparisonReport, whole)
        return comparison

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
        return _distribution_report(cast("DistributionReportAnswer", self).to_dict())

    def to_frame(self) -> Any:
        """Return the results before the map as a frame, one row for each measure, and for each group."""
        return self.to_report().to_frame()

    def _sides(self) -> list[DistributionReport]:
        """The reports before and after the map."""
        document = cast("DistributionReportAnswer", self).to_dict()
        own = {"n": document["n"], "n_repaired": 0}
        after = [] if document["after"] is None else [_distribution_report(document["after"] | own)]
        return [self.to_report(), *after]

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


# --- Results of the library from answers


def _mapped(parts: Mapping[str, Any] | None, changed: Callable[[Any], Any]) -> dict[str, Any] | None:
    return None if parts is None else {name: changed(part) for name, part in parts.items()}


def _beside(document: dict[str, Any]) -> dict[str, Any]:
    """The results of a report or group with those after the map beside those before it, as in the library."""
    names = {"measures": "after", "gaps": "gaps_after", "diagrams": "after_diagrams"}
    return document | {"after": None} | {names[name]: part for name, part in (document["after"] or {}).items()}


def _of_group(document: dict[str, Any]) -> dict[str, Any]:
    group = _beside(document)
    cross_fitted = any("cross_fitted" in result["parts"] for result in (group["after"] or {}).values())
    return group | {"in_sample": group["after"] is not None and cross_fitted}


def _distribution_report(document: dict[str, Any]) -> DistributionReport:
    from calibrant.distributions.evaluation import DistributionReport  # which needs SciPy

    of_group = {"kind": document["kind"], "n_repaired": 0}
    document["groups"] = _mapped(document["groups"], lambda group: group | of_group)
    report: DistributionReport = from_plain_json(DistributionReport, document)
    return report


def _records(about: Mapping[str, Any], rows: RowsReading) -> list[dict[str, Any]]:
    """Return a record of each measure of these rows."""
    records = []
    for key, measure in rows.measures.items():
        low, high = measure.interval or (None, None)
        numbers = {"value": measure.value, "debiased": measure.debiased, "low": low, "high": high}
        numbers["p_value"] = measure.p_value
        records.append({**about, "rows": rows.rows, "measure": key, **numbers, "problem": measure.problem})
    return records
