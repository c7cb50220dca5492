"""Who can move an alias: API keys, holders of tokens with some claims, and monitors by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import orjson
from redis.client import Pipeline

from backend.store.api_keys import is_live
from backend.store.formats import read_stored
from backend.store.keyspace import DEFAULT_TENANT, Keyspace, Shared
from schemas.audit import Promoter
from schemas.keys import KeyRecord, TokenMapping, scopes_of


def promoters(pipe: Pipeline, keys: Keyspace, name: str, alias: str) -> list[Promoter] | None:
    """Everyone who can move an alias, as read and watched by ``pipe``; None if every local caller can."""
    pipe.watch(Shared.api_keys(), Shared.token_mapping(), keys.monitor_definitions())  # type: ignore[no-untyped-call]
    stored = cast(list[bytes], pipe.hvals(Shared.api_keys()))
    mapping = cast("bytes | None", pipe.get(Shared.token_mapping()))
    monitors = cast(list[bytes], pipe.hvals(keys.monitor_definitions()))
    if not stored and mapping is None:
        return None
    tokens = [] if mapping is None else _of_tokens(read_stored(TokenMapping, mapping), keys.tenant)
    return [*_of_keys(stored, keys.tenant), *tokens, *_of_monitors(monitors, name, alias)]


def _of_keys(stored: Iterable[bytes], tenant: str) -> list[Promoter]:
    """The valid keys of a tenant that grant it, oldest first."""
    own = [data for data in stored if orjson.loads(data).get("tenant") == tenant]
    records = sorted((read_stored(KeyRecord, data) for data in own), key=lambda record: record.created_at)
    return [
        Promoter(id=record.id, name=record.name, scope=record.scope)
        for record in records
        if "maps:promote" in scopes_of(record.scope) and any(map(is_live, record.secrets))
    ]


def _of_tokens(mapping: TokenMapping, tenant: str) -> list[Promoter]:
    """The claims of tokens that grant it in a tenant."""
    if not mapping.tenant_claim and tenant != DEFAULT_TENANT:
        return []
    own = {mapping.tenant_claim: tenant} if mapping.tenant_claim else {}
    return [
        Promoter(kind="tokens", issuer=mapping.issuer, scope=scope, claims={mapping.scopes_claim: value} | own)
        for value, scope in mapping.scopes.items()
        if "maps:promote" in scopes_of(scope)
    ]


def _of_monitors(stored: Iterable[bytes], name: str, alias: str) -> list[Promoter]:
    """The monitors that move this alias by themselves."""
    from schemas.monitors import PROMOTING, StoredMonitor

    # Definitions without one of these words need not be read.
    words = [f'"{policy}"'.encode() for policy in PROMOTING]
    records = (read_stored(StoredMonitor, data) for data in stored if any(word in data for word in words))
    return [
        Promoter(kind="monitor", id=record.id, name=record.name)
        for record in records
        if record.recalibration.promotes
        and record.recalibration.alias == alias
        and (record.recalibration.name or record.name if record.map is None else record.map.partition("@")[0]) == name
    ]
