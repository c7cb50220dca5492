"""Calibrant: measure whether a classifier's probabilities can be trusted, and repair them.

- ``evaluate`` measures calibration, ``report`` makes a full report as HTML, and ``plot`` draws models side by side.
- ``compare`` compares several models on the same rows, or several calibration maps, and ranks them.
- ``recommend`` recommends a calibration map, or none, with its reasons.
- ``fit`` fits a calibration map, and ``load`` reads one from its document; ``shift_prior`` corrects predictions for a
  known base rate, or for sampled or weighted training rows, and ``update`` updates a model on new rows.
- ``fit_sets`` fits a map to prediction sets, by conformal prediction, and ``load_sets`` reads one.
- ``CalibrantClassifier`` combines a scikit-learn classifier with a calibration map.
- ``evaluate_distribution`` scores predictive distributions of a real number, of regression and forecasting;
  ``report_distribution`` makes a report, ``fit_distribution`` a map, and ``compare_distributions`` compares several.
- ``tally`` and ``merge`` count data that does not fit in memory; ``evaluate_tally`` and ``fit_tally`` use the counts.
- ``fit_performance_estimator`` estimates performance without labels, ``estimate_label_shift`` class frequencies, and
  ``prediction_drift`` tests whether predictions changed.
- ``start_online`` and ``follow_stream`` follow a stream with a map that adapts; ``change_time`` dates a change.
- ``decision_curve`` judges models by the net benefit of decisions at thresholds, and ``best_threshold`` chooses one.
- ``measure_by_size`` shows how measures depend on the number of rows, ``sample_size`` how many rows a validation needs,
  and ``cost_plane`` compares the costs of two models; ``grade_tests`` tests the default probabilities of rating grades.
- ``evaluate_sets`` measures the coverage of prediction sets, and ``start_adaptive`` follows that of a stream.
- ``find_segments`` finds segments of features in which predictions are too high or too low, and
  ``multicalibration_error`` measures calibration over all segments by one number.
- ``logistic_normal``, ``shaped_predictions`` and ``hidden_error`` draw synthetic data with known probabilities.

Importing this package is cheap: each name is loaded when it is first used.
"""

from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from calibrant.core.version import __version__

if TYPE_CHECKING:
    from calibrant import client as client
    from calibrant.by_size import MeasuresBySize, SizeCurve, measure_by_size
    from calibrant.calibrators import METHODS, fit, update
    from calibrant.calibrators.classifier import CalibrantClassifier
    from calibrant.comparison import ComparisonReport, Training, compare
    from calibrant.comparison.forecasts import ForecastComparison, compare_distributions
    from calibrant.core.errors import CalibrationError, MissingExtra, Offence
    from calibrant.core.synthetic import hidden_error, logistic_normal, shaped_predictions
    from calibrant.decisions.costs import cost_plane
    from calibrant.decisions.decision_curve import DecisionCurve, decision_curve
    from calibrant.decisions.grades import GradeTests, grade_tests
    from calibrant.decisions.segments import SegmentSearch, find_segments
    from calibrant.decisions.thresholds import DecisionThreshold, best_threshold
    from calibrant.diagrams.catalogue import DIAGRAMS
    from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
    from calibrant.distributed.sources import calibrate_source, compare_source, evaluate_source, fit_source
    from calibrant.distributed.target import Scored
    from calibrant.distributions.adaptive import AdaptiveForecasts, recalibrate_in_order
    from calibrant.distributions.calibrators import DISTRIBUTION_METHODS, fit_distribution
    from calibrant.distributions.evaluation import DistributionReport, evaluate_distribution
    from calibrant.distributions.maps.distribution_map import DistributionMap, load_distribution
    from calibrant.distributions.measures import DISTRIBUTION_MEASURES
    from calibrant.evaluation import GroupReport, Report, evaluate
    from calibrant.maps.calibration_map import CalibrationMap, load
    from calibrant.maps.prior_shift import shift_prior
    from calibrant.measures.catalogue import MEASURES
    from calibrant.measures.gaps import Gap
    from calibrant.measures.measure import MeasureResult
    from calibrant.measures.multicalibration import Multicalibration, multicalibration_error
    from calibrant.measures.pooling import Pooled
    from calibrant.measures.sample_size import SampleSize, sample_size
    from calibrant.measures.selective import CostPlane
    from calibrant.monitoring.change import ChangeTime, change_time
    from calibrant.monitoring.density_ratio import density_ratios
    from calibrant.monitoring.drift import PredictionDrift, prediction_drift
    from calibrant.monitoring.estimates import (
        EstimatedFigure,
        PerformanceEstimate,
        PerformanceEstimator,
        fit_performance_estimator,
    )
    from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
    from calibrant.monitoring.event_shift import estimate_event_shift
    from calibrant.monitoring.event_tally import EventTally, merge, tally
    from calibrant.monitoring.label_shift import LabelShift, estimate_label_shift
    from calibrant.monitoring.online import OnlineMap, OnlinePredictions, follow_stream, start_online
    from calibrant.plots.axes import Plotter, plot
    from calibrant.plots.display import CalibrationDisplay
    from calibrant.plots.distribution_axes import DistributionPlotter
    from calibrant.reports.html_report import HtmlReport, report, report_distribution
    from calibrant.reports.recommendation import RecommendedMap, recommend
    from calibrant.sets.adaptive import AdaptiveAlpha, start_adaptive
    from calibrant.sets.evaluation import SetEvaluation, StratumCoverage, evaluate_sets
    from calibrant.sets.fitting import SET_METHODS, fit_sets
    from calibrant.sets.prediction_sets import PredictionSets
    from calibrant.sets.set_map import SetMap, load_sets

#: Module -> the names that this package exports from it.
_NAMES = {
    "by_size": ("MeasuresBySize", "SizeCurve", "measure_by_size"),
    "calibrators": ("METHODS", "fit", "update"),
    "calibrators.classifier": ("CalibrantClassifier",),
    "comparison": ("ComparisonReport", "Training", "compare"),
    "comparison.forecasts": ("ForecastComparison", "compare_distributions"),
    "decisions.costs": ("cost_plane",),
    "decisions.grades": ("GradeTests", "grade_tests"),
    "decisions.decision_curve": ("DecisionCurve", "decision_curve"),
    "decisions.segments": ("SegmentSearch", "find_segments"),
    "decisions.thresholds": ("DecisionThreshold", "best_threshold"),
    "diagrams.catalogue": ("DIAGRAMS",),
    "diagrams.forecasts": ("DISTRIBUTION_DIAGRAMS",),
    "plots.display": ("CalibrationDisplay",),
    "distributed.sources": ("calibrate_source", "compare_source", "evaluate_source", "fit_source"),
    "distributed.target": ("Scored",),
    "distributions.adaptive": ("AdaptiveForecasts", "recalibrate_in_order"),
    "distributions.calibrators": ("DISTRIBUTION_METHODS", "fit_distribution"),
    "distributions.maps.distribution_map": ("DistributionMap", "load_distribution"),
    "distributions.evaluation": ("DistributionReport", "evaluate_distribution"),
    "distributions.measures": ("DISTRIBUTION_MEASURES",),
    "core.errors": ("CalibrationError", "MissingExtra", "Offence"),
    "evaluation": ("GroupReport", "Report", "evaluate"),
    "reports.html_report": ("HtmlReport", "report", "report_distribution"),
    "reports.recommendation": ("RecommendedMap", "recommend"),
    "sets.fitting": ("SET_METHODS", "fit_sets"),
    "sets.prediction_sets": ("PredictionSets",),
    "sets.set_map": ("SetMap", "load_sets"),
    "sets.adaptive": ("AdaptiveAlpha", "start_adaptive"),
    "sets.evaluation": ("SetEvaluation", "StratumCoverage", "evaluate_sets"),
    "maps.calibration_map": ("CalibrationMap", "load"),
    "maps.prior_shift": ("shift_prior",),
    "measures.catalogue": ("MEASURES",),
    "measures.gaps": ("Gap",),
    "measures.measure": ("MeasureResult",),
    "measures.multicalibration": ("Multicalibration", "multicalibration_error"),
    "measures.pooling": ("Pooled",),
    "measures.sample_size": ("SampleSize", "sample_size"),
    "measures.selective": ("CostPlane",),
    "monitoring.change": ("ChangeTime", "change_time"),
    "monitoring.density_ratio": ("density_ratios",),
    "monitoring.drift": ("PredictionDrift", "prediction_drift"),
    "monitoring.estimates": (
        "EstimatedFigure",
        "PerformanceEstimate",
        "PerformanceEstimator",
        "fit_performance_estimator",
    ),
    "monitoring.event_shift": ("estimate_event_shift",),
    "monitoring.event_tally": ("EventTally", "merge", "tally"),
    "monitoring.evaluation": ("evaluate_tally", "fit_tally"),
    "monitoring.label_shift": ("LabelShift", "estimate_label_shift"),
    "monitoring.online": ("OnlineMap", "OnlinePredictions", "follow_stream", "start_online"),
    "plots.axes": ("Plotter", "plot"),
    "plots.distribution_axes": ("DistributionPlotter",),
    "core.synthetic": ("hidden_error", "logistic_normal", "shaped_predictions"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DIAGRAMS",
    "DISTRIBUTION_DIAGRAMS",
    "DISTRIBUTION_MEASURES",
    "DISTRIBUTION_METHODS",
    "MEASURES",
    "METHODS",
    "SET_METHODS",
    "AdaptiveAlpha",
    "AdaptiveForecasts",
    "CalibrantClassifier",
    "CalibrationDisplay",
    "CalibrationError",
    "CalibrationMap",
    "ChangeTime",
    "ComparisonReport",
    "CostPlane",
    "DecisionCurve",
    "DecisionThreshold",
    "DistributionMap",
    "DistributionPlotter",
    "DistributionReport",
    "EstimatedFigure",
    "EventTally",
    "ForecastComparison",
    "Gap",
    "GradeTests",
    "GroupReport",
    "HtmlReport",
    "LabelShift",
    "MeasureResult",
    "MeasuresBySize",
    "MissingExtra",
    "Multicalibration",
    "Offence",
    "OnlineMap",
    "OnlinePredictions",
    "PerformanceEstimate",
    "PerformanceEstimator",
    "Plotter",
    "Pooled",
    "PredictionDrift",
    "PredictionSets",
    "RecommendedMap",
    "Report",
    "SampleSize",
    "Scored",
    "SegmentSearch",
    "SetEvaluation",
    "SetMap",
    "SizeCurve",
    "StratumCoverage",
    "Training",
    "__version__",
    "best_threshold",
    "calibrate_source",
    "change_time",
    "compare",
    "compare_distributions",
    "compare_source",
    "cost_plane",
    "decision_curve",
    "density_ratios",
    "estimate_event_shift",
    "estimate_label_shift",
    "evaluate",
    "evaluate_distribution",
    "evaluate_sets",
    "evaluate_source",
    "evaluate_tally",
    "find_segments",
    "fit",
    "fit_distribution",
    "fit_performance_estimator",
    "fit_sets",
    "fit_source",
    "fit_tally",
    "follow_stream",
    "grade_tests",
    "hidden_error",
    "load",
    "load_distribution",
    "load_sets",
    "logistic_normal",
    "measure_by_size",
    "merge",
    "multicalibration_error",
    "plot",
    "prediction_drift",
    "recalibrate_in_order",
    "recommend",
    "report",
    "report_distribution",
    "sample_size",
    "shaped_predictions",
    "shift_prior",
    "start_adaptive",
    "start_online",
    "tally",
    "update",
]


def _loaded(name: str) -> Any:
    """Load a name when it is first used."""
    if name == "client":  # which needs an extra
        return import_module(f"{__name__}.client")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_instead(name)}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # checkers of types then know which names exist
    __getattr__ = _loaded


def _instead(name: str) -> str:
    """Return what to use in place of a name that another library has."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        return ""
    options = import_module(f"{__name__}.core.options")
    measures, fitting = (
        import_module(f"{__name__}.measures.catalogue"),
        import_module(f"{__name__}.calibrators.fitting"),
    )
    if (measure := options.known_name(name, measures.MEASURES, measures.FAMILIAR)) in measures.MEASURES:
        return f'; use calibrant.evaluate(predictions, labels, measures=["{measure}"])'
    if (method := options.known_name(name, fitting.METHODS, fitting.FAMILIAR)) in fitting.METHODS:
        return f'; use calibrant.fit("{method}", predictions, labels)'
    scores = 'evaluate_distribution(observed, ..., measures=["{}"])'
    diagrams = (
        "ReliabilityDiagram",
        "calibration_curve",
        "reliability_curve",
        "reliability_diagram",
        "plot_calibration_curve",
    )
    calibrate = 'fit("platt", predictions, labels).apply(predictions)'
    familiar = {
        "CalibratedClassifierCV": "CalibrantClassifier",
        "AsyncCalibrant": "client.AsyncCalibrant",
        "Calibrator": "fit, METHODS and CalibrationMap",
        "VennAbersCalibrator": 'fit("venn-abers", predictions, labels)',
        **dict.fromkeys(("MapieRegressor", "SplitConformalRegressor"), 'fit_distribution("conformal", observed, ...)'),
        **dict.fromkeys(("MapieClassifier", "SplitConformalClassifier", "SplitPredictor"), "fit_sets"),
        **dict.fromkeys(("crps_ensemble", "crps_gaussian", "crps_normal"), scores.format("crps")),
        **dict.fromkeys(("interval_score", "winkler_score"), scores.format("interval-score")),
        **dict.fromkeys(("pinball_loss", "quantile_score"), scores.format("quantile-score")),
        **dict.fromkeys(("Calibrant", "Client"), "client.Calibrant"),
        **dict.fromkeys(("dca", "decision_curve_analysis", "plot_graphs"), "decision_curve"),
        **dict.fromkeys(("FixedThresholdClassifier", "TunedThresholdClassifierCV"), "best_threshold"),
        **dict.fromkeys(diagrams, "CalibrationDisplay"),
        **dict.fromkeys(("apply", "calibrate", "recalibrate", "transform"), calibrate),
    }
    by_small = {public.lower(): public for public in __all__ if public not in ("CalibrationError", "MissingExtra")}
    near = [familiar[name]] if name in familiar else get_close_matches(name.lower(), by_small, n=1, cutoff=0.7)
    return f"; use calibrant.{by_small.get(near[0], near[0])}" if near else ""


def __dir__() -> list[str]:
    return sorted([*__all__, "client"])
