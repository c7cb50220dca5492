"""The OpenAPI description of an inference's bodies, which the route reads and writes itself."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from service.inference.infer import BINARY, JSON, LENGTH_HEADER

_BINARY = {"schema": {"type": "string", "format": "binary", "description": "a JSON object, then binary tensors"}}
_LENGTH = {
    "description": "bytes of the JSON object, where binary tensors follow it",
    "schema": {"type": "integer", "minimum": 0},
}


def inference_body(model: type[BaseModel]) -> dict[str, Any]:
    """Arguments of a route that takes ``model`` as JSON or with binary tensors, and answers in either way."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    body = {
        "required": True,
        "content": {JSON: {"schema": schema}, BINARY: _BINARY},
    }
    length = {"name": LENGTH_HEADER, "in": "header", "required": False, **_LENGTH}
    answered = {
        "description": "Outputs as asked for",
        "content": {BINARY: _BINARY},
        "headers": {LENGTH_HEADER: _LENGTH},
    }
    return {"openapi_extra": {"requestBody": body, "parameters": [length]}, "responses": {200: answered}}
