"""The base of every model: unknown fields are rejected, and instances are immutable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

from schemas.meanings import MEANINGS

#: Ids of maps start with this prefix; names must not.
ID_PREFIX = "map_"


def _no_id(name: str) -> str:
    if name.startswith(ID_PREFIX):
        raise ValueError(f"must not begin with {ID_PREFIX}")
    return name


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"), AfterValidator(_no_id)]
#: An id, ``name``, ``name:version`` or ``name@alias``.
Reference = Annotated[str, Field(min_length=1, max_length=160)]
#: One less than 2^32 - 1, so that seed + 1 is also a valid seed of the generator.
Seed = Annotated[int, Field(ge=0, le=2**32 - 2)]

#: The name of a window, rule or hook of a monitor.
LABEL = "[a-z0-9][a-z0-9_-]{0,31}"
Label = Annotated[str, Field(pattern=rf"^{LABEL}$")]

#: An RFC 3339 timestamp in UTC.
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]

#: RFC 3339, section 5.6; ``fromisoformat`` accepts more: weeks, and times without seconds or an offset.
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
#: The context of the validation of a request.
REQUEST: Mapping[str, bool] = MappingProxyType({"request": True})


def seconds_of(value: object) -> float | None:
    """A time in RFC 3339 as seconds since 1970; None for anything else."""
    if not isinstance(value, str) or _RFC_3339.fullmatch(value) is None:
        return None
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC).timestamp()  # of a year from 1 to 9999
    except (ValueError, OverflowError):
        return None


def _from_rfc_3339(value: Any, info: ValidationInfo) -> Any:
    """Seconds since 1970. Numbers are for code and for documents of earlier versions, not for requests."""
    seconds = seconds_of(value)
    if seconds is not None:
        return seconds
    if not isinstance(value, str) and not info.context:
        return value
    raise PydanticCustomError("time", "must be a time in RFC 3339 with offset, such as 2026-01-31T12:00:00Z")


def _in_rfc_3339(seconds: float) -> str:
    instant = datetime.fromtimestamp(seconds, UTC)
    precision = "microseconds" if instant.microsecond % 1000 else "milliseconds"
    return instant.isoformat(timespec=precision).replace("+00:00", "Z")


#: A time: in code seconds since 1970, in requests, answers and stored documents a timestamp.
Instant = Annotated[
    float,
    BeforeValidator(_from_rfc_3339),
    PlainSerializer(_in_rfc_3339),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]

#: In seconds.
MINUTE, HOUR, DAY = 60, 3600, 86_400


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396, section 2): null removes a field, and other objects are merged.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
    {'b': {'d': 3, 'c': 4}}
    """
    if not isinstance(patch, Mapping):
        return patch
    before = target if isinstance(target, Mapping) else {}
    unpatched = {name: value for name, value in before.items() if name not in patch}
    return unpatched | {
        name: merge_patch(before.get(name), value) for name, value in patch.items() if value is not None
    }


class Document(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    @classmethod
    def with_fields_of(cls, source: object, **own: Any) -> Self:
        """Create a document with the fields that it shares with a source, except its own."""
        shared = {name: getattr(source, name) for name in cls.model_fields if name not in own and hasattr(source, name)}
        return cls(**shared, **own)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the fields that recur in many models."""
        schema = handler(core_schema)
        for name, field in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if name in MEANINGS:
                field.setdefault("description", MEANINGS[name])
        return schema
