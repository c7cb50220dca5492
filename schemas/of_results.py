"""Answers with the fields of a result of the library, which declares them and says in its docstring what they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import Field, create_model

from calibrant.core.docstrings import described
from schemas.base import Document

Answer = TypeVar("Answer", bound=Document)
_ANSWERS: dict[Any, type[Document]] = {}


def of_result(
    result: type, *, always: Collection[str] = (), without: Collection[str] = ()
) -> Callable[[type[Answer]], type[Answer]]:
    """Return a decorator that adds the fields of a result to the model of its answer, as plain JSON.

    Fields that the model declares itself remain. The others are optional if the result has a default, because answers
    of earlier versions may lack them, except those that are ``always`` there.
    """
    hints, texts = get_type_hints(result), described(result.__doc__ or "", "Attributes")

    def completed(model: type[Answer]) -> type[Answer]:
        own: dict[str, Any] = {name: (field.annotation, field) for name, field in model.model_fields.items()}
        whole: dict[str, Any] = {"__base__": model.__bases__, "__module__": model.__module__, "__doc__": model.__doc__}
        for part in fields(result):
            if part.name in own:
                whole[part.name] = own.pop(part.name)
            elif part.name not in without:
                default = {"default": part.default, "default_factory": part.default_factory}
                about: dict[str, Any] = {name: value for name, value in default.items() if value is not MISSING}
                about = {} if part.name in always else about
                text = _in_json(texts[part.name]) if part.name in texts else None
                whole[part.name] = (_plain(hints[part.name]), Field(**about, description=text))
        _ANSWERS[result] = create_model(model.__name__, **whole, **own)
        return cast("type[Answer]", _ANSWERS[result])

    return completed


def _in_json(text: str) -> str:
    """The description of an attribute as that of a field: a phrase, with the constants of JSON."""
    names = {"None": "null", "True": "true", "False": "false"}
    phrase = re.sub(r"\b(None|True|False)\b", lambda name: names[name[0]], text).replace("\\|", "|").removesuffix(".")
    return phrase if phrase[1:2].isupper() else phrase[:1].lower() + phrase[1:]


def _plain(hint: Any) -> Any:
    """The type of a value of a result in its answer."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _ANSWERS[hint]
    if origin is np.ndarray:
        return list[int] if issubclass(get_args(arguments[1])[0], np.integer) else list[float]
    if origin in (Union, UnionType):
        return Union[tuple(map(_plain, arguments))]  # noqa: UP007 - of any number of types
    if origin in (dict, Mapping):
        return dict[arguments[0], _plain(arguments[1])]  # type: ignore[misc, valid-type]
    if origin is list or arguments[1:] == (...,):
        return list[_plain(arguments[0])]  # type: ignore[misc]
    return tuple[tuple(map(_plain, arguments))] if origin is tuple else hint  # type: ignore[misc]
