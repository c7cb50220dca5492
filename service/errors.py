"""What is wrong with a request before any number is looked at."""

from __future__ import annotations

from typing import ClassVar

from calibrant.errors import CalibrationError


class RequestError(CalibrationError):
    """Base of the refusals that concern the HTTP request itself."""

    code: ClassVar[str] = "bad-request"


class MalformedJson(RequestError):
    """A body that is not JSON; NaN and Infinity are not JSON either."""

    code = "malformed-json"


class MalformedNpz(RequestError):
    """A body that is not an NPZ archive of plain arrays."""

    code = "malformed-npz"


class UnsupportedMediaType(RequestError):
    """A content type that no reader knows."""

    code = "unsupported-media-type"


class TooLarge(RequestError):
    """A body, or what it unpacks to, over the limit."""

    code = "too-large"


class InvalidField(RequestError):
    """A field that is missing, unknown, of the wrong type or outside its range."""

    code = "invalid-field"


class PreconditionFailed(RequestError):
    """What is to be changed is not what the caller believes it is."""

    code = "precondition-failed"


class Unauthorized(RequestError):
    """No API key, or one that is not known."""

    code = "unauthorized"


class ForeignOrigin(RequestError):
    """A request of another web page, or under another host name, to a service without keys."""

    code = "foreign-origin"
