"""The pages of all measures, diagrams and methods, and the explanation of a fitted map: its formula and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import Response

from calibrant.calibrators import METHODS, Method
from calibrant.core.options import Option
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.measure import Measure
from calibrant.reports.tables import describe_reduction
from schemas.maps import MapRecord
from service.calls import Call
from service.web.forms import page_calls
from service.web.text import decimals, number, shortened
from service.web.visit import Visiting

# --- The families of fitted functions, as in docs/reference/map-document.md

_P, _Z, _NONE = "probability", "logit", ""


class Family(NamedTuple):
    """A family: its formula, and the meaning and the unit of each parameter."""

    formula: str
    parameters: Mapping[str, tuple[str, str]] = {}


_KNOTS_P = ("predicted probabilities between which the map is linear", _P)
_STARTS = ("lower ends of the bins", _P)
_AT_LOGITS = {"at_logits": ("their logits, of a map of logits", _Z)}
_SLOPE, _INTERCEPT = ("factor of the logit", _NONE), ("added to the logit", _Z)
_TEMPERATURE = ("divisor of the logits; above 1, the predictions were overconfident", _NONE)
_MODELS = ("piecewise linear functions that are averaged", _NONE)
_CURVES = ("one curve each", _NONE)
_ORDER = ("whether the classes of a row keep their order", _NONE)
_MATRIX = {
    "weights": ("matrix W, with a row for each class", _NONE),
    "intercepts": ("vector b, with a number for each class", _Z),
}
_SMOOTHING = ("how far predictions are smoothed, a", _NONE)
_PRIOR = ("frequencies of the classes toward which they are smoothed", _P)
_DISTANCES = ("distances of logits at which a slope changes", _Z)
_RANK_SLOPES = ("slopes between two neighbouring ranks", _NONE)

FAMILIES: Mapping[str, Family] = {
    "identity": Family("p, unchanged"),
    "constant": Family("`value`", {"value": ("the probability of every row", _P)}),
    "platt": Family("logistic(`slope` logit(p) + `intercept`)", {"slope": _SLOPE, "intercept": _INTERCEPT}),
    "event-temperature": Family("logistic(logit(p) / `temperature`)", {"temperature": _TEMPERATURE}),
    "beta": Family(
        "logistic(`a` ln p - `b` ln(1 - p) + `c`)",
        {"a": ("factor of ln p", _NONE), "b": ("factor of -ln(1 - p)", _NONE), "c": _INTERCEPT},
    ),
    "isotonic": Family(
        "linear between `thresholds`",
        {"thresholds": _KNOTS_P, "heights": ("calibrated probabilities there", _P), **_AT_LOGITS},
    ),
    "pl": Family(
        "the mean of `models`, each linear between its knots",
        {"models": _MODELS, "stretch": ("share of asinh(logit / 36) that a map of logits adds to p", _NONE)},
    ),
    "pl3": Family("the mean of logistic(f(logit(p))) over `models` f, linear between their knots", {"models": _MODELS}),
    "steps": Family(
        "the height of the bin of p",
        {"starts": _STARTS, "heights": ("calibrated probabilities of the bins", _P), **_AT_LOGITS},
    ),
    "roofs": Family(
        "p plus the shift of its bin", {"starts": _STARTS, "shifts": ("shifts of the bins", _P), **_AT_LOGITS}
    ),
    "scaling-binning": Family(
        "the height of the bin of q = logistic(`slope` logit(p) + `intercept`)",
        {
            "slope": _SLOPE,
            "intercept": _INTERCEPT,
            "starts": ("lower ends of the bins of q", _P),
            "heights": ("calibrated probabilities of the bins", _P),
            **_AT_LOGITS,
        },
    ),
    "spline": Family(
        "linear between `scores`",
        {"scores": _KNOTS_P, "values": ("calibrated probabilities there, clipped to [0, 1]", _P), **_AT_LOGITS},
    ),
    "kde": Family("linear between `knots`", {"knots": _KNOTS_P, "shares": ("calibrated probabilities there", _P)}),
    "venn-abers": Family(
        "`merge` of the two probabilities of an isotonic regression with p added as label 0 and as label 1",
        {
            "scores": ("distinct predicted probabilities of the fit", _P),
            "p0": ("calibrated probabilities with p as label 0", _P),
            "p1": ("calibrated probabilities with p as label 1", _P),
            "merge": ("the score whose largest regret is smallest", _NONE),
            **_AT_LOGITS,
        },
    ),
    "piecewise-polynomial": Family(
        "a polynomial on each segment",
        {"breaks": ("ends of the segments", _P), "coefficients": ("coefficients on each segment", _NONE)},
    ),
    "sides": Family(
        "`below` if p < 1/2, else `above`",
        {"below": ("the probability below 1/2", _P), "above": ("the probability from 1/2", _P)},
    ),
    "averaged": Family(
        "logistic(f(logit(p))), f linear between `knots`",
        {
            "knots": ("logits of predicted probabilities", _Z),
            "logits": ("logits of calibrated probabilities there", _Z),
        },
    ),
    "temperature": Family("softmax(z / `temperature`)", {"temperature": _TEMPERATURE}),
    "vector": Family(
        "softmax(`weights` * z + `intercepts`), class by class",
        {"weights": ("factor of each class", _NONE), "intercepts": ("added to the logit of each class", _Z)},
    ),
    "matrix": Family("softmax(W z + b)", _MATRIX),
    "dirichlet": Family("softmax(W ln p + b)", _MATRIX),
    "ets": Family(
        "w1 softmax(z / `temperature`) + w2 softmax(z) + w3 / K",
        {"temperature": _TEMPERATURE, "weights": ("w1, w2 and w3, which sum to 1", _NONE)},
    ),
    "iop-diagonal": Family(
        "softmax(-g(max z - z)), g piecewise linear",
        {"knots": _DISTANCES, "slopes": ("slopes of g", _NONE)},
    ),
    "iop-oi": Family(
        "softmax of scores that keep the order of the classes", {"knots": _DISTANCES, "rank_slopes": _RANK_SLOPES}
    ),
    "iop-op": Family(
        "softmax of scores that keep the order of the classes",
        {"knots": _DISTANCES, "rank_slopes": _RANK_SLOPES, "class_slopes": ("slopes added for each class", _NONE)},
    ),
    "accuracy-constant": Family(
        "`accuracy` for the predicted class, the rest shared equally", {"accuracy": ("of the rows of the fit", _P)}
    ),
    "predicted-class": Family(
        "the class frequencies among rows with the same predicted class",
        {"frequencies": ("a row for each predicted class", _P)},
    ),
    "quadratic": Family(
        "logistic(`intercept` + `slope` z + `square` z^2), z = logit(p)",
        {"intercept": _INTERCEPT, "slope": _SLOPE, "square": ("factor of the squared logit", _NONE)},
    ),
    "smoothed": Family("the curve at (1 - a) p + a / 2", {"smoothing": _SMOOTHING, "curves": _CURVES}),
    "softmax-regression": Family(
        "softmax(W u + Q u^2 / 4 + R q + b), q = (1 - a) softmax(z / `temperature`) + a `prior`, u = ln q",
        {
            "temperature": _TEMPERATURE,
            "smoothing": _SMOOTHING,
            "prior": _PRIOR,
            "weights": ("matrix W, or its diagonal", _NONE),
            "intercepts": _MATRIX["intercepts"],
            "squares": ("matrix Q", _NONE),
            "probabilities": ("matrix R", _NONE),
        },
    ),
    "hidden-softmax": Family(
        "softmax(W (x, tanh(H x + c)) + b), x the standardised logarithms of (1 - a) p + a `prior`",
        {
            "smoothing": _SMOOTHING,
            "prior": _PRIOR,
            "centre": ("means of the logarithms", _Z),
            "spread": ("standard deviations of the logarithms", _Z),
            "hidden": ("matrix H of random numbers", _NONE),
            "offsets": ("vector c of random numbers", _NONE),
            "weights": ("matrix W, with a row for each class", _NONE),
            "intercepts": _MATRIX["intercepts"],
        },
    ),
    "ensemble": Family(
        "a mixture of `members` and of their log-linear pool",
        {
            "members": ("maps of the whole vector", _NONE),
            "mixture": ("weights of the members", _NONE),
            "pool": ("exponents of the members in the pool", _NONE),
            "pool_share": ("weight of the pool", _NONE),
            "keep_order": _ORDER,
        },
    ),
    "vector-identity": Family("p, unchanged"),
    "smoothed-vector": Family(
        "the member at (1 - a) p + a / K", {"smoothing": _SMOOTHING, "members": ("one map of the whole vector", _NONE)}
    ),
    "one-vs-rest": Family(
        "a curve for each class",
        {
            "curves": _CURVES,
            "renormalise": ("whether a row is divided by its sum", _NONE),
            "keep_order": _ORDER,
        },
    ),
    "ranks": Family(
        "a curve for each of the largest probabilities of a row",
        {
            "curves": _CURVES,
            "within": ("whether a curve takes the sum of the r largest probabilities", _NONE),
            "keep_order": _ORDER,
        },
    ),
}

_DIAGNOSTICS: Mapping[str, tuple[str, str]] = {
    "accuracy_before": ("accuracy on the rows of the fit, before the map", _NONE),
    "accuracy_after": ("accuracy on the rows of the fit, after the map", _NONE),
    "bandwidth": ("width of the kernel", _P),
    "bins": ("number of bins; of several binnings, of the most probable", _NONE),
    "candidates": ("numbers of pieces that were compared", _NONE),
    "cells": ("number of distinct predictions", _NONE),
    "converged": ("whether each fit converged", _NONE),
    "exponents": ("exponents of the members in the log-linear pool", _NONE),
    "final": ("how the maps of the folds are combined", _NONE),
    "fits": ("number of fits", _NONE),
    "folds": ("number of folds of the cross-validation", _NONE),
    "gradient": ("largest derivative of the objective at the optimum", _NONE),
    "held_out_gain": ("cross-fitted decrease of the log loss by the map, and its approximate standard error", "nats"),
    "held_out_log_loss": ("log loss on held-out folds", "nats"),
    "identity_probability": ("posterior probability that the predictions need no map", _NONE),
    "intercept_strength": ("strength of the penalty on the intercepts", _NONE),
    "knot_values": ("values of the spline at its knots", _NONE),
    "knots": ("number of knots of the spline", _NONE),
    "log_loss": ("log loss on the rows of the fit", "nats"),
    "loss": ("score that the fit minimises", _NONE),
    "models": ("number of averaged binnings", _NONE),
    "monotone": ("whether the map is forced to increase", _NONE),
    "objective": ("log loss plus penalty on the rows of the fit", "nats"),
    "pieces": ("chosen number of pieces", _NONE),
    "pool_share": ("weight of the log-linear pool", _NONE),
    "process_share": ("weight of the Gaussian process", _NONE),
    "scores": ("held-out score of each number of pieces", _NONE),
    "segments": ("number of segments", _NONE),
    "select": ("score that chooses the number of pieces", _NONE),
    "smoothing": ("how far predictions of exactly 0 or 1 are smoothed", _NONE),
    "starts": ("starting points of each fit", _NONE),
    "steps": ("steps of the optimiser", _NONE),
    "strength": ("strength of the penalty", _NONE),
    "temperature": ("temperature at which the fit started", _NONE),
    "tolerance": ("fraction of the best score within which fewer pieces are chosen", _NONE),
    "thinning_error": ("largest change by keeping fewer scores", _P),
}
#: Diagnostics that are shown as a table of candidates, or are the options and the seed of the fit.
_APART = ("held_out_losses", "weights", "fit", "scores", "candidates", "warning")

# --- The explanation of one map


class Fact(NamedTuple):
    """A name with its meaning, value and unit."""

    name: str
    meaning: str
    value: str
    unit: str


class Part(NamedTuple):
    """A curve of a map: the class or rank, its formula, and its parameters."""

    name: str
    formula: str
    parameters: str


class Tried(NamedTuple):
    """A candidate of a fit: its weight in the map, its held-out loss, and whether that is the lowest."""

    name: str
    weight: str
    loss: str
    best: bool


@dataclass(frozen=True)
class Explanation:
    """A fitted map in words; ``method`` is None for a method that this version does not have."""

    method: Method | None
    subject: str
    formula: str
    parameters: list[Fact]
    curves: list[Part]
    hidden: int
    options: list[Fact]
    tried: list[Tried]
    score: str
    diagnostics: list[Fact]
    warning: str


#: The most curves and candidates that are listed.
_LISTED = 30


def explained(record: MapRecord) -> Explanation:
    """Explain a stored map of a classifier. O(size of its document)."""
    document = record.document
    family = FAMILIES[document["family"]]
    given, found = document["parameters"], document.get("diagnostics") or {}
    curves: Sequence[Mapping[str, Any]] = given.get("curves", ())
    known = METHODS[record.method].known_options() if record.method in METHODS else {}
    return Explanation(
        METHODS.get(record.method),
        describe_reduction(record.reduction or ""),
        family.formula,
        [Fact(name, *_explained(family, name, value)) for name, value in given.items() if name in family.parameters],
        [_part(record, k, curve) for k, curve in enumerate(curves[:_LISTED])],
        max(0, len(curves) - _LISTED),
        [Fact(name, _allowed(known.get(name)), _value(value), "") for name, value in record.options.items()],
        _tried(found),
        "Brier score" if found.get("select") == "brier" else "log loss",
        [_diagnostic(name, value) for name, value in found.items() if name not in _APART],
        shortened(str(found.get("warning", "")), 200),
    )


def _explained(family: Family, name: str, value: Any) -> tuple[str, str, str]:
    """Return the meaning of a parameter, its value, and its unit."""
    meaning, unit = family.parameters[name]
    return meaning, _value(value), unit


def _part(record: MapRecord, k: int, curve: Mapping[str, Any]) -> Part:
    family = FAMILIES[curve["family"]]
    parameters = ", ".join(f"{name} {_value(value)}" for name, value in curve["parameters"].items())
    if record.reduction != "classwise":
        return Part(f"rank {k + 1}", family.formula, parameters)
    return Part(record.class_names[k] if record.class_names else f"class {k}", family.formula, parameters)


def _tried(found: Mapping[str, Any]) -> list[Tried]:
    """List the candidates with their held-out losses, the lowest first."""
    losses, weights = found.get("held_out_losses"), found.get("weights")
    if not isinstance(losses, dict) or not all(isinstance(loss, float | int) for loss in losses.values()):
        return []
    order = sorted(losses, key=lambda name: float(losses[name]))[:_LISTED]
    shares = weights if isinstance(weights, dict) else {}
    return [
        Tried(
            f"{name} {'piece' if name == '1' else 'pieces'}" if name.isdigit() else shortened(name, 60),
            decimals(shares.get(name, 0.0), 3) if shares and name != "process" else "",
            decimals(losses[name], 5),
            losses[name] == losses[order[0]],
        )
        for name in order
    ]


def _diagnostic(name: str, value: Any) -> Fact:
    meaning, unit = _DIAGNOSTICS.get(name, ("", ""))
    return Fact(name, meaning, _value(value), unit)


def _allowed(option: Mapping[str, Any] | None) -> str:
    if option is None:
        return ""
    default = f"default {_value(option['default'])}"
    return f"{option['allowed']}; {default}" if option["allowed"] else default


def _value(value: Any) -> str:
    """Return a value of a document as text; of many numbers, how many and their range."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{value:,}" if isinstance(value, int) else number(value, 4)
    if isinstance(value, str):
        return shortened(value, 100)
    if isinstance(value, dict):
        return shortened(", ".join(f"{name} {_value(each)}" for name, each in value.items()), 200)
    return _values(value)


def _values(values: Sequence[Any]) -> str:
    flat = [each for row in values for each in row] if values and isinstance(values[0], list) else list(values)
    if not all(isinstance(each, float | int) for each in flat) or not flat:
        if flat and isinstance(flat[0], dict):
            return f"{len(flat):,}"
        return shortened(", ".join(map(_value, flat)), 200) or "none"
    if all(isinstance(each, bool) for each in flat):
        return f"{sum(flat):,} of {len(flat):,}"
    if len(flat) <= _FEW:
        return ", ".join(map(_value, flat))
    size = f"{len(values):,} by {len(values[0]):,}" if isinstance(values[0], list) else f"{len(flat):,}"
    return f"{size} numbers from {number(min(flat), 4)} to {number(max(flat), 4)}"


#: The most numbers that are shown one by one.
_FEW = 6

# --- The pages of all measures, diagrams and methods

calls = page_calls()


@calls.add(Call("GET", "/ui/methods"))
async def methods(visit: Visiting, prediction_kind: str = "classification") -> Response:
    """All calibration methods, with definition, options, properties and source."""
    if prediction_kind == "regression":
        return visit.page("catalogue.html", catalogue=_distribution_methods())
    options = {
        name: [
            Fact(option, about["allowed"] or "", _value(about["default"]), "")
            for option, about in method.known_options().items()
        ]
        for name, method in METHODS.items()
    }
    return visit.page("methods.html", methods=METHODS, options=options)


class Entry(NamedTuple):
    """A measure or a diagram on its page; ``cell`` is its cell in the table of all."""

    name: str
    title: str
    cell: str
    definition: str
    facts: Mapping[str, str]
    options: list[Fact]


class Catalogue(NamedTuple):
    """The page of all measures or diagrams; ``path`` is that of the same as JSON."""

    title: str
    lead: str
    path: str
    column: str
    entries: list[Entry]
    is_regression: bool = False


def _distribution_methods() -> Catalogue:
    entries = [
        Entry(
            method.name,
            method.title,
            ", ".join(method.kinds),
            method.definition,
            {"Returns": method.returns, "Source": _paper(method.source)},
            _options(method.options),
        )
        for method in DISTRIBUTION_METHODS.values()
    ]
    lead = "How a map of predictive distributions of a number can be fitted."
    return Catalogue("Methods for predictive distributions", lead, "methods", "Forecasts", entries, True)


def _distribution_measures() -> Catalogue:
    entries = [
        Entry(
            measure.name,
            measure.name,
            ", ".join(measure.kinds),
            measure.text,
            {"Range": measure.range, "Source": _paper(measure.source)},
            _options(measure.options),
        )
        for measure in DISTRIBUTION_MEASURES.values()
    ]
    lead = "What can be measured of predictive distributions of a number."
    return Catalogue("Measures of predictive distributions", lead, "measures", "Forecasts", entries, True)


@calls.add(Call("GET", "/ui/measures"))
async def measures(visit: Visiting, prediction_kind: str = "classification") -> Response:
    """All measures, with definition, range, options and source."""
    if prediction_kind == "regression":
        return visit.page("catalogue.html", catalogue=_distribution_measures())
    entries = [
        Entry(
            measure.name,
            measure.title,
            measure.family,
            measure.definition,
            {
                "Range": f"{_end(measure.lowest, '-')} to {_end(measure.highest, '')}",
                "Better": measure.better,
                "Defined for": _subjects(measure),
                "Needs": measure.needs,
                "Cost": measure.cost,
                "Source": _paper(measure.source),
            },
            _options(measure.options),
        )
        for measure in MEASURES.values()
    ]
    lead = "What can be measured: how far predictions are from calibrated, and how good they are."
    return visit.page("catalogue.html", catalogue=Catalogue("Measures", lead, "measures", "Family", entries))


@calls.add(Call("GET", "/ui/diagrams"))
async def diagrams(visit: Visiting, prediction_kind: str = "classification") -> Response:
    """All diagrams, with definition, options and source."""
    is_regression = prediction_kind == "regression"
    entries = [
        Entry(
            diagram.name,
            diagram.title,
            diagram.cost,
            diagram.definition,
            {"Source": _paper(diagram.source)},
            _options(diagram.options),
        )
        for diagram in (DISTRIBUTION_DIAGRAMS if is_regression else DIAGRAMS).values()
    ]
    title = "Diagrams of predictive distributions" if is_regression else "Diagrams"
    subject = "predictive distributions of a number" if is_regression else "predictions with labels"
    lead = f"What can be drawn of {subject}."
    return visit.page("catalogue.html", catalogue=Catalogue(title, lead, "diagrams", "Cost", entries, is_regression))


def _options(options: Mapping[str, Option]) -> list[Fact]:
    return [Fact(name, option.allowed or "", _value(option.default), "") for name, option in options.items()]


def _end(end: float | None, sign: str) -> str:
    return f"{sign}infinity" if end is None else number(end, 4)


def _subjects(measure: Measure) -> str:
    if measure.event is not None and measure.vector is not None:
        return "an event, or the whole vector of probabilities"
    return "an event" if measure.vector is None else "the whole vector of probabilities"


def _paper(source: str) -> str:
    return "" if source.startswith("docs/") else source
