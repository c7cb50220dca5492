"""Stored documents of every earlier format, read as documents of the current one.

Every document that is stored says in ``format`` by which rules it was written; one without it is of format 1. It is
brought up to today's format, step by step, when it is read, and written so when it next changes. A document of a later
format is refused: what this version does not know of it would be lost or misread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

import orjson
from pydantic import BaseModel, ValidationError

from backend.store.errors import LaterFormat, StorageError
from schemas.batches import BatchRecord

Json = dict[str, Any]
Step = Callable[[Json], Json]


class Stored(Protocol):
    """A document with the number of its format; what its model writes is the newest."""

    format: int


Record = TypeVar("Record", bound=BaseModel)


def _with_parts(batch: Json) -> Json:
    """A batch of format 1 was one part."""
    return {**batch, "parts": 1}


#: Model -> format -> what makes a document of the next format of it. A step that only adds fields with defaults, which
#: the model knows, stands nowhere.
STEPS: Mapping[type[BaseModel], Mapping[int, Step]] = {
    BatchRecord: {1: _with_parts},
}
#: The detail of the error for a document that cannot be read; it never holds the document's content.
_NONE = "a stored document is not what it should be"


def read_stored(model: type[Record], data: object, steps: Mapping[int, Step] | None = None) -> Record:
    """The record of a stored document; raises ``LaterFormat``, and ``StorageError`` for what is no such document.

    ``steps`` are those of the model where none are given. Nearly all that is read is of today's format, and is parsed
    once.
    """
    text = cast(bytes, data)
    with contextlib.suppress(ValidationError):
        record = model.model_validate_json(text)
        if "format" in record.model_fields_set and cast(Stored, record).format == newest_format(model):
            return record
    try:
        return read_document(model, orjson.loads(text), steps)
    except orjson.JSONDecodeError as error:
        raise StorageError(_NONE) from error


def read_document(model: type[Record], document: Json, steps: Mapping[int, Step] | None = None) -> Record:
    """The record of a document that is parsed already; raises as ``read_stored`` does."""
    newest = newest_format(model)
    try:
        written = document.get("format", 1)
        check_format(written, newest)
        for number in range(written, newest):
            document = (STEPS.get(model, {}) if steps is None else steps).get(number, dict)(document)
        return model.model_validate({**document, "format": newest})
    except (AttributeError, TypeError, ValidationError) as error:
        raise StorageError(_NONE) from error


def newest_format(model: type[BaseModel]) -> int:
    """The format that a model writes."""
    return cast(int, model.model_fields["format"].default)


def check_format(written: int, newest: int) -> None:
    """Raise ``LaterFormat`` for a format that is later than the newest that is known."""
    if written > newest:
        raise LaterFormat(
            f"a stored document has format {written}, and this version of Calibrant knows up to {newest}; "
            "run a version as new as the one that wrote it"
        )
