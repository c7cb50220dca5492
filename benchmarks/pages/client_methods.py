"""The clients: their methods are made from the steps of ``calibrant.client.calls`` and from the declared calls."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import calibrant.client.calls as steps
from benchmarks.pages.answers import models
from benchmarks.pages.generated import formatted
from calibrant.client.async_connection import AsyncConnection
from calibrant.client.connection import Connection
from schemas.base import Instant
from schemas.meanings import MEANINGS
from service.calls import Call, ClientMethod
from service.examples.calls import parameter
from service.route_table import RouteTable

FOLDER = Path(steps.__file__).parents[1]
#: The first modules of steps: the examples of the others use what these create.
_FIRST = ("maps", "monitors", "monitor_rows")
_OTHERS = sorted({path.stem for path in FOLDER.glob("calls/*.py")} - {"__init__", *_FIRST})
_MODULES = (*_FIRST, *_OTHERS)
#: Records that stand for their ids.
_RECORDS = {"batch": "BatchRecord", "job": "JobSummary", "map": "MapSummary"}
_INDENT = "        "
_WIDTH = 120


@dataclass(frozen=True)
class _Method:
    """The source of a method: ``signature`` without ``self``, and the steps as an expression."""

    name: str
    signature: str
    returns: str
    yields: bool
    docstring: str
    steps: str
    answer_field: str | None = None
    overloads: Sequence[tuple[str, str]] = ()


class _Client(NamedTuple):
    """How one of the clients runs steps."""

    name: str
    base: type
    module: str
    iterator: str
    define: str
    wait: str


_CLIENTS = {
    "client": _Client("Calibrant", Connection, "connection", "Iterator", "def", "self._run({})"),
    "async_client": _Client(
        "AsyncCalibrant", AsyncConnection, "async_connection", "AsyncIterator", "async def", "await self._run({})"
    ),
}


@cache
def client_files() -> dict[str, str]:
    """The text of each generated module by its name."""
    methods = [*_written(), *_declared()]
    return {name: formatted(_text(client, methods), "I,F401") for name, client in _CLIENTS.items()}


def write_clients() -> None:
    """Write the generated modules."""
    for name, text in client_files().items():
        (FOLDER / f"{name}.py").write_text(text, encoding="utf-8")


# --- Methods whose steps are written by hand


def _written() -> Iterator[_Method]:
    for module in _MODULES:
        tree = ast.parse((FOLDER / "calls" / f"{module}.py").read_text("utf-8"))
        overloads: list[tuple[str, str]] = []
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            if function.decorator_list:  # overload
                overloads.append((_signature(function), _inner(function)))
                continue
            docstring = ast.get_docstring(function) or ""
            if not function.name.startswith("_") and "\n----" in docstring:
                yield _Method(
                    function.name,
                    _signature(function),
                    _inner(function),
                    ast.unparse(function.returns or ast.Constant(None)).startswith("Items"),
                    docstring,
                    f"{module}.{function.name}({_passed(function)})",
                    overloads=overloads,
                )
                overloads = []


def _signature(function: ast.FunctionDef) -> str:
    """The arguments except the first, which is the patience of the client."""
    return ast.unparse(function.args).partition(", ")[2]


def _inner(function: ast.FunctionDef) -> str:
    """The type in ``Steps[...]`` or ``Items[...]``."""
    return ast.unparse(cast(ast.Subscript, function.returns).slice)


def _passed(function: ast.FunctionDef) -> str:
    arguments = function.args
    named = [f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs]
    several = [] if arguments.vararg is None else [f"*{arguments.vararg.arg}"]
    others = [] if arguments.kwarg is None else [f"**{arguments.kwarg.arg}"]
    positional = [argument.arg for argument in arguments.args[1:]]
    return ", ".join(["self._patience", *positional, *several, *named, *others])


# --- Methods of declared calls


def _declared() -> Iterator[_Method]:
    table = RouteTable([])
    table.load_all()
    for call in table.calls:
        for method in call.client_methods:
            yield _of_call(call, method)


def _of_call(call: Call, method: ClientMethod) -> _Method:
    answer = method.answer or call.answer
    fields = {} if call.query is None else call.query.model_fields
    options = {name: field for name, field in fields.items() if name not in {"limit", "cursor", *_FIXED, *method.query}}
    yields = call.is_paged and method.answer_field is None
    names = [_path_name(call, name) for name in re.findall(r"{(\w+)}", call.path)]
    arguments = [*(f"{name}: {_type(str, name)}" for name in names), *(["*"] if options else [])]
    arguments += [f"{name}: {_type(field.annotation, name, optional=True)} = None" for name, field in options.items()]
    quoted = [f'"{part}"' for part in call.path.removeprefix("/").split("/")]
    parts = ", ".join(re.sub(r'"{(\w+)}"', lambda part: _path_name(call, part[1]), part) for part in quoted)
    query = "{" + ", ".join([*(f'"{name}": {name}' for name in options), *_fixed(method.query)]) + "}"
    returned = _returned(answer, method, yields=yields)
    if answer is None:
        source = f"removal(self._patience, path_of({parts}))"
    elif yields:
        source = f"pages(self._patience, path_of({parts}), {query}, {answer.__name__})"
    else:
        sent = "" if query == "{}" else f", {query}"
        source = f'result(self._patience, "{call.method}", path_of({parts}), {_type(answer)}{sent})'
    docstring = _docstring(call, method, names, options, returned, yields=yields)
    return _Method(
        method.name, ", ".join(arguments), returned, yields, docstring, source, answer_field=method.answer_field
    )


_FIXED = frozenset({"prediction_kind"})


def _fixed(query: Mapping[str, Any]) -> list[str]:
    return [f'"{name}": {value!r}' for name, value in query.items()]


def _path_name(call: Call, name: str) -> str:
    """The name of an argument for a part of the path; only calls about a monitor itself have its name as ``name``."""
    return "monitor" if name == "name" and call.path.startswith("/monitors/{name}/") else name


def _returned(answer: Any, method: ClientMethod, *, yields: bool) -> str:
    if answer is None or not method.returns:
        return "None"
    field = "items" if yields else method.answer_field
    if field is None:
        return _type(answer)
    hint = answer.model_fields[field].annotation
    return _type(get_args(hint)[0] if yields else hint)


def _type(hint: Any, name: str = "", *, optional: bool = False) -> str:
    """The source of the type of an argument or a result; times and choices are strings."""
    if get_origin(hint) is list:
        return f"list[{_type(get_args(hint)[0])}]"
    members = [member for member in get_args(hint) or (hint,) if member is not type(None)]
    if get_origin(hint) is Literal:
        members = [str]
    spelled = {member.__name__ for member in map(_plain, members)}
    ordered = [*sorted(spelled), *([_RECORDS[name]] if name in _RECORDS else []), *(["None"] if optional else [])]
    return " | ".join(ordered)


def _plain(hint: Any) -> Any:
    if get_origin(hint) is Literal or hint == Instant:
        return str
    return _plain(get_args(hint)[0]) if get_origin(hint) not in (None, types.UnionType) else hint


def _docstring(
    call: Call, method: ClientMethod, names: Sequence[str], options: Mapping[str, Any], returned: str, *, yields: bool
) -> str:
    summary = method.summary or " ".join(call.description.split("\n\n")[0].split())
    entries = [
        f"{name} : {_type(str, name).replace(' |', ' or')}\n{_text_of(parameter(call.path, part)[0])}"
        for name, part in zip(names, re.findall(r"{(\w+)}", call.path), strict=True)
    ]
    entries += [
        f"{name} : {_choices(field.annotation) or _type(field.annotation, name).replace(' |', ' or')}, optional\n"
        f"{_text_of(field.description or MEANINGS[name])}"
        for name, field in options.items()
    ]
    model = method.answer or call.answer
    meaning = "" if model is None else _meaning(model, method, yields=yields)
    codes = [code for code in call.problems if code != "store-unavailable"]
    sections = {
        "Parameters": "\n".join(entries),
        "Yields" if yields else "Returns": "" if returned == "None" else f"{_spoken(returned)}\n{_text_of(meaning)}",
        "Raises": f"ProblemResponse\n{_text_of(f'With the code {_listed(codes)}')}" if codes else "",
        "Examples": _examples(call, method),
    }
    blocks = [f"{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items() if text]
    return "\n\n".join([*textwrap.wrap(summary, _WIDTH - 8), *blocks]) if blocks else summary


def _choices(hint: Any) -> str:
    literal = next((member for member in (hint, *get_args(hint)) if get_origin(member) is Literal), None)
    return "" if literal is None else "{" + ", ".join(f'"{value}"' for value in get_args(literal)) + "}"


def _meaning(model: Any, method: ClientMethod, *, yields: bool) -> str:
    if yields or method.answer_field is not None:
        hint = model.model_fields[method.answer_field or "items"].annotation
        return _first_line(get_args(hint)[0])
    return _first_line(model)


def _first_line(model: type) -> str:
    return (inspect.getdoc(model) or "").split("\n\n")[0]


def _spoken(returned: str) -> str:
    return returned.replace("list[", "list of ").removesuffix("]")


def _listed(codes: Sequence[str]) -> str:
    quoted = [f"``{code}``" for code in codes]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _text_of(description: str) -> str:
    """A description as the sentence of an entry."""
    text = re.sub(r"\bnull\b", "None", " ".join(description.split())).rstrip(".")
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)
    lines = textwrap.wrap(f"{text[0].upper()}{text[1:]}.", _WIDTH - 12, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "    ")


def _examples(call: Call, method: ClientMethod) -> str:
    return "\n\n".join(block for block in call.client_examples.split("\n\n") if f"client.{method.name}(" in block)


# --- The text of a module


def _text(client: _Client, methods: Sequence[_Method]) -> str:
    body = "\n\n".join(_method(client, method) for method in methods)
    about = textwrap.indent(inspect.getdoc(client.base) or "", "    ").strip()
    written = ", ".join(sorted(_MODULES))
    return f'''"""The client ``{client.name}``.

Generated from calibrant/client/calls and the calls of the service by `make reference`.
"""
# ruff: noqa: E501 - docstrings are indented by one level more than those that they are from

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, overload

from calibrant.client.{client.module} import {client.base.__name__}
from calibrant.client.calls import {written}
from calibrant.client.declared import pages, removal, result
from calibrant.client.requests import path_of
{_imports()}


class {client.name}({client.base.__name__}):
    """{about}
    """

{body}
'''


def _imports() -> str:
    """The imports of the modules of steps, for the types of arguments; ruff removes those that are not used."""
    lines: dict[str, None] = {}
    later: dict[str, None] = {}
    for module in _MODULES:
        tree = ast.parse((FOLDER / "calls" / f"{module}.py").read_text("utf-8"))
        lines |= _imported(tree.body)
        for block in (node for node in tree.body if isinstance(node, ast.If)):  # TYPE_CHECKING
            later |= _imported(block.body)
        lines |= {f"from calibrant.client.calls.{module} import {name}": None for name in _names(tree.body)}
    used = " ".join(f"{method.returns} {method.signature} {method.steps}" for method in _declared())
    named = [model.__name__ for model in models() if re.search(rf"\b{model.__name__}\b", used)]
    lines |= {f"from calibrant.client.answers import {name}": None for name in named}
    return "\n".join([*lines, "if TYPE_CHECKING:", *(f"    {line}" for line in later)])


def _imported(nodes: Sequence[ast.stmt]) -> dict[str, None]:
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    return {f"from {node.module} import {ast.unparse(name)}": None for node in imports for name in node.names}


def _names(nodes: Sequence[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name) and target.id[0].isupper())


def _method(client: _Client, method: _Method) -> str:
    define = "def" if method.yields else client.define
    returns = f"{client.iterator}[{method.returns}]" if method.yields else method.returns
    overloads = [
        f"    @overload\n    {define} {method.name}(self, {signature}) -> {result}: ..."
        for signature, result in method.overloads
    ]
    run = f"self._iterate({method.steps})" if method.yields else client.wait.format(method.steps)
    run = f"({run}).{method.answer_field}" if method.answer_field else run
    signature = f"self, {method.signature}".removesuffix(", ")
    raw = "r" if "\\" in method.docstring else ""
    docstring = textwrap.indent(method.docstring, _INDENT).strip()
    end = f"\n{_INDENT}" if "\n" in docstring else ""
    return "\n".join(
        [
            *overloads,
            f"    {define} {method.name}({signature}) -> {returns}:",
            f'{_INDENT}{raw}"""{docstring}{end}"""',
            f"{_INDENT}{run}" if returns == "None" else f"{_INDENT}return {run}",
        ]
    )
