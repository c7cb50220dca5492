"""Examples of what is asked of the alarms of monitors: one to which nothing has happened, and two that have drifted."""

from __future__ import annotations

from service.examples.example import Example

_WATCHED = {"name": "fraud-quiet"}
#: What is proposed to the one is accepted, and to the other rejected. To both rows come that are not calibrated.
_DRIFTED, _DECLINED = {"name": "fraud-drifted"}, {"name": "fraud-declined"}
DRIFTED = frozenset({_DRIFTED["name"], _DECLINED["name"]})
#: Of a day, so that all rows are of one bucket.
_PROPOSING = {"bucket": 86_400, "recalibration": {"policy": "propose"}}
_DARK = {"theme": "dark", "width": "400"}

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
    Example("POST /monitors/{name}/recalibrate", "now", "A challenger now", status=202, path=_WATCHED),
    Example("DELETE /monitors/{name}", "without-rules", "Forget a monitor", status=204, path=_WATCHED),
    Example("POST /monitors", "proposing", "A monitor that proposes a map upon an alarm", _DRIFTED | _PROPOSING, 201),
    Example("GET /monitors/{name}/alarms", "raised", "An alarm by evidence, and a challenger", path=_DRIFTED),
    Example("GET /monitors/{name}/audit", "proposed", "What was done about it", path=_DRIFTED),
    Example("GET /monitors/{name}/series.svg", "day", "Values over time, and the alarm", path=_DRIFTED),
    Example("GET /monitors/{name}/diagram.svg", "day", "The first window", path=_DRIFTED),
    Example("GET /monitors/{name}/diagram.png", "dark", "On dark paper", path=_DRIFTED, query=_DARK),
    Example("GET /monitors/{name}/proposal", "waiting", "A challenger that waits", path=_DRIFTED),
    Example(
        "POST /monitors/{name}/alarms/{rule}/acknowledge",
        "evidence",
        "An alarm that was seen",
        path=_DRIFTED | {"rule": "evidence"},
    ),
    Example("POST /monitors/{name}/proposal/accept", "accepted", "The alias is moved to it", path=_DRIFTED),
    Example("DELETE /monitors/{name}", "proposing", "Forget a monitor", status=204, path=_DRIFTED),
    Example("POST /monitors", "declining", "Another one", _DECLINED | _PROPOSING, 201),
    Example("POST /monitors/{name}/proposal/reject", "rejected", "The map stays as it is", path=_DECLINED),
    Example("DELETE /monitors/{name}", "declining", "Forget it", status=204, path=_DECLINED),
)
