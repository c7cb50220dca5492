"""Content types of responses, besides those of the formats of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

JSON = "application/json"
#: A JSON merge patch (RFC 7396), the body of every PATCH.
MERGE_PATCH = "application/merge-patch+json"
HTML = "text/html"
SVG = "image/svg+xml"
PNG = "image/png"
#: One CloudEvent in structured mode, and a batch.
EVENT, EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
TEXT = "text/plain"
#: One JSON document a line.
JSON_LINES = "application/jsonl"
EVENT_STREAM = "text/event-stream"
TENSORS = "application/octet-stream"

_STRING = {"type": "string"}
_CHANGE = {"type": "object", "properties": {"id": _STRING, "event": {"enum": ["status", "progress"]}, "data": _STRING}}
_SCHEMAS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        **dict.fromkeys((HTML, SVG, TEXT, JSON_LINES), _STRING),
        # Some clients read the stream as text, others as events.
        EVENT_STREAM: {
            "anyOf": [_CHANGE, _STRING],
            "description": "an event, or the whole stream as text; data contains a job as JSON",
        },
        TENSORS: {"type": "string", "format": "binary", "description": "a JSON object, followed by binary tensors"},
        # The items have no schema: an invalid event is refused on its own, and the others count.
        EVENTS: {"type": "array", "description": "CloudEvents in structured mode"},
        JSON: {"type": "object", "description": "the data of an event whose attributes are in headers"},
    }
)


def schema_of(media: str) -> dict[str, Any]:
    """The schema of content that no model describes."""
    return _SCHEMAS.get(media, {"type": "string", "format": "binary"})
