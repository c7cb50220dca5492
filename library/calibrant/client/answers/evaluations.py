"""Reports: measures and diagrams of rows, before and after a map, and comparisons of maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from calibrant.client.answers.document import Document
from calibrant.client.answers.maps import ForecastKind

Correction = Literal["max-t", "holm"]
Of = Literal["value", "debiased"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAnswer(Document):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer(Document):
    """The measures of one group."""

    n: int
    measures: Measures
    after: After | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer(Document):
    """The report of an evaluation."""

    n: int
    reduction: str
    left_out: int = 0  # rows of classes that were not selected
    clipped: int
    renormalised: int
    measures: Measures
    map: str | None = None
    after: After | None = None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: not known
    improvement: Measures | None = None  # brier and log-loss, before minus after the map
    groups: dict[str, GroupAnswer] | None = None
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ComparisonAnswer | None = None
    group_diagrams: dict[str, GroupDiagrams] | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionGroupAnswer(Document):
    """The measures of one group."""

    n: int
    measures: Measures


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionAfter(Document):
    """The measures after the map."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionReportAnswer(Document):
    """The report of an evaluation of predictive distributions."""

    prediction_kind: Literal["regression"] = "regression"
    n: int
    kind: ForecastKind  # what the forecasts are given as
    n_repaired: int  # rows whose quantiles crossed by rounding, and were repaired
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    map: str | None = None
    after: DistributionAfter | None = None
    in_sample: bool | None = None  # whether the map was fitted to these rows; None: not known
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ForecastComparisonAnswer | None = None  # if other forecasts were sent as against
