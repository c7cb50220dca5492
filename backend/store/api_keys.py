"""API keys, of which only digests are stored, and their request counts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.client import Pipeline

from backend.store.audit import SERVICE, UNBOUNDED, AuditTrail
from backend.store.clock import seconds, stamp
from backend.store.errors import KeyConflict, UnknownKey
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared
from backend.store.link import Invalidation, announce
from backend.store.server.connection import transact
from schemas.audit import AuditFact, Author, ChangeAction
from schemas.keys import KEY_PREFIX, KeyRecord, Secret, TokenMapping, digest_of

# --- API keys, of which only digests are stored
#
# A key is shown once as ``calk_ID_SECRET``. The secret has 256 random bits, so a single round of SHA-256 is sufficient
# for its digest: it cannot be guessed.


class NewKey(NamedTuple):
    """A key with its text, which is not stored."""

    record: KeyRecord
    text: str


class ApiKeyStore:
    """The API keys of all tenants; their changes are by ``author`` in the audit log of the tenant of the key."""

    def __init__(self, redis: Redis, author: Author = SERVICE) -> None:
        self._redis = redis
        self._author = author

    def create(
        self, name: str, *, tenant: str, scope: str, expires_at: str | None = None, rate_limit: int | None = None
    ) -> NewKey:
        """Create a key; raises pydantic's ``ValidationError`` for an invalid name, tenant or scope."""
        key_id, (secret, text) = secrets.token_hex(8), _fresh(expires_at)
        record = KeyRecord(
            id=key_id,
            name=name,
            tenant=tenant,
            scope=scope,
            secrets=[secret],
            created_at=secret.created_at,
            rate_limit=rate_limit,
        )
        self._store(record, is_audited=True)
        return NewKey(record, f"{KEY_PREFIX}_{key_id}_{text}")

    def rotate(self, key_id: str, *, grace: int, expires_at: str | None = None) -> NewKey:
        """Add a second secret to a key; the first expires after ``grace`` seconds at the latest.

        Raises ``UnknownKey``, and ``KeyConflict`` for a revoked key or a key with two valid secrets.
        """
        secret, text = _fresh(expires_at)

        def change(record: KeyRecord) -> KeyRecord:
            if secret in record.secrets:  # the answer to the transaction was lost, and it is repeated
                return record
            live = [s for s in record.secrets if is_live(s)]
            if record.revoked_at is not None:
                raise KeyConflict("the key is revoked")
            if len(live) > 1:
                raise KeyConflict("the key has two valid secrets; the older one must expire first")
            ending = [s.model_copy(update={"expires_at": _sooner(s.expires_at, stamp(after=grace))}) for s in live]
            return record.model_copy(update={"secrets": [*ending, secret]})

        return NewKey(self._change(key_id, "key-rotated", change), f"{KEY_PREFIX}_{key_id}_{text}")

    def revoke(self, key_id: str) -> KeyRecord:
        """Revoke a key; takes effect in every process within a second. Raises ``UnknownKey``."""
        return self._change(
            key_id, "key-revoked", lambda r: r.model_copy(update={"revoked_at": r.revoked_at or stamp(), "secrets": []})
        )

    def all(self) -> list[KeyRecord]:
        """Every key ever created, oldest first, including revoked ones."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(Shared.api_keys()))
        return sorted((read_stored(KeyRecord, data) for data in stored.values()), key=lambda r: r.created_at)

    def any(self) -> bool:
        """Whether any key was ever created; from then on the service requires keys."""
        return bool(self._redis.hlen(Shared.api_keys()))

    def set_tokens(self, mapping: TokenMapping | None) -> None:
        """Store what tokens of the issuer grant, for the audit log; None without an issuer. Raises ``StoreRefuses``."""
        text = None if mapping is None else mapping.model_dump_json().encode()
        if self._redis.get(Shared.token_mapping()) == text:
            return  # so that a service starts although the store takes no writes at the moment
        if text is None:
            self._redis.delete(Shared.token_mapping())
        else:
            self._redis.set(Shared.token_mapping(), text)

    def restore(self, record: KeyRecord) -> bool:
        """Store the record of a key from a backup; returns False if the id exists, whose record is kept."""
        return self._store(record, is_audited=False)

    def _store(self, record: KeyRecord, *, is_audited: bool) -> bool:
        """Store a record unless its id exists, also because the answer to the transaction was lost."""

        def write(pipe: Pipeline) -> bool:
            known = pipe.hexists(Shared.api_keys(), record.id)
            pipe.multi()
            if not known:
                self._write(pipe, record)
                if is_audited:
                    self._audit(pipe, "key-created", None, record)
            return not known

        return transact(self._redis, write, Shared.api_keys())

    def _change(self, key_id: str, action: ChangeAction, change: Callable[[KeyRecord], KeyRecord]) -> KeyRecord:
        def write(pipe: Pipeline) -> KeyRecord:
            stored = pipe.hget(Shared.api_keys(), key_id)
            if stored is None:
                raise UnknownKey("there is no key with this id")
            before = read_stored(KeyRecord, stored)
            changed = change(before)
            pipe.multi()
            self._write(pipe, changed)
            if changed != before:
                self._audit(pipe, action, before, changed)
            return changed

        return transact(self._redis, write, Shared.api_keys())

    def _audit(self, pipe: Pipeline, action: ChangeAction, before: KeyRecord | None, after: KeyRecord) -> None:
        old = None if before is None else _audited(before)
        fact = AuditFact(action=action, key=after.id, before=old, after=_audited(after))
        AuditTrail(self._redis, Keyspace(after.tenant), self._author, UNBOUNDED).add(pipe, fact)

    @staticmethod
    def _write(pipe: Pipeline, record: KeyRecord) -> None:
        pipe.hset(Shared.api_keys(), record.id, record.model_dump_json())
        pipe.sadd(Shared.tenants(), record.tenant)
        announce(pipe, Invalidation("keys"))


def _audited(record: KeyRecord) -> dict[str, Any]:
    """A key as the audit log states it: without digests; when each of its secrets expires, null for never."""
    about = record.model_dump(include={"name", "scope", "rate_limit", "revoked_at"})
    return about | {"expires_at": [secret.expires_at for secret in record.secrets]}


def is_live(secret: Secret) -> bool:
    """Whether a secret has not expired."""
    return secret.expires_at is None or seconds(secret.expires_at) > seconds(stamp())


def _fresh(expires_at: str | None) -> tuple[Secret, str]:
    text = secrets.token_urlsafe(32)
    return Secret(digest=digest_of(text), created_at=stamp(), expires_at=expires_at), text


def _sooner(end: str | None, other: str) -> str:
    return other if end is None or seconds(other) < seconds(end) else end


# --- Requests of each API key per minute, counted over all processes

#: Length of a window in seconds.
WINDOW = 60


async def add_requests(redis: AsyncRedis, counts: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Add to the counts of ``(key id, window)`` and return the new totals of all processes."""
    async with redis.pipeline() as pipe:
        for (key_id, window), count in counts.items():
            key = Shared.requests(key_id, window)
            pipe.incrby(key, count)
            pipe.expire(key, 2 * WINDOW)
        answers = await pipe.execute()
    return dict(zip(counts, answers[::2], strict=True))
