"""The issuer of bearer tokens (OpenID Connect): its keys in memory, and the callers that its tokens identify."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from schemas.held import CachedKeys
from schemas.keys import SCOPES, scopes_of
from service.callers import Caller
from service.errors import Forbidden, InvalidToken, IssuerUnavailable
from service.problems import RETRY_AFTER
from service.settings import Settings, check_issuer_url

if TYPE_CHECKING:  # only processes with an issuer load them
    import httpx

    from service.tokens import SigningKey, TokenRules

log = logging.getLogger(__name__)

# --- The settings


class InvalidIssuer(ValueError):
    """The settings of the issuer are incomplete or contradict each other, or its extra is not installed."""


def open_issuer(settings: Settings) -> Issuer | None:
    """The issuer that the settings name; None, without any import, if there is none. Raises ``InvalidIssuer``."""
    if not settings.oidc_issuer:
        names = ("oidc_audience", "oidc_jwks_url", "oidc_tenant_claim", "oidc_scopes")
        if without_effect := [name for name in names if getattr(settings, name)]:
            raise InvalidIssuer(f"{', '.join(without_effect)} need oidc_issuer")
        return None
    try:
        import httpx  # noqa: F401 - now, rather than during the first request

        from service.tokens import TokenRules
    except ModuleNotFoundError as error:
        raise InvalidIssuer("oidc_issuer needs the extra oidc: pip install 'calibrant-server[oidc]'") from error
    audiences = tuple(filter(None, map(str.strip, settings.oidc_audience.split(","))))
    if not audiences:
        raise InvalidIssuer("oidc_issuer needs oidc_audience: tokens for other services must not be accepted")
    if settings.oidc_stale_seconds < settings.oidc_refresh_seconds:
        raise InvalidIssuer("oidc_stale_seconds must be at least oidc_refresh_seconds")
    rules = TokenRules(
        issuer=settings.oidc_issuer,
        audiences=audiences,
        tenant_claim=settings.oidc_tenant_claim,
        scopes_claim=settings.oidc_scopes_claim,
        scopes=_read_scopes(settings.oidc_scopes),
        leeway=settings.oidc_leeway,
    )
    return Issuer(settings, rules)


def _read_scopes(text: str) -> Mapping[str, frozenset[str]]:
    """The scopes that values of a claim grant; without a text, names of scopes but ``admin`` grant these."""
    scopes: dict[str, frozenset[str]] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        value, _, scope = pair.rpartition("=")
        try:
            scopes_of(scope)
        except ValueError:
            raise InvalidIssuer(f"oidc_scopes must be VALUE=SCOPE, separated by commas, with {_NAMES}") from None
        if not value:
            raise InvalidIssuer("oidc_scopes must have a value before each =")
        scopes[value] = scopes.get(value, frozenset()) | {scope}
    # Many providers have a role admin of their own, which is not meant for the metrics of all tenants.
    return scopes or {scope: frozenset({scope}) for scope in _KNOWN if scope != "admin"}


#: The names of scopes; ``read`` and ``write`` may be unions.
_KNOWN: Final = tuple(dict.fromkeys(("read", "write", *SCOPES)))
_NAMES: Final = f"one of {', '.join(_KNOWN)}"

# --- Its keys over HTTP

#: Seconds for a read of the keys, and the least seconds between two.
READ_SECONDS, PAUSE_SECONDS = 5.0, 10.0
_MOST_BYTES = 256 * 1024
#: Most verified tokens that are remembered.
_MOST_VERIFIED = 1024


async def _read_document(http: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """The JSON object at a URL, which must not redirect; raises ``ValueError``, ``OSError`` and httpx's errors."""
    async with http.stream("GET", url) as response:
        if response.status_code != 200:
            raise ValueError(f"the status of a response was {response.status_code}")
        body = bytearray()
        async for piece in response.aiter_raw():  # as sent, because an unpacked body has no limit
            body += piece
            if len(body) > _MOST_BYTES:
                raise ValueError(f"a response had more than {_MOST_BYTES} bytes")
    try:
        document = orjson.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ValueError("a response was no JSON object")
    return document


class Issuer:
    """The issuer of a service: ``identify`` finds the caller of a token with the keys last read.

    The keys are read every ``oidc_refresh_seconds``, and when a token names an unknown one, but at most once in
    ``pause`` seconds, whatever is sent. While the issuer is unavailable, they are used for ``oidc_stale_seconds``.
    ``trust`` has the accepted certificate authorities, None for the usual ones.
    """

    def __init__(
        self,
        settings: Settings,
        rules: TokenRules,
        *,
        pause: float = PAUSE_SECONDS,
        seconds: float = READ_SECONDS,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._trust = trust
        self._pause = pause
        self._seconds = seconds
        self.settings = settings
        self.rules = rules
        self._keys: Mapping[tuple[str, str], SigningKey] = {}
        self._read_at = float("-inf")
        # Callers by the SHA-256 of their tokens, until the keys are read again: verifying takes as long as short calls.
        self._verified: dict[bytes, Caller] = {}
        self._next = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        #: Tokens by outcome: ``accepted``, why they are not valid, or the code of another problem.
        self.outcomes: Counter[str] = Counter()

    @property
    def age(self) -> float:
        """Seconds since the keys were read; infinite before."""
        return time.monotonic() - self._read_at

    async def identify(self, token: str) -> Caller:
        """The caller of a token; raises ``InvalidToken``, ``Forbidden`` without a scope, and ``IssuerUnavailable``."""
        try:
            caller = await self._verify(token)
        except (InvalidToken, Forbidden, IssuerUnavailable) as refusal:
            self.outcomes[refusal.reason if isinstance(refusal, InvalidToken) else refusal.code] += 1
            raise
        self.outcomes["accepted"] += 1
        return caller

    async def _verify(self, token: str) -> Caller:
        from service.tokens import read_token_header

        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        caller = self._verified.get(digest)
        if caller is not None and self._is_usable and (caller.expires_at or 0) > time.time():
            return caller
        identity = read_token_header(token)
        if identity not in self._keys or not self._is_usable:
            await self._refresh()
        if not self._is_usable:
            refusal = IssuerUnavailable("the keys of the issuer of tokens cannot be read")
            raise refusal.with_headers({"Retry-After": RETRY_AFTER})
        if identity not in self._keys:
            raise InvalidToken("unknown-key")
        caller = self.rules.caller_of(token, self._keys[identity].key)
        if len(self._verified) >= _MOST_VERIFIED:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = caller
        return caller

    @property
    def _is_usable(self) -> bool:
        return self.age < self.settings.oidc_stale_seconds

    # --- Reading the keys

    async def run(self) -> None:
        """Read the keys again and again, until closed or cancelled."""
        while not self._closed.is_set():
            await self._refresh()
            pause = self.settings.oidc_refresh_seconds - self.age
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), pause if pause > 0 else self._pause)

    def close(self) -> None:
        """Make ``run`` end."""
        self._closed.set()
        if self._reading is not None:
            self._reading.cancel()

    async def _refresh(self) -> None:
        """Read the keys, unless that was tried a moment ago; callers at the same time share one read."""
        if self._reading is None:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + self._pause
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        import httpx

        from backend.monitors.webhook_requests import usual_trust
        from service.tokens import read_keys

        try:
            trust = await asyncio.to_thread(usual_trust) if self._trust is None else self._trust
            began = time.monotonic()
            headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
            async with asyncio.timeout(self._seconds), httpx.AsyncClient(verify=trust, headers=headers) as http:
                document = await _read_document(http, self.settings.oidc_jwks_url or await self._discover(http))
            self._keys = await asyncio.to_thread(read_keys, document.get("keys"))
            self._read_at = began
            self._verified.clear()
        except (ValueError, OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) if type(error) is ValueError else type(error).__name__
            log.warning("issuer: the keys cannot be read (%s)", reason)
        finally:
            self._reading = None

    async def _discover(self, http: httpx.AsyncClient) -> str:
        """The URL of the keys in the issuer's document (OpenID Connect Discovery 1.0, section 4)."""
        issuer = self.settings.oidc_issuer
        document = await _read_document(http, issuer.removesuffix("/") + "/.well-known/openid-configuration")
        url = document.get("jwks_uri")
        if document.get("issuer") != issuer:
            raise ValueError("its document names another issuer")
        if not isinstance(url, str) or (issuer.startswith("https:") and not url.startswith("https:")):
            raise ValueError("its document names no keys with https")
        check_issuer_url(url)
        return url

    # --- A copy of the keys on the disk, for a start while the issuer is unavailable

    def cached(self) -> CachedKeys | None:
        """The keys, to be written to a folder; None if there are none."""
        if not self._keys:
            return None
        keys = [key.jwk for key in self._keys.values()]
        return CachedKeys(issuer=self.settings.oidc_issuer, as_of=time.time() - self.age, keys=keys)

    def restore(self, cached: CachedKeys | None) -> None:
        """Use the keys of an earlier process until they are read again, if they are of this issuer."""
        from service.tokens import read_keys

        if cached is None or cached.issuer != self.settings.oidc_issuer or self._keys:
            return
        age = time.time() - cached.as_of
        if age >= 0:  # not from the future, after the clock was set back
            with contextlib.suppress(ValueError):  # an earlier version accepted other keys
                self._keys = read_keys(cached.keys)
                self._read_at = time.monotonic() - age


# --- Metrics


class IssuerMetrics(Collector):
    """The outcomes of the tokens that a process received, and the age of the keys of their issuer."""

    def __init__(self, outcomes: Mapping[str, int], age: Callable[[], float]) -> None:
        self._outcomes = outcomes
        self._age = age

    def collect(self) -> Iterator[Metric]:
        """Both metrics."""
        tokens = CounterMetricFamily(
            "calibrant_tokens", "Bearer tokens of the issuer, by outcome: accepted, or why not.", labels=["outcome"]
        )
        for outcome, number in sorted(self._outcomes.items()):
            tokens.add_metric([outcome], number)
        yield tokens
        yield GaugeMetricFamily(
            "calibrant_issuer_keys_age_seconds",
            "Time since the keys of the issuer of tokens were read; infinite before.",
            self._age(),
        )
