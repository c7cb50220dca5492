"""Routes of the audit log: its entries in pages, or all as JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fastapi import Request, Response

from backend.store.pages import Page, PageRequest
from schemas.audit import DEFINITIONS, AuditPage, AuditQuery, ChangeRecord
from service.calls import Call, Calls, ClientMethod
from service.context import Here
from service.formats.answers import respond_in_pieces
from service.formats.media import JSON, JSON_LINES
from service.headers import choose, read_header
from service.paging import page_answer, page_request, read_query
from service.threads import run_in_thread

calls = Calls("audit")

#: Entries that an export reads at once, and the bytes that make a response one of many pieces.
_AT_ONCE, _LARGE = 500, 1 << 20


@calls.add(
    Call(
        "GET",
        "/audit",
        query=AuditQuery,
        answer=AuditPage,
        media=(JSON_LINES,),
        problems=("not-acceptable",),
        client=(ClientMethod("audit_log", summary="Iterate over the audit log of the tenant, newest first."),),
    )
)
async def get_audit_log(request: Request, here: Here) -> Response:
    """List the changes of maps, aliases, API keys and monitors of the tenant, newest first.

    Each entry is written in the transaction of its change. Entries with definitions of monitors (``monitor-created``,
    ``monitor-changed``, ``monitor-deleted``) are left out unless the caller has the scope ``monitors:read`` too, which
    a filter for one of these actions needs. With ``Accept: application/jsonl`` the response has all
    entries that match, from ``cursor`` on, one a line, and ``limit`` has no effect.

    Examples
    --------
    >>> {entry.action for entry in client.audit_log(action="alias-moved")} <= {"alias-moved"}
    True
    """
    query = read_query(request, AuditQuery)
    media = choose(read_header(request, b"accept"), (JSON, JSON_LINES))
    hidden = frozenset() if here.caller.may("monitors:read") else DEFINITIONS
    if query.action in hidden:
        here.require_scope("monitors:read")
    trail, page = here.store.audit, page_request(query)

    def read(request: PageRequest) -> Page[ChangeRecord]:
        return trail.page(request, query, hidden)

    first = await run_in_thread(read, page)
    if media == JSON:
        return page_answer(request, first.items, first.next)
    # The cursor of the first page was valid, so that reading the others does not fail.
    lines = _lines(read, replace(page, limit=_AT_ONCE))
    return await respond_in_pieces(request, media, lines, _LARGE, {"Vary": "Accept"})


def _lines(read: Callable[[PageRequest], Page[ChangeRecord]], request: PageRequest) -> Iterator[bytes]:
    while True:
        page = read(request)
        yield b"".join(entry.model_dump_json().encode() + b"\n" for entry in page.items)
        if page.next is None:
            return
        request = replace(request, cursor=page.next)
