"""Bodies that are fields alone: JSON, without arrays of rows."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from schemas.base import Document
from service.errors import InvalidField, UnsupportedMediaType
from service.formats.body import read_payload
from service.formats.media import JSON
from service.formats.options import Options, read_options
from service.headers import read_header
from service.settings import Settings


async def read_fields(request: Request, settings: Settings, model: type[Options]) -> Options:
    """Read and check a JSON body that holds no rows."""
    if read_header(request, b"content-type").partition(";")[0].strip().lower() != JSON:
        raise UnsupportedMediaType(f"the content type must be {JSON}")
    payload = await read_payload(request, settings)
    for name in payload.arrays:
        raise InvalidField.at(f"/{name}", "is not a field of this request")
    return read_options(payload, model)


def fields_of(model: type[Document]) -> dict[str, Any]:
    """The OpenAPI description of a body that ``read_fields`` reads."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}
