"""Reports: measures and diagrams of rows, before and after a map, and comparisons of maps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from calibrant.client.answers.document import Document
from calibrant.client.answers.maps import ForecastKind, WeightsKind
from calibrant.results import ByMeasure, Measured

if TYPE_CHECKING:
    from calibrant.comparison import ComparisonReport
    from calibrant.distributions.evaluation import DistributionReport
    from calibrant.evaluation import GroupReport, Report
    from calibrant.measures.measure import MeasureResult
    from calibrant.plots.axes import Plotter

Correction = Literal["max-t", "holm"]
RankedValues = Literal["debiased", "plain"]
Of = Literal["value", "debiased"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasureAnswer(Measured, Document):
    """A measure; ``value`` is None if it is not defined."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    parts: dict[str, Any] = field(default_factory=dict)  # results that are more than one number
    definition: dict[str, Any]
    problem: str | None = None


Measures: TypeAlias = dict[str, MeasureAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapAnswer(Document):
    """The largest difference of a measure between two groups: those with its smallest and largest value."""

    between: tuple[str, str] | None
    value: float | None
    of: Of
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramAnswer(Document):
    """The data of a diagram; ``diagrams()`` describes each field of them."""

    data: dict[str, Any] | None
    definition: dict[str, Any]
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class After(Document):
    """The measures and diagrams after the map."""

    measures: Measures
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupAnswer(ByMeasure[MeasureAnswer], Document):
    """The measures of one group; ``group["ece"]`` is a measure."""

    n: int
    measures: Measures
    after: After | None = None

    def to_report(self) -> GroupReport:
        """Return the group as a result of the library."""
        from calibrant.evaluation import GroupReport  # which needs SciPy

        after = _after(self.after)
        in_sample = after is not None and any("cross_fitted" in each.parts for each in after.values())
        return GroupReport(self.n, _results(self.measures), after, in_sample=in_sample)

    def __repr__(self) -> str:
        return repr(self.to_report())

    def _repr_html_(self) -> str:
        return self.to_report()._repr_html_()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantAnswer(Document):
    """A map in a comparison; the first contestant is ``uncalibrated``, the predictions without a map."""

    name: str  # the reference in the request, or uncalibrated
    map: str | None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: not known
    measures: Measures
    classification_error: float | None
    brier: float | None
    improvement: Measures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer(Document):
    """The difference of two contestants, first minus second."""

    between: tuple[str, str]
    difference: float | None
    interval: tuple[float, float] | None = None  # simultaneous over all pairs of the measure
    p_value: float | None = None  # adjusted over all pairs of the measure
    unadjusted: float | None = None  # p-value of this pair alone
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparisonAnswer(Document):
    """All contestants by one measure."""

    of: Of  # which values are ranked: debiased if every contestant has one
    ranking: list[str] | None  # best first; None if neither direction is better
    indistinguishable: list[str] | None  # the best out of sample, and those that do not differ significantly from it
    pairs: list[PairAnswer]
    fronts: dict[Literal["classification-error", "brier"], list[str]]  # Pareto fronts of calibration error and error
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer(Document):
    """Several maps compared on the same rows."""

    correction: Correction
    level: float
    contestants: list[ContestantAnswer]
    measures: dict[str, MeasureComparisonAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDiagrams(Document):
    """The diagrams of one group."""

    n: int
    diagrams: dict[str, DiagramAnswer]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReportAnswer(ByMeasure[MeasureAnswer], Document):
    """The report of an evaluation, shown as by the library; ``report["ece"]`` is a measure."""

    n: int
    reduction: str
    left_out: int = 0  # rows of classes that were not selected
    clipped: int
    renormalised: int
    weights_kind: WeightsKind | None = None  # None without weights
    measures: Measures
    map: str | None = None
    after: After | None = None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: not known
    warning: str | None = None  # of the map's fit
    improvement: Measures | None = None  # brier and log-loss, before minus after the map
    groups: dict[str, GroupAnswer] | None = None
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ComparisonAnswer | None = None
    group_diagrams: dict[str, GroupDiagrams] | None = None
    recommendation: dict[str, Any] | None = None

    def to_report(self) -> Report | ComparisonReport:
        """Return the report as a result of the library, without the rows: a comparison if there is one."""
        from calibrant.evaluation import Report  # which needs SciPy

        after = self.after
        report = Report(
            self.n,
            self.reduction,
            self.clipped,
            self.renormalised,
            _results(self.measures),
            after=_after(after),
            groups=None if self.groups is None else {name: group.to_report() for name, group in self.groups.items()},
            left_out=self.left_out,
            diagrams=_drawn(self.diagrams) or {},
            after_diagrams=None if after is None else _drawn(after.diagrams),
            improvement=None if self.improvement is None else _results(self.improvement),
            in_sample=self.in_sample,
            warning=self.warning,
            weights_kind=self.weights_kind,
        )
        return report if self.comparison is None else _comparison(report, self.comparison)

    def to_frame(self, **options: Any) -> Any:
        """Return the results as a frame; ``groups=True`` gives one row for each group and measure."""
        return self.to_report().to_frame(**options)

    @property
    def plot(self) -> Plotter:
        """Draw the diagrams of the report on matplotlib axes, as ``report.plot()`` of the library does."""
        report: Any = self.to_report()
        drawn = report if self.comparison is None else report.report
        found: Plotter = import_module("calibrant.plots.axes").Plotter(drawn)
        return found

    def __repr__(self) -> str:
        return repr(self.to_report())

    def _repr_html_(self) -> str:
        return self.to_report()._repr_html_()


def _results(measures: Measures) -> dict[str, MeasureResult]:
    from calibrant.measures.measure import MeasureResult  # which needs SciPy

    return {key: MeasureResult(**{name: getattr(m, name) for name in _RESULT}) for key, m in measures.items()}


_RESULT = ("value", "debiased", "interval", "p_value", "parts", "definition", "problem")


def _after(found: After | None) -> dict[str, MeasureResult] | None:
    return None if found is None else _results(found.measures)


def _drawn(diagrams: dict[str, DiagramAnswer] | None) -> dict[str, dict[str, Any]] | None:
    return None if diagrams is None else {key: drawn.to_dict() for key, drawn in diagrams.items()}


def _comparison(report: Report, found: ComparisonAnswer) -> ComparisonReport:
    from calibrant.comparison import ComparisonReport, ContestantReport, MeasureComparison, Pair  # which need SciPy

    contestants = tuple(
        ContestantReport(
            one.name,
            _results(one.measures),
            one.classification_error,
            one.brier,
            one.in_sample,
            None if one.improvement is None else _results(one.improvement),
        )
        for one in found.contestants
    )
    compared = {
        key: MeasureComparison(
            one.of,
            None if one.ranking is None else tuple(one.ranking),
            None if one.indistinguishable is None else tuple(one.indistinguishable),
            tuple(Pair(**pair.to_dict() | {"between": pair.between, "interval": pair.interval}) for pair in one.pairs),
            {against: tuple(names) for against, names in one.fronts.items()},
            one.problem,
        )
        for key, one in found.measures.items()
    }
    return ComparisonReport(report, contestants, compared, found.correction, found.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport(Document):
    """The report of one of several batches."""

    batch: str
    report: ReportAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLawNumbers(Document):
    """calibration error = factor x classification error ^ exponent, over batches."""

    exponent: float | None
    factor: float | None
    interval: tuple[float, float] | None  # of the exponent
    used: list[int]  # indices of the batches whose errors are both above 0
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLawAnswer(PowerLawNumbers):
    """A power law, and the one of plain values."""

    of: Of
    plain: PowerLawNumbers | None = None  # of the values that are not debiased


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsAnswer(Document):
    """The reports of several batches; power laws by contestant and measure, None below five batches."""

    batches: list[BatchReport]
    power_law: dict[str, dict[str, PowerLawAnswer]] | None
    problem: str | None = None


# --- Predictive distributions

ScoreName = Literal[
    "crps", "log-score", "dawid-sebastiani", "quantile-score", "interval-score", "squared-error", "absolute-error"
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DistributionGroupAnswer(ByMeasure[MeasureAnswer], Document):
    """The measures of one group; ``group["crps"]`` is a measure."""

    n: int
    measures: Measures


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DistributionAfter(ByMeasure[MeasureAnswer], Document):
    """The measures after the map; ``after["crps"]`` is a measure."""

    kind: ForecastKind  # of the calibrated forecasts
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastComparisonAnswer(Document):
    """Forecasts of the same outcomes, compared by a proper score."""

    n: int
    score: ScoreName
    level: float
    lags: int
    means: dict[str, float | None]  # of forecasts, calibrated and each batch; None if infinite
    ranking: list[str]  # best first
    pairs: list[PairAnswer]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DistributionReportAnswer(ByMeasure[MeasureAnswer], Document):
    """The report of an evaluation of forecasts, shown as by the library; ``report["crps"]`` is a measure."""

    prediction_kind: Literal["regression"] = "regression"
    n: int
    kind: ForecastKind  # what the forecasts are given as
    n_repaired: int  # rows whose quantiles crossed by rounding, and were repaired
    weights_kind: WeightsKind | None = None  # None without weights
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    map: str | None = None
    after: DistributionAfter | None = None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: not known
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ForecastComparisonAnswer | None = None  # if other forecasts were sent as against

    def to_report(self) -> DistributionReport:
        """Return the report before the map as a result of the library, without the rows."""
        report = _distribution_report(self.n, self.kind, self.n_repaired, self.measures, self.groups)
        return replace(report, weights_kind=self.weights_kind)

    def to_frame(self) -> Any:
        """Return the results before the map as a frame, one row for each measure, and for each group."""
        return self.to_report().to_frame()

    def _sides(self) -> list[DistributionReport]:
        """The reports before and after the map."""
        sides, after = [self.to_report()], self.after
        if after is not None:
            sides.append(_distribution_report(self.n, after.kind, 0, after.measures, after.groups))
        return sides

    def __repr__(self) -> str:
        return "\nAfter the map:\n".join(map(repr, self._sides()))

    def _repr_html_(self) -> str:
        return "<p>After the map:</p>".join(side._repr_html_() for side in self._sides())


def _distribution_report(
    n: int,
    kind: ForecastKind,
    n_repaired: int,
    measures: Measures,
    groups: dict[str, DistributionGroupAnswer] | None,
) -> DistributionReport:
    from calibrant.distributions.evaluation import DistributionReport  # which needs SciPy

    found = None
    if groups is not None:
        found = {name: _distribution_report(one.n, kind, 0, one.measures, None) for name, one in groups.items()}
    return DistributionReport(n, kind, n_repaired, _results(measures), found)
