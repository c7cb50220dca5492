"""Routes whose description for the OpenAPI document is built with the document, not at the start.

FastAPI builds a validator for every model of an answer when a route is defined. Routes of this service return
responses, so only the document uses these models.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, cast

from fastapi.routing import APIRoute

Parameters = ParamSpec("Parameters")


def described_later(describe: Callable[Parameters, dict[str, Any]]) -> Callable[Parameters, Any]:
    """Make a function return a callable that returns the description, which a ``DescribedRoute`` route calls."""

    @wraps(describe)
    def later(*args: Parameters.args, **options: Parameters.kwargs) -> Any:
        return partial(describe, *args, **options)

    return later


class DescribedRoute(APIRoute):
    """A route that builds its models and its OpenAPI description only when the document is built.

    ``openapi_extra`` may be a dictionary or a callable that returns one.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self._options = options
        super().__init__(path, endpoint, **options | {"response_model": None, "responses": {}, "openapi_extra": None})

    def extra(self) -> dict[str, Any]:
        """The part of the description that this service adds to FastAPI's."""
        extra = self._options.get("openapi_extra") or {}
        return cast(dict[str, Any], extra() if callable(extra) else extra)

    def described(self) -> APIRoute:
        """The same route with its models and description; the name of the operation is that of its function."""
        options = self._options | {"openapi_extra": self.extra(), "operation_id": self.name}
        return APIRoute(self.path, self.endpoint, **options)
