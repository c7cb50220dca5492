"""The steps of calls without a body or with changes, which the generated methods of the clients use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from calibrant.client.frames import refuse_unknown
from calibrant.client.requests import get, read, with_changes
from calibrant.client.retries import Patience, send
from calibrant.client.steps import JSON, Item, Items, Request, Steps

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Entries of a page.
_PAGE = 100


class PageAnswer(Protocol[T_co]):
    """A page of a list, and the cursor of the next one."""

    @property
    def items(self) -> Sequence[T_co]: ...  # noqa: D102
    @property
    def next(self) -> str | None: ...  # noqa: D102


def result(
    patience: Patience, method: str, path: str, kind: type[T], query: Mapping[str, Any] | None = None
) -> Steps[T]:
    """Return the decoded response to a request."""
    request = get(path, query)
    if method != "GET":
        request = Request(method, path, request.query, {"Accept": JSON})
    return read(kind, (yield from send(patience, request)))


def changed(patience: Patience, path: str, changes: Mapping[str, Any], known: Iterable[str], kind: type[T]) -> Steps[T]:
    """Change some of the ``known`` fields, of which None removes a value, and return the decoded response."""
    refuse_unknown(changes, [*known])
    return read(kind, (yield from send(patience, with_changes(path, changes))))


def removal(patience: Patience, path: str) -> Steps[None]:
    """Delete something; a retry may find it deleted."""
    yield from send(patience, Request("DELETE", path, headers={"Accept": JSON}, forgets=True))


def pages(patience: Patience, path: str, query: Mapping[str, Any], kind: type[PageAnswer[T]]) -> Items[T]:
    """Yield the entries of all pages; a page is requested when it is needed."""
    page_query = {**query, "limit": _PAGE}
    while True:
        page = yield from result(patience, "GET", path, kind, page_query)
        for item in page.items:
            yield Item(item)
        if page.next is None:
            return
        page_query["cursor"] = page.next
