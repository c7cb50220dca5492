"""Options reach what needs them: code takes those that it knows by name, and nothing swallows others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Classes
from calibrant.measures.catalogue import MEASURES
from calibrant.measures.intervals import PLAIN
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


def _swallowing(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.args.kwarg is not None and not _uses(node, node.args.kwarg.arg):
            yield node


def test_no_function_takes_options_that_it_ignores() -> None:
    swallowing = [
        f"{path.relative_to(ROOT)}:{function.lineno}"
        for package in PRODUCT
        for path in sorted((ROOT / package).rglob("*.py"))
        for function in _swallowing(ast.parse(path.read_text("utf-8")))
    ]
    assert swallowing == []


def test_functions_that_ignore_options_are_recognised() -> None:
    ignoring = ["def f(**rest): return rest['a']", "f = lambda **_: 0", "def f(**rest): return rest.get('a')"]
    using = ["def f(**rest): return g(**rest)", "def f(**rest): return sorted(rest)"]
    assert [len(list(_swallowing(ast.parse(code)))) for code in (*ignoring, *using)] == [1, 1, 1, 0, 0]


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
