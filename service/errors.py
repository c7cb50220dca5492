"""Errors of the HTTP request itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Self, TypeVar

from calibrant.core.errors import CalibrationError, Offence
from calibrant.io.errors import InvalidField as InvalidField  # of the readers and of the service alike
from calibrant.io.errors import TooLarge as TooLarge


class RequestError(CalibrationError):
    """Base of the errors that concern the HTTP request; the response includes ``headers``."""

    code: ClassVar[str] = "bad-request"
    headers: Mapping[str, str] = MappingProxyType({})

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Set the headers of the response and return the error."""
        self.headers = MappingProxyType(dict(headers))
        return self


class MalformedJson(RequestError):
    """The body is not JSON; NaN and Infinity are not part of JSON."""

    code = "malformed-json"


class MalformedEncoding(RequestError):
    """The body does not match its Content-Encoding, or is truncated."""

    code = "malformed-encoding"


class NotAcceptable(RequestError):
    """The caller accepts none of the available types."""

    code = "not-acceptable"


class UnsupportedMediaType(RequestError):
    """The content type or content encoding is not supported."""

    code = "unsupported-media-type"


class UnsupportedTransferCoding(RequestError):
    """The body is sent with a transfer coding besides chunked."""

    code = "unsupported-transfer-coding"


class NotFound(RequestError):
    """The service has no endpoint at this path."""

    code = "not-found"


class MethodNotAllowed(RequestError):
    """The path does not support the method."""

    code = "method-not-allowed"


class JobNotFinal(RequestError):
    """The job has not ended: it has no report to draw, and cannot be deleted."""

    code = "job-not-final"


class NoBins(RequestError):
    """The map has no bins to draw a diagram from."""

    code = "no-bins"


class TooManyStreams(RequestError):
    """The limit of open event streams is reached."""

    code = "too-many-streams"


class PreconditionFailed(RequestError):
    """The current state does not satisfy the precondition of the request."""

    code = "precondition-failed"


class Unauthorized(RequestError):
    """There is no API key, or it is unknown."""

    code = "unauthorized"


class InvalidToken(RequestError):
    """The bearer token of an issuer is not valid; ``reason`` is one of ``REASONS``."""

    code = "invalid-token"
    #: Why a token is refused; the texts also are error descriptions (RFC 6750, section 3).
    REASONS: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "malformed": "is not a signed JSON Web Token in compact form of at most 16 KiB",
            "header": "has a header parameter that is not supported",
            "algorithm": "must be signed with RS256 or ES256",
            "unknown-key": "does not name a key that the issuer publishes",
            "signature": "has a signature that does not match",
            "expired": "has expired",
            "not-yet-valid": "is not yet valid",
            "issuer": "is from another issuer",
            "audience": "is for another audience",
            "claims": "lacks a claim, or a claim has another type",
            "tenant": "names no valid tenant",
        }
    )

    def __init__(self, reason: str) -> None:
        text = f"the token {self.REASONS[reason]}"
        super().__init__(text)
        self.reason = reason
        self.headers = MappingProxyType(
            {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{text}"'}
        )


class IssuerUnavailable(RequestError):
    """The keys of the issuer of tokens are not known, or too old."""

    code = "issuer-unavailable"


class Forbidden(RequestError):
    """The API key or token lacks the scope that the call needs."""

    code = "forbidden"


class RateLimited(RequestError):
    """The API key has reached its limit of requests per minute."""

    code = "rate-limited"


class Stopping(RequestError):
    """The process is about to end; only readiness probes are refused."""

    code = "stopping"


class Busy(RequestError):
    """A limit of the process is reached, such as that of requests that wait for heavy work."""

    code = "busy"


class TenantBusy(Busy):
    """The tenant of the request has reached its own limit."""

    code = "too-many-requests"


def busy(detail: str, seconds: float, *, of_tenant: bool) -> Busy:
    """The refusal of a request that may be sent again after some seconds."""
    kind = TenantBusy if of_tenant else Busy
    return kind(detail).with_headers({"Retry-After": str(max(1, math.ceil(seconds)))})


class TooSlow(RequestError):
    """The body did not arrive in time."""

    code = "request-timeout"


class SpoolFull(RequestError):
    """There is no room for a temporary file."""

    code = "spool-full"


class DeadlineExceeded(RequestError):
    """The response was not ready in time."""

    code = "deadline-exceeded"


class ForeignOrigin(RequestError):
    """A request from another origin, or to another host name, to a service without keys."""

    code = "foreign-origin"


class ForgedRequest(RequestError):
    """A request with the session of the web page that did not come from the page."""

    code = "forged-request"


# --- Headers

#: What the place of an error begins with if it is a header, whose name follows.
HEADER = "header:"
Invalid = TypeVar("Invalid", bound=CalibrationError)


def of_header(kind: type[Invalid], name: str, detail: str) -> Invalid:
    """Create the error of a header of the request."""
    return kind(f"{name}: {detail}", [Offence(HEADER + name, detail)])
