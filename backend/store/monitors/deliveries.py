"""Deliveries: events that are sent to the webhooks of a monitor, and the outcome of each attempt.

An attempt is recorded before it is made, so that an interrupted one counts, and again with its outcome. A record
contains neither a URL nor a secret: those are read from the definition at the time of sending.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.chores import Chore, schedule
from backend.store.clock import at, now, seconds
from backend.store.errors import UnknownDelivery, UnknownHook
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared
from backend.store.monitors.definitions import unknown_monitor, while_alive
from backend.store.pages import Page, PageRequest, read_page
from backend.store.server.connection import transact
from schemas.monitor_alarms import MOST_ATTEMPTS, Attempt, DeliveryRecord, DeliveryStatus
from schemas.monitors import StoredMonitor

#: Maximum number of deliveries of a monitor, and seconds that they are kept.
MOST_DELIVERIES: Final = 1000
LIFE_SECONDS: Final = 30 * 86_400
#: If there are too many, the first ended ones among this many of the oldest are removed.
_LOOKED = 200


class Deliveries:
    """The deliveries of one monitor, of which at ``most`` so many are kept."""

    def __init__(self, redis: Redis, keys: Keyspace, uid: str, *, most: int = MOST_DELIVERIES) -> None:
        self._redis = redis
        self._most = most
        self._of_tenant = keys
        self._uid = uid
        self._keys = keys.monitor(uid)

    def create(self, record: DeliveryRecord) -> DeliveryRecord:
        """Store and schedule a delivery, atomically; an existing one is kept unchanged. Returns the stored one.

        Raises ``UnknownMonitor`` if the monitor was deleted, and ``UnknownHook`` if it no longer has the hook: no
        delivery is created after the deletion.
        """
        definitions = self._of_tenant.monitor_definitions()

        def write(pipe: Pipeline) -> DeliveryRecord:
            there = pipe.hget(self._keys.deliveries(), record.id)
            monitor = self._definition(pipe, record)
            pipe.multi()
            if there is not None:
                return _known(there)
            if monitor is None or monitor.id != self._uid:
                raise unknown_monitor()
            if record.hook not in {hook.name for hook in monitor.hooks}:
                raise UnknownHook("the monitor has no such hook")
            pipe.zadd(self._keys.delivery_times(), {record.id: seconds(record.created_at)})
            self._write(pipe, record)
            schedule(pipe, self._chore(record, monitor))
            return record

        stored = transact(self._redis, write, self._keys.deliveries(), definitions)
        self._trim()
        return stored

    def get(self, delivery_id: str) -> DeliveryRecord:
        """The current record of a delivery; raises ``UnknownDelivery``."""
        return _known(self._redis.hget(self._keys.deliveries(), delivery_id))

    def page(self, request: PageRequest, *, status: DeliveryStatus | None, hook: str | None) -> Page[DeliveryRecord]:
        """Deliveries, newest first, filtered by status and hook; raises ``InvalidCursor``."""

        def keep(record: DeliveryRecord) -> bool:
            return status in (None, record.status) and hook in (None, record.hook)

        return read_page(self._redis, self._keys.delivery_times(), request, self._read, keep)

    def begin(self, delivery_id: str, most: int) -> DeliveryRecord | None:
        """Record the start of an attempt; None if the delivery has ended or has had ``most`` attempts.

        Raises ``UnknownDelivery``.
        """

        def change(record: DeliveryRecord) -> DeliveryRecord | None:
            if record.status != "pending":
                return None
            if record.tried >= most:  # the last attempt was interrupted
                return record.model_copy(update={"status": "dead", "ended_at": at(moment), "next_at": None})
            number = record.attempts[-1].number + 1 if record.attempts else 1
            attempt = Attempt(number=number, at=at(moment), error="interrupted")
            attempts = [*record.attempts, attempt][-MOST_ATTEMPTS:]
            return record.model_copy(update={"attempts": attempts, "tried": record.tried + 1, "next_at": None})

        moment = now().timestamp()
        changed = self._change(delivery_id, change)
        return changed if changed is not None and changed.status == "pending" else None

    def end(self, begun: DeliveryRecord, attempt: Attempt, status: DeliveryStatus, after: float | None) -> float | None:
        """Record the outcome of an attempt: the new status, and when the delivery is attempted next.

        Returns the seconds until then; None if there is nothing to do, because the delivery has ended or another
        attempt has started. Raises ``UnknownDelivery``.
        """
        moment = now().timestamp()

        def change(record: DeliveryRecord) -> DeliveryRecord:
            attempts = [attempt if earlier.number == attempt.number else earlier for earlier in record.attempts]
            tried = record.model_copy(update={"attempts": attempts})
            if (record.status, record.tried, record.created_at) != ("pending", begun.tried, begun.created_at):
                return tried
            ended = None if status == "pending" else at(moment)
            again = None if after is None else at(moment + after)
            return tried.model_copy(update={"status": status, "ended_at": ended, "next_at": again})

        changed = cast(DeliveryRecord, self._change(begun.id, change))
        return after if changed.status == "pending" and changed.tried == begun.tried else None

    def away(self, hook: str) -> float:
        """Seconds for which nothing is sent to a hook; 0 for none."""
        until = self._redis.hget(self._keys.hooks_away(), hook)
        return 0.0 if until is None else max(0.0, float(cast(bytes, until)) - now().timestamp())

    def keep_away(self, hook: str, seconds_: float) -> None:
        """Suspend deliveries to a hook; 0 resumes them. Raises ``UnknownMonitor``."""
        key = self._keys.hooks_away()

        def write(pipe: Pipeline) -> None:
            pipe.multi()
            pipe.hset(key, hook, repr(now().timestamp() + seconds_))
            pipe.expire(key, LIFE_SECONDS)

        if seconds_ > 0:
            while_alive(self._redis, self._of_tenant, self._uid, write)
        else:
            self._redis.hdel(key, hook)

    def resend(self, delivery_id: str) -> DeliveryRecord:
        """Schedule a delivery now, whatever its status, with a new set of attempts and the same event.

        Raises ``UnknownDelivery``.
        """

        def change(record: DeliveryRecord) -> DeliveryRecord:
            return record.model_copy(update={"status": "pending", "tried": 0, "ended_at": None, "next_at": stamp})

        stamp = at(now().timestamp())
        self.keep_away(self.get(delivery_id).hook, 0.0)
        return cast(DeliveryRecord, self._change(delivery_id, change, begins=True))

    def ask_pending(self) -> None:
        """Schedule all pending deliveries."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.deliveries()))
        for record in (read_stored(DeliveryRecord, data) for data in stored.values()):
            if record.status == "pending":
                schedule(self._redis, self._chore(record, self._definition(self._redis, record)))

    def _change(
        self, delivery_id: str, change: Callable[[DeliveryRecord], DeliveryRecord | None], *, begins: bool = False
    ) -> DeliveryRecord | None:
        """Apply ``change`` to a delivery and store the result; schedule the delivery if it ``begins`` again."""

        def write(pipe: Pipeline) -> DeliveryRecord | None:
            before = _known(pipe.hget(self._keys.deliveries(), delivery_id))
            monitor = self._definition(pipe, before) if begins else None
            changed = change(before)
            pipe.multi()
            if changed is not None:
                self._write(pipe, changed)
                if before.status == "pending" != changed.status:
                    pipe.hincrby(Shared.delivery_counts(), changed.status, 1)
                if begins:
                    schedule(pipe, self._chore(changed, monitor))
            return changed

        return transact(self._redis, write, self._keys.deliveries())

    def _write(self, pipe: Pipeline, record: DeliveryRecord) -> None:
        pipe.hset(self._keys.deliveries(), record.id, record.model_dump_json())
        for key in (self._keys.deliveries(), self._keys.delivery_times()):
            pipe.expire(key, LIFE_SECONDS)

    def _trim(self) -> None:
        """Remove the deliveries that are too old and, if there are too many, the oldest, ended ones first."""
        times = self._keys.delivery_times()
        old = cast(list[bytes], self._redis.zrangebyscore(times, "-inf", now().timestamp() - LIFE_SECONDS))
        over = int(self._redis.zcard(times)) - len(old) - self._most
        if over > 0:
            oldest = cast(list[bytes], self._redis.zrange(times, len(old), len(old) + over + _LOOKED - 1))
            read = self._read([delivery_id.decode() for delivery_id in oldest])
            pending = [record is not None and record.status == "pending" for record in read]
            old += [
                delivery_id for _, delivery_id in sorted(zip(pending, oldest, strict=True), key=lambda both: both[0])
            ][:over]
        if old:
            with self._redis.pipeline() as pipe:
                pipe.hdel(self._keys.deliveries(), *cast(list[str], old))
                pipe.zrem(times, *old)
                pipe.execute()

    def _read(self, ids: Sequence[str]) -> list[DeliveryRecord | None]:
        stored = cast(list[bytes | None], self._redis.hmget(self._keys.deliveries(), list(ids)))
        return [None if data is None else read_stored(DeliveryRecord, data) for data in stored]

    def _definition(self, client: Redis | Pipeline, record: DeliveryRecord) -> StoredMonitor | None:
        stored = client.hget(self._of_tenant.monitor_definitions(), record.monitor)
        return None if stored is None else read_stored(StoredMonitor, stored)

    def _chore(self, record: DeliveryRecord, monitor: StoredMonitor | None) -> Chore:
        """The task of a delivery; its target is a digest of the origin of its hook."""
        hooks = () if monitor is None else monitor.hooks
        origin = next((hook.origin.lower() for hook in hooks if hook.name == record.hook), "")
        target = hashlib.sha256(origin.encode()).hexdigest()[:16]
        return Chore("deliver", self._of_tenant.tenant, f"{target}/{self._uid}/{record.id}")


def _known(data: object) -> DeliveryRecord:
    if data is None:
        raise UnknownDelivery("the monitor has no delivery with this id, or it was removed")
    return read_stored(DeliveryRecord, data)
