"""Request headers: their values, and those that choose a response: ``Accept``, ``Prefer``, conditions."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response

from schemas.audit import MAX_NOTE
from schemas.base import Document
from schemas.maps import MapRecord
from service.errors import InvalidField, NotAcceptable, PreconditionFailed, RequestError, of_header

# --- The headers of a request, read from the ASGI scope, because every call reads some of them


def read_headers(request: HTTPConnection, name: bytes) -> list[str]:
    """The values of all headers with a lower-case name."""
    return [value.decode("latin-1") for known, value in request.scope["headers"] if known == name]


def read_header(request: HTTPConnection, name: bytes) -> str:
    """The value of a header, empty if missing; repeated headers are joined to one list (RFC 9110, section 5.3)."""
    return ", ".join(read_headers(request, name))


# --- Content negotiation: the ``Accept`` header (RFC 9110, section 12.5.1)

_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def choose(accept: str, offered: Sequence[str]) -> str:
    """The offered type with the highest quality in the header; among equals, the first that is offered.

    The most specific matching range gives the quality: ``type/subtype``, else ``type/*``, else ``*/*``. Without a
    header every type is acceptable. Raises ``NotAcceptable`` if no type is.
    """
    if not accept.strip():
        return offered[0]
    ranges = read_qualities(accept)
    best = max(offered, key=lambda kind: _liked(kind, ranges))
    if not _liked(best, ranges):
        raise of_header(NotAcceptable, "Accept", f"must allow one of: {', '.join(offered)}")
    return best


def read_qualities(header: str) -> dict[str, float]:
    """The quality of each member of a header such as ``Accept``, in lower case."""
    return dict(_range(part) for part in header.split(",") if part.strip())


def _range(part: str) -> tuple[str, float]:
    """A media range and its quality; an invalid quality counts as 0, and other parameters are ignored."""
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            quality = float(value) if _QUALITY.fullmatch(value.strip()) else 0.0
    return kind, quality


def _liked(kind: str, ranges: dict[str, float]) -> float:
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0


# --- The ``Calibrant-Note`` header: why a caller makes a change, for the audit log

NOTE = "Calibrant-Note"
_NOTE = NOTE.lower().encode()
#: Categories of characters that a note must not contain: controls, formats, surrogates, and separators of lines.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Formats that some languages need.
_JOINERS = "\u200c\u200d"


def read_note(request: HTTPConnection) -> str | None:
    """The note of a request that may change something; raises ``InvalidField``."""
    sent = [value for name, value in request.scope["headers"] if name == _NOTE]
    if not sent:
        return None
    try:
        return check_note(sent[0].decode("utf-8"))
    except UnicodeDecodeError as error:
        raise of_header(InvalidField, NOTE, "must be UTF-8") from error


def check_note(text: str) -> str | None:
    """A note without surrounding spaces, None for an empty one; raises ``InvalidField``."""
    note = text.strip()
    if len(note) > MAX_NOTE:
        raise of_header(InvalidField, NOTE, f"must have at most {MAX_NOTE} characters")
    if any(unicodedata.category(character) in _HIDDEN and character not in _JOINERS for character in note):
        raise of_header(InvalidField, NOTE, "must not contain control characters or line ends")
    return note or None


# --- The ``Prefer`` header (RFC 7240)

#: token [ "=" ( token | quoted-string ) ]: the syntax of preferences and their parameters.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105
_WORD = rf'(?P<name>{_TOKEN})(?:[ \t]*=[ \t]*(?:(?P<token>{_TOKEN})|"(?P<quoted>(?:[^"\\]|\\.)*)"))?'
_PARAMETERS = rf'(?:[ \t]*;[ \t]*(?:{_TOKEN}(?:[ \t]*=[ \t]*(?:{_TOKEN}|"(?:[^"\\]|\\.)*"))?)?)*'
_PREFERENCE = re.compile(rf"[ \t,]*{_WORD}{_PARAMETERS}[ \t]*(?:,|$)")
#: Limits on the length of the header and the digits of a wait.
_LONGEST, _DIGITS = 1000, 9


class Preferences(NamedTuple):
    """``respond_async``: always create a job; ``wait``: seconds to wait for the end of a job."""

    respond_async: bool = False
    wait: int | None = None


#: The preferences of a request without the header.
NO_PREFERENCES = Preferences()


def read_prefer(values: Sequence[str]) -> Preferences:
    """Read the ``Prefer`` headers; unknown and malformed preferences are ignored, as the RFC allows.

    If a preference occurs twice, the first one counts.

    >>> read_prefer(["respond-async, wait=10"])
    Preferences(respond_async=True, wait=10)
    """
    text = ", ".join(values)[:_LONGEST]
    preferences: dict[str, str] = {}
    at = 0
    while match := _PREFERENCE.match(text, at):
        preferences.setdefault(match["name"].lower(), match["token"] or match["quoted"] or "")
        at = match.end()
    wait = preferences.get("wait", "")
    seconds = int(wait) if wait.isascii() and wait.isdigit() and len(wait) <= _DIGITS else None
    return Preferences(preferences.get("respond-async") == "", seconds)


# --- Conditional requests (RFC 9110, section 13)

#: A cached response must be revalidated: tags, descriptions and the version of a name can change.
_REVALIDATE = "private, no-cache"
_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_BETWEEN = re.compile(r"[ \t]*,[ \t,]*")
_SPACE = " \t,"


class EntityTag(NamedTuple):
    """One entity tag in a header."""

    weak: bool
    opaque: str


#: The tags in a header, ``"*"`` for any, None if the header is missing.
Tags = tuple[EntityTag, ...] | str | None


def read_tags(lines: Sequence[str], header: str) -> Tags:
    """Read the lines of ``If-Match`` or ``If-None-Match``: ``*``, or a list that may have empty members.

    Raises ``RequestError`` for anything else.
    """
    if not lines:
        return None
    text = ",".join(lines).strip(_SPACE)
    if text == "*":
        return "*"
    tags, at = [], 0
    while tag := _TAG.match(text, at):
        tags.append(EntityTag(tag[1] is not None, tag[2]))
        if tag.end() == len(text):
            return tuple(tags)
        comma = _BETWEEN.match(text, tag.end())
        if comma is None:
            break
        at = comma.end()
    raise of_header(RequestError, header, "must be * or a list of entity tags in double quotes")


def entity_tag(body: bytes) -> str:
    """The strong tag of a representation, derived from its bytes."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def weak_tag(*parts: object) -> str:
    """The weak tag of a representation that is made from these parts; its bytes may differ between versions."""
    return "W/" + entity_tag(orjson.dumps(parts))


def entity_tag_of(document: Document | None) -> str | None:
    """The tag of a document in a response; None if there is no document."""
    return None if document is None else entity_tag(to_bytes(document))


def to_bytes(document: Document) -> bytes:
    """A document as in a response."""
    return document.model_dump_json().encode()


@dataclass(frozen=True)
class Conditions:
    """The conditions of a request: tags that must match, and tags that must not."""

    match: Tags = None
    none_match: Tags = None

    @classmethod
    def of(cls, headers: Headers) -> Conditions:
        """Read the conditions of a request; raises ``RequestError``."""
        wanted, unwanted = (read_tags(headers.getlist(name), name) for name in ("If-Match", "If-None-Match"))
        return cls(wanted, unwanted)

    def require(self, current: Document | None) -> None:
        """Raise ``PreconditionFailed`` if the conditions do not allow a change of ``current`` (None if it is new)."""
        tag = entity_tag_of(current)
        self._require_match(tag)
        if self.none_match is not None and _matches(self.none_match, tag, weakly=True):
            raise of_header(PreconditionFailed, "If-None-Match", "matches the current state")

    def answer(self, body: bytes, headers: dict[str, str] | None = None) -> Response:
        """``body`` as JSON with its tag, or a 304 if the caller already has it; raises ``PreconditionFailed``."""
        tag = entity_tag(body)
        return self.known(tag) or Response(body, headers=tagged(tag) | (headers or {}), media_type="application/json")

    def known(self, tag: str) -> Response | None:
        """A 304 if the caller already has the representation with this tag; raises ``PreconditionFailed``."""
        self._require_match(tag)
        if self.none_match is not None and _matches(self.none_match, tag, weakly=True):
            return Response(status_code=304, headers=tagged(tag))
        return None

    def _require_match(self, tag: str | None) -> None:
        if self.match is not None and not _matches(self.match, tag, weakly=False):
            raise of_header(PreconditionFailed, "If-Match", "does not match the current state")


def tagged(tag: str) -> dict[str, str]:
    """The headers of a representation with this tag."""
    return {"ETag": tag, "Cache-Control": _REVALIDATE}


def _matches(tags: tuple[EntityTag, ...] | str, current: str | None, *, weakly: bool) -> bool:
    """Whether a tag equals the current one (section 8.8.3.2); the strong comparison ignores weak tags."""
    if current is None:
        return False
    opaque = current.removeprefix("W/")
    weak = opaque != current
    return tags == "*" or any(
        f'"{tag.opaque}"' == opaque and (weakly or not (weak or tag.weak)) for tag in _members(tags)
    )


def _members(tags: tuple[EntityTag, ...] | str) -> tuple[EntityTag, ...]:
    return () if isinstance(tags, str) else tags


def created(record: MapRecord) -> Response:
    """The 201 response for a new map."""
    body = to_bytes(record)
    headers = {"Location": f"/maps/{record.id}", "ETag": entity_tag(body)}
    return Response(body, 201, headers, "application/json")
