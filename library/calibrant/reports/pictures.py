"""Requests for pictures, the reports that hold them, and drawing them with their titles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from calibrant.by_size import MAX_REPETITIONS, BySize
from calibrant.core.batch import Batch
from calibrant.core.errors import CalibrationError, InvalidOption, Offence, UnknownDiagram
from calibrant.core.options import OFF, Option, read_values
from calibrant.core.progress import Progress, report
from calibrant.core.reductions import Event
from calibrant.decisions.costs import Costs, SharedRows
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.diagram import DiagramRequest
from calibrant.evaluation import CheckedBatch
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.catalogue import read_requests
from calibrant.measures.cross_fitting import UNKNOWN, Training
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import plain_result
from calibrant.plots.by_size import draw_by_size
from calibrant.plots.canvas import IN_SAMPLE, Caption, Drawn, Format
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import draw, draw_several
from calibrant.reports import lookup

#: Pictures in addition to the diagrams of the catalogue.
BY_SIZE, COST_PLANE = "by-size", "cost-plane"

# --- Requests

#: Default measures of a picture by size, and the most measures.
MEASURES, MAX_MEASURES = ("ece", "ks"), 8
_BY_SIZE_OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        "start": Option(100),
        "start_repetitions": Option(100, high=MAX_REPETITIONS),
        "repetitions": Option(None, choices=(None, "paper")),
        "squared": OFF,
    }
)
#: Arguments of the library that are options of a picture.
_OPTIONS = ("measures", "start", "start_repetitions", "repetitions", "squared", "abstention", "cost_ratios")


def read_diagram(requested: str | Mapping[str, Any], *, models: int = 2) -> DiagramRequest:
    """Read a request for a diagram of the catalogue; raises ``UnknownDiagram`` or ``InvalidOption`` at ``/diagram``.

    The error names the pictures of that number of models, too.
    """
    try:
        return read_diagrams([requested])[0]
    except CalibrationError as error:
        place = error.offences[0]
        listed = isinstance(error, UnknownDiagram) and "did you mean" not in place.detail
        others = "".join(f", {name}" for name in (BY_SIZE, COST_PLANE)[:models]) if listed else ""
        raise type(error).at(place.pointer.replace("/diagrams/0", "/diagram", 1), place.detail + others) from None


def is_picture(requested: str | Mapping[str, Any], name: str) -> bool:
    """Whether ``requested``, a name or an object with a name, is the picture ``name``."""
    return (requested.get("name") if isinstance(requested, Mapping) else requested) == name


def read_by_size(
    requested: str | Mapping[str, Any],
    reduction: str | None = None,
    seed: int = 0,
    fitted: CalibrationMap | None = None,
    training: Training = UNKNOWN,
) -> BySize:
    """Read a request for measures by size; raises ``UnknownMeasure`` or ``InvalidOption`` at ``/diagram``.

    With the map ``fitted`` they are its improvements of the measures; ``training`` is how it was fitted. The option
    ``reductions`` replaces ``reduction``.
    """
    options = {} if isinstance(requested, str) else {name: value for name, value in requested.items() if name != "name"}
    measures, several = options.pop("measures", MEASURES), options.pop("reductions", None)
    read = read_values(options, _BY_SIZE_OPTIONS, BY_SIZE, where="/diagram")
    if several is not None and (not isinstance(several, list | tuple) or not all(type(r) is str for r in several)):
        raise InvalidOption.at("/diagram/reductions", "must be an array of names of reductions")
    if several is not None and (reduction is not None or not 1 <= len(several) <= MAX_MEASURES):
        raise InvalidOption.at("/diagram/reductions", f"must name 1 to {MAX_MEASURES} reductions, without reduction")
    if not isinstance(measures, list | tuple) or not 1 <= len(measures) * len(several or [0]) <= MAX_MEASURES:
        raise InvalidOption.at(
            "/diagram/measures", f"must be an array of 1 to {MAX_MEASURES} measures, over all reductions"
        )
    try:
        requests = read_requests(measures)
    except CalibrationError as error:
        raise below_diagram(error) from None
    reductions = reduction if several is None else tuple(several)
    return BySize(
        requests, reductions, resampling=Resampling.read(None, seed=seed), map=fitted, training=training, **read
    )


def below_diagram(error: CalibrationError) -> CalibrationError:
    """Move the pointers of an error to ``/diagram`` if they are options of a picture."""
    moved = [_below_diagram(place) for place in error.offences]
    if len(moved) == 1 and moved[0] != error.offences[0]:
        return type(error).at(moved[0].pointer, moved[0].detail)
    return type(error)(error.detail, moved)


def _below_diagram(place: Offence) -> Offence:
    _, name, *below = [*place.pointer.split("/"), ""]
    if name == "reduction" and below[0]:  # one of several
        return Offence(f"/diagram/reductions/{below[0]}", place.detail)
    return Offence(f"/diagram{place.pointer}", place.detail) if name in _OPTIONS else place


# --- Reports that hold one picture


def by_size_report(task: BySize, rows: CheckedBatch, progress: Progress | None = None) -> dict[str, Any]:
    """Return the report of measures on random subsets of checked rows."""
    results = task.run(rows, progress)
    measures = [{"as": request.key, "name": request.measure.name, **request.options} for request in task.measures]
    definition = {
        "name": BY_SIZE,
        "measures": measures,
        "start": task.start,
        "start_repetitions": task.start_repetitions,
        "repetitions": task.repetitions,
        "squared": task.squared,
        "improvement": results.improvement,
        "in_sample": results.in_sample,
        "seed": task.resampling.seed,
    }
    curves = {
        key: {
            "mean": list(curve.mean),
            "standard_deviation": list(curve.standard_deviation),
            "lost": list(curve.lost),
            "full": plain_result(curve.full),
        }
        for key, curve in results.curves.items()
    }
    data = {"sizes": list(results.sizes), "repetitions": list(results.repetitions), "curves": curves}
    valueless = all(mean is None for curve in results.curves.values() for mean in curve.mean)
    problem = "no picture: no measure has a value at any size" if valueless else None
    return _report(len(rows), results.reduction, definition, data, problem)


def plane_report(task: Costs, batches: Iterable[tuple[str, Batch]]) -> dict[str, Any]:
    """Return the report of the costs of two models on the same rows; one batch is in memory at a time."""
    first: SharedRows | None = None
    ids, events = list[str](), list[Event]()
    for i, (batch_id, batch) in enumerate(batches):
        report(i, 2, f"model {i + 1}")
        rows = SharedRows.of(batch)
        if first is not None:
            rows.match(first, f"/batches/{i}")
        first, checked = first or rows, task.check(batch)
        ids.append(batch_id)
        events.append(task.event(checked))
    plane = task.run(events[0], events[1])
    definition = {
        "name": COST_PLANE,
        "abstention": list(task.abstention),
        "cost_ratios": list(task.cost_ratios),
        "batches": ids,
    }
    return _report(
        len(events[0]),
        checked.reduction,
        definition,
        {name: values.tolist() for name, values in vars(plane).items()},
        None,
    )


def _report(
    n: int, reduction: str, definition: dict[str, Any], data: dict[str, Any], problem: str | None
) -> dict[str, Any]:
    shown = {"data": data, "definition": definition, "problem": problem}
    return {"n": n, "reduction": reduction, "diagrams": {definition["name"]: shown}}


# --- The title of a figure: rows, reduction, and the error that the diagram shows

Definition = Mapping[str, Any]


def shown_error(definition: Definition) -> dict[str, Any]:
    """Return the request for the measure that a diagram shows.

    For bins it is their ECE; for a fitted curve, the mean distance between curve and diagonal.
    """
    return _ERRORS[definition["name"]](definition)


def caption(report: Mapping[str, Any], key: str, name: str | None = None, *, after: bool = False) -> Caption:
    """Return the information for the title of a diagram; ``after`` for the diagram after the map."""
    side = report["after"] if after else report
    shown = shown_error(side["diagrams"][key]["definition"])
    measured = lookup.measure(side, **shown)
    if measured is None or measured["value"] is None:
        return Caption(report["n"], report["reduction"], name)
    interval = None if measured["interval"] is None else (measured["interval"][0], measured["interval"][1])
    # The error of a fitted curve is the distance that its diagram shows.
    which = lookup.kind([measured]) if shown["name"] in _BINNED else None
    error = (_named(shown, which), lookup.shown(measured, which) or 0.0)
    return Caption(report["n"], report["reduction"], name, error, interval)


_BINNED = ("ece", "ece-sweep", "ece-cv")


def _of_bins(definition: Definition) -> dict[str, Any]:
    binning, count = definition["binning"], definition["count"]
    if count == "fixed" or binning == "adaptive":  # adaptive bins always have a fixed count
        closed = definition.get("closed", "left")
        return {"name": "ece", "binning": binning, "n_bins": definition["n_bins"], "closed": closed, "norm": 1}
    return {"name": "ece-sweep" if count == "sweep" else "ece-cv", "binning": binning, "norm": 1}


def _of_fit(definition: Definition) -> dict[str, Any]:
    return {
        "name": f"ece-{definition['method']}",
        "norm": 1,
        "folds": definition["folds"],
        **definition.get("options", {}),
    }


_ERRORS: Mapping[str, Callable[[Definition], dict[str, Any]]] = MappingProxyType(
    {
        "reliability": _of_bins,
        "logit-logit": _of_bins,
        "fit-on-test": _of_fit,
        "corp": lambda _: {"name": "ece-isotonic", "norm": 1},
        "ks-graphs": lambda _: {"name": "ks"},
        **dict.fromkeys(("decision-curve", "murphy"), lambda _: {"name": "brier"}),
        **dict.fromkeys(("calibration-belt", "calibration-curve"), lambda _: {"name": "calibration-slope"}),
    }
)


_TITLES = {"ks": "KS error", "brier": "Brier score", "calibration-slope": "calibration slope"}


def _named(shown: Definition, which: str | None) -> str:
    """Return the display name of a measure, with the kind of its number if it may be debiased."""
    name: str = shown["name"]
    if name in _TITLES:
        return _TITLES[name]
    return f"{which or 'plain'} ECE" if name in _BINNED else f"ECE by {name.removeprefix('ece-')}"


# --- Drawing

#: The fields of a diagram in a report.
_SHOWN = ("data", "definition", "problem")


def draw_report(
    report: Mapping[str, Any], key: str, *, form: Format = "svg", theme: str = "auto", width: int = 560
) -> Drawn:
    """Draw a diagram of a report: before and after a map if there is one, side by side for several batches."""
    style: dict[str, Any] = {"form": form, "theme": theme, "width": width}
    if "batches" in report:
        several = [
            (shown_of(batch["report"], key), caption(batch["report"], key, batch["batch"])) for batch in each_of(report)
        ]
        return draw_several(several[0][0]["definition"]["name"], several, noun="batches", **style)
    shown = shown_of(report, key)
    name = shown["definition"]["name"]
    if report.get("prediction_kind") == "regression":
        return _draw_forecasts(name, report, key, **style)
    about = Caption(report["n"], report["reduction"])
    if name == BY_SIZE:
        style |= {name: bool(shown["definition"].get(name)) for name in ("improvement", "squared", "in_sample")}
        return draw_by_size(shown["data"], about, **style)
    if name == COST_PLANE:
        first, other = shown["definition"]["batches"]
        return draw_cost_plane(shown["data"], about, names=(first, other), **style)
    if "after" not in report:
        return draw(name, shown, caption(report, key), **style)
    title = IN_SAMPLE if report.get("in_sample") else None
    after = report["after"]["diagrams"][key], caption(report, key, title, after=True)
    return draw(name, shown, caption(report, key, title), after=after, **style)


def _draw_forecasts(name: str, report: Mapping[str, Any], key: str, **style: Any) -> Drawn:
    """Draw a diagram of a report of predictive distributions."""
    title = IN_SAMPLE if report.get("in_sample") else None
    before, after = shown_of(report, key), report.get("after")
    about = Caption(report["n"], report["kind"], title)
    if after is None:
        return draw(name, before, about, **style)
    return draw(name, before, about, after=(shown_of(after, key), Caption(report["n"], after["kind"], title)), **style)


def keys_of(report: Mapping[str, Any]) -> list[str]:
    """Return the keys of the diagrams of a report; for several batches, those of each batch."""
    holder = each_of(report)[0]["report"] if "batches" in report else report
    return list(holder.get("diagrams") or ())


def each_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the reports of several batches."""
    batches: list[dict[str, Any]] = report["batches"]
    return batches


def shown_of(side: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the diagram with this key, with field names of the current version."""
    shown = side["diagrams"][key]
    return {name: shown[name] for name in _SHOWN} | {"data": lookup.data_of(shown)}
