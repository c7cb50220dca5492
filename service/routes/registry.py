"""The registry: stored maps listed, read, described, deleted, exported and imported."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.clock import stamp
from backend.store.registry.maps import read_reference
from backend.store.store import imported_record
from calibrant.errors import InvalidDocument
from calibrant.maps.calibration_map import CalibrationMap, load, try_map
from schemas.listing import MapPage, MapQuery
from schemas.maps import MAX_TAGS, ImportOptions, MapChanges, MapDocument, MapRecord
from service.context import Context, Here, answer
from service.errors import InvalidField
from service.formats.fields import fields_of, read_fields
from service.formats.options import query_fields, read_options
from service.formats.payload import Payload
from service.headers import Conditions, created, entity_tag, to_bytes
from service.idempotency import Idempotent
from service.openapi import located, raises

router = APIRouter(prefix="/maps", tags=["maps"], route_class=Idempotent)

#: The longest name of a method in a document from elsewhere.
_LONGEST_METHOD = 64
_EXACT = raises("unknown-map", "map-in-use", "precondition-failed", "invalid-field")
_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "If-None-Match names the present state"}}


def _parameters(model: type[MapQuery]) -> dict[str, Any]:
    """The OpenAPI description of a query that the route reads itself."""
    fields = model.model_json_schema()["properties"]
    return {"parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]}


@router.get(
    "", response_model=MapPage, responses=raises("invalid-field", "invalid-cursor"), openapi_extra=_parameters(MapQuery)
)
async def get_maps(request: Request, here: Here) -> Response:
    """Stored maps, newest first, that pass every filter; a page at a time, the next one under ``next`` and ``Link``."""
    query = query_fields(request.query_params, several=("tag",)) | {"tag": request.query_params.getlist("tag")}
    asked = read_options(Payload({}, query, from_query=True), MapQuery)
    page = await run_in_threadpool(here.store.listing.page, asked)
    headers = {}
    if page.next is not None:
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        headers["Link"] = f'<{request.url.path}?{urlencode([*kept, ("cursor", page.next)])}>; rel="next"'
    return answer(page.model_dump(), headers=headers)


@router.post(
    "/import",
    status_code=201,
    response_model=MapRecord,
    responses={201: {"headers": located("map")}, **raises("invalid-document", "quota-exceeded")},
    openapi_extra=fields_of(ImportOptions),
)
async def post_import(request: Request, here: Here) -> Response:
    """Store a map that was fitted elsewhere: its document, every number checked and the whole tried out."""
    asked = await read_fields(request, here.settings, ImportOptions)
    return created(await run_in_threadpool(import_map, here, asked))


@router.get("/{ref}", response_model=MapRecord, responses=_NOT_MODIFIED | raises("unknown-map"))
async def get_map(ref: str, request: Request, here: Here) -> Response:
    """A stored map by id, name (its newest version), ``name:version`` or ``name@alias``, with its whole document."""
    record = await run_in_threadpool(here.store.maps.get, ref)
    return Conditions.of(request.headers).answer(to_bytes(record))


@router.get("/{ref}/document", response_model=MapDocument, responses=_NOT_MODIFIED | raises("unknown-map"))
async def get_document(ref: str, request: Request, here: Here) -> Response:
    """The bare document of a map, complete: it can be applied from its numbers alone, and imported again."""
    record = await run_in_threadpool(here.store.maps.get, ref)
    # Names and ids are letters, digits, dots, dashes and underscores.
    file = record.id if record.name is None else f"{record.name}-v{record.version}"
    disposition = {"Content-Disposition": f'attachment; filename="{file}.json"'}
    return Conditions.of(request.headers).answer(orjson.dumps(record.document), disposition)


@router.patch(
    "/{ref}",
    response_model=MapRecord,
    responses=raises("unknown-map", "precondition-failed"),
    openapi_extra=fields_of(MapChanges),
)
async def patch_map(ref: str, request: Request, here: Here) -> Response:
    """Change tags and description, and nothing else; a JSON merge patch: null removes, what is left out stays."""
    changes = await read_fields(request, here.settings, MapChanges)
    record = await run_in_threadpool(change_map, here, ref, changes, Conditions.of(request.headers))
    body = to_bytes(record)
    return Response(body, headers={"ETag": entity_tag(body)}, media_type="application/json")


@router.delete("/{ref}", status_code=204, responses=_EXACT)
async def delete_map(ref: str, request: Request, here: Here) -> Response:
    """Forget a map, named by id or ``name:version``, at which no alias points; its version is never given again."""
    await run_in_threadpool(forget_map, here, ref, Conditions.of(request.headers))
    return Response(status_code=204)


def import_map(here: Context, asked: ImportOptions) -> MapRecord:
    """Check a document and store its map; raises ``InvalidDocument`` with the place that is wrong."""
    here.store.charges.check_maps()
    try:
        fitted = _read(asked.document)
    except InvalidDocument as error:
        raise error.under("/document") from None
    return here.store.maps.put(imported_record(here.new_id("map"), asked, fitted, who=here.who))


def _read(document: dict[str, Any]) -> CalibrationMap:
    fitted = load(document)
    if len(fitted.method) > _LONGEST_METHOD:
        raise InvalidDocument.at("/method", f"must have at most {_LONGEST_METHOD} characters")
    try_map(fitted)
    return fitted


def change_map(here: Context, ref: str, changes: MapChanges, conditions: Conditions) -> MapRecord:
    """Merge changes into a map's tags and description."""

    def change(record: MapRecord) -> MapRecord:
        conditions.require(record)
        asked = changes.model_dump(exclude_unset=True)
        if "tags" in asked:
            merged = {} if asked["tags"] is None else record.tags | asked["tags"]
            asked["tags"] = {name: value for name, value in merged.items() if value is not None}
            if len(asked["tags"]) > MAX_TAGS:
                raise InvalidField.at("/tags", f"would be more than {MAX_TAGS} with those the map has")
        changed = record.model_copy(update=asked)
        return record if changed == record else changed.model_copy(update={"updated_at": stamp()})

    return here.store.maps.change(here.store.maps.resolve(ref), change)


def forget_map(here: Context, ref: str, conditions: Conditions) -> None:
    """Delete one version: a name or an alias may have come to mean another one since the caller looked."""
    asked = read_reference(ref)
    if asked is not None and not asked.exact:
        raise InvalidField.at("/ref", "must be an id or name:version, so that no other version is deleted")
    here.store.maps.delete(here.store.maps.resolve(ref), conditions.require)
