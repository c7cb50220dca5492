"""The base of every model: unknown fields are rejected, and instances are immutable."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

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

#: In seconds.
MINUTE, HOUR, DAY = 60, 3600, 86_400


class Document(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)
