"""A batch as lines: the bytes of its fields piece by piece, then its record, which says that they are all."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import cast

import orjson
from redis import Redis

from storage.backup.file import Text
from storage.backup.records import life_of
from storage.batches import RECORD
from storage.clock import now
from storage.jobs.holds import HELD_EXPIRES
from storage.keyspace import Keyspace

#: Bytes of a batch that stand in one line.
_PIECE_BYTES = 1024 * 1024
#: Milliseconds that a batch which jobs hold lives at least, though it would have expired without them.
_LEAST_HELD_MS = 24 * 3600 * 1000


def batch_lines(redis: Redis, keys: Keyspace, batch_id: str) -> Iterator[Text]:
    """The lines of a batch as it stands now; of one that goes while it is read, some pieces without a record.

    Rows that are appended meanwhile are fields of their own, which the record that was read does not tell of.
    """
    key = keys.batch(batch_id)
    with redis.pipeline() as pipe:
        pipe.hget(key, RECORD)
        pipe.hkeys(key)
        pipe.pttl(key)
        pipe.hget(key, HELD_EXPIRES)
        record, fields, life, expires = pipe.execute()
    if expires is not None:  # jobs hold it: those that are restored must find it, and then hold it anew
        life = max(_LEAST_HELD_MS, int(expires) - round(now().timestamp() * 1000))
    for field in sorted({name.decode() for name in fields} - {RECORD, HELD_EXPIRES}):
        data = cast(bytes | None, redis.hget(key, field))
        if data is None:
            return
        yield from _pieces(keys.tenant, batch_id, field, data)
    if record is not None:
        told = {"tenant": keys.tenant, "record": orjson.Fragment(record), "life": life_of(life)}
        yield Text("batch", orjson.dumps({"kind": "batch", **told}))


def _pieces(tenant: str, batch_id: str, field: str, data: bytes) -> Iterator[Text]:
    """At least one, though it be empty."""
    for start in range(0, max(1, len(data)), _PIECE_BYTES):
        text = base64.b64encode(data[start : start + _PIECE_BYTES]).decode()
        told = {"tenant": tenant, "batch": batch_id, "field": field, "data": text}
        yield Text("piece", orjson.dumps({"kind": "piece", **told}))
