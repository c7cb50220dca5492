"""Requests sent by the functions of a generated client, their answers parsed by its models and compared."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import keyword
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import httpx

from service.openapi import operations

JSON = "application/json"
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")
#: Headers that httpx adds by itself.
_OWN = {"host", "accept-encoding", "connection", "user-agent", "content-length", "content-type"}


class GeneratedClient(httpx.BaseTransport):
    """A transport that has every request sent by the generated function of its call.

    ``called`` gathers the calls made. Each answer must have been parsed into models, and the models must say what the
    answer said. Answers that are wanted in another form than JSON are not: a generated client knows one form.
    """

    def __init__(self, package: Path, document: dict[str, Any], url: str) -> None:
        sys.path.insert(0, str(package.parent))
        try:
            self._package = importlib.import_module(package.name)
            modules = {path.stem: path for path in (package / "api").glob("*/*.py") if path.stem != "__init__"}
            self._functions: dict[str, Callable[..., Any]] = {
                name: importlib.import_module(f"{package.name}.api.{path.parent.name}.{name}").sync_detailed
                for name, path in modules.items()
            }
            self.types = importlib.import_module(f"{package.name}.types")
            self.models = importlib.import_module(f"{package.name}.models")
        finally:
            sys.path.remove(str(package.parent))
        self._url = url
        self._calls = sorted(
            ((method, path, operation["operationId"]) for path, method, operation in operations(document)),
            key=lambda call: "{" in call[1],
        )
        self.called: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request by the function of its call."""
        name, arguments = self._call_of(request)
        headers = {k: v for k, v in request.headers.items() if k not in _OWN}
        wanted = headers.get("accept", "*/*")
        headers["accept"] = JSON if wanted == "*/*" else wanted
        if wanted not in ("*/*", JSON):
            with httpx.Client(timeout=600) as http:
                return http.send(request)
        function = self._functions[name]
        hints = typing.get_type_hints(function)
        parameters = dict(request.url.params) | {k: headers.pop(k) for k in [*headers] if _python(k) in hints}
        arguments |= {_python(k): _converted(hints[_python(k)], v) for k, v in parameters.items()}
        content = request.read()
        if content:
            arguments["body"] = self._body(hints["body"], content, request.headers["content-type"])
        answer = self.call(name, headers=headers, **arguments)
        headers_left = {k: v for k, v in answer.headers.items() if k in ("location", "content-type", "etag")}
        return httpx.Response(answer.status_code, headers=headers_left, content=answer.content)

    def call(self, operation: str, /, *, headers: dict[str, str] | None = None, **arguments: Any) -> Any:
        """Call a generated function, and see to it that its answer was parsed in full."""
        client = self._package.Client(
            base_url=self._url,
            headers={"accept": JSON} | (headers or {}),
            timeout=httpx.Timeout(60),
            raise_on_unexpected_status=True,
        )
        with client:
            answer = self._functions[operation](client=client, **{_python(k): v for k, v in arguments.items()})
        self.called.add(operation)
        _check(answer.parsed, answer)
        return answer

    def _call_of(self, request: httpx.Request) -> tuple[str, dict[str, Any]]:
        for method, path, name in self._calls:
            match = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path), request.url.path)
            if method == request.method.lower() and match:
                return name, match.groupdict()
        raise LookupError(f"{request.method} {request.url.path} is not a call of the document")

    def _body(self, hint: Any, content: bytes, kind: str) -> Any:
        """The body as the first model that can hold all of it."""
        if kind not in (JSON, "application/merge-patch+json"):
            return self.types.File(io.BytesIO(content))
        sent = json.loads(content)
        for model in _members(hint):
            try:
                body = model.from_dict(sent)
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
            if _with_times(body.to_dict()) == _with_times(sent):
                return body
        raise TypeError(f"no model of {hint} holds the fields {sorted(sent)}")


def _check(parsed: Any, answer: Any) -> None:
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind.endswith("json"):
        assert _with_times(_document(parsed)) == _with_times(json.loads(answer.content))
        assert not [*_unparsed(parsed)]
    elif isinstance(parsed, str):
        assert parsed == answer.content.decode()
    elif parsed is None:
        assert not answer.content
    else:
        assert parsed.payload.read() == answer.content


def _document(parsed: Any) -> Any:
    return [_document(part) for part in parsed] if isinstance(parsed, list) else parsed.to_dict()


def _with_times(document: Any) -> Any:
    """A document with timestamps as times, because the client writes them in another form of the same format."""
    if isinstance(document, dict):
        return {name: _with_times(part) for name, part in document.items()}
    if isinstance(document, list):
        return [_with_times(part) for part in document]
    is_time = isinstance(document, str) and _TIMESTAMP.fullmatch(document)
    return datetime.fromisoformat(document) if is_time else document


def _unparsed(parsed: Any) -> Iterator[Any]:
    """The parts of an answer that no model of the client fits: it leaves those as they came."""
    if isinstance(parsed, dict):
        yield parsed
    elif isinstance(parsed, list):
        for part in parsed:
            yield from _unparsed(part)
    elif attrs.has(type(parsed)):
        for field in attrs.fields(type(parsed)):
            if field.name == "additional_properties":
                parts = [part for part in parsed.additional_properties.values() if attrs.has(type(part))]
                yield from _unparsed(parts)
            else:
                yield from _unparsed(getattr(parsed, field.name))


def _python(name: str) -> str:
    """A parameter's name as the generator writes it."""
    name = name.replace("-", "_").lower()
    return f"{name}_" if keyword.iskeyword(name) or name in ("map", "id", "format") else name


def _members(hint: Any) -> list[Any]:
    """The classes of a union that are models, or may be made of a string."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return [
        part for part in parts if inspect.isclass(part) and (attrs.has(part) or issubclass(part, Enum | int | float))
    ]


def _converted(hint: Any, text: str) -> Any:
    """A value of the query as its parameter takes it."""
    for kind in _members(hint):
        if not attrs.has(kind):
            return kind(text)
    return text
