"""Who calls: the keys that processes keep in memory, and the caller that a key stands for."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable
from dataclasses import dataclass

from backend.store.api_keys import PREFIX, digest_of
from backend.store.clock import seconds
from backend.store.keyspace import DEFAULT_TENANT
from schemas.keys import SCOPES, KeyRecord, Scope


@dataclass(frozen=True)
class Caller:
    """Whose data a request is about. ``key_id`` and ``name`` are those of its API key, None without keys."""

    tenant: str = DEFAULT_TENANT
    scope: Scope = "admin"
    name: str | None = None
    key_id: str | None = None
    rate_limit: int | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller holds a scope."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


#: The one caller of a service without keys.
LOCAL = Caller()
#: Who asks for an open page where keys are needed elsewhere; no tenant has this name.
STRANGER = Caller(tenant="-", scope="read")
_NOBODY = ("0" * 64, float("inf"))


class Keyring:
    """The API keys of all tenants, as the store had them when it was last read."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[Caller, list[tuple[str, float]]]] = {}

    def __bool__(self) -> bool:
        """Whether a key was ever made."""
        return bool(self._keys)

    def read(self, records: Iterable[KeyRecord]) -> None:
        """Take these keys in the place of those before."""
        self._keys = {r.id: (_caller(r), [(s.digest, _end(s.expires_at)) for s in r.secrets]) for r in records}

    def find(self, text: str) -> Caller | None:
        """The caller whose key this is; None for a key that is unknown, ended or revoked.

        The id is no secret; the digests of the secrets are compared in constant time, also for an unknown id.
        """
        found = self.open(text)
        return None if found is None else found[0]

    def open(self, text: str) -> tuple[Caller, str] | None:
        """``find``, with the digest of the key's secret."""
        prefix, _, rest = text.partition("_")
        key_id, _, secret = rest.partition("_")
        digest = digest_of(secret)
        caller = self.bearer(key_id, digest)
        return (caller, digest) if caller is not None and prefix == PREFIX else None

    def bearer(self, key_id: str, sent: str) -> Caller | None:
        """The caller of a key by its id and the digest of its secret; None where that one is no longer live."""
        caller, known = self._keys.get(key_id, (None, []))
        now = time.time()
        matches = [
            hmac.compare_digest(sent, digest) and end > now for digest, end in (*known, *(_NOBODY,) * (2 - len(known)))
        ]
        return caller if any(matches[: len(known)]) else None


def _caller(record: KeyRecord) -> Caller:
    return Caller(record.tenant, record.scope, record.name, record.id, record.rate_limit)


def _end(expires_at: str | None) -> float:
    return float("inf") if expires_at is None else seconds(expires_at)
