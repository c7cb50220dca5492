"""What every route needs: the settings and the caller's view of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Request, Response

from service.settings import Settings
from storage.store import Store


@dataclass(frozen=True)
class Context:
    """Settings and store."""

    settings: Settings
    store: Store


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Here = Annotated[Context, Depends(_context)]


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response; numpy arrays are written as they are, without a list in between."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, headers, "application/json")


def body_of(model: type[Any]) -> dict[str, Any]:
    """The OpenAPI description of a body that the route reads itself."""
    npz = {"schema": {"type": "string", "format": "binary"}}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": model.model_json_schema(ref_template="#/components/schemas/{model}")},
                "application/x-npz": npz,
            },
        }
    }
