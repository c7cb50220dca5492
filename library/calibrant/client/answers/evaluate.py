"""Generated from schemas/evaluate.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.conveniences import (
    DistributionReportConveniences,
    GroupConveniences,
    MeasuresByName,
    ReportConveniences,
)
from calibrant.client.answers.document import Document
from calibrant.core.results import Measured

Of = Literal["value", "debiased"]
Correction = Literal["max-t", "holm"]
WeightsKind = Literal["importance", "frequency"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]
ScoreName = Literal[
    "crps", "log-score", "dawid-sebastiani", "quantile-score", "interval-score", "squared-error", "absolute-error"
]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasureAnswer(Measured, Document):
    """The result of one measure; undefined values are None."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    parts: dict[str, Any] = field(default_factory=dict)  # results beyond a single number
    definition: dict[str, Any]
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapAnswer(Document):
    """The largest difference of a measure between two groups: those with its smallest and its largest value."""

    between: tuple[str, str] | None
    value: float | None
    of: Of
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramAnswer(Document):
    """The data of one diagram; ``GET /diagrams`` describes each field."""

    data: dict[str, Any] | None
    definition: dict[str, Any]
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class After(Document):
    """The measures and diagrams after applying the map."""

    measures: dict[str, MeasureAnswer]
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupAnswer(GroupConveniences, Document):
    """The measures of one group's rows."""

    n: int
    measures: dict[str, MeasureAnswer]
    after: After | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantAnswer(Document):
    """One contestant; the first is ``uncalibrated``, the predictions without a map."""

    name: str  # the reference in the request, or uncalibrated
    map: str | None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: unknown
    measures: dict[str, MeasureAnswer]
    classification_error: float | None
    brier: float | None
    improvement: dict[str, MeasureAnswer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer(Document):
    """The difference of two contestants, first minus second; if ``problem`` is set, some fields are None."""

    between: tuple[str, str]
    difference: float | None
    interval: tuple[float, float] | None = None  # simultaneous interval for all pairs of the measure
    p_value: float | None = None  # adjusted for all pairs of the measure
    unadjusted: float | None = None  # p-value of this pair alone, unadjusted
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparisonAnswer(Document):
    """All contestants compared by one measure."""

    of: Of  # which values are ranked: debiased ones if every contestant has one
    ranking: list[str] | None  # best first; None if neither direction is better
    #: the best out-of-sample contestant, and those that do not differ from it significantly
    indistinguishable: list[str] | None
    pairs: list[PairAnswer]
    #: Pareto front of the calibration error and each other error
    fronts: dict[Literal["classification-error", "brier"], list[str]]
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
    """The diagrams of one group's rows."""

    n: int
    diagrams: dict[str, DiagramAnswer]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReportAnswer(ReportConveniences, Document):
    """The response of ``POST /evaluate``."""

    n: int
    reduction: str
    left_out: int = 0  # rows of classes that were not selected
    clipped: int
    renormalised: int
    weights_kind: WeightsKind | None = None  # None without weights
    measures: dict[str, MeasureAnswer]
    map: str | None = None
    after: After | None = None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: unknown
    warning: str | None = None  # warning of the map's fit, such as that it does not improve
    #: brier and log-loss before minus after the map; in-sample: of out-of-fold predictions
    improvement: dict[str, MeasureAnswer] | None = None
    groups: dict[str, GroupAnswer] | None = None
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ComparisonAnswer | None = None  # if maps were requested
    #: in a full report: the reliability diagram of each group, for two to nine groups
    group_diagrams: dict[str, GroupDiagrams] | None = None
    #: in a report requested as HTML: the recommended map, and the gain of each candidate
    recommendation: dict[str, Any] | None = None


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
    interval: tuple[float, float] | None  # interval of the exponent
    used: list[int]  # indices of the batches with both errors above 0
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLawAnswer(PowerLawNumbers):
    """A power law, and the one of plain values."""

    of: Of  # debiased values if every batch has one above 0
    plain: PowerLawNumbers | None = None  # the power law of the values that are not debiased


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsAnswer(Document):
    """The response of ``POST /evaluate`` with ``batches``; power laws by contestant and measure, None below five."""

    batches: list[BatchReport]
    power_law: dict[str, dict[str, PowerLawAnswer]] | None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionGroupAnswer(MeasuresByName, Document):
    """The measures of one group's rows."""

    n: int
    measures: dict[str, MeasureAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionAfter(MeasuresByName, Document):
    """The measures after applying the map; ``kind`` is that of the calibrated forecasts."""

    kind: ForecastKind
    measures: dict[str, MeasureAnswer]
    groups: dict[str, DistributionGroupAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastComparisonAnswer(Document):
    """Forecasts of the same outcomes, compared by a proper score."""

    n: int
    score: ScoreName
    level: float
    lags: int
    #: mean score of `forecasts`, the rows of the request; of `calibrated`, with a map; and of each batch; None if
    #: infinite
    means: dict[str, float | None]
    ranking: list[str]  # best first
    pairs: list[PairAnswer]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DistributionReportAnswer(DistributionReportConveniences, Document):
    """The response of ``POST /evaluate`` for predictive distributions of a number."""

    prediction_kind: Literal["regression"] = "regression"
    n: int
    kind: ForecastKind  # what the forecasts are given as
    n_repaired: int  # rows whose quantiles crossed by at most 1e-6 relative, and were repaired
    weights_kind: WeightsKind | None = None  # None without weights
    measures: dict[str, MeasureAnswer]
    groups: dict[str, DistributionGroupAnswer] | None = None
    map: str | None = None
    after: DistributionAfter | None = None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: unknown
    diagrams: dict[str, DiagramAnswer] | None = None  # if diagrams were requested
    comparison: ForecastComparisonAnswer | None = None  # if other forecasts were sent as `against`
