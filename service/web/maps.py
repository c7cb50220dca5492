"""The pages of the registry: the list of maps, the versions of a name, and the aliases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from starlette.datastructures import FormData

from backend.maps import change_map, delete_map, point_alias
from backend.store.errors import StorageError, UnknownAlias, problem_of
from backend.store.pages import Page, PageRequest
from backend.store.registry.maps import read_reference
from calibrant.calibrators import METHODS
from calibrant.calibrators.diagnostics import DIAGNOSTICS
from calibrant.core.errors import CalibrationError
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS
from calibrant.maps.calibration_map import FAMILIES
from calibrant.sets.families import SET_FAMILIES
from calibrant.sets.fitting import SET_METHODS
from schemas.aliases import AliasOptions, AliasRecord
from schemas.audit import AuditQuery, ChangeRecord
from schemas.listing import FILTERS, MapQuery
from schemas.maps import MAX_TEXT, About, MapChanges, MapRecord, MapSummary
from schemas.problems import Problem
from service.calls import Call
from service.context import Context
from service.errors import PreconditionFailed
from service.formats.format import Payload
from service.formats.options import read_options
from service.headers import Conditions, EntityTag
from service.threads import run_in_thread
from service.web.forms import Form, page_calls, text_of
from service.web.text import read_tags, seen, write_tags
from service.web.upload import Choices, UploadForm, calibrate_fields
from service.web.visit import Visit, Visiting, redirect_to

# --- The content of the pages

#: The alias that the button "Promote" moves: the version in use.
CHAMPION = "champion"
#: Maximum number of versions on a page.
_SIDE_BY_SIDE = 12
#: Maximum number of entries of a history.
_ENTRIES = 20
#: What the page of a map explains its document by.
EXPLAINED: Mapping[str, Any] = {
    "families": {**FAMILIES, **SET_FAMILIES},
    "methods": {**METHODS, **SET_METHODS},
    "meanings": DIAGNOSTICS,
}


def read_filters(query: Mapping[str, str]) -> MapQuery:
    """Read the query of the filter form; empty fields are ignored. Raises ``InvalidField``."""
    fields: dict[str, object] = {name: value for name, value in query.items() if value and name in (*FILTERS, "cursor")}
    if "tag" in fields:
        fields["tag"] = [fields["tag"]]
    return read_options(Payload({}, {**fields, "limit": "20"}, from_query=True), MapQuery)


def read_versions(here: Context, name: str, cursor: str | None) -> dict[str, Any]:
    """The aliases and a page of the versions of a name, newest first; raises ``UnknownMap`` and ``InvalidCursor``."""
    aliases = here.store.aliases.all(name)
    query = {"name": name, "limit": str(_SIDE_BY_SIDE)} | ({} if cursor is None else {"cursor": cursor})
    page = here.store.listing.page(read_options(Payload({}, query, from_query=True), MapQuery))
    return {"name": name, "aliases": aliases, "page": page, "history": read_history(here, name)}


def read_history(here: Context, map_: str) -> Page[ChangeRecord]:
    """The latest changes of the maps with a name, or of a map without one."""
    return here.store.audit.page(PageRequest(_ENTRIES), AuditQuery(map=map_))


def as_seen(seen: str) -> Conditions:
    """The condition that an alias is unchanged since the page was rendered, or still does not exist."""
    return Conditions(match=(EntityTag(False, seen),)) if seen else Conditions(none_match="*")


def reference_of(summary: MapSummary) -> str:
    """The reference shown to users: name and version, or the id."""
    return summary.id if summary.name is None else f"{summary.name}:{summary.version}"


def move_message(before: AliasRecord | None, after: AliasRecord) -> str:
    """A message about a moved alias."""
    if before is None:
        return f"Created {after.alias}, pointing at version {after.version} of {after.name}."
    if before.version == after.version:
        return f"{after.alias} already points at version {after.version} of {after.name}; nothing changed."
    return f"{after.alias} of {after.name} now points at version {after.version} (before: version {before.version})."


# --- The pages

calls = page_calls()


@calls.add(Call("GET", "/ui/maps"))
async def maps(request: Request, visit: Visiting) -> Response:
    """The maps that match the filters, newest first."""
    query = request.query_params
    page = await run_in_thread(visit.here.store.listing.page, read_filters(query))
    filters = {name: query.get(name, "") for name in FILTERS}
    active = [(name, value) for name, value in filters.items() if value]
    return visit.page(
        "maps.html",
        page=page,
        filters=filters,
        methods=list(dict.fromkeys([*METHODS, *SET_METHODS, *DISTRIBUTION_METHODS])),
        first=None if "cursor" not in query else f"/ui/maps?{urlencode(active)}",
        following=None if page.next is None else f"/ui/maps?{urlencode([*active, ('cursor', page.next)])}",
    )


@calls.add(Call("GET", "/ui/maps/{ref}"))
async def one(ref: str, request: Request, visit: Visiting) -> Response:
    """The versions of a name, or one map for any other reference."""
    reference = read_reference(ref)
    if reference is not None and reference.name is not None and not reference.exact and reference.alias is None:
        return await _versions(visit, ref, cursor=request.query_params.get("cursor"))
    record = await run_in_thread(visit.here.store.maps.get, ref)
    return await map_page(visit, record)


@calls.add(Call("POST", "/ui/maps/{name}/aliases", access="maps:promote"))
async def move(name: str, visit: Visiting, form: Form) -> Response:
    """Point an alias at a version, unless someone has moved it since the page was rendered."""
    here, alias = visit.here, text_of(form, "alias")
    try:
        options = read_options(Payload({}, {"version": text_of(form, "version")}, from_query=True), AliasOptions)
        here = here.noted(text_of(form, "note"))
        before = await run_in_thread(_as_it_stands, visit, name, alias)
        after = await run_in_thread(point_alias, here, name, alias, options, as_seen(text_of(form, "seen")).require)
    except PreconditionFailed as error:
        message = "Someone else has moved the alias since this page was loaded. Nothing was changed."
        return await _versions(visit, name, problem=problem_of(error), message=message)
    except (CalibrationError, StorageError) as error:
        return await _versions(visit, name, problem=problem_of(error))
    if not visit.wants_part:
        return redirect_to(visit, f"/ui/maps/{name}")
    return await _versions(visit, name, message=move_message(before, after))


@calls.add(Call("POST", "/ui/maps/{name}/aliases/{alias}/delete", access="maps:promote", frees=True))
async def forget_alias(name: str, alias: str, visit: Visiting, form: Form) -> Response:
    """Delete an alias, unless someone has moved it."""
    conditions = as_seen(text_of(form, "seen"))
    try:
        here = visit.here.noted(text_of(form, "note"))
        await run_in_thread(lambda: here.store.aliases.delete(name, alias, check=conditions.require))
    except (CalibrationError, StorageError) as error:
        return await _versions(visit, name, problem=problem_of(error))
    if not visit.wants_part:
        return redirect_to(visit, f"/ui/maps/{name}")
    return await _versions(visit, name, message=f"Removed the alias {alias} of {name}.")


@calls.add(Call("POST", "/ui/maps/{ref}/about"))
async def describe(ref: str, visit: Visiting, form: Form) -> Response:
    """Change what callers say about a map, unless someone else has changed it."""
    record = await run_in_thread(visit.here.store.maps.get, ref)
    try:
        changes = read_options(Payload({}, _changes(form, record), from_query=False), MapChanges)
        seen = Conditions(match=(EntityTag(False, text_of(form, "seen")),))
        await run_in_thread(change_map, visit.here, record.id, changes, seen.require)
    except (CalibrationError, StorageError) as error:
        return await map_page(visit, record, form=form, problem=problem_of(error))
    return redirect_to(visit, f"/ui/maps/{record.id}")


@calls.add(Call("POST", "/ui/maps/{ref}/delete", frees=True))
async def delete(ref: str, visit: Visiting, form: Form) -> Response:
    """Delete one version, unless an alias points at it."""
    record = await run_in_thread(visit.here.store.maps.get, ref)
    try:
        await run_in_thread(delete_map, visit.here.noted(text_of(form, "note")), ref, Conditions().require)
    except (CalibrationError, StorageError) as error:
        return await map_page(visit, record, problem=problem_of(error))
    return redirect_to(visit, "/ui/maps")


async def _versions(
    visit: Visit, name: str, *, cursor: str | None = None, message: str | None = None, problem: Problem | None = None
) -> Response:
    """The versions of a name with a message; for htmx only these parts."""
    values = await run_in_thread(read_versions, visit.here, name, cursor)
    return visit.page(
        "map_versions_part.html" if visit.wants_part else "map_versions.html",
        status=200 if problem is None else problem.status,
        **values,
        champion=CHAMPION,
        message=message,
        problem=problem,
    )


async def map_page(
    visit: Visit,
    record: MapRecord,
    *,
    form: FormData | None = None,
    problem: Problem | None = None,
    upload: UploadForm | None = None,
    status: int = 200,
) -> Response:
    """The page of one map; ``form`` contains rejected input, ``upload`` the rejected form that calibrates a file."""
    said = record.about()
    history = None if record.name else await run_in_thread(read_history, visit.here, record.id)
    page = partial(
        visit.page,
        "map.html",
        history=history,
        status=status if problem is None else problem.status,
        record=record,
        **EXPLAINED,
        reference=reference_of(record),
        seen=seen(record) if form is None else text_of(form, "seen"),
        longest=MAX_TEXT,
        entries={name: _written(value) if form is None else text_of(form, name) for name, value in said.items()},
        problem=problem,
        form=upload
        or UploadForm(
            visit.here.settings.max_body_bytes, Choices(record.prediction_kind), fields=calibrate_fields(record)
        ),
    )
    return await run_in_thread(page)  # large documents take a while


def _changes(form: FormData, record: MapRecord) -> dict[str, object]:
    """The merge patch that replaces what callers say about a map by the fields of the form."""
    tags = read_tags(text_of(form, "tags"))
    gone = dict.fromkeys(name for name in record.tags if name not in tags)
    texts = {name: text_of(form, name) or None for name in About.model_fields}
    return texts | {"tags": {**gone, **tags}}


def _written(value: Mapping[str, str] | str | None) -> str:
    return write_tags(value) if isinstance(value, Mapping) else value or ""


def _as_it_stands(visit: Visit, name: str, alias: str) -> AliasRecord | None:
    try:
        return visit.here.store.aliases.get(name, alias)
    except UnknownAlias:
        return None
