"""Settings: fields from which their flags, environment variables and rows of the reference are made."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

#: The beginning of the name of every environment variable.
PREFIX = "CALIBRANT_"


#: The maximum of a number without one of its own, and of seconds: ten years.
MOST, LONGEST = 2**53, 10 * 365 * 24 * 3600


def setting(
    default: Any,
    meaning: str,
    *,
    low: float | None = None,
    high: float = MOST,
    check: Callable[[str], None] | None = None,
    example: str | None = None,
    limit: bool = False,
    is_common: bool = False,
) -> Any:
    """A field that is a setting; ``GET /limits`` lists it if ``limit`` is true.

    One that ``is_common`` must have the same value in the API and in the workers, which its meaning then says.

    A number lies between ``low`` and ``high``. ``check`` raises ``ValueError`` for an invalid text; it accepts
    ``example``, which ``meaning`` may show as ``{example}``. Raises ``TypeError`` for one without the other, and for a
    number without ``low``.
    """
    if type(default) in (int, float) and low is None:
        raise TypeError("a setting that is a number needs the lowest that it accepts: setting(..., low=0)")
    if (check is None) != (example is None):
        raise TypeError("a setting that checks its text needs an example that it accepts: setting(..., example=TEXT)")
    shown = meaning if example is None else meaning.replace("{example}", example)
    if is_common:
        shown += "; set the same value for the API and for the workers"
    rules = {"low": low, "high": high, "check": check, "example": example, "limit": limit}
    return field(default=default, metadata={"meaning": shown, **rules})


def check_address(text: str) -> None:
    """Raise ``ValueError`` for a text that is no HTTP address."""
    if text and not text.startswith(("https://", "http://")):
        raise ValueError("must start with https:// or http://")


def check_sources(text: str) -> None:
    """Raise ``ValueError`` for a text that declares no sources."""
    if text:
        from schemas.sources import read_declarations  # slow to import, and most services have none

        read_declarations(text)


def check_scheduler(text: str) -> None:
    """Raise ``ValueError`` for a text that is no address of a Dask scheduler."""
    if text and re.fullmatch(r"(tls|tcp)://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", text) is None:
        raise ValueError("must be tls://HOST:PORT or tcp://HOST:PORT")


@dataclass(frozen=True)
class SharedSettings:
    """The settings of the API and of the workers."""

    redis_url: str
    quota_maps: int | None = setting(
        None,
        "maximum number of maps of a tenant; 0: no quota; default: as many as half of the budget of the store holds "
        "with 64 KiB each, with those that workers store after an alarm",
        low=0,
        limit=True,
        is_common=True,
    )
    store_budget: float = setting(
        0.75,
        "fraction of the memory of Redis (maxmemory, or the memory of its machine if maxmemory is not set) that "
        "requests may fill; a tenant may fill half of that; 0: no budget",
        low=0,
        high=1,
    )
    audit_entries: int = setting(
        10_000,
        "maximum number of entries of the audit log of a tenant; the oldest are removed, those of fits first while "
        "they are more than half",
        low=100,
        high=1_000_000,
        limit=True,
        is_common=True,
    )
    audit_days: int = setting(
        400,
        "days that entries of the audit log are kept",
        low=1,
        high=36_500,
        limit=True,
        is_common=True,
    )
    webhook_hosts: str = setting(
        "",
        "hosts that webhooks may be sent to, separated by commas, such as alerts.example.com, *.example.com, "
        "alerts.example.com:8443, or http://alerts.example.com, which also allows http; default: none",
        is_common=True,
    )
    webhook_private_addresses: str = setting(
        "",
        "networks of private addresses that webhooks may be sent to, separated by commas, such as 10.0.0.0/8; default: "
        "none",
        is_common=True,
    )
    sources: str = setting(
        "",
        "sources of rows in files by name, as JSON, or as a table of the file of settings, such as {example}; roots "
        "are file://, s3://, gs:// or abfs://, with credentials from the environment or the identity of the machine; "
        "without tenants, all may read; endpoint and region are those of an object store that is not Amazon's; "
        "default: none",
        check=check_sources,
        example='{"scores": {"root": "s3://bucket/folder", "write": true, "tenants": ["risk"]}}',
        is_common=True,
    )
    dask_scheduler: str = setting(
        "",
        "address of a Dask scheduler, whose cluster counts the rows of sources for requests with the engine dask, such "
        "as {example}, or tcp:// in a network that only trusted programs can reach; certificates are those of Dask's "
        "own configuration, such as DASK_DISTRIBUTED__COMM__TLS__CA_FILE; default: none",
        check=check_scheduler,
        example="tls://dask.example.com:8786",
        is_common=True,
    )
    drain_seconds: float = setting(
        10.0,
        "time limit in seconds for requests or jobs in progress to finish after SIGTERM; a job that takes longer "
        "returns to its queue",
        low=0,
        high=LONGEST,
    )
    otlp_endpoint: str | None = setting(
        None,
        "OpenTelemetry collector that receives traces, such as {example}; needs the extra telemetry of "
        "calibrant-server",
        check=check_address,
        example="http://localhost:4318",
    )


class Setting(NamedTuple):
    """One setting, with the arguments of ``setting``."""

    name: str
    kind: type | UnionType
    default: Any
    meaning: str
    low: float | None
    high: float
    check: Callable[[str], None] | None
    example: str | None
    limit: bool

    @property
    def value_type(self) -> type[Any]:
        """The type of its values other than None."""
        kind: type[Any]
        (kind,) = {part for part in get_args(self.kind) or (self.kind,) if part is not NoneType}
        return kind


def settings_of(kind: type[Any]) -> Iterator[Setting]:
    """Every setting of a class."""
    hints = get_type_hints(kind)
    for declared in dataclasses.fields(kind):
        if declared.metadata:
            yield Setting(declared.name, hints[declared.name], declared.default, **declared.metadata)


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


# --- Settings of a supervisor in the processes of its workers, which have them in their environment


def variables_of(settings: Any) -> dict[str, str]:
    """The environment variables of all settings of an object that have a value."""
    values = ((setting.name, getattr(settings, setting.name)) for setting in settings_of(type(settings)))
    return {variable_of(name): str(value) for name, value in values if value is not None}


@cache
def _by_name(kind: type[SharedSettings]) -> Mapping[str, Setting]:
    return {setting.name: setting for setting in settings_of(kind)}


def setting_here(kind: type[SharedSettings], name: str) -> Any:
    """The value of a setting of a class in the environment of this process, or its default; ``KeyError`` for others."""
    setting, text = _by_name(kind)[name], os.environ.get(variable_of(name))  # type: ignore[arg-type]
    if not text:
        return setting.default
    return text == str(True) if setting.value_type is bool else setting.value_type(text)


def shared_setting(name: str) -> Any:
    """The value of a shared setting in the environment of this process, or its default; ``KeyError`` for others."""
    return setting_here(SharedSettings, name)
