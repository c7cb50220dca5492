"""Calibrant: are a classifier's probabilities to be trusted, and how are they repaired.

``evaluate`` measures, ``compare`` sets several maps side by side, ``fit`` makes a calibration map, ``load`` reads one
from its document,
``measure_by_size`` tells how measures depend on the number of rows, ``cost_plane`` which of two models' decisions cost
less, and ``logistic_normal`` draws a world whose truth is known.
``tally`` counts the rows of a partition of data larger than one machine, ``merge`` adds tallies up, ``evaluate_tally``
and ``fit_tally`` answer from them.
``CalibrantClassifier`` puts a map behind any classifier of scikit-learn.
Importing this package loads neither torch nor scikit-learn.
"""

from typing import TYPE_CHECKING, Any

from calibrant.by_size import MeasuresBySize, SizeCurve, measure_by_size
from calibrant.comparing import ComparisonReport, Training, compare
from calibrant.costs import cost_plane
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.errors import CalibrationError, Offence
from calibrant.evaluation import GroupReport, Report, evaluate
from calibrant.maps.calibration_map import CalibrationMap, load
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.gaps import Gap
from calibrant.measures.measure import MeasureResult
from calibrant.measures.selective import CostPlane
from calibrant.methods import METHODS, fit
from calibrant.synthetic import logistic_normal
from calibrant.tallies.counting import tally
from calibrant.tallies.event_tally import EventTally, merge
from calibrant.tallies.front import evaluate_tally, fit_tally

if TYPE_CHECKING:
    from calibrant.classifier import CalibrantClassifier

__version__ = "0.1.0"

__all__ = [
    "DIAGRAMS",
    "MEASURES",
    "METHODS",
    "CalibrantClassifier",
    "CalibrationError",
    "CalibrationMap",
    "ComparisonReport",
    "CostPlane",
    "EventTally",
    "Gap",
    "GroupReport",
    "MeasureResult",
    "MeasuresBySize",
    "Offence",
    "Report",
    "SizeCurve",
    "Training",
    "__version__",
    "compare",
    "cost_plane",
    "evaluate",
    "evaluate_tally",
    "fit",
    "fit_tally",
    "load",
    "logistic_normal",
    "measure_by_size",
    "merge",
    "tally",
]


def __getattr__(name: str) -> Any:
    """Load what needs scikit-learn when it is asked for."""
    if name == "CalibrantClassifier":
        from calibrant.classifier import CalibrantClassifier

        return CalibrantClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
