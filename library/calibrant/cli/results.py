"""What both engines return: a fitted map, and a report as the server sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from calibrant.client.answers import ReportAnswer


class Fitted(NamedTuple):
    """A fitted map: its document, its in-sample scores, and its reference on the server."""

    document: dict[str, Any]
    in_sample: dict[str, Any] | None
    ref: str | None = None


def as_sent(report: ReportAnswer) -> dict[str, Any]:
    """Return the JSON that the server sends: the report without the parts that were not requested."""
    of_the_map = () if report.after is None else ("map", "in_sample")
    found = _present(report.to_dict(), *of_the_map)
    if "after" in found:
        found["after"] = _present(found["after"])
    for name, group in found.get("groups", {}).items():
        after = group["after"] and _present(group["after"])
        found["groups"][name] = _present(group | {"after": after})
    return found


def _present(part: dict[str, Any], *nullable: str) -> dict[str, Any]:
    return {field: value for field, value in part.items() if value is not None or field in nullable}
