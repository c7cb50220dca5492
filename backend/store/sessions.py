"""Sessions of the web page: opened with an API key, found by the SHA-256 of the browser's cookie.

The key itself is not stored. An unused session expires. Each request checks that the key is still valid, using the keys
in memory.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.clock import now, seconds, stamp
from backend.store.formats import read_stored
from backend.store.keyspace import Shared
from backend.store.server.connection import transact
from schemas.keys import SessionRecord, digest_of

#: A session is renewed after this fraction of the idle time.
_RENEWED = 0.1
#: Maximum number of sessions of one key.
MOST_OF_A_KEY = 50


class NewSession(NamedTuple):
    """A session with the text of its cookie, which is not stored."""

    record: SessionRecord
    text: str


class SessionStore:
    """All sessions; they end ``idle`` seconds after their last use, and ``life`` seconds after their start.

    Their tokens have 256 random bits like the secrets of keys, so a single round of SHA-256 is sufficient.
    """

    def __init__(self, redis: Redis, *, idle: int, life: int) -> None:
        self._redis = redis
        self._idle = idle
        self._life = life

    def open(self, key_id: str, secret: str) -> NewSession:
        """Open a session for a key and the digest of its secret; if there are too many, the oldest sessions end."""
        text = secrets.token_urlsafe(32)
        record = SessionRecord(
            key=key_id,
            secret=secret,
            token=secrets.token_urlsafe(32),
            created_at=stamp(),
            ends_at=stamp(after=self._life),
        )
        self._keep(digest_of(text), record)
        return NewSession(record, text)

    def find(self, text: str) -> SessionRecord | None:
        """Find and renew the session of a cookie; None if there is none, or it has ended."""
        name = _name(text)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.get(name)
            pipe.ttl(name)
            stored, left = pipe.execute()
        if stored is None:
            return None
        record = read_stored(SessionRecord, stored)
        still = int(seconds(record.ends_at) - seconds(stamp()))
        if still <= 0:
            return None
        renewed = min(self._idle, still)
        if renewed - cast(int, left) > _RENEWED * self._idle:
            self._redis.expire(name, renewed)
        return record

    def end(self, text: str) -> None:
        """End the session of a cookie."""
        self._redis.delete(_name(text))

    def _keep(self, digest: str, record: SessionRecord) -> None:
        """Store a session, and end all but the newest ones of its key."""
        of_key = Shared.sessions_of(record.key)

        def write(pipe: Pipeline) -> None:
            known = [session.decode() for session in cast(list[bytes], pipe.zrange(of_key, 0, -1))]
            live = [session for session in known if pipe.exists(Shared.session(session))]
            ended = {*known} - {*live[-(MOST_OF_A_KEY - 1) :]}
            pipe.multi()
            for session in ended:
                pipe.delete(Shared.session(session))
                pipe.zrem(of_key, session)
            pipe.set(Shared.session(digest), record.model_dump_json(), ex=min(self._idle, self._life))
            pipe.zadd(of_key, {digest: now().timestamp()})
            pipe.expire(of_key, self._life)

        transact(self._redis, write, of_key)


def page_token(redis: Redis) -> str:
    """The token in the forms of a service without keys, shared by all visitors; other origins cannot read it."""
    key = Shared.page_token()
    token = cast(bytes | None, redis.get(key))  # avoids a write, which the store may reject
    if token is None:
        redis.set(key, secrets.token_urlsafe(32), nx=True)
        token = cast(bytes, redis.get(key))
    return token.decode()


def _name(text: str) -> str:
    return Shared.session(digest_of(text))
