"""Idempotency keys: the request of each, and its response.

A key is reserved with a secret seed before its request is processed. The ids of everything that the request creates
are derived from the seed, so a request that runs again after a crash creates the same objects and no duplicates. A
lease shows whether the request is being processed, and is renewed meanwhile; when it expires, the next caller takes
over.
"""

from __future__ import annotations

import base64
import hashlib
import math
import secrets
import zlib
from collections.abc import Callable
from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.errors import IdempotencyConflict, IdempotencyInProgress
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.server.connection import Script, transact
from schemas.jobs import IdempotencyRecord, StoredAnswer

#: Maximum size of a stored response, compressed.
MOST_BYTES = 1024 * 1024
#: Number of renewals of a lease in its duration.
RENEWALS = 5

_RENEW = Script("idempotency/renew")


class Reservation(NamedTuple):
    """The right to process the request of a key; ``again`` if an earlier attempt did not finish."""

    digest: str
    seed: str
    holder: str
    again: bool


class IdempotencyStore:
    """The idempotency keys of one tenant."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def reserve(self, key: str, fingerprint: str, *, ttl: int, lease: int) -> Reservation | StoredAnswer:
        """Reserve a key for ``lease`` seconds, or return the stored response of its request.

        Raises ``IdempotencyConflict`` if the key belongs to another request, ``IdempotencyInProgress`` if its request
        is being processed. The latter says when the lease expires, if it was not renewed in time.
        """
        digest = hashlib.sha256(key.encode()).hexdigest()
        stored_key, lease_key = self._names(digest)
        holder = secrets.token_hex(8)

        def write(pipe: Pipeline) -> Reservation | StoredAnswer:
            stored = _read(pipe.get(stored_key))
            left = pipe.pttl(lease_key)
            pipe.multi()
            if stored is not None and stored.fingerprint != fingerprint:
                raise IdempotencyConflict("this idempotency key was used for another request")
            if stored is not None and stored.answer is not None:
                return stored.answer
            if 0 < left <= 1000 * lease:  # more is left if the clock of the store was set back
                raise _in_progress(left / 1000.0, lease)
            record = stored or IdempotencyRecord(fingerprint=fingerprint, seed=secrets.token_hex(16))
            pipe.set(stored_key, record.model_dump_json(), ex=ttl)
            pipe.set(lease_key, holder, ex=lease)
            return Reservation(digest, record.seed, holder, again=stored is not None)

        return transact(self._redis, write, stored_key, lease_key)

    def renew(self, held: Reservation, *, lease: int) -> None:
        """Reserve a key for ``lease`` seconds from now on, unless another caller has taken over."""
        _RENEW.run(self._redis, [self._names(held.digest)[1]], held.holder, lease)

    def settle(self, held: Reservation, answer: StoredAnswer, *, ttl: int) -> None:
        """Store the response of a reserved request; the first stored response is kept."""

        def change(record: IdempotencyRecord) -> IdempotencyRecord | None:
            return record if record.answer is not None else record.model_copy(update={"answer": answer})

        self._end(held, change, ttl)

    def leave(self, held: Reservation, *, ttl: int) -> None:
        """Let the next caller process the request again, with the same seed."""
        self._end(held, lambda record: record, ttl)

    def free(self, held: Reservation, *, ttl: int) -> None:
        """Delete the key of a rejected request without effect; after a second attempt it is only released."""
        self._end(held, lambda record: record if held.again else None, ttl)

    def restore(self, digest: str, record: IdempotencyRecord, *, life: int | None) -> bool:
        """Restore a key from a backup, for ``life`` milliseconds; returns False if the key exists, which is kept."""
        return bool(self._redis.set(self._keys.idempotency(digest), record.model_dump_json(), px=life, nx=True))

    def _end(
        self, held: Reservation, change: Callable[[IdempotencyRecord], IdempotencyRecord | None], ttl: int
    ) -> None:
        stored_key, lease_key = self._names(held.digest)

        def write(pipe: Pipeline) -> None:
            stored = _read(pipe.get(stored_key))
            holder = pipe.get(lease_key)
            pipe.multi()
            if stored is None or stored.seed != held.seed:
                return  # it expired, and may belong to another request
            changed = change(stored)
            mine = holder is None or cast(bytes, holder).decode() == held.holder
            if changed is not None and changed != stored:
                pipe.set(stored_key, changed.model_dump_json(), ex=ttl)
            if changed is None and mine:
                pipe.delete(stored_key)
            if mine:
                pipe.delete(lease_key)

        transact(self._redis, write, stored_key, lease_key)

    def _names(self, digest: str) -> tuple[str, str]:
        return self._keys.idempotency(digest), self._keys.idempotency_lease(digest)


def _in_progress(left: float, lease: int) -> IdempotencyInProgress:
    """The error of a key whose lease expires in ``left`` seconds; if it was not renewed in time, nobody may hold it."""
    is_renewed = left > lease * (1.0 - 2.0 / RENEWALS)
    return IdempotencyInProgress(
        "the first request with this idempotency key is still in progress",
        retry_after=1 if is_renewed else math.ceil(left),
    )


def pack(status: int, headers: dict[str, str], body: bytes) -> StoredAnswer | None:
    """A response as stored; None if it is too large."""
    # A body this large is not compressed at all, because no text of numbers shrinks that much.
    if len(body) > 10 * MOST_BYTES:
        return None
    data = zlib.compress(body, level=1)
    if len(data) > MOST_BYTES:
        return None
    return StoredAnswer(status=status, headers=headers, body=base64.b64encode(data).decode())


def unpack(answer: StoredAnswer) -> bytes:
    """The body of a stored response."""
    return zlib.decompress(base64.b64decode(answer.body))


def _read(data: object) -> IdempotencyRecord | None:
    return None if data is None else read_stored(IdempotencyRecord, data)
