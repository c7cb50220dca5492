"""The responses of the client, generated from the models of the wire contract."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import calibrant.client.answers.conveniences as conveniences
import schemas
from backend.store.clock import at
from benchmarks.pages.generated import formatted
from schemas.base import Document, Instant
from schemas.meanings import MEANINGS
from service.calls import model_of
from service.route_table import RouteTable

FOLDER = Path(conveniences.__file__).parent
#: Groups of arguments, which become typed dictionaries.
ARGUMENTS = ("About", "MapChanges", "MonitorPatch")
_WIDTH = 120
#: A shorter type hint is written out.
_LONG = 40
_HEAD = '"""Generated from schemas/{module}.py by `make reference`."""\n\nfrom __future__ import annotations\n\n'


@cache
def files() -> dict[str, str]:
    """The text of each generated module by its name."""
    by_module: dict[str, list[type[BaseModel]]] = defaultdict(list)
    for model in models():
        by_module[_module(model)].append(model)
    texts = {name: _text(name, models) for name, models in sorted(by_module.items())}
    return {name: formatted(text, "I,RUF022") for name, text in (texts | {"__init__": _package(by_module)}).items()}


def write_files() -> None:
    """Write the generated modules."""
    for name, text in files().items():
        (FOLDER / f"{name}.py").write_text(text, encoding="utf-8")


# --- Which models are responses


def models() -> list[type[BaseModel]]:
    """The models that responses consist of, in the order of their definition."""
    known = {model.__name__: model for module in _modules() for model in _defined(module)}
    wanted: set[type[BaseModel]] = set()
    queue = [known[name] for name in (*_imported(), *ARGUMENTS) if name in known] + _declared()
    while queue:
        model = queue.pop()
        if model not in wanted:
            wanted.add(model)
            queue += [inner for hint in get_type_hints(model).values() for inner in _inside(hint)]
            queue += [base for base in model.__bases__ if base.__name__ in _SHARED]
    return [model for module in _modules() for model in _defined(module) if model in wanted]


def _imported() -> set[str]:
    """The names that the steps of the client import from the responses."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (FOLDER.parent / "calls").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.name for node in nodes if node.module == "calibrant.client.answers" for name in node.names}


def _declared() -> list[type[BaseModel]]:
    """The answers of the calls whose methods are generated."""
    table = RouteTable([])
    table.load_all()
    answers = [
        model_of(method.answer or call.answer)
        for call in table.calls
        for method in call.client_methods
        if method.media is None
    ]
    return [model for answer in answers for model in _inside(answer)]


#: Base classes that are responses too; the fields of others are repeated in each response.
_SHARED = frozenset({"JobSummary", "MapSummary", "PowerLawNumbers", "RowsReading"})


@cache
def _modules() -> list[types.ModuleType]:
    return [importlib.import_module(module.name) for module in pkgutil.walk_packages(schemas.__path__, "schemas.")]


def _defined(module: types.ModuleType) -> list[type[BaseModel]]:
    models = [value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, BaseModel)]
    return [value for value in models if value.__module__ == module.__name__]


def _inside(hint: Any) -> Iterator[type[BaseModel]]:
    """The models in a type hint."""
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        yield hint
    for argument in get_args(hint) if get_origin(hint) is not Literal else ():
        yield from _inside(argument)


def _module(model: type[BaseModel]) -> str:
    return model.__module__.removeprefix("schemas.")


# --- The text of a module


class _Names:
    """The names that the text of a module uses: those that it imports and the aliases that it defines."""

    def __init__(self, module: str) -> None:
        self.module = module
        #: Whether hints are those of arguments, in which objects are mappings, and arrays any sequences.
        self.of_arguments = False
        self._imported: dict[str, set[str]] = defaultdict(set)
        self.aliases: dict[str, str] = {}

    def use(self, module: str, name: str) -> str:
        if module != f"calibrant.client.answers.{self.module}":
            self._imported[module].add(name)
        return name

    def imports(self) -> str:
        standard: list[str] = []
        own: list[str] = []
        for module, names in sorted(self._imported.items()):
            line = f"from {module} import {', '.join(sorted(names))}"
            (own if module.startswith("calibrant") else standard).append(line)
        return "\n\n".join("\n".join(lines) for lines in (standard, own) if lines)


def _text(module: str, models: Sequence[type[BaseModel]]) -> str:
    names = _Names(module)
    classes = "\n\n\n".join(_class(model, names) for model in models)
    aliases = "".join(f"{line}\n" for line in names.aliases.values())
    imports = names.imports()
    return f"{_HEAD.format(module=module)}{imports}\n\n{aliases}{chr(10) if not aliases else chr(10) * 2}{classes}\n"


def _class(model: type[BaseModel], names: _Names) -> str:
    if model.__name__ in ARGUMENTS:
        return _dictionary(model, names)
    names.use("dataclasses", "dataclass")
    bases = [names.use(f"calibrant.client.answers.{_module(base)}", base.__name__) for base in _shared(model)]
    bases = bases or [names.use("calibrant.client.answers.document", "WireAnswer")]
    mixin = conveniences.OF.get(model.__name__)
    if mixin is not None:
        bases.insert(0, names.use(mixin.__module__, mixin.__name__))
    shown = ", repr=False" if mixin is not None and "__repr__" in _members(mixin) else ""
    inherited = {name for base in _shared(model) for name in base.model_fields}
    hints = _hints(model)
    fields = [
        _field(name, hints[name], field, names)
        for name, field in model.model_fields.items()
        if name not in inherited or name in vars(model).get("__annotations__", {})
    ]
    return "\n".join(
        [
            f"@dataclass(frozen=True, slots=True, kw_only=True{shown})",
            f"class {model.__name__}({', '.join(bases)}):",
            _docstring(model),
            *([""] if fields else []),
            *fields,
        ]
    )


#: Times are text in responses.
_TIMES = {Instant: str, Instant | None: str | None}


def _hints(model: type[BaseModel]) -> dict[str, Any]:
    plain = get_type_hints(model)
    return {name: _TIMES.get(hint, plain[name]) for name, hint in get_type_hints(model, include_extras=True).items()}


def _dictionary(model: type[BaseModel], names: _Names) -> str:
    hints = _hints(model)
    head = f"class {model.__name__}({names.use('typing', 'TypedDict')}, total=False):"
    names.of_arguments = True
    fields = [_field(name, hints[name], field, names, optional=True) for name, field in model.model_fields.items()]
    names.of_arguments = False
    return "\n".join([head, _docstring(model), "", *fields])


def _shared(model: type[BaseModel]) -> list[type[BaseModel]]:
    return [base for base in model.__bases__ if base.__name__ in _SHARED]


def _members(mixin: type) -> set[str]:
    return {name for base in mixin.__mro__[:-1] for name in vars(base)}


def _docstring(model: type[BaseModel]) -> str:
    lines = _none(inspect.getdoc(model) or "").splitlines()
    if len(lines) == 1:
        return f'    """{lines[0]}"""'
    return "\n".join([f'    """{lines[0]}', *(f"    {line}".rstrip() for line in lines[1:]), '    """'])


def _field(name: str, hint: Any, field: FieldInfo, names: _Names, *, optional: bool = False) -> str:
    code = f"    {name}: {_type(hint, names)}{'' if optional else _default(field, names)}"
    text = _none(field.description or MEANINGS.get(name, "")).replace("``", "`")
    if not text:
        return code
    if len(f"{code}  # {text}") <= _WIDTH:
        return f"{code}  # {text}"
    lines = textwrap.wrap(text, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*(f"    #: {line}" for line in lines), code])


def _none(text: str) -> str:
    """A description for Python: null is None there."""
    return re.sub(r"\bnull\b", "None", text)


def _type(hint: Any, names: _Names) -> str:
    """The source of a type hint, by the name that the schemas have for it."""
    alias = _aliases(names.module).get(hint) if get_origin(hint) is not None else None
    spelled = _spelled(hint, names)
    short = len(spelled) < _LONG and get_origin(hint) is not Literal
    if alias is None or short or any(_inside(hint)):
        return spelled
    names.aliases[alias] = f"{alias} = {spelled}"
    return alias


def _spelled(hint: Any, names: _Names) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        ordered = sorted(arguments, key=lambda argument: argument is type(None))
        return " | ".join(dict.fromkeys(_type(argument, names) for argument in ordered))
    if origin is Literal:
        return f"{names.use('typing', 'Literal')}[{', '.join(map(_quoted, arguments))}]"
    if origin is not None:
        wider = {list: "Sequence", dict: "Mapping"}.get(origin) if names.of_arguments else None
        name = origin.__name__ if wider is None else names.use("collections.abc", wider)
        return f"{name}[{', '.join(_type(argument, names) for argument in arguments)}]"
    if hint is Any:
        return names.use("typing", "Any")
    if issubclass(hint, Document) and names.of_arguments:
        return f"{names.use('collections.abc', 'Mapping')}[str, {names.use('typing', 'Any')}]"
    if issubclass(hint, Document):
        return names.use(f"calibrant.client.answers.{_module(hint)}", hint.__name__)
    return "None" if hint is type(None) else str(hint.__name__)


@cache
def _aliases(module: str) -> Mapping[Any, str]:
    """The names of type hints in the schemas, with those of a module first."""
    names = {}
    for defining in sorted(_modules(), key=lambda defining: defining.__name__ == f"schemas.{module}"):
        for name, value in vars(defining).items():
            if get_origin(value) is not None and not name.startswith("_"):
                names[_stripped(value)] = name
    return names


def _stripped(hint: Any) -> Any:
    """A type hint without the constraints of requests."""
    return get_type_hints(type("Holder", (), {"__annotations__": {"hint": hint}}))["hint"]


def _default(field: FieldInfo, names: _Names) -> str:
    if field.is_required():
        return "" if field.repr else f" = {names.use('dataclasses', 'field')}(repr=False)"
    value = field.get_default(call_default_factory=True)
    if field.metadata == list(get_args(Instant)[1:]):
        value = at(value)
    if isinstance(value, BaseModel | list | dict):
        source = _value(value, names)
        factory = {"[]": "list", "{}": "dict"}.get(source) or source.removesuffix("()")
        factory = f"lambda: {source}" if isinstance(value, list | dict) and value else factory
        return f" = {names.use('dataclasses', 'field')}(default_factory={factory})"
    if not field.repr:
        return f" = {names.use('dataclasses', 'field')}(default={_value(value, names)}, repr=False)"
    return f" = {_value(value, names)}"


def _value(value: Any, names: _Names) -> str:
    """The source of a default."""
    if isinstance(value, BaseModel):
        arguments = ", ".join(
            f"{name}={_value(getattr(value, name), names)}"
            for name in type(value).model_fields
            if name in value.model_fields_set
        )
        return f"{names.use(f'calibrant.client.answers.{_module(type(value))}', type(value).__name__)}({arguments})"
    if isinstance(value, list):
        return f"[{', '.join(_value(item, names) for item in value)}]"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    return _quoted(value)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


# --- The package

_INIT = '''"""Responses of a server as frozen dataclasses with ``to_dict()``; each is loaded when it is first used.

Generated from the schemas by `make reference`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
{imports}

#: Name -> the module that it is loaded from.
_MODULE_OF = {{
{modules}
}}

__all__ = [
{names}
]


def _loaded(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
    value = globals()[name] = getattr(import_module(f"{{__name__}}.{{_MODULE_OF[name]}}"), name)
    return value


if not TYPE_CHECKING:  # checkers of types then know which names exist
    __getattr__ = _loaded


def __dir__() -> list[str]:
    return sorted(__all__)
'''


def _package(by_module: Mapping[str, Sequence[type[BaseModel]]]) -> str:
    names = {module: [model.__name__ for model in models] for module, models in by_module.items()}
    names["document"] = ["WireAnswer", "Mismatch", "decode"]
    lines = []
    for module in sorted(names):
        line = f"from calibrant.client.answers.{module} import {', '.join(sorted(names[module]))}"
        lines.append(f"    {line}")
    module_of = {name: module for module, listed in names.items() for name in listed}
    return _INIT.format(
        imports="\n".join(lines),
        modules="\n".join(f'    "{name}": "{module_of[name]}",' for name in sorted(module_of)),
        names="\n".join(f'    "{name}",' for name in sorted(module_of)),
    )
