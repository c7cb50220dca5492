"""The pages of all measures, diagrams and methods, and the explanation of a fitted map: its formula and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import Response

from calibrant.calibrators import METHODS, Method
from calibrant.calibrators.diagnostics import DIAGNOSTICS, Diagnostic
from calibrant.core.options import Option
from calibrant.diagrams.catalogue import DIAGRAMS
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.maps.calibration_map import FAMILIES
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.measure import Measure
from calibrant.reports.tables import describe_reduction
from schemas.maps import MapRecord
from service.calls import Call
from service.web.forms import page_calls
from service.web.text import decimals, number, shortened
from service.web.visit import Visiting

#: Diagnostics that are shown as a table of candidates, or are the options and the seed of the fit.
_APART = ("held_out_losses", "weights", "fit", "scores", "candidates", "warning")

# --- The explanation of one map


class ParameterFact(NamedTuple):
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
    parameters: list[ParameterFact]
    curves: list[Part]
    hidden: int
    options: list[ParameterFact]
    tried: list[Tried]
    score: str
    diagnostics: list[ParameterFact]
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
        family.marked_formula(),
        [
            ParameterFact(name, parameter.meaning, _value(given[name]), parameter.unit)
            for name, parameter in family.known_parameters().items()
            if name in given
        ],
        [_part(record, k, curve) for k, curve in enumerate(curves[:_LISTED])],
        max(0, len(curves) - _LISTED),
        [ParameterFact(name, _allowed(known.get(name)), _value(value), "") for name, value in record.options.items()],
        _tried(found),
        "Brier score" if found.get("select") == "brier" else "log loss",
        [_diagnostic(name, value) for name, value in found.items() if name not in _APART],
        shortened(str(found.get("warning", "")), 200),
    )


def _part(record: MapRecord, k: int, curve: Mapping[str, Any]) -> Part:
    formula = FAMILIES[curve["family"]].marked_formula()
    parameters = ", ".join(f"{name} {_value(value)}" for name, value in curve["parameters"].items())
    if record.reduction != "classwise":
        return Part(f"rank {k + 1}", formula, parameters)
    return Part(record.class_names[k] if record.class_names else f"class {k}", formula, parameters)


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


def _diagnostic(name: str, value: Any) -> ParameterFact:
    known = DIAGNOSTICS.get(name, Diagnostic(""))
    return ParameterFact(name, known.meaning, _value(value), known.unit)


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
            ParameterFact(option, about["allowed"] or "", _value(about["default"]), "")
            for option, about in method.known_options().items()
        ]
        for name, method in METHODS.items()
    }
    return visit.page("methods.html", methods=METHODS, options=options)


class EntryPage(NamedTuple):
    """A measure or a diagram on its page; ``cell`` is its cell in the table of all."""

    name: str
    title: str
    cell: str
    definition: str
    facts: Mapping[str, str]
    options: list[ParameterFact]


class CataloguePage(NamedTuple):
    """The page of all measures or diagrams; ``path`` is that of the same as JSON."""

    title: str
    lead: str
    path: str
    column: str
    entries: list[EntryPage]
    is_regression: bool = False


def _distribution_methods() -> CataloguePage:
    entries = [
        EntryPage(
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
    return CataloguePage("Methods for predictive distributions", lead, "methods", "Forecasts", entries, True)


def _distribution_measures() -> CataloguePage:
    entries = [
        EntryPage(
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
    return CataloguePage("Measures of predictive distributions", lead, "measures", "Forecasts", entries, True)


@calls.add(Call("GET", "/ui/measures"))
async def measures(visit: Visiting, prediction_kind: str = "classification") -> Response:
    """All measures, with definition, range, options and source."""
    if prediction_kind == "regression":
        return visit.page("catalogue.html", catalogue=_distribution_measures())
    entries = [
        EntryPage(
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
    return visit.page("catalogue.html", catalogue=CataloguePage("Measures", lead, "measures", "Family", entries))


@calls.add(Call("GET", "/ui/diagrams"))
async def diagrams(visit: Visiting, prediction_kind: str = "classification") -> Response:
    """All diagrams, with definition, options and source."""
    is_regression = prediction_kind == "regression"
    entries = [
        EntryPage(
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
    return visit.page(
        "catalogue.html", catalogue=CataloguePage(title, lead, "diagrams", "Cost", entries, is_regression)
    )


def _options(options: Mapping[str, Option]) -> list[ParameterFact]:
    return [ParameterFact(name, option.allowed or "", _value(option.default), "") for name, option in options.items()]


def _end(end: float | None, sign: str) -> str:
    return f"{sign}infinity" if end is None else number(end, 4)


def _subjects(measure: Measure) -> str:
    if measure.event is not None and measure.vector is not None:
        return "an event, or the whole vector of probabilities"
    return "an event" if measure.vector is None else "the whole vector of probabilities"


def _paper(source: str) -> str:
    return "" if source.startswith("docs/") else source
