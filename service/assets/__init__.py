"""The files that pages load, served from the package."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

#: The style sheet of reports.
REPORT_STYLE = "report.css"
_FOLDER = Path(__file__).parent
_SERVED = (".js", ".css", ".png", ".csv")
#: They change with the version alone, and are revalidated by their ETag.
_CACHED = "public, max-age=3600"


class Assets(StaticFiles):
    """The scripts, style sheets, the sample and the icon of this folder, and nothing else of it."""

    def __init__(self) -> None:
        super().__init__(directory=_FOLDER)

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Find a file, unless it is not for pages."""
        return super().lookup_path(path) if path.endswith(_SERVED) else ("", None)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer a file, to be kept for a while and taken for nothing but what it says it is."""
        if path == REPORT_STYLE:  # the reports' own, which a report that is a file holds
            from calibrant.reports.html import stylesheet

            response = Response(stylesheet(), media_type="text/css")
        else:
            response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = _CACHED
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
