"""Stored documents of all earlier formats, converted to the current format when read.

Every stored document has a ``format`` number; without one it has format 1. A document is upgraded step by step when it
is read, and stored in the current format when it next changes. A document of a newer format is rejected, because
unknown parts would be lost or misread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

import orjson
from pydantic import BaseModel, ValidationError

from backend.store.errors import LaterFormat, StorageError
from schemas.batches import BatchRecord
from schemas.jobs import JobRecord

Json = dict[str, Any]
Step = Callable[[Json], Json]


class Stored(Protocol):
    """A document with a format number; its model writes the newest format."""

    format: int


Record = TypeVar("Record", bound=BaseModel)


def _with_parts(batch: Json) -> Json:
    """A batch of format 1 had one part."""
    return {**batch, "parts": 1}


def _with_creator(job: Json) -> Json:
    """In jobs before format 3, only fits named their creator, in their task."""
    return {**job, "created_by": job["spec"].get("created_by")}


#: Model -> format -> conversion to the next format. Steps that only add fields with defaults are not listed.
STEPS: Mapping[type[BaseModel], Mapping[int, Step]] = {
    BatchRecord: {1: _with_parts},
    JobRecord: {2: _with_creator},
}
#: Detail of the error for an unreadable document; it never contains the content of the document.
_NONE = "a stored document is invalid"


def read_stored(model: type[Record], data: object, steps: Mapping[int, Step] | None = None) -> Record:
    """Parse a stored document; raises ``LaterFormat``, and ``StorageError`` for an invalid document.

    ``steps`` override those of the model. Nearly all documents have the current format and are parsed only once.
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
    """Read a document that is already parsed; raises as ``read_stored`` does."""
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
    """Raise ``LaterFormat`` if a format is newer than the newest supported one."""
    if written > newest:
        raise LaterFormat(
            f"a stored document has format {written}, but this version of Calibrant supports up to {newest}; "
            "use at least the version that wrote it"
        )
