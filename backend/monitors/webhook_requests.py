"""One webhook request: a signed body posted to a target within a time limit."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import queue
import secrets
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from backend.monitors.webhook_targets import Resolver, Target, Targets, resolve
from calibrant.core.errors import InvalidOption
from schemas.monitor_alarms import AttemptError

if TYPE_CHECKING:  # it takes long to load, and most processes send no webhook
    import httpx

# --- One attempt: a body posted to a target at a validated address, within a time limit
#
# The transport is used directly: it follows no redirects, uses no proxy or environment settings, stores no cookies and
# logs no URLs. It connects to the validated address with the host name of the target, so that a changed DNS answer has
# no effect. Only the status of the response is read.

#: Timeouts in seconds of a connection, and of an attempt.
CONNECT_SECONDS, WHOLE_SECONDS = 5.0, 15.0
#: Maximum number of addresses of a name that are tried one after another.
MOST_ADDRESSES = 3


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt: a status, or an error. ``wait`` is the value of ``Retry-After`` in seconds."""

    status: int | None = None
    error: AttemptError | None = None
    wait: int | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the receiver accepted the event."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        """Whether the receiver wants no more events."""
        return self.status == 410


@dataclass(frozen=True)
class Sender:
    """What attempts use; ``trust`` holds the accepted certificate authorities, None for the default ones."""

    targets: Targets
    resolver: Resolver = resolve
    trust: ssl.SSLContext | None = None
    connect_seconds: float = CONNECT_SECONDS
    whole_seconds: float = WHOLE_SECONDS

    def post(self, target: Target, body: bytes, headers: Mapping[str, str]) -> AttemptOutcome:
        """Post a body to an allowed target; never raises because of the receiver."""
        ends = time.monotonic() + self.whole_seconds
        try:
            addresses = self._find(target)
        except TimeoutError:
            return AttemptOutcome(error="timed-out")
        except (OSError, UnicodeError):
            return AttemptOutcome(error="not-resolved")
        fit = self.targets.fit(addresses)[:MOST_ADDRESSES]
        if not fit:
            return AttemptOutcome(error="address-refused" if addresses else "not-resolved")
        try:
            return asyncio.run(self._within(target, fit, body, headers, ends))
        except TimeoutError:
            return AttemptOutcome(error="timed-out")

    def _find(self, target: Target) -> Sequence[str]:
        """The addresses of a target; the system resolver has no timeout, so a thread waits for it."""
        if target.address is not None:
            return [target.host]
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self.resolver(target.host, target.port))
            except Exception as error:
                answers.put(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            answer = answers.get(timeout=self.connect_seconds)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _within(
        self, target: Target, addresses: Sequence[str], body: bytes, headers: Mapping[str, str], ends: float
    ) -> AttemptOutcome:
        async with asyncio.timeout(max(0.0, ends - time.monotonic())):
            outcome = AttemptOutcome(error="not-connected")
            for address in addresses:
                outcome = await self._try(target, address, body, headers)
                if outcome.error != "not-connected":
                    break
            return outcome

    async def _try(self, target: Target, address: str, body: bytes, headers: Mapping[str, str]) -> AttemptOutcome:
        import httpx

        request = self._request(target, address, body, headers)
        transport = httpx.AsyncHTTPTransport(verify=self.trust or usual_trust(), trust_env=False)
        try:
            async with transport:
                response = await transport.handle_async_request(request)
                await response.aclose()
        except httpx.ConnectTimeout:
            return AttemptOutcome(error="not-connected")
        except httpx.ConnectError as error:
            return AttemptOutcome(error="tls-failed" if _is_tls(error) else "not-connected")
        except httpx.TimeoutException:
            return AttemptOutcome(error="timed-out")
        except httpx.HTTPError:
            return AttemptOutcome(error="broken-answer")
        return AttemptOutcome(response.status_code, wait=_seconds(response.headers.get("retry-after", "")))

    def _request(self, target: Target, address: str, body: bytes, headers: Mapping[str, str]) -> httpx.Request:
        """The request to an address with the host name of its target."""
        import httpx

        host = f"[{address}]" if ":" in address else address
        sent = {"Host": target.authority, **headers, "Connection": "close"}
        return httpx.Request(
            "POST",
            httpx.URL(f"{target.scheme}://{host}:{target.port}", raw_path=target.path.encode()),
            headers=sent,
            content=body,
            extensions={
                "sni_hostname": target.host,
                "timeout": {
                    "connect": self.connect_seconds,
                    "read": self.whole_seconds,
                    "write": self.whole_seconds,
                    "pool": self.whole_seconds,
                },
            },
        )


@cache
def usual_trust() -> ssl.SSLContext:
    """The certificate authorities of httpx, or those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``."""
    import httpx

    return httpx.create_ssl_context()


def _is_tls(error: BaseException | None) -> bool:
    """Whether an error was caused by TLS."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _seconds(text: str) -> int | None:
    """The seconds in ``Retry-After``; dates are ignored."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# --- Signatures of webhooks: Standard Webhooks 1.0.0, symmetric scheme ``v1``
#
# The specification: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md, "Signature scheme" and
# "Webhook headers". The signed content is ``id.timestamp.body``, with HMAC-SHA256. A secret is ``whsec_`` followed by
# 24 to 64 bytes in base64. During a rotation the header contains one signature per secret, separated by spaces.

PREFIX = "whsec_"
#: Minimum and maximum bytes of a secret, and bytes of a generated one.
LEAST_BYTES, MOST_BYTES, NEW_BYTES = 24, 64, 32


class InvalidSecret(ValueError):
    """An invalid secret; the error does not contain it."""


def new_secret() -> str:
    """Generate a random secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(NEW_BYTES)).decode()


def read_secret(text: str) -> bytes:
    """The bytes of a secret; raises ``InvalidSecret``."""
    wanted = f"must be {PREFIX} followed by {LEAST_BYTES} to {MOST_BYTES} bytes in base64"
    if not text.startswith(PREFIX):
        raise InvalidSecret(wanted)
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSecret(wanted) from None  # the cause would contain the secret
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise InvalidSecret(wanted)
    return key


def check_secret(secret: str | None, where: str) -> None:
    """Raise ``InvalidOption`` at ``where`` for an invalid secret."""
    if secret is None:
        return
    try:
        read_secret(secret)
    except InvalidSecret as error:
        raise InvalidOption.at(where, str(error)) from None


def made_secret(seed: str | None, hook: str) -> str:
    """Generate a secret for a hook; with the secret ``seed`` of a repeatable request, always the same one."""
    if seed is None:
        return new_secret()
    return PREFIX + base64.b64encode(hmac.digest(seed.encode(), f"hook {hook}".encode(), hashlib.sha256)).decode()


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header ``webhook-signature``: one signature per key, in this order.

    >>> sign([b"a key of 24 bytes at least"], "msg_1", 1674087231, b"{}")
    'v1,qAveFQ9Qh73G+BkaRGpPi9tWAcoU0Kkrlyp3ddJpWIY='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return " ".join(f"v1,{signature}" for signature in signatures)


def headers(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that authenticate ``body``; ``timestamp`` is that of this attempt, in seconds."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(keys, message_id, timestamp, body),
    }
