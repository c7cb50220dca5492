"""Options reach what needs them: code takes those that it knows by name, and nothing swallows others."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidOption
from calibrant.core.options import Option
from calibrant.core.reductions import Classes, Event
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.evaluation import report_document
from calibrant.measures.catalogue import MEASURES, read_requests
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.measures.repeated import AT_ONCE, repeats
from calibrant.monitoring.evaluation import evaluate_tally
from calibrant.monitoring.event_tally import tally
from calibrant.monitoring.pit_tally import default_pit_measures, read_pit_measures
from calibrant.reports import lookup
from calibrant.reports.pictures import caption
from tests.unit.measures.drawn import drawn_event, drawn_vector

ROOT = Path(__file__).parents[2]
PRODUCT = ("library/calibrant", "schemas", "backend", "service", "workers")

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _uses(function: Function, name: str) -> bool:
    """Return whether a function uses the whole of an argument, and not only some of its items."""
    for part in function.body if isinstance(function.body, list) else [function.body]:
        for node in ast.walk(part):
            children = ast.iter_child_nodes(node)
            of_items = isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "get")
            if not of_items and any(isinstance(child, ast.Name) and child.id == name for child in children):
                return True
    return False


def _is_signature(function: Function) -> bool:
    """Return whether a function has no body, as those of overloads."""
    return isinstance(function.body, list) and ast.unparse(function.body[-1]) == "..."


def _swallowing(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if not isinstance(node, Function) or node.args.kwarg is None or _is_signature(node):
            continue
        if not _uses(node, node.args.kwarg.arg):
            yield node


def test_no_function_takes_options_that_it_ignores() -> None:
    swallowing = [
        f"{path.relative_to(ROOT)}:{function.lineno}"
        for package in PRODUCT
        for path in sorted((ROOT / package).rglob("*.py"))
        if re.search(r"[(,\s]\*\*\w", text := path.read_text("utf-8"))  # parsing all files takes twice as long
        for function in _swallowing(ast.parse(text))
    ]
    assert swallowing == []


def test_functions_that_ignore_options_are_recognised() -> None:
    ignoring = ["def f(**rest): return rest['a']", "f = lambda **_: 0", "def f(**rest): return rest.get('a')"]
    using = ["def f(**rest): return g(**rest)", "def f(**rest): return sorted(rest)"]
    assert [len(list(_swallowing(ast.parse(code)))) for code in (*ignoring, *using)] == [1, 1, 1, 0, 0]


def test_no_fit_ignores_an_option() -> None:
    fits = [
        (path.name, function)
        for path in sorted((ROOT / "library/calibrant/calibrators/entries").glob("*.py"))
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef) and "context" in [argument.arg for argument in function.args.args]
    ]
    unused = [(name, option.arg) for name, fit in fits for option in fit.args.kwonlyargs if not _uses(fit, option.arg)]
    assert len(fits) > len(calibrant.METHODS) / 2
    assert unused == []


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_no_part_of_a_measure_ignores_an_option_that_it_does_not_know(name: str) -> None:
    entry, event, vector = MEASURES[name], drawn_event(60), drawn_vector(60)
    options = {key: option.default for key, option in entry.options.items()} | {"unheard_of": 1}
    subject = event if entry.event is not None else vector
    calls = [
        (entry.event, event),
        (entry.vector, vector),
        (entry.distance, subject),
        (entry.influence, subject),
        (entry.over_classes_p_value, Classes(vector)),
    ]
    for function, of in calls:
        if function is not None:
            with pytest.raises((TypeError, InvalidOption), match=r"unheard_of|unknown option"):
                function(of, PLAIN, **options)


# --- Fast paths list the options that they know; a new one takes the slow path, or is refused


def _with_new_option(measure: Measure) -> Measure:
    """Return the measure with a new option: only rows with predictions above it count."""
    compute = measure.event
    assert compute is not None

    def event(rows: Event, resampling: Resampling, *, above: float, **options: Any) -> MeasureResult:
        return compute(rows.rows(np.flatnonzero(rows.p > above)), resampling, **options)

    options = {**measure.options, "above": Option(0.0, low=0.0, high=1.0, real=True)}
    return replace(measure, options=options, event=event, distance=None, influence=None, resampled=True)


RANDOM = np.random.default_rng(5)
P, GROUPS = RANDOM.random(120), np.repeat(["a", "b"], 60)
Y = (RANDOM.random(120) < np.where((P > 0.5) & (GROUPS == "b"), P**3, P)).astype(int)
#: What uses a measure of an event -> the number of this measure among others.
USES: dict[str, Callable[[Any], Any]] = {
    "the value": lambda measure: calibrant.evaluate(P, Y, measures=[measure])["m"].value,
    "the gap between groups, its p-value and interval": lambda measure: _gap(
        calibrant.evaluate(P, Y, groups=GROUPS, measures=[measure], interval=0.9, resamples=100, seed=1)
    ),
    "the mean by size": lambda measure: (
        calibrant.measure_by_size(P, Y, measures=[measure], start=60, start_repetitions=4).curves["m"].mean
    ),
    "the value of a tally": lambda measure: evaluate_tally(tally(P, Y), measures=[measure])["m"].value,
    "the gap between the groups of a tally": lambda measure: _gap(
        evaluate_tally(tally(P, Y, groups=GROUPS), measures=[measure], interval=0.9, resamples=100, seed=1)
    ),
}


def _gap(report: Any) -> Any:
    gap = report.gaps["m"]
    return gap.value, gap.p_value, gap.interval


def test_a_new_option_does_not_make_the_resamples_of_a_measure_slow() -> None:
    slow = [name for name in AT_ONCE if not repeats(read_requests([name])[0])]
    remedy = "add their new option to AT_ONCE of measures/repeated.py, with the values that the fast path computes"
    assert not slow, f"{', '.join(slow)}: {remedy}"


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", sorted(AT_ONCE))
def test_a_new_option_of_a_measure_counts_wherever_the_measure_is_used(
    name: str, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = _with_new_option(MEASURES[name])
    # No fast path knows a measure with another name, so that it takes the slow path.
    entries = {name: entry, "slow": replace(entry, name="slow")}
    for key, measure in entries.items():
        monkeypatch.setitem(vars(MEASURES)["_entries"], key, measure)
    fast, slow = (USES[use]({"name": key, "above": 0.5, "as": "m"}) for key in entries)
    assert fast == slow
    assert fast != USES[use]({"name": name, "as": "m"})


def test_a_measure_with_a_new_option_is_no_error_of_a_diagram_or_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(MEASURES)["_entries"], "ece", _with_new_option(MEASURES["ece"]))
    for above, has_error in ((0.0, True), (0.5, False)):
        report = calibrant.evaluate(P, Y, measures=[{"name": "ece", "above": above}], diagrams=["reliability"])
        document = report_document(report, None)
        assert (caption(document, "reliability").error is not None) == has_error
        assert (lookup.error(document) is not None) == has_error


def test_a_tally_of_forecasts_refuses_a_new_option(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = np.array([0.1, 0.5, 0.9])
    names = [("quantiles", name) for name in default_pit_measures("quantiles", levels)]
    names += [("normal", name) for name in ("crps", "coverage", "quantile-calibration-error", "pit-ks")]
    for kind, name in names:
        entry = DISTRIBUTION_MEASURES[name]
        with monkeypatch.context() as planted:
            changed = replace(entry, options={**entry.options, "above": Option(0.0, low=0.0, high=1.0, real=True)})
            planted.setitem(vars(DISTRIBUTION_MEASURES)["_entries"], name, changed)
            with pytest.raises(InvalidOption) as caught:
                read_pit_measures([{"name": name, "above": 0.5}], kind, levels)
        assert caught.value.offences[0].pointer == "/measures/0/above"
