"""The registry on the page: its maps, the versions of a name side by side, and the aliases that are moved."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from backend.store.errors import StorageError, UnknownAlias, problem_of
from backend.store.registry.maps import read_reference
from calibrant.calibrators import METHODS
from calibrant.errors import CalibrationError
from schemas.aliases import AliasOptions, AliasRecord
from schemas.maps import MapChanges, MapRecord
from schemas.problems import Problem
from service.errors import PreconditionFailed
from service.formats.options import read_options
from service.formats.payload import Payload
from service.headers import Conditions, EntityTag, entity_tag_of
from service.routes.aliases import point
from service.routes.registry import change_map, forget_map
from service.web.forms import Form, page_router, text_of
from service.web.registry_view import (
    CHAMPION,
    FILTERS,
    as_seen,
    moved_words,
    read_filters,
    read_versions,
    reference_of,
)
from service.web.visit import Visit, Visiting, lead
from service.web.words import read_tags, write_tags

router = page_router()


@router.get("/maps")
async def maps(request: Request, visit: Visiting) -> Response:
    """The maps that pass the filters, newest first."""
    query = request.query_params
    page = await run_in_threadpool(visit.here.store.listing.page, read_filters(query))
    filters = {name: query.get(name, "") for name in FILTERS}
    kept = [(name, value) for name, value in filters.items() if value]
    return visit.page(
        "maps.html",
        page=page,
        filters=filters,
        methods=METHODS,
        first=None if "cursor" not in query else f"/ui/maps?{urlencode(kept)}",
        following=None if page.next is None else f"/ui/maps?{urlencode([*kept, ('cursor', page.next)])}",
    )


@router.get("/maps/{ref}")
async def one(ref: str, request: Request, visit: Visiting) -> Response:
    """The versions of a name; of any other reference the one map."""
    asked = read_reference(ref)
    if asked is not None and asked.name is not None and not asked.exact and asked.alias is None:
        return await _versions(visit, ref, cursor=request.query_params.get("cursor"))
    record = await run_in_threadpool(visit.here.store.maps.get, ref)
    return _map(visit, record)


@router.post("/maps/{name}/aliases")
async def move(name: str, visit: Visiting, form: Form) -> Response:
    """Point an alias at a version, unless someone moved it since the page was shown; tell what that changed."""
    here, alias = visit.here, text_of(form, "alias")
    try:
        options = read_options(Payload({}, {"version": text_of(form, "version")}, from_query=True), AliasOptions)
        before = await run_in_threadpool(_as_it_stands, visit, name, alias)
        after = await run_in_threadpool(point, here, name, alias, options, as_seen(text_of(form, "seen")))
    except PreconditionFailed as error:
        words = "Someone moved it since this page was shown. Nothing was changed; this is how it stands now."
        return await _versions(visit, name, problem=problem_of(error), words=words)
    except (CalibrationError, StorageError) as error:
        return await _versions(visit, name, problem=problem_of(error))
    if not visit.wants_part:
        return lead(visit, f"/ui/maps/{name}")
    return await _versions(visit, name, words=moved_words(before, after))


@router.post("/maps/{name}/aliases/{alias}/delete")
async def forget_alias(name: str, alias: str, visit: Visiting, form: Form) -> Response:
    """Forget an alias that nobody moved since."""
    conditions = as_seen(text_of(form, "seen"))
    try:
        await run_in_threadpool(lambda: visit.here.store.aliases.delete(name, alias, check=conditions.require))
    except (PreconditionFailed, StorageError) as error:
        return await _versions(visit, name, problem=problem_of(error))
    if not visit.wants_part:
        return lead(visit, f"/ui/maps/{name}")
    return await _versions(visit, name, words=f"{alias} of {name} points nowhere any more.")


@router.post("/maps/{ref}/about")
async def describe(ref: str, visit: Visiting, form: Form) -> Response:
    """Change tags and description, unless someone changed them since."""
    record = await run_in_threadpool(visit.here.store.maps.get, ref)
    try:
        changes = read_options(Payload({}, _changes(form, record), from_query=False), MapChanges)
        seen = Conditions(match=(EntityTag(False, text_of(form, "seen")),))
        await run_in_threadpool(change_map, visit.here, record.id, changes, seen)
    except (CalibrationError, StorageError) as error:
        return _map(visit, record, form=form, problem=problem_of(error))
    return lead(visit, f"/ui/maps/{record.id}")


@router.post("/maps/{ref}/delete")
async def delete(ref: str, visit: Visiting) -> Response:
    """Forget one version, at which no alias points."""
    record = await run_in_threadpool(visit.here.store.maps.get, ref)
    try:
        await run_in_threadpool(forget_map, visit.here, ref, Conditions())
    except (CalibrationError, StorageError) as error:
        return _map(visit, record, problem=problem_of(error))
    return lead(visit, "/ui/maps")


async def _versions(
    visit: Visit, name: str, *, cursor: str | None = None, words: str | None = None, problem: Problem | None = None
) -> Response:
    """The versions of a name with what is to be told of them; for htmx these parts alone."""
    view = await run_in_threadpool(read_versions, visit.here, name, cursor)
    return visit.page(
        "map_versions_part.html" if visit.wants_part else "map_versions.html",
        status=200 if problem is None else problem.status,
        view=view,
        champion=CHAMPION,
        words=words,
        problem=problem,
    )


def _map(visit: Visit, record: MapRecord, *, form: FormData | None = None, problem: Problem | None = None) -> Response:
    """One map; ``form`` holds what a visitor wrote that was refused."""
    return visit.page(
        "map.html",
        status=200 if problem is None else problem.status,
        record=record,
        reference=reference_of(record),
        seen=(entity_tag_of(record) or "").strip('"') if form is None else text_of(form, "seen"),
        tags=write_tags(record.tags) if form is None else text_of(form, "tags"),
        description=(record.description or "") if form is None else text_of(form, "description"),
        problem=problem,
    )


def _changes(form: FormData, record: MapRecord) -> dict[str, object]:
    """The merge patch that makes a map's tags and description those of the form."""
    tags = read_tags(text_of(form, "tags"))
    gone = dict.fromkeys(name for name in record.tags if name not in tags)
    return {"tags": {**gone, **tags}, "description": text_of(form, "description") or None}


def _as_it_stands(visit: Visit, name: str, alias: str) -> AliasRecord | None:
    try:
        return visit.here.store.aliases.get(name, alias)
    except UnknownAlias:
        return None
