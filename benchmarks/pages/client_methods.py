"""The clients: their methods are made from the steps of ``calibrant.client.calls`` and from the declared calls."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import calibrant.client.calls as steps
from benchmarks.pages.answers import models
from benchmarks.pages.generated import formatted
from calibrant.client.frames import DistributionRows, RowArguments
from calibrant.core.docstrings import completed
from schemas.base import Instant
from schemas.meanings import MEANINGS
from service.calls import Call, ClientMethod, model_of
from service.examples.calls import parameter
from service.formats.media import HTML, SVG
from service.route_table import RouteTable

FOLDER = Path(steps.__file__).parents[1]
#: The first modules of steps: the examples of the others use what these create.
_FIRST = ("maps", "monitors", "monitor_rows")
_OTHERS = sorted({path.stem for path in FOLDER.glob("calls/*.py")} - {"__init__", *_FIRST})
_MODULES = (*_FIRST, *_OTHERS)
#: What the methods with rows use.
_ROW_STEPS = (
    "Form, Requested, Theme, answered, fitted, html, map_reference, media_of, picture, result_of, stored_picture, "
    "with_class_rows, with_forecast_rows"
)
#: Records that stand for their ids.
_RECORDS = {"batch": "BatchRecord", "job": "JobSummary", "map": "MapSummary"}
_INDENT = "        "
_WIDTH = 120
#: More characters of choices are not listed.
_LONG = 60


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
    has_body: bool = False


class _Client(NamedTuple):
    """How one of the clients runs steps."""

    name: str
    base: str
    module: str
    iterator: str
    define: str
    wait: str


_CLIENTS = {
    "client": _Client("Calibrant", "Connection", "connection", "Iterator", "def", "self._run({})"),
    "async_client": _Client(
        "AsyncCalibrant", "AsyncConnection", "async_connection", "AsyncIterator", "async def", "await self._run({})"
    ),
}


@cache
def client_files() -> dict[str, str]:
    """The text of each generated module by its name."""
    declared = [*_declared()]
    with_bodies = [method for method in declared if method.has_body]
    # The examples of other methods use the map that that of ``fit`` makes.
    with_bodies.sort(key=lambda method: method.name != "fit")
    methods = [*with_bodies, *_written(), *(method for method in declared if not method.has_body)]
    texts = {name: _text(client, methods) for name, client in _CLIENTS.items()} | {"connection": _connection()}
    return {name: formatted(text, "I,F401") for name, text in texts.items()}


def write_clients() -> None:
    """Write the generated modules."""
    for name, text in client_files().items():
        (FOLDER / f"{name}.py").write_text(text, encoding="utf-8")


# --- The connection of the synchronous client

_OF_CONNECTION = "The connection of ``Calibrant``, generated from ``async_connection.py`` by `make reference`."
#: Patterns of the asynchronous connection -> what the synchronous one has in their places.
_SYNCHRONOUS = {
    r'\A""".*?"""': f'"""{_OF_CONNECTION}"""',
    r"    It has the methods of .*?\n\n": "",
    r"\bAn asynchronous client\b": "A synchronous client",
    r"\ban asynchronous context\b": "a context",
    r"\basyncio\.run\((.*)\)\.": r"\1.",
    r"\b(?:async|await) ": "",
    r"(\b_?)Async(?=[A-Z])": r"\1",
    r"\b(__)?a(?=(enter|exit)__|(close|read|iter_lines)\(|next\(self)": r"\1",
    r"\benter_async_context\b": "enter_context",
    r"\basyncio\b": "time",
    r"str \| Awaitable\[str\]": "str",
}


@cache
def _connection() -> str:
    text = (FOLDER / "async_connection.py").read_text("utf-8")
    for pattern, replacement in _SYNCHRONOUS.items():
        text = re.sub(pattern, replacement, text, flags=re.DOTALL if ".*?" in pattern else 0)
    return text


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
                docstring = completed(docstring, steps.ARGUMENTS, [node.arg for node in _arguments(function)])
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


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    others = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.args, *arguments.kwonlyargs, *others]


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
            model = method.rows or (call.body.models[0] if call.body is not None else None)
            if model is None:
                yield _of_call(call, method)
            elif call.body is not None and not call.body.others:
                yield _of_fields(call, method, model)
            else:
                yield _of_rows(call, method, model)


def _of_call(call: Call, method: ClientMethod) -> _Method:
    answer = None if method.media is not None else model_of(method.answer or call.answer)
    fields = {} if call.query is None else call.query.model_fields
    options = {name: field for name, field in fields.items() if name not in {"limit", "cursor", *_FIXED, *method.query}}
    options = {name: field for name, field in options.items() if name not in method.without}
    yields = call.is_paged and method.answer_field is None
    places = re.findall(r"{(\w+)}", call.path)
    arguments = [_of_path(_path_name(call, place), parameter(call.path, place)[0]) for place in places]
    named = {name: _of_query(method.renamed.get(name, name), field) for name, field in options.items()}
    if method.first is not None:
        arguments.append(named[method.first])
    has_form = method.media is not None and call.path.endswith("/diagram.svg")
    arguments += [_FORM] if has_form else []
    others = [argument for name, argument in named.items() if name != method.first]
    signature = ", ".join(argument.signature for argument in (*arguments, *([_STAR] if others else []), *others))
    path = _path(call)
    sent = [f'"{name}": {_sent_as(argument.name, options[name])}' for name, argument in named.items()]
    query = "{" + ", ".join([*sent, *_fixed(method.query)]) + "}"
    returned = "bytes" if method.media is not None else _returned(answer, method, yields=yields)
    if method.media is not None:
        path, form = (path.replace('"diagram.svg"', 'f"diagram.{form}"'), "form") if has_form else (path, '"svg"')
        source = f"stored_picture(self._patience, {path}, {form}, {query})"
    elif answer is None:
        source = f"removal(self._patience, {path})"
    elif yields:
        source = f"pages(self._patience, {path}, {query}, {answer.__name__})"
    else:
        more = "" if query == "{}" else f", {query}"
        source = f'result(self._patience, "{call.method}", {path}, {_type(answer)}{more})'
    meaning = "the picture" if answer is None else _meaning(answer, method, yields=yields)
    codes = [code for code in call.problems if code != "store-unavailable"]
    sections = {
        "Parameters": "\n".join(argument.entry for argument in (*arguments, *others)),
        "Yields" if yields else "Returns": "" if returned == "None" else f"{_spoken(returned)}\n{_text_of(meaning)}",
        "Raises": f"ProblemResponse\n{_text_of(f'With the code {_listed(codes)}')}" if codes else "",
        "Examples": _examples(call, method),
    }
    docstring = _whole(method.summary or _summary(call), sections)
    return _Method(method.name, signature, returned, yields, docstring, source, answer_field=method.answer_field)


def _path(call: Call) -> str:
    parts = [re.sub(r'"{(\w+)}"', lambda part: _path_name(call, part[1]), f'"{part}"') for part in call.path.split("/")]
    return f"path_of({', '.join(parts[1:])})"


def _of_fields(call: Call, method: ClientMethod, model: type[BaseModel]) -> _Method:
    """A method whose arguments are the parts of the path, the required fields, and the others or changes by name."""
    places, answer = re.findall(r"{(\w+)}", call.path), model_of(method.answer or call.answer)
    leading = [_of_path(_path_name(call, place), parameter(call.path, place)[0]) for place in places]
    waits = call.queues is not None
    if call.method == "PATCH":
        named = [_changes(model)]
        source = f"changed(self._patience, {_path(call)}, changes, {model.__name__}.__annotations__, {_type(answer)})"
    else:
        fields = model.model_fields.items()
        leading += [_option(name, field) for name, field in fields if field.is_required()]
        named = [_option(name, field) for name, field in fields if not field.is_required()]
        named = [_STAR, *named, *(_WAITING if waits else [])]
        sent_fields = ", ".join(f'"{name}": {"map_reference(map)" if name == "map" else name}' for name, _ in fields)
        sent = f'send(self._patience, with_fields("{call.method}", {_path(call)}, {{{sent_fields}}}))'
        source = f"answered({sent}, {_type(answer)})"
        if waits:
            source = f"result_of(self._patience, {sent}, {_type(answer)}, timeout, progress)"
    codes = [code for code in call.problems if code != "store-unavailable"]
    problems = f"ProblemResponse\n{_text_of(f'With the code {_listed(codes)}')}" if codes else ""
    sections = {
        "Parameters": "\n".join(argument.entry for argument in (*leading, *named) if argument.entry),
        "Returns": f"{_type(answer)}\n{_text_of(_first_line(answer))}",
        "Raises": _RAISES if waits else problems,
        "Examples": _examples(call, method),
    }
    signature = ", ".join(argument.signature for argument in (*leading, *named))
    docstring = _whole(method.summary or _summary(call), sections)
    return _Method(method.name, signature, _type(answer), False, docstring, source, has_body=True)


@dataclass(frozen=True)
class _Argument:
    """An argument, as it is in a signature, and its entry in a docstring."""

    name: str
    signature: str
    entry: str


def _changes(model: type[BaseModel]) -> _Argument:
    text = _text_of(f"New values of {_listed(model.model_fields, 'and')}; others are kept, and None removes a value")
    return _Argument("changes", f"**changes: Unpack[{model.__name__}]", f"**changes\n{text}")


#: What precedes arguments that have only a name.
_STAR = _Argument("", "*", "")


def _of_path(name: str, description: str) -> _Argument:
    hint = _type(str, name)
    return _Argument(name, f"{name}: {hint}", f"{name} : {hint.replace(' |', ' or')}\n{_text_of(description)}")


def _of_query(name: str, field: FieldInfo) -> _Argument:
    """An optional argument for a field of a query; if it is None, the server uses the default."""
    is_list, spoken = get_origin(field.annotation) is list, _choices(field.annotation)
    hint = "float | str | datetime" if _is_time(field) else "str | Sequence[str]" if is_list else _TYPES.get(name)
    hint = hint or _argument_type(field.annotation, name)
    entry = f"{name} : {spoken or hint.replace(' |', ' or')}, optional\n{_text_of(field.description or MEANINGS[name])}"
    return _Argument(name, f"{name}: {hint} | None = None", entry)


def _is_time(field: FieldInfo) -> bool:
    return Instant in (field.annotation, *get_args(field.annotation))


def _sent_as(name: str, field: FieldInfo) -> str:
    return f"moment_of({name})" if _is_time(field) else name


# --- Methods of declared calls with rows


#: Arguments that are rows or options of all calls, by the kind of predictions.
_CLASS_ROWS = _Argument(
    "rows",
    "**rows: Unpack[RowArguments]",
    "**rows\n    ``predictions``, ``labels``, ``weights``, ``groups``, ``scale`` and ``weights_kind``, by name; and "
    "``class_names`` or\n    ``pos_label``.",
)
_FORECAST_ROWS = _Argument(
    "rows",
    "**rows: Unpack[DistributionRows]",
    "**rows\n    The forecasts: ``mean`` with ``variance`` or ``std``; ``quantiles`` with ``levels``; ``samples``; or "
    "``lower``,\n    ``upper`` and ``level``. Also ``weights``, ``weights_kind``, ``groups``, ``clusters``, ``by`` and "
    "``times``.",
)
_BATCH = _Argument(
    "batch",
    "batch: str | BatchRecord | ArrayLike | None = None",
    "batch : str, BatchRecord or array_like, optional\n    A stored batch or its id; or predictions.",
)
_APPENDED = _Argument("batch", "batch: str | BatchRecord", "batch : str or BatchRecord\n    Id of the batch.")
_OWN_LABELS = _Argument(
    "own_labels", "*own_labels: ArrayLike", "*own_labels : array_like\n    Labels, after predictions."
)
_LABELS_AND_MAPS = _Argument(
    "own_labels",
    "*own_labels: Any",
    "*own_labels : array_like, and sequence of str\n    Labels, after predictions; then maps.",
)
_PREDICTIONS = _Argument(
    "predictions",
    "predictions: ArrayLike",
    "predictions : array_like\n    (n,) for P(Y=1), or (n, K); the columns of a DataFrame are the classes in order.",
)
_LABELS = _Argument(
    "labels",
    "labels: ArrayLike | None = None",
    "labels : array_like, optional\n    (n,), integers 0 to K - 1 or booleans; or others, with ``class_names``, "
    "``pos_label`` or a frame of predictions\n    whose columns are named after them.",
)
_OBSERVED = _Argument(
    "observed",
    "observed: ArrayLike | BatchRecord | None = None",
    "observed : array_like, shape (n,), or str or BatchRecord, optional\n    Outcomes; or a stored batch.",
)
_OUTCOMES = _Argument(
    "observed", "observed: ArrayLike | None = None", "observed : array_like, shape (n,), optional\n    Outcomes."
)
_KEY = _Argument(
    "key",
    "key: str | None = None",
    "key : str, optional\n    Idempotency key; a repeated call with the same key does not append again.",
)
_FORM = _Argument("form", 'form: Form = "svg"', 'form : {"svg", "png"}\n    Format.')
_WAITING = (
    _Argument(
        "timeout",
        "timeout: float | None = None",
        "timeout : float, optional\n    Seconds to wait for a job; by default there is no limit.",
    ),
    _Argument(
        "progress",
        "progress: Progress | None = None",
        "progress : callable, optional\n    Called with the job on every change.",
    ),
)
_RAISES = (
    "JobFailed\n    If the job failed or was cancelled.\nJobTimeout\n    If the job has not ended after ``timeout`` "
    "seconds."
)
#: The types of arguments that are wider than those of fields.
_TYPES = {
    "theme": "Theme",
    "measures": "Requested",
    "diagrams": "Requested",
    "against": "Sequence[str | BatchRecord]",
    "batches": "Sequence[str | BatchRecord]",
    "maps": "str | MapSummary | Sequence[str | MapSummary]",
    "classes": "Sequence[int | str]",
    "support": "tuple[float | None, float | None]",
    "output_levels": "Sequence[float]",
    **dict.fromkeys(("hooks", "rules", "table", "windows"), "Sequence[Mapping[str, Any]]"),
}
#: The same of objects.
_BY_NAME = {"batches": "Mapping[str, str | BatchRecord]", "models": "Mapping[str, Any]"}


def _of_rows(call: Call, method: ClientMethod, model: type[BaseModel]) -> _Method:
    kind = model.model_fields.get("prediction_kind")
    of_classes = kind is None or kind.default == "classification"
    rows: _Argument | None = _CLASS_ROWS if of_classes else _FORECAST_ROWS
    in_rows = {*(RowArguments if of_classes else DistributionRows).__annotations__} | {"batch", *_FIXED}
    in_rows -= {"scale"} if not of_classes else set()
    fields = {name: field for name, field in model.model_fields.items() if name not in {*in_rows, *method.without}}
    options = {name: _option(name, field) for name, field in fields.items()}
    has_batch, appends = "batch" in model.model_fields, "{batch}" in call.path
    is_stored = method.first == "batches"  # without rows
    leading = [] if method.first is None else [_first(method.first, fields[method.first])]
    if appends:
        leading.append(_APPENDED)
    if is_stored:
        rows = None
    elif of_classes:
        own_labels = _LABELS_AND_MAPS if "correction" in options else _OWN_LABELS
        leading += [_BATCH, own_labels] if has_batch else [_PREDICTIONS, _LABELS]
    else:
        leading += [_OBSERVED] if has_batch else [_OUTCOMES]
    named = [option for name, option in options.items() if name != method.first]
    if has_batch and not of_classes:
        named.insert(0, _option("batch", model.model_fields["batch"]))
    sent_fields = {name: name for name in ([] if of_classes or not has_batch else ["batch"]) + [*options]}
    named += [_KEY] if appends else []
    named += [_FORM] if method.media == SVG else []
    waits = call.queues is not None
    named += _WAITING if waits else []
    signature = [argument.signature for argument in leading]
    signature += ["*"] if named and (is_stored or not (of_classes and has_batch)) else []
    beside = rows if not of_classes or has_batch else replace(_CLASS_ROWS, signature="**rows: Unpack[RowColumns]")
    signature += [argument.signature for argument in (*named, *([] if beside is None else [beside]))]
    parts = ", ".join("batch" if part == "{batch}" else f'"{part}"' for part in call.path.strip("/").split("/"))
    path = f"path_of({parts})" if appends else f'"{call.path}"'
    sent_mapping = "{" + ", ".join(f'"{name}": {value}' for name, value in sent_fields.items()) + "}"
    positional = ["batch", "own_labels"] if has_batch else ["predictions", "[] if labels is None else [labels]"]
    others = [] if is_stored else [*(positional if of_classes else ["observed"])]
    others += {HTML: [f'accept="{HTML}"'], SVG: ["accept=media_of(form)"]}.get(method.media or "", [])
    others += ["key=key"] if appends else []
    sends = "with_class_rows" if of_classes else "with_forecast_rows"
    sent = f"{sends}({', '.join(['self._patience', path, '{}' if is_stored else 'rows', sent_mapping, *others])})"
    returned, meaning, source = _read(call, method, sent)
    sections = {
        "Parameters": "\n".join(argument.entry for argument in (*leading, *named, *([] if rows is None else [rows]))),
        "Returns": f"{returned}\n{_text_of(meaning)}",
        "Raises": _RAISES if waits else "",
        "Examples": _examples(call, method),
    }
    docstring = _whole(method.summary or _summary(call), sections)
    return _Method(method.name, ", ".join(signature), returned, False, docstring, source, has_body=True)


def _read(call: Call, method: ClientMethod, sent: str) -> tuple[str, str, str]:
    """The type of what a method returns, its description, and the steps that read it."""
    waiting = "timeout, progress)"
    if method.media == HTML:
        meaning = "the HTML, which has no scripts and no external resources"
        return "str", meaning, f"html(self._patience, {sent}, {waiting}"
    if method.media == SVG:
        look = '{"theme": theme, "width": width}'
        return "bytes", "the picture", f"picture(self._patience, {sent}, form, {look}, {waiting}"
    answer = model_of(method.answer or call.answer)
    name = _type(answer)
    if name == "MapRecord":
        return name, _first_line(answer), f"fitted(self._patience, {sent}, {waiting}"
    if call.queues is None:
        return name, _first_line(answer), f"answered({sent}, {name})"
    return name, _first_line(answer), f"result_of(self._patience, {sent}, {name}, {waiting}"


def _option(name: str, field: FieldInfo) -> _Argument:
    """An argument for a field; if it is optional and None, the server uses the default."""
    by_name = any(get_origin(member) is dict for member in _members(field.annotation))
    hint = (_BY_NAME if by_name else _TYPES).get(name) or _argument_type(field.annotation, name)
    spoken = _choices(field.annotation)
    spoken = spoken if 0 < len(spoken) < _LONG else _spoken_type(field.annotation, name)
    default = field.default
    text = (field.description or MEANINGS[name]).rstrip(".") + _keys_of(field.annotation)
    if isinstance(default, str | int | float) and not isinstance(default, bool) and "default" not in text:
        text = f"{text.rstrip('.')}; by default ``{default}``"
    if field.is_required():
        return _Argument(name, f"{name}: {hint}", f"{name} : {spoken}\n{_text_of(text)}")
    return _Argument(name, f"{name}: {hint} | None = None", f"{name} : {spoken}, optional\n{_text_of(text)}")


def _first(name: str, field: FieldInfo) -> _Argument:
    option = _option(name, field)
    signature = option.signature.replace(" | None = None", "" if field.default is None else f' = "{field.default}"')
    return replace(option, signature=signature, entry=option.entry.replace(", optional", ""))


def _members(hint: Any) -> list[Any]:
    """The members of a type without None, and without conditions on their values."""
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    if get_origin(hint) in (types.UnionType, Union):
        return [member for part in get_args(hint) for member in _members(part)]
    return [] if hint is type(None) else [hint]


def _keys_of(hint: Any) -> str:
    """What a mapping has that stands for an object with fields, as the end of its description."""
    models = [member for member in _members(hint) if isinstance(member, type) and issubclass(member, BaseModel)]
    if len(models) != 1:
        return ""
    fields = models[0].model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    optional = [name for name in fields if name not in required]
    keys = [_listed(required, "and")] if required else []
    keys += [f"optionally {_listed(optional, 'and')}"] if optional else []
    return f". It has {', and '.join(keys)}"


def _argument_type(hint: Any, name: str) -> str:
    """The source of the type of an argument, which may be a mapping, and a record in place of an id."""
    spelled = {"Mapping[str, Any]" if _plain_member(member) is dict else _type(member) for member in _members(hint)}
    return " | ".join([*sorted(spelled, reverse=True), *([_RECORDS[name]] if name in _RECORDS else [])])


def _plain_member(member: Any) -> Any:
    """The type of a member without its parameters; that of an object with fields is ``dict``."""
    plain = get_origin(member) or member
    return dict if isinstance(plain, type) and issubclass(plain, BaseModel) else plain


def _spoken_type(hint: Any, name: str) -> str:
    names = {"list": "sequence", "dict": "mapping"}
    spelled = ["str" if get_origin(member) is Literal else _plain_member(member).__name__ for member in _members(hint)]
    of_list = next((_members(get_args(member)[0]) for member in _members(hint) if get_origin(member) is list), None)
    if of_list is not None:
        of = [names.get(member, member) for member in (_plain_member(member).__name__ for member in of_list)]
        return f"sequence of {' or '.join(dict.fromkeys(of))}"
    record = [_RECORDS[name]] if name in _RECORDS else []
    return " or ".join([*(names.get(member, member) for member in spelled), *record])


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
    elif get_origin(hint) is Annotated:
        members = [hint]
    spelled = {member.__name__ for member in map(_plain, members)}
    ordered = [*sorted(spelled), *([_RECORDS[name]] if name in _RECORDS else []), *(["None"] if optional else [])]
    return " | ".join(ordered)


def _plain(hint: Any) -> Any:
    if get_origin(hint) is Literal or hint == Instant:
        return str
    return _plain(get_args(hint)[0]) if get_origin(hint) not in (None, types.UnionType) else hint


def _summary(call: Call) -> str:
    return " ".join(call.description.split("\n\n")[0].split())


def _whole(summary: str, sections: Mapping[str, str]) -> str:
    """The docstring with the sections that are not empty."""
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


def _listed(codes: Iterable[str], word: str = "or") -> str:
    quoted = [f"``{code}``" for code in codes]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"


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
    connection = _connection() if client.base == "Connection" else (FOLDER / "async_connection.py").read_text("utf-8")
    classes = {node.name: node for node in ast.parse(connection).body if isinstance(node, ast.ClassDef)}
    about = textwrap.indent(ast.get_docstring(classes[client.base]) or "", "    ").strip()
    written = ", ".join(sorted(_MODULES))
    return f'''"""The client ``{client.name}``.

Generated from calibrant/client/calls and the calls of the service by `make reference`.
"""
# ruff: noqa: E501 - docstrings are indented by one level more than those that they are from

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TYPE_CHECKING, Unpack, overload

from calibrant.client.{client.module} import {client.base}
from calibrant.client.calls import {written}
from calibrant.client.calls.jobs import Progress
from calibrant.client.declared import changed, pages, removal, result
from calibrant.client.frames import ArrayLike, DistributionRows, RowArguments, RowColumns, moment_of
from calibrant.client.requests import path_of, with_fields
from calibrant.client.retries import send
from calibrant.client.rows import {_ROW_STEPS}
{_imports()}


class {client.name}({client.base}):
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
    names = {model.__name__ for model in models()} - {"Progress"}  # which is also the type of a callback
    named = sorted(name for name in names if re.search(rf"\b{name}\b", used))
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
