"""Leading a visitor on to another page, with scripts and without."""

from __future__ import annotations

from fastapi import Response

from service.web.visit import Visit


def lead(visit: Visit, path: str) -> Response:
    """Lead on to a page of this service; htmx is told to load it whole."""
    if visit.wants_part:
        return Response(status_code=204, headers={"HX-Redirect": path, "Cache-Control": "no-store"})
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})
