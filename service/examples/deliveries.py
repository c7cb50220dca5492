"""Examples of a monitor with a hook, and of what is delivered to it. The host is nobody's (RFC 2606)."""

from __future__ import annotations

from service.examples.example import DELIVERY, Example

#: Of bytes that say it: "an example's, not for you".
_SECRET = "whsec_YW4gZXhhbXBsZSdzLCBub3QgZm9yIHlvdQ=="  # noqa: S105 - it is public
_WATCHED = {"name": "fraud-live"}
_ONE = _WATCHED | {"delivery_id": DELIVERY}
#: The host that the service of the examples admits.
HOST = "alerts.example"

DELIVERIES: tuple[Example, ...] = (
    Example(
        "POST /monitors",
        "with-a-hook",
        "A monitor that tells of its alarms",
        _WATCHED | {"hooks": [{"name": "pager", "url": f"https://{HOST}/calibrant", "secret": _SECRET}]},
        201,
    ),
    Example(
        "POST /monitors/{name}/hooks/{hook}/test",
        "pager",
        "A test of a hook",
        None,
        202,
        path=_WATCHED | {"hook": "pager"},
    ),
    Example("GET /monitors/{name}/deliveries", "newest", "The newest delivery", path=_WATCHED, query={"limit": "1"}),
    Example("GET /monitors/{name}/deliveries/{delivery_id}", "test", "A delivery", path=_ONE),
    Example("POST /monitors/{name}/deliveries/{delivery_id}/resend", "test", "Once more", None, 202, path=_ONE),
    Example("DELETE /monitors/{name}", "with-a-hook", "Forget a monitor", status=204, path=_WATCHED),
)
