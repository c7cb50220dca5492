"""Callers, and the API keys that a process holds in memory."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable
from dataclasses import dataclass

from backend.store.clock import seconds
from backend.store.keyspace import DEFAULT_TENANT
from schemas.audit import Actor, ActorKind
from schemas.keys import KEY_PREFIX, KeyRecord, digest_of, scopes_of
from schemas.keys import Scope as KeyScope
from service.errors import Forbidden


@dataclass(frozen=True)
class Caller:
    """The caller of a request; ``scope`` is what it is granted.

    ``key_id`` and ``name`` are those of its API key; both are ``oidc:`` and the subject of a token, whose end is
    ``expires_at``, in seconds since 1970. Names of keys have no colon. Both are None without keys.
    """

    tenant: str = DEFAULT_TENANT
    scope: str = "admin"
    name: str | None = None
    key_id: str | None = None
    rate_limit: int | None = None
    expires_at: float | None = None

    @property
    def actor(self) -> Actor:
        """The caller in the audit log."""
        if self.key_id is None:
            return Actor(kind="local")
        kind: ActorKind = "key" if self.expires_at is None else "subject"
        return Actor(kind=kind, id=self.key_id, name=self.name, scope=self.scope)

    def may(self, scope: KeyScope) -> bool:
        """Whether the caller has a scope."""
        return scope in scopes_of(self.scope)


#: The only caller of a service without keys.
LOCAL = Caller()
#: A caller without a key on an open page, in a service with keys; no tenant has this name.
STRANGER = Caller(tenant="-", scope="read")
_NOBODY = ("0" * 64, float("inf"))


def require_scope(caller: Caller, needed: KeyScope | None) -> None:
    """Raise ``Forbidden`` unless a caller has a scope, if one is needed; the response names it (RFC 6750)."""
    if needed is not None and not caller.may(needed):
        message = f"this call needs the scope {needed}; the caller has the scope {caller.scope}"
        challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
        raise Forbidden(message).with_headers({"WWW-Authenticate": challenge})


class Keyring:
    """The API keys of all tenants, as of the last read from the store.

    It is true if callers must identify themselves: any key was ever created, or tokens of an issuer are accepted.
    """

    def __init__(self, *, has_issuer: bool = False) -> None:
        self._has_issuer = has_issuer
        self._keys: dict[str, tuple[Caller, list[tuple[str, float]]]] = {}
        #: The records of the keys.
        self.records: list[KeyRecord] = []

    def __bool__(self) -> bool:
        """Whether callers must identify themselves."""
        return self._has_issuer or bool(self._keys)

    def read(self, records: Iterable[KeyRecord]) -> None:
        """Replace the keys."""
        self.records = list(records)
        self._keys = {r.id: (_caller(r), [(s.digest, _end(s.expires_at)) for s in r.secrets]) for r in self.records}

    def find(self, text: str) -> Caller | None:
        """The caller with this key; None if the key is unknown, expired or revoked.

        The id is not secret. The digests of the secrets are compared in constant time, even for an unknown id.
        """
        opened = self.open(text)
        return None if opened is None else opened[0]

    def open(self, text: str) -> tuple[Caller, str] | None:
        """Like ``find``, but also returns the digest of the key's secret."""
        prefix, _, rest = text.partition("_")
        key_id, _, secret = rest.partition("_")
        digest = digest_of(secret)
        caller = self.bearer(key_id, digest)
        return (caller, digest) if caller is not None and prefix == KEY_PREFIX else None

    def bearer(self, key_id: str, sent: str) -> Caller | None:
        """The caller of a key, by its id and the digest of its secret; None if the secret is not valid."""
        caller, known = self._keys.get(key_id, (None, []))
        now = time.time()
        matches = [
            hmac.compare_digest(sent, digest) and end > now for digest, end in (*known, *(_NOBODY,) * (2 - len(known)))
        ]
        return caller if any(matches[: len(known)]) else None

    def admits(self, caller: Caller) -> bool:
        """Whether a caller of an earlier request may still call: its key or token is valid, or there are no keys."""
        if caller.expires_at is not None:
            return caller.expires_at > time.time()
        if caller.key_id is None:
            return not self
        _, known = self._keys.get(caller.key_id, (None, []))
        return any(end > time.time() for _, end in known)


def _caller(record: KeyRecord) -> Caller:
    return Caller(record.tenant, record.scope, record.name, record.id, record.rate_limit)


def _end(expires_at: str | None) -> float:
    return float("inf") if expires_at is None else seconds(expires_at)
