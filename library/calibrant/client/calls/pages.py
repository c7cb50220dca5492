"""Paginated lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from calibrant.client.answers import (
    AlarmsAnswer,
    AuditAnswer,
    BatchesAnswer,
    DeliveriesAnswer,
    JobsAnswer,
    MapPage,
    MonitorsAnswer,
)
from calibrant.client.requests import get, read
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Item, Items

Page: TypeAlias = BatchesAnswer | JobsAnswer | MapPage | MonitorsAnswer | AlarmsAnswer | AuditAnswer | DeliveriesAnswer

#: Entries of a page.
_PAGE = 100


def pages(patience: Patience, path: str, query: Mapping[str, Any], model: type[Page]) -> Items[Any]:
    """Yield the entries of all pages; a page is requested when it is needed."""
    page_query = {**query, "limit": _PAGE}
    while True:
        answer = yield from send(patience, get(path, page_query))
        page = read(model, answer)
        for item in page.items:
            yield Item(item)
        if page.next is None:
            return
        page_query["cursor"] = page.next
