"""What is wrong with a request before any number is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Self

from calibrant.errors import CalibrationError
from calibrant.io.errors import InvalidField as InvalidField  # of the readers and of the service alike
from calibrant.io.errors import TooLarge as TooLarge


class RequestError(CalibrationError):
    """Base of the refusals that concern the HTTP request itself; ``headers`` go with the answer."""

    code: ClassVar[str] = "bad-request"
    headers: Mapping[str, str] = MappingProxyType({})

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """The same refusal, with headers."""
        self.headers = MappingProxyType(dict(headers))
        return self


class MalformedJson(RequestError):
    """A body that is not JSON; NaN and Infinity are not JSON either."""

    code = "malformed-json"


class MalformedEncoding(RequestError):
    """A body that is not what its Content-Encoding says, or is cut off."""

    code = "malformed-encoding"


class NotAcceptable(RequestError):
    """An answer in none of the types that the caller accepts."""

    code = "not-acceptable"


class UnsupportedMediaType(RequestError):
    """A content type or a content encoding that no reader knows."""

    code = "unsupported-media-type"


class NotFound(RequestError):
    """A path that leads nowhere."""

    code = "not-found"


class NothingToDraw(RequestError):
    """A diagram that does not exist of these rows; the detail says why."""

    code = "nothing-to-draw"


class JobNotFinal(RequestError):
    """A picture of the report of a job that has not ended."""

    code = "job-not-final"


class NoBins(RequestError):
    """A map of which no bins were kept, so that it has no diagram."""

    code = "no-bins"


class TooManyStreams(RequestError):
    """More streams of events than one process may have open."""

    code = "too-many-streams"


class PreconditionFailed(RequestError):
    """What is to be changed is not what the caller believes it is."""

    code = "precondition-failed"


class Unauthorized(RequestError):
    """No API key, or one that is not known."""

    code = "unauthorized"


class Forbidden(RequestError):
    """An API key without the scope that the call needs."""

    code = "forbidden"


class RateLimited(RequestError):
    """An API key that has sent all requests that it may send in a minute."""

    code = "rate-limited"


class Busy(RequestError):
    """All slots for heavy work are taken."""

    code = "busy"


class TooSlow(RequestError):
    """A body that did not come in time."""

    code = "request-timeout"


class SpoolFull(RequestError):
    """No room for a temporary file that the request needs."""

    code = "spool-full"


class DeadlineExceeded(RequestError):
    """An answer that was not there in time."""

    code = "deadline-exceeded"


class ForeignOrigin(RequestError):
    """A request of another web page, or under another host name, to a service without keys."""

    code = "foreign-origin"


class ForgedRequest(RequestError):
    """A request in the name of whoever has the page open that did not come from the page."""

    code = "forged-request"
