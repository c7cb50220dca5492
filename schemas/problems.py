"""Problem documents (RFC 9457)."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from schemas.base import Document


def _is_none(value: object) -> bool:
    return value is None


def _one_place(schema: dict[str, Any]) -> None:
    """A place is omitted rather than null."""
    for name in ("pointer", "parameter", "header"):
        field = schema["properties"][name]
        field["type"] = field.pop("anyOf")[0]["type"]


class ProblemError(Document):
    """One location of an error in the request: in its body, a parameter or a header."""

    model_config = ConfigDict(json_schema_extra=_one_place)

    pointer: str | None = Field(
        None,
        exclude_if=_is_none,
        examples=["/labels/4"],
        description="JSON Pointer into the body; for binary bodies, into the arrays",
    )
    parameter: str | None = Field(
        None,
        exclude_if=_is_none,
        description="name of the parameter in the path or the query; empty for the query as a whole",
    )
    header: str | None = Field(None, exclude_if=_is_none, description="name of the header")
    detail: str

    @property
    def place(self) -> str:
        """The place in messages."""
        return self.parameter or self.header or self.pointer or ("the query" if self.pointer is None else "the body")


def in_body(pointer: str, detail: str) -> ProblemError:
    """An error in the body."""
    return ProblemError(pointer=pointer, detail=detail)


class Problem(Document):
    """What went wrong and where; never contains the data of the request."""

    type: str = Field(examples=["/problems/out-of-range"], description="path of the description of the problem")
    title: str = Field(description="short text, the same for every problem with this code")
    status: int = Field(description="HTTP status")
    detail: str
    errors: list[ProblemError] = Field(default_factory=list, description="up to five invalid places")

    @property
    def code(self) -> str:
        """The code of the problem, such as ``out-of-range``."""
        return self.type.rpartition("/")[2]
