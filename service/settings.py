"""The settings of the API, each with its default, its meaning and its least value.

The flags of ``calibrant api``, the environment variables, docs/reference/settings.md and ``GET /limits`` are made from
these fields.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

if TYPE_CHECKING:  # the store's client takes longer to load than all flags, which ``calibrant --help`` needs alone
    from backend.monitors.webhook_targets import Targets
    from backend.store.budget import Quotas

MIB = 1024 * 1024
HOUR = 3600


def _setting(default: Any, meaning: str, *, low: float | None = None, limit: bool = False) -> Any:
    """A field of ``Settings``; ``limit`` puts it into ``GET /limits``."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "limit": limit})


@dataclass(frozen=True)
class Settings:
    """The settings of the API. Times are seconds, sizes bytes."""

    redis_url: str
    max_body_bytes: int = _setting(256 * MIB, "largest body, as sent", low=1, limit=True)
    max_unpacked_bytes: int = _setting(1024 * MIB, "largest body, unpacked", low=1, limit=True)
    max_rows: int = _setting(50_000_000, "most rows of a body", low=1, limit=True)
    max_classes: int = _setting(10_000, "most classes of a body's predictions", low=2, limit=True)
    max_json_depth: int = _setting(32, "deepest nesting of a JSON body", low=3, limit=True)
    max_json_values: int = _setting(
        16 * MIB, "commas and colons of a JSON body outside its strings; binary formats are exempt", low=1, limit=True
    )
    max_batch_rows: int = _setting(50_000_000, "rows of a batch, appended ones and all", low=1, limit=True)
    batch_ttl: int = _setting(
        24 * HOUR,
        "seconds that a batch is kept, and the most that one may ask for; one that a job needs is kept until it ends",
        low=1,
        limit=True,
    )
    job_ttl: int = _setting(7 * 24 * HOUR, "seconds that a finished job is known", low=1, limit=True)
    max_wait: int = _setting(30, "longest that a caller may wait for a job by Prefer: wait", low=0, limit=True)
    max_spool_bytes: int = _setting(
        0,
        "bytes of temporary files of one process, where their volume may not be filled, such as an emptyDir with a "
        "sizeLimit; a tenant has at most half; 0: what the volume has free",
        low=0,
    )
    max_event_streams: int = _setting(
        200, "event streams of one process; a tenant has at most half of them, an API key a quarter", low=0
    )
    idempotency_ttl: int = _setting(24 * HOUR, "seconds that an idempotency key is known", low=1, limit=True)
    idempotency_lease: int = _setting(
        60, "seconds after which a request that died may be sent again with its idempotency key", low=1
    )
    fit_timeout: int = _setting(HOUR, "seconds that one run of a fit may take", low=1, limit=True)
    evaluate_timeout: int = _setting(HOUR, "seconds that one run of an evaluation by a job may take", low=1, limit=True)
    gpu_seconds: float = _setting(
        10.0, "fits estimated to take so many seconds on a CPU go to a worker with a GPU, where one is alive", low=0
    )
    request_timeout: float = _setting(
        60.0, "seconds in which an answer must begin; what takes longer is requested as a job", low=0.1, limit=True
    )
    min_upload_rate: int = _setting(
        64 * 1024,
        "bytes a second at which a body must arrive, over the first 10 s of waiting for it and any 10 s after them; a "
        "slower one gets 408; 0: no bound",
        low=0,
        limit=True,
    )
    store_timeout: float = _setting(3.0, "seconds that Redis may be silent before what waits for it gets 503", low=0.1)
    max_heavy_requests: int = _setting(
        8,
        "requests with a body over 1 MiB unpacked or an estimate over 0.1 s that are worked on at once, and bodies of "
        "max-body-bytes that fit into the memory for bodies; more get 503; with API keys a tenant has at most half of "
        "both, but always one",
        low=1,
    )
    rate_limit: int = _setting(
        0,
        "requests that an API key may send in a minute, unless it has a limit of its own; 0: no limit",
        low=0,
        limit=True,
    )
    quota_bytes: int = _setting(
        64 * 1024 * MIB, "bytes of batches that a tenant may keep; 0: no quota", low=0, limit=True
    )
    quota_maps: int = _setting(
        100_000, "maps that a tenant may keep; 0: no quota; the workers need the same", low=0, limit=True
    )
    quota_jobs: int = _setting(10_000, "jobs of a tenant that may wait or run; 0: no quota", low=0, limit=True)
    max_monitors: int = _setting(100, "monitors that a tenant may have; 0: no quota", low=0, limit=True)
    max_queued_jobs: int = _setting(100_000, "jobs of all tenants that may wait or run; 0: no bound", low=0, limit=True)
    store_budget: float = _setting(
        0.75,
        "part of the store's maxmemory, or of its machine's memory if that is not set, that requests may fill, and a "
        "tenant half of that; 0: no budget",
        low=0,
    )
    held_maps: int = _setting(256, "maps that a process keeps in memory", low=1)
    cors_origins: str = _setting(
        "", "origins whose pages may call the service from a browser, separated by commas, or *; none by default"
    )
    trusted_proxies: str = _setting(
        "", "addresses of proxies whose X-Forwarded-For is believed, separated by commas; none by default"
    )
    header_timeout: float = _setting(
        10.0, "seconds from the start of a connection, or of a later request on it, to the end of the headers", low=0.1
    )
    max_connections_per_address: int = _setting(
        256,
        "connections that one address, or one IPv6 network of 64 bits, may hold with one process; more get 503; "
        "trusted proxies are exempt; 0: no bound",
        low=0,
    )
    webhook_hosts: str = _setting(
        "",
        "hosts that webhooks of monitors may be sent to, separated by commas, such as alerts.example.com, "
        "*.example.com, alerts.example.com:8443, or http://alerts.example.com, which admits http as well; none by "
        "default; the workers need the same",
    )
    webhook_private_addresses: str = _setting(
        "",
        "networks of addresses that are not public and that webhooks may be sent to all the same, separated by commas, "
        "such as 10.0.0.0/8; none by default; the workers need the same",
    )
    session_idle: int = _setting(
        HOUR, "seconds after which someone who is signed in on the web page and does nothing is signed out", low=60
    )
    session_life: int = _setting(12 * HOUR, "seconds after which everyone is signed out of the web page", low=60)
    sign_in_rate: int = _setting(
        10, "attempts to sign in on the web page that one address may make in a minute; 0: no limit", low=0
    )
    drain_seconds: int = _setting(
        10, "seconds that what is under way, requests or jobs, has to end after SIGTERM", low=0
    )

    otlp_endpoint: str | None = _setting(
        None, "OpenTelemetry collector to send traces to, such as http://localhost:4318; needs the extra telemetry"
    )

    @property
    def quotas(self) -> Quotas:
        """What a tenant may keep, and the bound of all jobs."""
        from backend.store.budget import Quotas

        return Quotas(self.quota_bytes, self.quota_maps, self.quota_jobs, self.max_queued_jobs, self.max_monitors)

    @property
    def targets(self) -> Targets:
        """Where webhooks may go; raises ``InvalidTargets``."""
        from backend.monitors.webhook_targets import Targets

        return Targets.read(self.webhook_hosts, self.webhook_private_addresses)

    @property
    def origins(self) -> list[str]:
        """``cors_origins`` as a list."""
        return [origin.strip() for origin in self.cors_origins.split(",") if origin.strip()]


class Setting(NamedTuple):
    """One setting: ``low`` is its least value, ``limit`` whether ``GET /limits`` has it."""

    name: str
    kind: type | UnionType
    default: Any
    meaning: str
    low: float | None
    limit: bool

    @property
    def flag(self) -> str:
        """As the command line takes it."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """As the environment holds it."""
        return "CALIBRANT_" + self.name.upper()


def all_settings() -> Iterator[Setting]:
    """Every setting but the store's URL, which has no default."""
    kinds = get_type_hints(Settings)
    for f in dataclasses.fields(Settings):
        if f.metadata:
            yield Setting(f.name, kinds[f.name], f.default, **f.metadata)


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
