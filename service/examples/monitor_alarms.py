"""Examples of what is asked of the alarms of a monitor to which nothing has happened."""

from __future__ import annotations

from service.examples.example import Example

_WATCHED = {"name": "fraud-quiet"}

ALARMS: tuple[Example, ...] = (
    Example("POST /monitors", "without-rules", "A monitor that is only read", _WATCHED | {"rules": []}, 201),
    Example("GET /monitors/{name}/alarms", "none", "Nothing has happened yet", path=_WATCHED),
    Example("GET /monitors/{name}/audit", "none", "Nothing was done yet", path=_WATCHED),
    Example(
        "POST /monitors/{name}/alarms/{rule}/acknowledge",
        "no-rule",
        "A rule that there is not",
        status=404,
        path=_WATCHED | {"rule": "evidence"},
    ),
    Example("GET /monitors/{name}/proposal", "none", "No challenger waits", status=404, path=_WATCHED),
    Example("POST /monitors/{name}/proposal/accept", "none", "No challenger waits", status=404, path=_WATCHED),
    Example("POST /monitors/{name}/proposal/reject", "none", "No challenger waits", status=404, path=_WATCHED),
    Example("DELETE /monitors/{name}", "without-rules", "Forget a monitor", status=204, path=_WATCHED),
)
