"""CloudEvents 1.0 over HTTP: in structured, batched and binary mode.

HTTP Protocol Binding for CloudEvents 1.0.2, section 3, and JSON Event Format 1.0.2. In binary mode 0.3 is read too,
whose headers are the same: MLServer states it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers

from service.errors import InvalidField, MalformedJson
from service.formats.json_pieces import LongArray, check_tree, check_values, read_document
from service.formats.limits import Limits
from service.formats.media import EVENTS
from service.formats.payload import Body

#: The attributes that every event has.
REQUIRED = ("specversion", "id", "source", "type")
_PREFIX = "ce-"
_VERSIONS, _BINARY_VERSIONS = ("1.0",), ("1.0", "0.3")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Event:
    """One event: its attributes by name, and its data as parsed JSON, None where they are none.

    ``where`` is its place in a batch, ``""`` of one alone.
    """

    attributes: Mapping[str, str]
    data: Any
    where: str = ""

    @property
    def type(self) -> str:
        """What kind of event it is."""
        return self.attributes["type"]

    @property
    def id(self) -> str:
        """The id of what it tells of: Seldon's events have ids of their own beside that of the request."""
        return self.attributes.get("requestid") or self.attributes["id"]

    @property
    def id_of_source(self) -> str:
        """The same beside the event's source: by the specification the two together tell events apart."""
        return f"{self.attributes['source']}/{self.id}"

    @property
    def time(self) -> str | None:
        """When it happened."""
        return self.attributes.get("time")


def is_binary(headers: Headers) -> bool:
    """Whether the attributes of an event stand in the headers, and the body is its data."""
    return "ce-type" in headers and not headers.get("content-type", "").lower().startswith("application/cloudevents")


def read_binary(body: Body, headers: Headers, limits: Limits) -> Event:
    """Read an event in binary mode; raises ``InvalidField``. Data that are not JSON are None.

    The type of the data is not looked at: KServe states that of the inference request, which may be anything.
    """
    attributes: dict[str, str] = {}
    for name, value in headers.items():
        if name.startswith(_PREFIX):
            if name.removeprefix(_PREFIX) in attributes:
                raise InvalidField(f"the header {name[:64]} stands twice")
            attributes[name.removeprefix(_PREFIX)] = _decoded(value, name)
    _check(attributes, "", _BINARY_VERSIONS)
    return Event(attributes, _parsed(body, limits))


def read_structured(body: Body, kind: str, limits: Limits) -> Iterator[Event | None]:
    """Read one event as JSON, or a batch; raises ``MalformedJson``, ``InvalidField``, ``TooLarge``.

    What is no event in a batch is None, as is one whose ``data_base64`` is wrong, and the others are read. Long arrays
    are ``LongArray``.
    """
    document = read_document(body, limits)
    if kind != EVENTS:
        yield _event(document, "", limits)
        return
    if not isinstance(document, list | LongArray):
        raise InvalidField.at("", "the body must be an array of events")
    found = 0
    for piece in document.pieces(trees=True) if isinstance(document, LongArray) else [document]:
        limits.check_rows(found + len(piece))
        for i, one in enumerate(piece, found):
            yield _of_batch(one, f"/{i}", limits)
        found += len(piece)


def _of_batch(document: Any, where: str, limits: Limits) -> Event | None:
    try:
        return _event(document, where, limits)
    except InvalidField:
        return None


def _event(document: Any, where: str, limits: Limits) -> Event:
    if not isinstance(document, dict):
        raise InvalidField.at(where, "must be an object" if where else "the body must be an object")
    _check(document, where, _VERSIONS)
    attributes = {name: value for name, value in document.items() if isinstance(value, str) and name != "data"}
    if "data_base64" not in document:
        return Event(attributes, document.get("data"), where)
    try:
        raw = base64.b64decode(document["data_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidField.at(f"{where}/data_base64", "must be base64") from error
    return Event(attributes, _parsed(raw, limits), where)


def _check(attributes: Mapping[str, Any], where: str, versions: Sequence[str]) -> None:
    """Raise ``InvalidField`` for an attribute that is missing, or a version that is not known."""
    for name in REQUIRED:
        value = attributes.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidField.at(f"{where}/{name}", "must be a string that is not empty")
    if attributes["specversion"] not in versions:
        raise InvalidField.at(f"{where}/specversion", f"must be {' or '.join(versions)}")


def _parsed(body: Body, limits: Limits) -> Any:
    """The JSON of some data, a tree; None where they are none. Raises ``InvalidField`` for a key that stands twice."""
    check_values(body, limits)
    try:
        document = read_document(body, limits)
        check_tree(document)
    except MalformedJson:
        return None
    return document


def _decoded(value: str, name: str) -> str:
    """The value of a header: unquoted, then percent-decoded once (section 3.1.3.2)."""
    quoted = _QUOTED.fullmatch(value.strip())
    plain = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else value
    try:
        return unquote(plain, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidField(f"the header {name} is not percent-encoded UTF-8") from error
