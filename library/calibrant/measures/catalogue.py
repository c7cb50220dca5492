"""The catalogue of measures, and requests for measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from calibrant.core.errors import InvalidOption, UnknownMeasure, plain_name
from calibrant.core.options import Catalogue, read_entries
from calibrant.measures import (
    binned,
    clinical,
    confidence,
    cumulative,
    dirichlet,
    fitted,
    hypothesis_tests,
    improvement,
    kernel,
    net_benefit,
    proper,
    smooth,
    smoothers,
)
from calibrant.measures.measure import Measure, MeasureRequest

#: The most measures of a report.
MAX_MEASURES = 128

#: The families in the order of the documentation.
_FAMILIES = (
    binned,
    cumulative,
    smooth,
    kernel,
    hypothesis_tests,
    fitted,
    proper,
    improvement,
    dirichlet,
    confidence,
    clinical,
    smoothers,
    net_benefit,
)

#: Names that other libraries use -> names here.
FAMILIAR: Mapping[str, str] = MappingProxyType(
    {
        "accuracy-score": "accuracy",
        "adaptive-calibration-error": "ace",
        "auc": "auroc",
        "bce": "log-loss",
        "binary-calibration-error": "ece",
        "binary-cross-entropy": "log-loss",
        "roc-auc": "auroc",
        "roc-auc-score": "auroc",
        "brier-score": "brier",
        **dict.fromkeys(("calibration-in-the-large", "citl"), "calibration-intercept"),
        **dict.fromkeys(("o/e", "oe", "o-e-ratio", "observed-expected-ratio"), "oe-ratio"),
        **dict.fromkeys(("integrated-calibration-index",), "ici"),
        **dict.fromkeys(("hl", "hosmer-lemeshow-test"), "hosmer-lemeshow"),
        "brier-score-loss": "brier",
        "calibration-error": "ece",
        "cross-entropy": "log-loss",
        "expected-calibration-error": "ece",
        "max-calibration-error": "mce",
        "max-ece": "mce",
        "maximum-calibration-error": "mce",
        "ks-error": "ks",
        "logloss": "log-loss",
        "multiclass-calibration-error": "ece",
        "negative-log-likelihood": "log-loss",
        "nll": "log-loss",
        "static-calibration-error": "sce",
    }
)

#: Names that are no measures -> what to use.
_ELSEWHERE = {
    **dict.fromkeys(
        ("intercept", "slope"), "is unknown; use calibration-slope, calibration-intercept or logistic-intercept"
    ),
    **dict.fromkeys(("adaece", "adaptive-ece", "equal-mass-ece"), "is unknown; ece has bins of equal mass by default"),
    **dict.fromkeys(("classwise-ece", "cw-ece"), 'is unknown; use ece with reduction="classwise"'),
    "ece-equal-width": 'is unknown; use {"name": "ece", "binning": "equal-width"}',
    "all": "must be names of measures; only evaluate(predictions, labels) and calibrant evaluate take all",
}

MEASURES: Mapping[str, Measure] = Catalogue(
    "measure",
    {entry.name: entry for family in _FAMILIES for entry in family.MEASURES},
    FAMILIAR,
    _ELSEWHERE,
    public="MEASURES",
)

#: The default measures of ``evaluate``, and those under ``canonical``.
PANEL = ("ece", "squared-ece", "log-loss", "brier", "auroc", "smooth-test")
PANEL_OF_VECTORS = ("brier", "log-loss", "ks-by-predicted-class")
#: The level of the intervals of the default measures.
LEVEL = 0.95


def applicable(
    measures: str | Sequence[str | Mapping[str, Any]] | None, reduction: str | None
) -> str | Sequence[str | Mapping[str, Any]] | None:
    """Return the measures of a request; ``all`` stands for those that apply to a reduction.

    It leaves out the measures that run as jobs in the service, because they are slow.
    """
    of_vector = reduction == "canonical"
    if not (isinstance(measures, str) and measures == "all"):
        return measures
    fitting = {name: entry.vector if of_vector else entry.event for name, entry in MEASURES.items()}
    return [name for name, compute in fitting.items() if compute is not None and MEASURES[name].runs == "inline"]


def level_of(interval: float | None, measures: object) -> float | None:
    """Return the level of the intervals: 0.95 for the default measures, and none for others, unless it is stated."""
    return LEVEL if interval is None and measures is None else interval


def read_requests(
    measures: str | Sequence[str | Mapping[str, Any]] | None, reduction: object = None
) -> tuple[MeasureRequest, ...]:
    """Read a request for measures: names, or objects with a name, options and ``as``; None: those of the reduction.

    Raises ``UnknownMeasure`` or ``InvalidOption``, also for duplicate keys.
    """
    if measures is None:
        measures = PANEL_OF_VECTORS if isinstance(reduction, str) and reduction == "canonical" else PANEL
    measures = [measures] if isinstance(measures, str | Mapping) else measures
    if isinstance(measures, Sequence) and not isinstance(measures, bytes):
        for i, item in enumerate(measures):
            name = item.get("name") if isinstance(item, Mapping) else item
            if isinstance(name, str) and name not in MEASURES and plain_name(name) in _ELSEWHERE:
                raise UnknownMeasure.at(f"/measures/{i}", _ELSEWHERE[plain_name(name)])
    entries = read_entries(measures, MEASURES, "measure", most=MAX_MEASURES, unknown=UnknownMeasure, familiar=FAMILIAR)
    if not entries:
        raise InvalidOption.at("/measures", "must name at least one measure")
    return tuple(MeasureRequest(*parts) for parts in entries)
