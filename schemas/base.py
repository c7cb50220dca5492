"""The base of every model: unknown fields are rejected, and instances are immutable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

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
Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]

#: An RFC 3339 timestamp in UTC.
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]

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
    kept = {name: value for name, value in before.items() if name not in patch}
    return kept | {name: merge_patch(before.get(name), value) for name, value in patch.items() if value is not None}


class Document(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the fields that recur in many models."""
        schema = handler(core_schema)
        for name, field in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if name in MEANINGS:
                field.setdefault("description", MEANINGS[name])
        return schema
