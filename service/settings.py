"""The settings of the API with their defaults, descriptions and minimum values.

The flags of ``calibrant api``, the environment variables, the settings page of the documentation and ``GET /limits``
are generated from these fields.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from backend.settings import LONGEST, SharedSettings, setting

if TYPE_CHECKING:  # ``calibrant --help`` needs only the flags, and the store's client is slow to import
    from backend.monitors.webhook_targets import Targets
    from backend.store.budget import Quotas

MIB = 1024 * 1024
HOUR = 3600


def _check_origins(text: str) -> None:
    if any(re.fullmatch(r"\*|https?://[^/?#@\s]+", origin.strip()) is None for origin in text.split(",") if origin):
        raise ValueError("must be origins such as https://app.example.com, separated by commas, or *")


def _check_proxies(text: str) -> None:
    try:
        for part in text.split(",") if text.strip() not in ("", "*") else ():
            ipaddress.ip_network(part.strip())
    except ValueError:
        raise ValueError("must be addresses or networks such as 10.0.0.0/8, separated by commas, or *") from None


def _check_volume(text: str) -> None:
    if text and not text.isdecimal() and not Path(text).is_dir():
        raise ValueError("must be a number of bytes, or an existing folder")


def _check_root_path(text: str) -> None:
    if re.fullmatch(r"(/(?!\.+(/|$))[A-Za-z0-9._~-]+)*", text) is None:
        raise ValueError("must be a path such as /calibrant, without a slash at its end")


def check_issuer_url(text: str) -> None:
    """Raise ``ValueError`` for a URL whose answers could be forged on their way, or that is no plain URL."""
    parts = urlsplit(text)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if text and not (is_safe and parts.hostname and "@" not in parts.netloc and not parts.fragment):
        raise ValueError("must be a URL with https, or with http on a loopback address, without user name and fragment")


def _check_preload(text: str) -> None:
    from backend.store.registry.maps import read_reference

    for part in filter(None, map(str.strip, text.split(","))):
        tenant, _, ref = part.rpartition("/")
        if read_reference(ref) is None or "/" in tenant:
            raise ValueError("must be maps such as spam, spam:3, spam@champion or tenant/spam, separated by commas")


@dataclass(frozen=True)
class ScoringSettings:
    """The settings of every process that applies maps. Times are in seconds, sizes in bytes."""

    max_body_bytes: int = setting(256 * MIB, "maximum size of a body in bytes, as sent", low=1, limit=True)
    max_unpacked_bytes: int = setting(1024 * MIB, "maximum unpacked size of a body in bytes", low=1, limit=True)
    max_rows: int = setting(50_000_000, "maximum number of rows of a body", low=1, limit=True)
    max_classes: int = setting(10_000, "maximum number of classes of a body's predictions", low=2, limit=True)
    max_json_depth: int = setting(32, "maximum nesting depth of a JSON body", low=3, limit=True)
    max_json_values: int = setting(
        16 * MIB,
        "maximum number of commas and colons outside strings in a JSON body; binary formats are exempt",
        low=1,
        limit=True,
    )
    request_timeout: float = setting(
        60.0,
        "time limit in seconds for a response to begin; longer work must run as a job",
        low=0.1,
        high=LONGEST,
        limit=True,
    )
    min_upload_rate: int = setting(
        64 * 1024,
        "minimum upload rate of a body in bytes per second, checked over periods of 10 s; a slower body gets 408; 0: "
        "no limit",
        low=0,
        limit=True,
    )
    max_heavy_requests: int = setting(
        2,
        "maximum number of concurrent heavy requests. A request is heavy if its body is over 1 MiB unpacked or its "
        "estimated time is over 0.1 s; a body of many MiB counts as several. With API keys, a tenant may use half of "
        "it, but at least one request",
        low=1,
    )
    max_waiting_requests: int = setting(
        64,
        "maximum number of heavy requests that wait for others, tenants in turn, for up to half of request_timeout; "
        "their bodies may have a quarter of max_request_memory. With API keys, a tenant may use half of both. Requests "
        "beyond a limit of the tenant get 429, beyond one of the process 503; 0: none waits",
        low=0,
    )
    max_request_memory: int = setting(
        2304 * MIB,
        "bytes of memory for the requests of one process: their bodies, what these unpack to, and the copies for the "
        "work on it, which are reserved before they are allocated. Requests beyond the limit get 503, and 413 if one "
        "alone needs more. With API keys, a tenant may use half of it. A process needs 700 MiB in addition",
        low=16 * MIB,
        limit=True,
    )
    unready_seconds: float = setting(
        5.0,
        "maximum seconds after SIGTERM for which the port stays open, until a request for /health/ready has received "
        "503, so that load balancers send no more requests; serve sets 0",
        low=0,
        high=LONGEST,
    )
    trusted_proxies: str = setting(
        "",
        "addresses or networks of reverse proxies whose X-Forwarded-For is trusted, separated by commas, or *; "
        "default: none",
        check=_check_proxies,
        example="10.0.0.0/8",
    )
    root_path: str = setting(
        "",
        "path below which a reverse proxy serves the service, such as {example}; links, redirects, pages and the "
        "OpenAPI document have it; the proxy may remove it from requests or not; default: none",
        check=_check_root_path,
        example="/calibrant",
    )
    header_timeout: float = setting(
        10.0,
        "time limit in seconds for the headers of a request to arrive; counted from the start of the connection for "
        "its first request, and from the start of the request for later ones",
        low=0.1,
        high=LONGEST,
    )
    idle_timeout: float = setting(
        75.0,
        "seconds for which a connection may be idle between two requests; more than the time for which clients and "
        "load balancers keep one, commonly 60, so that none is closed while a request is on its way",
        low=0.1,
        high=LONGEST,
    )
    max_connections_per_address: int = setting(
        256,
        "maximum connections of one address, or of one IPv6 /64 network, with one process; connections beyond it get "
        "503; trusted proxies are exempt; 0: no limit",
        low=0,
    )


@dataclass(frozen=True)
class Settings(ScoringSettings, SharedSettings):
    """The settings of the API. Times are in seconds, sizes in bytes."""

    max_batch_rows: int = setting(
        50_000_000, "maximum number of rows of a batch, including appended rows", low=1, limit=True
    )
    batch_ttl: int = setting(
        24 * HOUR,
        "default and maximum lifetime of a batch in seconds; a batch does not expire while an unfinished job needs it",
        low=1,
        high=LONGEST,
        limit=True,
    )
    job_ttl: int = setting(
        7 * 24 * HOUR, "seconds that a job is kept after it has ended", low=1, high=LONGEST, limit=True
    )
    max_wait: int = setting(
        30, "maximum seconds that a request may wait for a job with Prefer: wait", low=0, high=LONGEST, limit=True
    )
    max_spool_bytes: int = setting(
        0,
        "maximum total size in bytes of the temporary files of one process. A tenant may use half of it. Set it if the "
        "volume has its own size limit, such as the sizeLimit of an emptyDir; 0: only the free space of the volume "
        "limits it",
        low=0,
    )
    max_event_streams: int = setting(
        200, "maximum open event streams of one process; a tenant may use half of them, an API key a quarter", low=0
    )
    idempotency_ttl: int = setting(
        24 * HOUR, "seconds that an idempotency key is kept", low=1, high=LONGEST, limit=True
    )
    idempotency_lease: int = setting(
        10, "seconds after which a request whose process died may be repeated with its key", low=1, high=LONGEST
    )
    fit_timeout: int = setting(HOUR, "maximum seconds of one run of a fit", low=1, high=LONGEST, limit=True)
    evaluate_timeout: int = setting(
        HOUR, "maximum seconds of one run of an evaluation job", low=1, high=LONGEST, limit=True
    )
    gpu_seconds: float = setting(
        10.0,
        "fits with an estimated time of at least this many seconds on a CPU go to a GPU worker, if one is running",
        low=0,
        high=LONGEST,
    )
    store_timeout: float = setting(
        3.0,
        "seconds without a reply from Redis after which a request gets 503; while Redis is known to be away, after a "
        "sixth of it, but at least 0.5 s",
        low=0.1,
        high=LONGEST,
    )
    rate_limit: int = setting(
        0,
        "requests per minute for an API key without a limit of its own; 0: no limit",
        low=0,
        limit=True,
    )
    quota_bytes: int = setting(
        0,
        "maximum stored bytes of batches of a tenant; 0: only the budget of the store limits them",
        low=0,
        limit=True,
    )
    quota_jobs: int = setting(10_000, "maximum queued and running jobs of a tenant; 0: no quota", low=0, limit=True)
    max_monitors: int = setting(100, "maximum number of monitors of a tenant; 0: no quota", low=0, limit=True)
    max_queued_jobs: int = setting(
        100_000, "maximum queued and running jobs of all tenants; 0: no limit", low=0, limit=True
    )
    store_volume: str = setting(
        "",
        "volume of the append-only file of Redis: its size in bytes, or a folder on it that this process sees. "
        "Requests that store get 507 before it is full, because a full volume ends a Redis with appendfsync always. "
        "serve sets the folder of its embedded store; default: not checked",
        check=_check_volume,
        example="107374182400",
    )
    held_maps: int = setting(256, "number of maps that a process keeps in memory", low=1)
    preload: str = setting(
        "",
        "maps to keep in memory from the start, separated by commas, such as {example} or, for a tenant, "
        "billing/{example}; default: none",
        check=_check_preload,
        example="spam@champion",
    )
    serve_stale_seconds: int = setting(
        900,
        "seconds for which maps in memory are applied, and the API keys last read accepted, while Redis is "
        "unavailable; a key revoked meanwhile works for at most as long; 0: no call that needs Redis or an API key is "
        "answered",
        low=0,
        high=LONGEST,
    )
    held_folder: str = setting(
        "",
        "folder for a copy of the maps and API keys in memory, of keys only digests, so that a process that starts "
        "while Redis is unavailable can apply maps; for one process alone; default: none with api, held in the data "
        "folder with serve",
    )
    cors_origins: str = setting(
        "",
        "origins that may call the service from a browser, such as {example}, separated by commas, or *; default: none",
        check=_check_origins,
        example="https://app.example.com",
    )
    session_idle: int = setting(
        HOUR, "seconds of inactivity after which a user of the web page is signed out", low=60, high=LONGEST
    )
    session_life: int = setting(12 * HOUR, "maximum seconds of a session on the web page", low=60, high=LONGEST)
    oidc_issuer: str = setting(
        "",
        "issuer whose bearer tokens are accepted beside API keys, exactly as in their claim iss, such as "
        "{example}; needs the extra oidc of calibrant-server; default: none",
        check=check_issuer_url,
        example="https://id.example.com/realms/main",
    )
    oidc_audience: str = setting(
        "",
        "audiences, separated by commas, one of which the claim aud of a token must have; required with oidc_issuer",
    )
    oidc_jwks_url: str = setting(
        "",
        "URL of the keys of the issuer; default: as in its document /.well-known/openid-configuration",
        check=check_issuer_url,
        example="https://id.example.com/keys",
    )
    oidc_tenant_claim: str = setting(
        "",
        "claim with the tenant of a token: its name, or a JSON pointer such as /organization/id; default: none, and "
        "every token acts in the tenant default",
    )
    oidc_scopes_claim: str = setting(
        "scope",
        "claim with the scopes of a token, a text with spaces or a list: its name, or a JSON pointer such as "
        "/realm_access/roles",
    )
    oidc_scopes: str = setting(
        "",
        "scopes that values of oidc_scopes_claim grant, separated by commas, such as calibrant-viewer=read,ops=admin; "
        "other values grant nothing; default: values that are names of scopes, but not admin, grant these",
    )
    oidc_leeway: float = setting(
        30.0, "seconds by which the clocks of the issuer and of this machine may differ", low=0, high=300
    )
    oidc_refresh_seconds: float = setting(
        300.0, "seconds between two reads of the keys of the issuer", low=10, high=LONGEST
    )
    oidc_stale_seconds: float = setting(
        3600.0,
        "seconds for which the keys last read are used while the issuer is unavailable; then tokens get 503; at least "
        "oidc_refresh_seconds",
        low=10,
        high=LONGEST,
    )
    sign_in_rate: int = setting(10, "sign-in attempts per minute from one address on the web page; 0: no limit", low=0)

    @property
    def quotas(self) -> Quotas:
        """The quotas of a tenant, and the limit on the jobs of all tenants."""
        from backend.store.audit import AuditBounds
        from backend.store.budget import Quotas

        return Quotas(
            self.quota_bytes,
            self.quota_maps,
            self.quota_jobs,
            self.max_queued_jobs,
            self.max_monitors,
            audit=AuditBounds(self.audit_entries, self.audit_days),
        )

    @property
    def targets(self) -> Targets:
        """The allowed targets of webhooks; raises ``InvalidTargets``."""
        from backend.monitors.webhook_targets import Targets

        return Targets.read(self.webhook_hosts, self.webhook_private_addresses)

    @property
    def preloaded(self) -> list[tuple[str, str]]:
        """The tenant and the reference of each map of ``preload``."""
        from backend.store.keyspace import DEFAULT_TENANT

        parts = (part.strip().rpartition("/") for part in self.preload.split(",") if part.strip())
        return [(tenant or DEFAULT_TENANT, ref) for tenant, _, ref in parts]

    @property
    def origins(self) -> list[str]:
        """``cors_origins`` as a list."""
        return [origin.strip() for origin in self.cors_origins.split(",") if origin.strip()]


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether ``host`` is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
