"""Lists over HTTP: the query, a page of items, and the link to the next page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from backend.store.pages import PageRequest
from schemas.base import Document
from schemas.pages import PageQuery
from service.context import answer
from service.formats.format import Payload
from service.formats.options import Options, query_fields, read_options


def read_query(request: Request, model: type[Options]) -> Options:
    """Validate the query of a request without a body."""
    return read_options(Payload({}, query_fields(request.query_params), from_query=True), model)


def page_request(query: PageQuery) -> PageRequest:
    """The page that a query selects."""
    low, high = query.created_after, query.created_before
    return PageRequest(query.limit, query.cursor, -math.inf if low is None else low, math.inf if high is None else high)


def page_answer(request: Request, items: Sequence[Document], cursor: str | None) -> Response:
    """A page with ``items`` and ``next``, and a ``Link`` header if there is a next page."""
    headers = {}
    if cursor is not None:
        query = urlencode({**request.query_params, "cursor": cursor})
        headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
    return answer({"items": [item.model_dump() for item in items], "next": cursor}, headers=headers)


def whole_list(items: Sequence[Any], headers: dict[str, str] | None = None) -> Response:
    """A list without pages."""
    return answer({"items": items, "next": None}, headers=headers)
