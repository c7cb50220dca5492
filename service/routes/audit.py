"""Routes of the audit log: its entries in pages, or all as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request, Response

from backend.store.audit import AuditTrail
from backend.store.pages import PageRequest
from schemas.audit import AuditPage, AuditQuery
from service.calls import Call, Calls, ClientMethod
from service.context import Here
from service.formats.answers import choose, respond_in_pieces
from service.formats.media import JSON, JSON_LINES
from service.headers import read_header
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

    Each entry is written in the transaction of its change. With ``Accept: application/jsonl`` the response has all
    entries that match, from ``cursor`` on, one a line, and ``limit`` has no effect.

    Examples
    --------
    >>> {entry.action for entry in client.audit_log(action="alias-moved")} <= {"alias-moved"}
    True
    """
    query = read_query(request, AuditQuery)
    media = choose(read_header(request, b"accept"), (JSON, JSON_LINES))
    trail, page = here.store.audit, page_request(query)
    first = await run_in_thread(trail.page, page, query)
    if media == JSON:
        return page_answer(request, first.items, first.next)
    # The cursor of the first page was valid, so that reading the others does not fail.
    lines = _lines(trail, query, PageRequest(_AT_ONCE, page.cursor, page.low, page.high))
    return await respond_in_pieces(request, media, lines, _LARGE, {"Vary": "Accept"})


def _lines(trail: AuditTrail, query: AuditQuery, page: PageRequest) -> Iterator[bytes]:
    for entries in trail.all(query, page):
        yield b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)
