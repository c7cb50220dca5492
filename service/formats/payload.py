"""The result of every reader, the arrays of a body and everything else in it, and the limits that readers keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from calibrant.io.limits import Limits
from calibrant.io.strict import ARRAYS as ARRAYS
from calibrant.io.table import Array as Array
from calibrant.io.table import Body as Body
from service.settings import Settings


@dataclass(frozen=True)
class Payload:
    """``arrays`` by field name; ``options`` as JSON values, or as strings if a query carried them."""

    arrays: Mapping[str, Array]
    options: Mapping[str, Any]
    from_query: bool


@dataclass(frozen=True)
class BodyLimits(Limits):
    """The limits of a request body: of what it becomes, and of the nesting and the values of JSON."""

    max_rows: int
    max_json_depth: int
    max_json_values: int = 16 * 1024 * 1024

    @classmethod
    def of(cls, settings: Settings, heavy: Callable[[], None] | None = None) -> Self:
        """The limits that the settings name."""
        known = (settings.max_unpacked_bytes, settings.max_rows, settings.max_classes, settings.max_json_depth)
        return cls(*known, settings.max_json_values, heavy=heavy)
