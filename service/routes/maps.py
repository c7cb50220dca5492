"""Maps: fitted, imported, listed, read, described and deleted; and aliases that point at one version of a name."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend import fits, maps
from schemas.aliases import Aliases, AliasOptions, AliasRecord
from schemas.listing import MapPage, MapQuery
from schemas.maps import FitBody, FitOptions, ImportOptions, MapChanges, MapDocument, MapRecord
from service.context import Here, answer, body_of
from service.formats.body import fields_of, read_fields, read_payload
from service.formats.options import query_fields, read_options
from service.formats.payload import Payload
from service.headers import Conditions, created, entity_tag, to_bytes
from service.jobs import settle
from service.openapi import OF_ROWS, located, queues, raises
from service.routing import Idempotent

router = APIRouter(prefix="/maps", tags=["maps"], route_class=Idempotent)

_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "If-None-Match names the present state"}}

# --- Fits: at once if they are quick, by a worker if they are long


@router.post(
    "",
    status_code=201,
    response_model=MapRecord,
    responses={
        201: {"headers": located("map")},
        **queues("A job, where the method is long or its fit is estimated to take more than 2 s"),
        **raises(
            *OF_ROWS,
            "unknown-batch",
            "quota-exceeded",
            "too-many-jobs",
            "queue-full",
            "unknown-method",
            "unknown-reduction",
            "one-class",
            "missing-class",
            "one-prediction",
            "too-few-rows",
            "not-converged",
            "extra-not-installed",
        ),
    },
    openapi_extra=body_of(FitBody),
)
async def post_map(request: Request, here: Here) -> Response:
    """Fit a calibration map by one of the methods.

    201 and the map; or 202 and the job that makes it, where the method is long or the fit is estimated to take more
    than 2 s.
    """
    payload = await read_payload(request, here.settings)
    options = read_options(payload, FitOptions)
    made = await run_in_threadpool(fits.fit_or_queue, here, payload.arrays, options)
    return created(made) if isinstance(made, MapRecord) else await settle(here, made)


# --- The registry: stored maps


def _parameters(model: type[MapQuery]) -> dict[str, Any]:
    """The OpenAPI description of a query that the route reads itself."""
    fields = model.model_json_schema()["properties"]
    return {"parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]}


@router.get(
    "", response_model=MapPage, responses=raises("invalid-field", "invalid-cursor"), openapi_extra=_parameters(MapQuery)
)
async def get_maps(request: Request, here: Here) -> Response:
    """Stored maps, newest first, that pass every filter; a page at a time, the next one under ``next`` and ``Link``."""
    fields = query_fields(request.query_params, several=("tag",)) | {"tag": request.query_params.getlist("tag")}
    query = read_options(Payload({}, fields, from_query=True), MapQuery)
    page = await run_in_threadpool(here.store.listing.page, query)
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
    options = await read_fields(request, here.settings, ImportOptions)
    return created(await run_in_threadpool(maps.import_map, here, options))


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
    record = await run_in_threadpool(maps.change_map, here, ref, changes, Conditions.of(request.headers).require)
    return _tagged(to_bytes(record))


@router.delete(
    "/{ref}",
    status_code=204,
    responses=raises("unknown-map", "map-in-use", "precondition-failed", "invalid-field"),
)
async def delete_map(ref: str, request: Request, here: Here) -> Response:
    """Forget a map, named by id or ``name:version``, at which no alias points; its version is never given again."""
    await run_in_threadpool(maps.delete_map, here, ref, Conditions.of(request.headers).require)
    return Response(status_code=204)


# --- Aliases: names such as ``champion`` that point at one version of a map, and can be moved


@router.get("/{name}/aliases", response_model=Aliases, responses=raises("unknown-map"))
async def get_aliases(name: str, here: Here) -> Response:
    """The aliases of a name, and where each points."""
    found = await run_in_threadpool(here.store.aliases.all, name)
    return answer({"aliases": [record.model_dump() for record in found]})


@router.get("/{name}/aliases/{alias}", response_model=AliasRecord, responses=_NOT_MODIFIED | raises("unknown-alias"))
async def get_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Where an alias points, and who moved it there."""
    record = await run_in_threadpool(here.store.aliases.get, name, alias)
    return Conditions.of(request.headers).answer(to_bytes(record))


@router.put(
    "/{name}/aliases/{alias}",
    response_model=AliasRecord,
    responses=raises("unknown-map", "precondition-failed"),
    openapi_extra=fields_of(AliasOptions),
)
async def put_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Point an alias at a version; with ``If-Match`` if nobody moved it since, with ``If-None-Match: *`` if new."""
    options = await read_fields(request, here.settings, AliasOptions)
    require = Conditions.of(request.headers).require
    return _tagged(to_bytes(await run_in_threadpool(maps.point_alias, here, name, alias, options, require)))


@router.delete("/{name}/aliases/{alias}", status_code=204, responses=raises("unknown-alias", "precondition-failed"))
async def delete_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Forget an alias; the version at which it pointed stays."""
    conditions = Conditions.of(request.headers)
    await run_in_threadpool(lambda: here.store.aliases.delete(name, alias, check=conditions.require))
    return Response(status_code=204)


def _tagged(body: bytes) -> Response:
    return Response(body, headers={"ETag": entity_tag(body)}, media_type="application/json")
