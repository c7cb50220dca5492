"""Answers that describe results of the library as it returns them; they load only when they are described."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from calibrant.comparison.forecasts import ForecastComparison
from calibrant.comparison.laws import PowerLaw
from calibrant.comparison.pairs import Pair
from calibrant.comparison.results import ContestantReport, MeasureComparison
from calibrant.core.choices import Correction as Correction
from calibrant.core.choices import Criterion as Criterion
from calibrant.core.choices import Light as Light
from calibrant.core.choices import Of as Of
from calibrant.core.results import Basis
from calibrant.decisions.decision_curve import DecisionCurve
from calibrant.decisions.grades import GradeResult, GradeTests
from calibrant.decisions.segments import Condition, Segment, SegmentSearch
from calibrant.decisions.thresholds import DecisionThreshold
from calibrant.evaluation import Report
from calibrant.measures.gaps import Gap
from calibrant.measures.measure import MeasureResult
from calibrant.measures.multicalibration import Multicalibration
from calibrant.measures.net_benefit import Estimates
from calibrant.measures.pooling import Pooled
from calibrant.measures.sample_size import SampleSize
from calibrant.reports.advice import Candidate
from calibrant.reports.recommendation import RecommendedMap
from calibrant.sets.evaluation import SetEvaluation, StratumCoverage
from schemas.base import Document
from schemas.batches import WeightsKind
from schemas.distributions import ForecastKind
from schemas.evaluations import ForecastScore
from schemas.of_results import of_result

# --- Measures and diagrams


@of_result(MeasureResult, always=("definition",))
class MeasureAnswer(Document):
    """The result of one measure; undefined values are null."""


Measures = dict[str, MeasureAnswer]


class DiagramAnswer(Document):
    """The data of one diagram; ``GET /diagrams`` describes each field."""

    data: dict[str, Any] | None
    definition: dict[str, Any] = Field(description="full definition: the name and every option")
    problem: str | None = None


class PictureAnswer(DiagramAnswer):
    """The data of a picture and its text description; null if there is nothing to draw."""

    after: DiagramAnswer | None = Field(None, description="after the map")
    alt: str | None


class PictureReport(Document):
    """The report of a job that draws ``by-size`` or ``cost-plane``."""

    n: int
    reduction: str
    diagrams: dict[str, DiagramAnswer]


class BatchPicture(DiagramAnswer):
    """The data of one of several batches."""

    batch: str


class PicturesAnswer(Document):
    """The data of a picture of several batches, and its text description."""

    batches: list[BatchPicture] = Field(description="one entry per batch, in the order of the request")
    alt: str | None


@of_result(SampleSize)
class SampleSizeAnswer(Document):
    """The response of ``GET /sample-size``."""


# --- Prediction sets, grades and segments


@of_result(StratumCoverage)
class StratumAnswer(Document):
    """The coverage of the sets of some rows: those of a class, of sets of one size, or of a group."""


@of_result(SetEvaluation)
class CoverageAnswer(Document):
    """The response of ``POST /coverage``."""


_OF_TESTS = ("jeffreys_holm", "binomial_holm", "one_factor_p", "one_factor_holm", "one_factor_light")


@of_result(GradeResult, always=(*_OF_TESTS, "prudent_pd", "one_factor_prudent_pd"))
class GradeAnswer(Document):
    """The tests of a grade; p-values are small if the PD is too low."""


class HosmerLemeshowAnswer(Document):
    """The Hosmer-Lemeshow test over the grades."""

    statistic: float = Field(description="sum over the grades of (D - n PD)^2 / (n PD (1 - PD))")
    degrees_of_freedom: int = Field(description="number of grades")
    p_value: float


@of_result(GradeTests)
class GradesAnswer(Document):
    """The response of ``POST /grades``."""

    hosmer_lemeshow: HosmerLemeshowAnswer | None = Field(description="null if a PD is 1, or 0 or below 1e-150")


@of_result(Condition, always=("category", "above", "up_to"))
class SegmentCondition(Document):
    """A category, or a range of numbers; neither if the value is missing."""


@of_result(Segment)
class SegmentAnswer(Document):
    """A segment with a gap."""

    interval: list[float] = Field(min_length=2, max_length=2, description="simultaneous interval of the gap")


@of_result(SegmentSearch, always=("notes",))
class SegmentsAnswer(Document):
    """The response of ``POST /segments``."""


@of_result(Multicalibration)
class MulticalibrationAnswer(Document):
    """The response of ``POST /multicalibration``."""


# --- Decisions


@of_result(Estimates)
class CurveAnswer(Document):
    """A curve over the thresholds, with its pointwise interval."""


@of_result(DecisionCurve)
class DecisionCurveAnswer(Document):
    """A decision curve: curves of each model, or of ``model``, and of the strategies treat all and treat none."""


@of_result(DecisionThreshold)
class DecisionThresholdAnswer(Document):
    """A threshold: positive decisions are those with a prediction of at least this."""


class GroupDiagrams(Document):
    """The diagrams of one group's rows, or of one model."""

    n: int
    diagrams: dict[str, DiagramAnswer]


class DecisionDifference(Document):
    """What compares the decisions of one model minus that of another, on the same rows."""

    value: float
    interval: tuple[float, float]


class ModelDecisions(Document):
    """Decisions of a model at its threshold; if ``problem`` is set, there is none."""

    threshold: float | None = Field(description="decisions are positive from this probability up")
    measures: Measures = Field(description="what the decisions are like")
    problem: str | None = None


class ReportedDecisions(Document):
    """Decisions of models at the threshold that a criterion determines."""

    criterion: Criterion = Field(description="what determined the thresholds")
    value: float | tuple[float, float] = Field(description="its value: both costs, the capacity or the bound")
    level: float = Field(description="of the intervals, and of the guarantee of a bound for each model")
    models: dict[str, ModelDecisions] = Field(description="by model; or by ``model``")
    compared: Literal["cost", "recall"] | None = Field(
        description="what ``differences`` are of: the cost per row for "
        "costs, the recall for a capacity, and nothing for a bound, whose threshold labels choose"
    )
    differences: dict[str, DecisionDifference]
    diagrams: dict[str, GroupDiagrams] = Field(description="decision curves by model")


# --- Comparisons


@of_result(ContestantReport)
class ContestantAnswer(Document):
    """One contestant: a model; or a map, of which the first is ``uncalibrated``, the predictions without a map."""

    name: str = Field(description="the name of the model; or the reference in the request, or uncalibrated")
    map: str | None = Field(description="id of the map; null for models and for the uncalibrated predictions")


@of_result(Pair)
class PairAnswer(Document):
    """The difference of two contestants, first minus second; if ``problem`` is set, some fields are null."""

    difference: float | None = Field(description="value of the first minus that of the second")


@of_result(MeasureComparison, always=("fronts",))
class MeasureComparisonAnswer(Document):
    """All contestants compared by one measure."""

    fronts: dict[Literal["classification-error", "brier"], list[str]] = Field(
        description="Pareto front of the calibration error and each other error"
    )


class ComparedAnswer(Document):
    """Several models or maps compared on the same rows."""

    contestants: list[ContestantAnswer] = Field(description="each model; or the uncalibrated predictions and each map")
    measures: dict[str, MeasureComparisonAnswer] = Field(description="comparison by each measure")


class GroupComparisonAnswer(ComparedAnswer):
    """The comparison on the rows of one group."""

    n: int


class ComparisonAnswer(ComparedAnswer):
    """Several models or maps compared on the same rows, and on those of each group."""

    correction: Correction
    level: float
    rank_by: str | None = Field(None, description="key of the score that ranks the contestants; null without one")
    groups: dict[str, GroupComparisonAnswer] | None = Field(None, description="comparison on the rows of each group")


@of_result(Candidate, always=("problem",))
class CandidateAnswer(Document):
    """A compared method."""


@of_result(RecommendedMap)
class RecommendationAnswer(Document):
    """The response of ``POST /recommendations``."""

    candidates: list[CandidateAnswer] = Field(description="the compared methods")


# --- Evaluations


@of_result(Gap, always=("of",))
class GapAnswer(Document):
    """The largest difference of a measure between two groups: those with its smallest and its largest value."""


@of_result(Pooled, always=("between", "i_squared", "groups", "scale"))
class PooledAnswer(Document):
    """A measure pooled over groups, such as centres, by a random-effects model."""


@of_result(Basis, always=("tolerance",))
class BasisAnswer(Document):
    """What the results for a source were computed from."""


class After(Document):
    """The measures and diagrams after applying the map."""

    measures: Measures
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


class GroupAnswer(Document):
    """The measures of one group's rows."""

    n: int
    measures: Measures
    after: After | None = None


@of_result(Report, without=("gaps_after", "after_diagrams", "class_names", "reduction_name", "source"))
class ReportAnswer(Document):
    """The response of ``POST /evaluate``."""

    map: str | None = Field(None, description="id of the map that was applied; null without one")
    after: After | None = None
    groups: dict[str, GroupAnswer] | None = None
    gaps: dict[str, GapAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None
    comparison: ComparisonAnswer | None = Field(None, description="if models or maps were compared")
    group_diagrams: dict[str, GroupDiagrams] | None = Field(
        None, description="in a full report: the reliability diagram of each group, for two to nine groups"
    )
    model_diagrams: dict[str, GroupDiagrams] | None = Field(
        None, description="in a comparison of models requested as HTML: the diagrams of each model by name"
    )
    recommendation: dict[str, Any] | None = Field(
        None, description="in a report requested as HTML: the recommended map, and the gain of each candidate"
    )
    sets: CoverageAnswer | None = Field(None, description="in a report requested as HTML with ``sets``: their coverage")
    grades: GradesAnswer | None = Field(
        None, description="in a report requested as HTML with ``grades``: the tests of the grades"
    )
    decisions: ReportedDecisions | None = Field(
        None, description="in a report requested as HTML with a criterion: the decisions at its threshold"
    )
    segments: SegmentsAnswer | None = Field(
        None, description="in a report requested as HTML of rows with features: segments with a gap before the map"
    )
    segments_problem: str | None = Field(
        None, description="in such a report: why no segments were searched, such as that rows are in clusters"
    )


class BatchReport(Document):
    """The report of one of several batches."""

    batch: str
    report: ReportAnswer


@of_result(PowerLaw)
class PowerLawNumbers(Document):
    """calibration error = factor x classification error ^ exponent, over batches."""


class PowerLawAnswer(PowerLawNumbers):
    """A power law, and the one of plain values."""

    of: Of = Field(description="debiased values if every batch has one above 0")
    plain: PowerLawNumbers | None = Field(None, description="the power law of the values that are not debiased")


class ReportsAnswer(Document):
    """The response of ``POST /evaluate`` with ``batches``; power laws by contestant and measure, null below five."""

    batches: list[BatchReport] = Field(description="report of each batch, in the order of the request")
    power_law: dict[str, dict[str, PowerLawAnswer]] | None = Field(
        description="power law by contestant and measure; null for fewer than five batches"
    )
    problem: str | None = None


# --- Evaluations of forecasts


class DistributionGroupAnswer(Document):
    """The measures of one group's rows."""

    n: int
    measures: Measures


class DistributionAfter(Document):
    """The measures after applying the map; ``kind`` is that of the calibrated forecasts."""

    kind: ForecastKind = Field(description="kind of the forecasts that the map returns")
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    diagrams: dict[str, DiagramAnswer] | None = None


@of_result(ForecastComparison, without=("weights_kind",))
class ForecastComparisonAnswer(Document):
    """Forecasts of the same outcomes, compared by a proper score."""

    score: ForecastScore
    means: dict[str, float | None] = Field(
        description="mean score of ``forecasts``, the rows of the request; of ``calibrated``, with a map; and of each "
        "batch; null if infinite"
    )


class DistributionReportAnswer(Document):
    """The response of ``POST /evaluate`` for predictive distributions of a number."""

    prediction_kind: Literal["regression"] = "regression"
    n: int
    kind: ForecastKind = Field(description="what the forecasts are given as")
    n_repaired: int = Field(description="rows whose quantiles crossed by at most 1e-6 relative, and were repaired")
    weights_kind: WeightsKind | None = Field(None, description="null without weights")
    measures: Measures
    groups: dict[str, DistributionGroupAnswer] | None = None
    map: str | None = None
    after: DistributionAfter | None = None
    in_sample: bool | None = Field(None, description="whether the map was fitted to these rows; null: unknown")
    diagrams: dict[str, DiagramAnswer] | None = Field(None, description="if diagrams were requested")
    comparison: ForecastComparisonAnswer | None = Field(None, description="if other forecasts were sent as ``against``")
