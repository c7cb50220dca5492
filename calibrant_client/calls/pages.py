"""Lists, read a page at a time as they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from calibrant_client.asking import get, read
from calibrant_client.sending import Patience, ask
from calibrant_client.steps import Item, Items
from schemas.batches import BatchesAnswer
from schemas.jobs import JobsAnswer
from schemas.listing import MapPage
from schemas.monitor_alarms import AlarmsAnswer, AuditAnswer
from schemas.monitor_answers import MonitorsAnswer
from schemas.monitor_deliveries import DeliveriesAnswer

Page: TypeAlias = BatchesAnswer | JobsAnswer | MapPage | MonitorsAnswer | AlarmsAnswer | AuditAnswer | DeliveriesAnswer

#: Entries of a page.
_PAGE = 100


def pages(patience: Patience, path: str, query: Mapping[str, Any], model: type[Page]) -> Items[Any]:
    """The entries of every page."""
    asked = {**query, "limit": _PAGE}
    while True:
        answer = yield from ask(patience, get(path, asked))
        page = read(model, answer)
        for item in page.items:
            yield Item(item)
        if page.next is None:
            return
        asked["cursor"] = page.next
