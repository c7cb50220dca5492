"""The catalogue of measures: what exists, what it means, and how a request for one is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from calibrant.binning import Bins, equal_mass, equal_width, sweep_count
from calibrant.errors import CalibrationError, InvalidOption, UnknownMeasure
from calibrant.measures.binned import Norm, expected_calibration_error
from calibrant.measures.cumulative import ks_error, ks_p_value
from calibrant.measures.fitted import Map, fitted_error
from calibrant.measures.intervals import Resampling, binned_interval, ks_interval
from calibrant.measures.smooth import MAX_TERMS, smooth_test
from calibrant.piecewise.options import MAX_FOLDS
from calibrant.reductions import Event

#: Intervals that would draw more numbers than this are not given.
MAX_DRAWS = 2_000_000
#: A report answers at most this many measures.
MAX_MEASURES = 64
#: More equal-width or equal-mass bins than this are refused.
MAX_BINS = 100_000


@dataclass(frozen=True)
class MeasureResult:
    """One measure's answer. What is not defined for it is None; ``definition`` tells exactly what was computed."""

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class Option:
    """A measure's option: its default, and either the values it may take or the range of an integer."""

    default: int | str
    choices: tuple[int | str, ...] = ()
    low: int = 1
    high: int = MAX_BINS

    def accepts(self, value: object) -> bool:
        """Whether ``value`` may stand here; True is not 1."""
        if self.choices:
            return any(type(value) is type(choice) and value == choice for choice in self.choices)
        return type(value) is int and self.low <= value <= self.high

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        return ", ".join(map(str, self.choices)) if self.choices else f"an integer from {self.low} to {self.high}"


@dataclass(frozen=True)
class Measure:
    """An entry of the catalogue; ``highest`` is None where values have no upper end."""

    name: str
    title: str
    definition: str
    source: str
    lowest: float
    highest: float | None
    compute: Callable[..., MeasureResult]
    options: Mapping[str, Option] = field(default_factory=dict)
    runs: Literal["inline", "job"] = "inline"


@dataclass(frozen=True)
class MeasureRequest:
    """A measure asked for, with every option filled in and the key its answer stands under."""

    key: str
    measure: Measure
    options: Mapping[str, int | str]

    def compute(self, event: Event, resampling: Resampling | None = None) -> MeasureResult:
        """Answer for one event; the answer carries the definition used."""
        result = self.measure.compute(event, resampling, **self.options)
        definition = {"name": self.measure.name, **self.options, **result.definition}
        if resampling is not None:
            definition |= {"interval": resampling.level, "resamples": resampling.resamples, "seed": resampling.seed}
        return replace(result, definition=definition)


def _binned(bins: Bins, norm: int, resampling: Resampling | None, definition: dict[str, Any]) -> MeasureResult:
    order: Norm = 1 if norm == 1 else 2
    definition = {**definition, "bins_used": len(bins)}
    few = float(bins.rows.min()) < 1.0
    # The plain value does not ask how many rows there are; the noise of less than one row means nothing.
    plain, debiased = expected_calibration_error(replace(bins, rows=np.ones(len(bins))) if few else bins, order)
    if few:
        problem = "no debiased value: a bin has less than one row by its weights; weights_kind importance fits such"
        return MeasureResult(plain, definition=definition, problem=problem)
    if resampling is None:
        return MeasureResult(plain, debiased, definition=definition)
    if resampling.resamples * len(bins) > MAX_DRAWS:
        problem = f"no interval: resamples x bins would pass {MAX_DRAWS}; ask for fewer of either"
        return MeasureResult(plain, debiased, definition=definition, problem=problem)
    return MeasureResult(plain, debiased, binned_interval(bins, order, resampling), definition=definition)


def _ece(event: Event, resampling: Resampling | None, *, binning: str, n_bins: int, norm: int) -> MeasureResult:
    bins = equal_mass(event.cells, n_bins) if binning == "equal-mass" else equal_width(event, n_bins)
    return _binned(bins, norm, resampling, {})


def _ece_sweep(event: Event, resampling: Resampling | None, *, norm: int) -> MeasureResult:
    count = sweep_count(event.cells)
    return _binned(equal_mass(event.cells, count), norm, resampling, {"n_bins": count})


def _ks(event: Event, resampling: Resampling | None) -> MeasureResult:
    error = ks_error(event.cells)
    interval = None if resampling is None else ks_interval(event.cells, error, resampling)
    return MeasureResult(error, interval=interval, p_value=ks_p_value(event.cells, error))


def _fitted(name: Map) -> Callable[..., MeasureResult]:
    def compute(event: Event, resampling: Resampling | None, *, norm: int, folds: int) -> MeasureResult:
        order: Norm = 1 if norm == 1 else 2
        level = None if resampling is None else resampling.level
        try:
            found = fitted_error(event, name, norm=order, folds=folds, level=level)
        except CalibrationError as error:
            return MeasureResult(None, problem=f"no value: {error.detail}")
        return MeasureResult(found.value, found.debiased, found.interval, definition=found.told)

    return compute


def _smooth_test(event: Event, _resampling: Resampling | None, *, n_terms: int) -> MeasureResult:
    statistic, p_value = smooth_test(event.cells, n_terms)
    if math.isfinite(statistic):
        return MeasureResult(statistic, p_value=p_value)
    problem = "no value: it is infinite, as a prediction of 0 or 1, or next to it, was wrong"
    return MeasureResult(None, p_value=p_value, problem=problem)


_NORM = Option(1, choices=(1, 2))
_FOLDS = Option(10, low=2, high=MAX_FOLDS)
_DEBIASED = (
    "debiased: half mean |m - p|^norm, half mean s (y - p) (norm 1, s the expected sign of c - p) "
    "or mean (m - p)(y - p) (norm 2), m the fitted map; no root"
)
_MAPS: dict[Map, str] = {"pl": "PL", "pl3": "PL3", "averaged": "the model average"}

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Measure(
                "ece",
                "Expected calibration error",
                "sum_k (n_k / n) |pbar_k - ybar_k|^norm over bins; debiased by the folded normal (norm 1) "
                "or by ybar_k (1 - ybar_k) / (n_k - 1) (norm 2); no root",
                "Kangsepp, Valk & Kull (2022), sections 2.2 and C.5; Kumar, Liang & Ma (2019)",
                0.0,
                1.0,
                _ece,
                {
                    "binning": Option("equal-mass", choices=("equal-mass", "equal-width")),
                    "n_bins": Option(15),
                    "norm": _NORM,
                },
            ),
            Measure(
                "ece-sweep",
                "Expected calibration error, number of equal-mass bins by the monotone sweep",
                "ece with the largest b such that 1, ..., b equal-mass bins all have non-decreasing label means",
                "Roelofs et al. (2022)",
                0.0,
                1.0,
                _ece_sweep,
                {"norm": _NORM},
            ),
            Measure(
                "ks",
                "Kolmogorov-Smirnov calibration error",
                "max_i |sum_{j<=i} (y_j - p_j)| / n over rows sorted by prediction, read at the end of each tie; "
                "p-value by the law of the supremum of |Brownian motion|",
                "Gupta et al. (2021), eq. 6",
                0.0,
                1.0,
                _ks,
            ),
            Measure(
                "smooth-test",
                "Smooth test of calibration",
                "sum_{j < n_terms} (1 + j)^-1.5 U_j^2 / F, U_j = sum w (y - p) phi_j(v), over the Legendre "
                "polynomials phi_j that are orthonormal on [0, 1], at v, the share of the variance F = sum w p (1 - p) "
                "(importance weights: w^2) up to the middle of a tie; p-value by the law of a weighted sum of squares",
                "Neyman (1937); Eubank & LaRiccia (1992); Rice (1980) for the law",
                0.0,
                None,
                _smooth_test,
                {"n_terms": Option(8, high=MAX_TERMS)},
            ),
            *(
                Measure(
                    f"ece-{name}",
                    f"Calibration error by fitting {title}",
                    f"mean |c(p) - p|^norm, c the map that the method {name} fits to the same rows; {_DEBIASED}",
                    "Kangsepp, Valk & Kull (2022), section 3; docs/debiasing.md",
                    0.0,
                    1.0,
                    _fitted(name),
                    {"norm": _NORM, "folds": _FOLDS},
                    "job",
                )
                for name, title in _MAPS.items()
            ),
        )
    }
)

#: What ``evaluate`` answers when no measures are named.
PANEL: tuple[str | Mapping[str, Any], ...] = (
    "ece",
    {"name": "ece", "binning": "equal-width", "as": "ece-equal-width"},
    "ece-sweep",
    "ks",
)


def read_requests(measures: Sequence[str | Mapping[str, Any]] | None) -> tuple[MeasureRequest, ...]:
    """Read the measures asked for: names, or objects of a name, options and ``as``.

    Raises ``UnknownMeasure`` or ``InvalidOption``, each naming the place; equal keys are refused.
    """
    if measures is None:
        measures = PANEL
    if isinstance(measures, str | bytes) or not isinstance(measures, Sequence) or not measures:
        raise InvalidOption.at("/measures", "must be a non-empty array of names or objects")
    if len(measures) > MAX_MEASURES:
        raise InvalidOption.at("/measures", f"must name at most {MAX_MEASURES} measures")
    requests = tuple(_read_request(item, f"/measures/{i}") for i, item in enumerate(measures))
    seen: set[str] = set()
    for i, request in enumerate(requests):
        if request.key in seen:
            raise InvalidOption.at(f"/measures/{i}", "has the key of an earlier measure; give it another with 'as'")
        seen.add(request.key)
    return requests


def _read_request(item: object, where: str) -> MeasureRequest:
    asked = {"name": item} if isinstance(item, str) else item
    if not isinstance(asked, Mapping) or not isinstance(asked.get("name"), str):
        raise InvalidOption.at(where, "must be a measure's name, or an object with a name")
    measure = MEASURES.get(asked["name"])
    if measure is None:
        raise UnknownMeasure.at(where, f"must be one of: {', '.join(MEASURES)}")
    key = asked.get("as", measure.name)
    if not isinstance(key, str) or not 0 < len(key) <= 64:
        raise InvalidOption.at(f"{where}/as", "must be a name of 1 to 64 characters")
    for name, value in asked.items():
        if name in ("name", "as"):
            continue
        option = measure.options.get(name)
        if option is None:
            known = ", ".join(measure.options) or "none"
            raise InvalidOption.at(where, f"has an option that {measure.name} does not know; its options: {known}")
        if not option.accepts(value):
            raise InvalidOption.at(f"{where}/{name}", f"must be {option.allowed}")
    return MeasureRequest(key, measure, {name: asked.get(name, o.default) for name, o in measure.options.items()})
