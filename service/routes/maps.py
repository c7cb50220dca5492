"""Routes of maps: fit, import, list, read, describe and delete them, and aliases that point at a version."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request, Response

from backend import fits, maps
from schemas.aliases import Aliases, AliasOptions, AliasRecord
from schemas.listing import MapPage, MapQuery
from schemas.maps import (
    DistributionMapDocument,
    FitBody,
    FitDistributionBody,
    FitDistributionOptions,
    FitOptions,
    ImportOptions,
    MapChanges,
    MapDocument,
    MapRecord,
)
from service.context import Here, answer, body_of
from service.descriptions import described_later
from service.formats.body import fields_of, read_fields, read_payload
from service.formats.options import query_fields, read_options, read_options_of_kind
from service.formats.payload import Payload
from service.headers import Conditions, created, entity_tag, to_bytes
from service.jobs import settle
from service.openapi import NOT_MODIFIED, OF_ENDED_JOBS, OF_FORECASTS, OF_ROWS, located, queues, raises
from service.routing import Idempotent
from service.threads import run_in_thread

router = APIRouter(prefix="/maps", tags=["maps"], route_class=Idempotent)


# --- Fits: run directly if they are quick, otherwise as a job


@router.post(
    "",
    status_code=201,
    response_model=MapRecord,
    responses={
        201: {"headers": located("map")},
        **queues("A job, if the method is a long fit or the estimated time exceeds 2 s"),
        **raises(
            *OF_ROWS,
            *OF_FORECASTS,
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
            *OF_ENDED_JOBS,
        ),
    },
    openapi_extra=body_of(FitBody, FitDistributionBody),
)
async def post_map(request: Request, here: Here) -> Response:
    """Fit a calibration map with one of the methods.

    Returns 201 and the map, or 202 and a job if the method is a long fit or the fit is estimated to take more than 2 s.
    With ``prediction_kind: "regression"``, fits a map of predictive distributions, with the methods of those.
    """
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, FitOptions, FitDistributionOptions)
    made = await run_in_thread(fits.fit_or_queue, here, payload.arrays, options)
    return created(made) if isinstance(made, MapRecord) else await settle(here, made)


# --- The registry: stored maps


@described_later
def _parameters(model: type[MapQuery]) -> dict[str, Any]:
    """The OpenAPI description of a query that the route reads itself."""
    fields = model.model_json_schema()["properties"]
    return {"parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]}


@router.get(
    "", response_model=MapPage, responses=raises("invalid-field", "invalid-cursor"), openapi_extra=_parameters(MapQuery)
)
async def get_maps(request: Request, here: Here) -> Response:
    """List stored maps that match every filter, newest first; ``next`` and ``Link`` lead to the next page."""
    fields = query_fields(request.query_params, several=("tag",)) | {"tag": request.query_params.getlist("tag")}
    query = read_options(Payload({}, fields, from_query=True), MapQuery)
    page = await run_in_thread(here.store.listing.page, query)
    headers = {}
    if page.next is not None:
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        headers["Link"] = f'<{request.url.path}?{urlencode([*kept, ("cursor", page.next)])}>; rel="next"'
    return answer(page.model_dump(), headers=headers)


@router.post(
    "/import",
    status_code=201,
    response_model=MapRecord,
    responses={
        201: {"headers": located("map")},
        **raises("invalid-document", "quota-exceeded", "output-shape-changed"),
    },
    openapi_extra=fields_of(ImportOptions),
)
async def post_import(request: Request, here: Here) -> Response:
    """Store a map that was fitted elsewhere; every number of its document is checked and the map is applied once."""
    options = await read_fields(request, here.settings, ImportOptions)
    return created(await run_in_thread(maps.import_map, here, options))


@router.get("/{ref}", response_model=MapRecord, responses=NOT_MODIFIED | raises("unknown-map"))
async def get_map(ref: str, request: Request, here: Here) -> Response:
    """Get a stored map with its document, by id, name (newest version), ``name:version`` or ``name@alias``."""
    record = await run_in_thread(here.store.maps.get, ref)
    return Conditions.of(request.headers).answer(to_bytes(record))


@router.get(
    "/{ref}/document",
    response_model=MapDocument | DistributionMapDocument,
    responses=NOT_MODIFIED | raises("unknown-map"),
)
async def get_document(ref: str, request: Request, here: Here) -> Response:
    """Get only the document of a map; it is sufficient to apply the map or to import it again."""
    record = await run_in_thread(here.store.maps.get, ref)
    # Names and ids consist of letters, digits, dots, hyphens and underscores.
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
    """Change the tags and the description of a map with a JSON merge patch: null removes, omitted fields are kept."""
    changes = await read_fields(request, here.settings, MapChanges)
    record = await run_in_thread(maps.change_map, here, ref, changes, Conditions.of(request.headers).require)
    return _tagged(to_bytes(record))


@router.delete(
    "/{ref}",
    status_code=204,
    responses=raises("unknown-map", "map-in-use", "precondition-failed", "invalid-field"),
)
async def delete_map(ref: str, request: Request, here: Here) -> Response:
    """Delete a map by id or ``name:version``, unless an alias points at it; its version number is not reused."""
    await run_in_thread(maps.delete_map, here, ref, Conditions.of(request.headers).require)
    return Response(status_code=204)


# --- Aliases: movable names such as ``champion`` that point at one version of a map


@router.get("/{name}/aliases", response_model=Aliases, responses=raises("unknown-map"))
async def get_aliases(name: str, here: Here) -> Response:
    """List the aliases of a name and the version that each points at."""
    found = await run_in_thread(here.store.aliases.all, name)
    return answer({"aliases": [record.model_dump() for record in found]})


@router.get("/{name}/aliases/{alias}", response_model=AliasRecord, responses=NOT_MODIFIED | raises("unknown-alias"))
async def get_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Get the version that an alias points at, and who set it."""
    record = await run_in_thread(here.store.aliases.get, name, alias)
    return Conditions.of(request.headers).answer(to_bytes(record))


@router.put(
    "/{name}/aliases/{alias}",
    response_model=AliasRecord,
    responses=raises("unknown-map", "precondition-failed"),
    openapi_extra=fields_of(AliasOptions),
)
async def put_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Point an alias at a version; ``If-Match`` detects concurrent moves, ``If-None-Match: *`` only creates."""
    options = await read_fields(request, here.settings, AliasOptions)
    require = Conditions.of(request.headers).require
    return _tagged(to_bytes(await run_in_thread(maps.point_alias, here, name, alias, options, require)))


@router.delete("/{name}/aliases/{alias}", status_code=204, responses=raises("unknown-alias", "precondition-failed"))
async def delete_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Delete an alias; the version that it pointed at is kept."""
    conditions = Conditions.of(request.headers)
    await run_in_thread(lambda: here.store.aliases.delete(name, alias, check=conditions.require))
    return Response(status_code=204)


def _tagged(body: bytes) -> Response:
    return Response(body, headers={"ETag": entity_tag(body)}, media_type="application/json")
