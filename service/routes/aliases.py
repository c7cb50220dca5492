"""Aliases: names such as ``champion`` that point at one version of a map, and can be moved."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.registry.maps import is_name
from schemas.aliases import Aliases, AliasOptions, AliasRecord
from schemas.base import ID_PREFIX
from service.context import Context, Here, answer
from service.errors import InvalidField
from service.formats.fields import fields_of, read_fields
from service.headers import Conditions, entity_tag, to_bytes
from service.openapi import raises

router = APIRouter(prefix="/maps/{name}/aliases", tags=["maps"])


@router.get("", response_model=Aliases, responses=raises("unknown-map"))
async def get_aliases(name: str, here: Here) -> Response:
    """The aliases of a name, and where each points."""
    found = await run_in_threadpool(here.store.aliases.all, name)
    return answer({"aliases": [record.model_dump() for record in found]})


@router.get(
    "/{alias}",
    response_model=AliasRecord,
    responses={304: {"description": "If-None-Match names the present state"}, **raises("unknown-alias")},
)
async def get_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Where an alias points, and who moved it there."""
    record = await run_in_threadpool(here.store.aliases.get, name, alias)
    return Conditions.of(request.headers).answer(to_bytes(record))


@router.put(
    "/{alias}",
    response_model=AliasRecord,
    responses=raises("unknown-map", "precondition-failed"),
    openapi_extra=fields_of(AliasOptions),
)
async def put_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Point an alias at a version; with ``If-Match`` if nobody moved it since, with ``If-None-Match: *`` if new."""
    options = await read_fields(request, here.settings, AliasOptions)
    record = await run_in_threadpool(point, here, name, alias, options, Conditions.of(request.headers))
    body = to_bytes(record)
    return Response(body, headers={"ETag": entity_tag(body)}, media_type="application/json")


@router.delete("/{alias}", status_code=204, responses=raises("unknown-alias", "precondition-failed"))
async def delete_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Forget an alias; the version at which it pointed stays."""
    conditions = Conditions.of(request.headers)
    await run_in_threadpool(lambda: here.store.aliases.delete(name, alias, check=conditions.require))
    return Response(status_code=204)


def point(here: Context, name: str, alias: str, options: AliasOptions, conditions: Conditions) -> AliasRecord:
    """Point an alias at a version, unless the conditions fail."""
    if not is_name(alias):
        raise InvalidField.at("/alias", f"must match [A-Za-z0-9][A-Za-z0-9._-]{{0,63}} and not begin with {ID_PREFIX}")
    return here.store.aliases.point(name, alias, options.version, who=here.who, check=conditions.require)
