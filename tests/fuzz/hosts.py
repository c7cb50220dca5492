"""A host that is fuzzed: its maps, and the document of its calls.

The calls that a host shares with the service have the declarations of the service. The others follow the documentation
of KServe, Vertex AI and SageMaker.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from service.app import create_app
from service.settings import Settings
from tests.body_formats import CSV, JSON, NPY
from tests.fuzz.bodies import KNOWN_DISTRIBUTION_MAP, KNOWN_MAP
from tests.integration.hosting import hosted, running_host

_SHARED = ("/calibrate", "/health/live", "/health/ready", "/metrics", "/v2")
_MAPS = {
    KNOWN_MAP: "spam",
    "flowers": "pets",
    "segments": "segments",
    "sets": "sets",
    "random": "random",
    KNOWN_DISTRIBUTION_MAP: "wind",
}
_PATHS: dict[str, Any] = {"AIP_HEALTH_ROUTE": "/alive", "AIP_PREDICT_ROUTE": "/predict"}
_ROWS = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "number"},
            {"type": "array", "items": {"type": "number"}},
            {"type": "object", "additionalProperties": {"type": "number"}},
            {
                "type": "object",
                "properties": {
                    "predictions": {"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]},
                    "features": {"type": "object"},
                    "groups": {"anyOf": [{"type": "string"}, {"enum": ["north", "south"]}]},
                },
                "required": ["predictions"],
            },
        ]
    },
}
_INSTANCES = {
    "type": "object",
    "properties": {
        "instances": _ROWS,
        "parameters": {"type": "object", "properties": {"map": {"enum": [*_MAPS]}, "seed": {"type": "integer"}}},
    },
    "required": ["instances"],
}
_PREDICTIONS = {"type": "object", "properties": {"predictions": {"type": "array"}}, "required": ["predictions"]}


def _content(*kinds: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema if kind == JSON else {"type": "string", "format": "binary"}} for kind in kinds}


def host_document() -> dict[str, Any]:
    """The OpenAPI document of the calls of a host."""
    document = create_app(Settings(redis_url="unix:///nowhere")).openapi()
    paths = {path: calls for path, calls in document["paths"].items() if path.startswith(_SHARED)}
    of_problems = {s: a for s, a in paths["/calibrate"]["post"]["responses"].items() if s != "200"}
    of_inference = {s: a for s, a in paths["/v2/models/{name}/infer"]["post"]["responses"].items() if s != "200"}

    def call(refusals: dict[str, Any], answer: dict[str, Any], **own: Any) -> dict[str, Any]:
        return {**own, "responses": {"200": {"description": "found", "content": answer}, **refusals}}

    model = {"anyOf": [{"enum": [*_MAPS]}, {"type": "string", "minLength": 1}]}
    named = [{"name": "name", "in": "path", "required": True, "schema": model}]
    whatever: dict[str, Any] = {"type": "object"}
    predict = {"requestBody": {"required": True, "content": _content(JSON, schema=_INSTANCES)}}
    invoke = {"requestBody": {"required": True, "content": _content(JSON, CSV, NPY, schema=_INSTANCES)}}
    attributes = {
        "name": "X-Amzn-SageMaker-Custom-Attributes",
        "in": "header",
        "schema": {"enum": ["map=flowers", "map=random; seed=3"]},
    }
    predictions = _content(JSON, schema=_PREDICTIONS)
    paths |= {
        "/v1/models": {"get": call(of_inference, _content(JSON, schema=whatever))},
        "/v1/models/{name}": {"get": call(of_inference, _content(JSON, schema=whatever), parameters=named)},
        "/v1/models/{name}:predict": {"post": call(of_inference, predictions, parameters=named, **predict)},
        "/alive": {"get": call(of_inference, _content(JSON, schema=whatever))},
        "/predict": {"post": call(of_inference, predictions, **predict)},
        "/ping": {"get": call(of_problems, _content(JSON, schema=whatever))},
        "/invocations": {
            "post": call(of_problems, _content(JSON, CSV, NPY, schema=_PREDICTIONS), parameters=[attributes], **invoke)
        },
    }
    return document | {"paths": paths}


class FuzzedHost(NamedTuple):
    """A running host: its URL and the file of its document."""

    url: str
    document: Path


@contextlib.contextmanager
def fuzzed_host(folder: Path) -> Iterator[FuzzedHost]:
    """Run a host with the names of maps that bodies refer to."""
    folder.mkdir()
    for name, known in _MAPS.items():
        hosted()[known].save(folder / f"{name}.json")
    document = folder / "openapi.document"
    document.write_text(json.dumps(host_document()), "utf-8")
    with running_host(str(folder), **_PATHS) as host:
        yield FuzzedHost(host.url, document)
