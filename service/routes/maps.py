"""Routes of maps: fit, import, list, read, describe and delete them, and aliases that point at a version."""

from __future__ import annotations

from urllib.parse import urlencode

import orjson
from fastapi import Request, Response

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
from service.calls import (
    OF_ENDED_JOBS,
    OF_FORECASTS,
    OF_ROWS,
    OF_SOURCES,
    Call,
    Calls,
    ClientMethod,
    changes,
    fields,
    rows,
)
from service.context import Here, answer
from service.formats.body import read_fields, read_payload
from service.formats.format import Payload
from service.formats.options import query_fields, read_options, read_options_of_kind
from service.headers import Conditions, created, entity_tag, to_bytes
from service.jobs import settle
from service.paging import whole_list
from service.threads import run_in_thread

calls = Calls("maps")


# --- Fits: run directly if they are quick, otherwise as a job


@calls.add(
    Call(
        "POST",
        "/maps",
        body=rows(FitBody, FitDistributionBody),
        answer=MapRecord,
        status=201,
        located="map",
        tagged=True,
        queues="A job, if the method is a long fit or the estimated time exceeds 2 s",
        problems=(
            *OF_ROWS,
            *OF_SOURCES,
            *OF_FORECASTS,
            "unknown-batch-reference",
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
        client=(
            ClientMethod(
                "fit",
                rows=FitOptions,
                first="method",
                summary="Fit a calibration map to a stored batch or to rows, and wait for it.",
            ),
            ClientMethod(
                "fit_distribution",
                rows=FitDistributionOptions,
                first="method",
                summary="Fit a calibration map of predictive distributions, and wait for it; a group is in one fold.",
            ),
        ),
    )
)
async def post_map(request: Request, here: Here) -> Response:
    """Fit a calibration map with one of the methods.

    Returns 201 and the map, or 202 and a job if the method is a long fit or the fit is estimated to take more than 2 s.
    With ``prediction_kind: "regression"``, fits a map of predictive distributions, with the methods of those.

    Examples
    --------
    >>> client.fit("platt", name="spam", predictions=p, labels=y).method
    'platt'

    >>> fitted = client.fit_distribution("variance-scaling", [1.0, -3.0], mean=[0.0, 0.0], variance=[1.0, 1.0])
    >>> fitted.document["parameters"]
    {'factor': 5.0, 'offset': 0.0}
    """
    payload = await read_payload(request, here.settings)
    options = read_options_of_kind(payload, FitOptions, FitDistributionOptions)
    fitted = await run_in_thread(fits.fit_or_queue, here, payload.arrays, options)
    return created(fitted) if isinstance(fitted, MapRecord) else await settle(here, fitted)


# --- The registry: stored maps


@calls.add(
    Call(
        "GET",
        "/maps",
        query=MapQuery,
        answer=MapPage,
        client=(ClientMethod("maps", renamed={"tag": "tags"}, summary="Iterate over stored maps, newest first."),),
    )
)
async def get_maps(request: Request, here: Here) -> Response:
    """List stored maps that match every filter, newest first; ``next`` and ``Link`` lead to the next page.

    Examples
    --------
    >>> [f"{stored.name}:{stored.version}" for stored in client.maps(name="spam")]
    ['spam:1']
    """
    sent = query_fields(request.query_params, several=("tag",)) | {"tag": request.query_params.getlist("tag")}
    query = read_options(Payload({}, sent, from_query=True), MapQuery)
    page = await run_in_thread(here.store.listing.page, query)
    headers = {}
    if page.next is not None:
        parameters = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        headers["Link"] = f'<{request.url.path}?{urlencode([*parameters, ("cursor", page.next)])}>; rel="next"'
    return answer(page.model_dump(), headers=headers)


@calls.add(
    Call(
        "POST",
        "/maps/import",
        body=fields(ImportOptions),
        answer=MapRecord,
        status=201,
        located="map",
        tagged=True,
        problems=("invalid-document", "quota-exceeded", "output-shape-changed"),
    )
)
async def post_import(request: Request, here: Here) -> Response:
    """Store a map that was fitted elsewhere; every number of its document is checked and the map is applied once."""
    options = await read_fields(request, here.settings, ImportOptions)
    return created(await run_in_thread(maps.import_map, here, options))


@calls.add(Call("GET", "/maps/{map}", answer=MapRecord, conditional=True, problems=("unknown-map",), client="map"))
async def get_map(map: str, request: Request, here: Here) -> Response:
    """Get a stored map with its document, by id, name (newest version), ``name:version`` or ``name@alias``.

    Examples
    --------
    >>> client.map("spam").version
    1
    """
    record = await run_in_thread(here.store.maps.get, map)
    return Conditions.of(request.headers).answer(to_bytes(record))


@calls.add(
    Call(
        "GET",
        "/maps/{map}/document",
        answer=MapDocument | DistributionMapDocument,
        conditional=True,
        problems=("unknown-map",),
    )
)
async def get_document(map: str, request: Request, here: Here) -> Response:
    """Get only the document of a map; it is sufficient to apply the map or to import it again."""
    record = await run_in_thread(here.store.maps.get, map)
    # Names and ids consist of letters, digits, dots, hyphens and underscores.
    file = record.id if record.name is None else f"{record.name}-v{record.version}"
    disposition = {"Content-Disposition": f'attachment; filename="{file}.json"'}
    return Conditions.of(request.headers).answer(orjson.dumps(record.document), disposition)


@calls.add(
    Call(
        "PATCH",
        "/maps/{map}",
        body=changes(MapChanges),
        answer=MapRecord,
        tagged=True,
        conditional=True,
        problems=("unknown-map",),
        client=(
            ClientMethod("describe", summary="Change what callers say about a map; None removes a value, or a tag."),
        ),
    )
)
async def patch_map(map: str, request: Request, here: Here) -> Response:
    """Change what callers say about a map with a JSON merge patch: null removes, omitted fields are kept.

    Examples
    --------
    >>> client.describe("spam", tags={"stage": "shadow"}).tags
    {'stage': 'shadow'}
    """
    patch = await read_fields(request, here.settings, MapChanges)
    record = await run_in_thread(maps.change_map, here, map, patch, Conditions.of(request.headers).require)
    return _tagged(to_bytes(record))


@calls.add(
    Call(
        "DELETE",
        "/maps/{map}",
        status=204,
        conditional=True,
        problems=("unknown-map", "map-in-use", "invalid-field"),
        client="delete_map",
    )
)
async def delete_map(map: str, request: Request, here: Here) -> Response:
    """Delete a map by id or ``name:version``, unless an alias points at it; its version number is not reused.

    Examples
    --------
    >>> client.delete_map(client.fit("platt", predictions=p, labels=y).id)
    """
    await run_in_thread(maps.delete_map, here, map, Conditions.of(request.headers).require)
    return Response(status_code=204)


# --- Aliases: movable names such as ``champion`` that point at one version of a map


@calls.add(
    Call(
        "GET",
        "/maps/{name}/aliases",
        answer=Aliases,
        problems=("unknown-map",),
        client=(ClientMethod("aliases", answer_field="items"),),
    )
)
async def get_aliases(name: str, here: Here) -> Response:
    """List the aliases of a name and the version that each points at.

    Examples
    --------
    >>> [alias.alias for alias in client.aliases("spam")]
    ['champion']
    """
    records = await run_in_thread(here.store.aliases.all, name)
    return whole_list([record.model_dump() for record in records])


@calls.add(
    Call("GET", "/maps/{name}/aliases/{alias}", answer=AliasRecord, conditional=True, problems=("unknown-alias",))
)
async def get_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Get the version that an alias points at, and who set it."""
    record = await run_in_thread(here.store.aliases.get, name, alias)
    return Conditions.of(request.headers).answer(to_bytes(record))


@calls.add(
    Call(
        "PUT",
        "/maps/{name}/aliases/{alias}",
        access="maps:promote",
        body=fields(AliasOptions),
        answer=AliasRecord,
        tagged=True,
        conditional=True,
        problems=("unknown-map", "unknown-map-reference"),
    )
)
async def put_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Point an alias at a version; ``If-Match`` detects concurrent moves, ``If-None-Match: *`` only creates."""
    options = await read_fields(request, here.settings, AliasOptions)
    require = Conditions.of(request.headers).require
    return _tagged(to_bytes(await run_in_thread(maps.point_alias, here, name, alias, options, require)))


@calls.add(
    Call(
        "DELETE",
        "/maps/{name}/aliases/{alias}",
        access="maps:promote",
        status=204,
        conditional=True,
        problems=("unknown-alias",),
        client="delete_alias",
    )
)
async def delete_alias(name: str, alias: str, request: Request, here: Here) -> Response:
    """Delete an alias; the version that it pointed at is kept.

    Examples
    --------
    >>> client.alias("spam", "challenger", 1).revision
    1
    >>> client.delete_alias("spam", "challenger")
    """
    conditions = Conditions.of(request.headers)
    await run_in_thread(lambda: here.store.aliases.delete(name, alias, check=conditions.require))
    return Response(status_code=204)


def _tagged(body: bytes) -> Response:
    return Response(body, headers={"ETag": entity_tag(body)}, media_type="application/json")
