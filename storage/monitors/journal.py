"""A list of JSON documents that is only added to, newest first, of which so many are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from storage.pages import Asked, Page, Place, read_cursor, write_cursor

Json = dict[str, Any]

#: Entries that are kept.
MOST = 1000

# KEYS: journal, state. ARGV: the field of the last serial number, how many are kept, then documents, oldest first.
_APPEND = """
for i = 3, #ARGV do
    local serial = redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
    redis.call('ZADD', KEYS[1], serial, serial .. ' ' .. ARGV[i])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[2])
"""


class Journal:
    """One list, at ``key``; its serial numbers are counted in the hash ``state``."""

    def __init__(self, redis: Redis, key: str, state: str) -> None:
        self._redis = redis
        self._key = key
        self._state = state

    def append(self, pipe: Pipeline, entries: Iterable[Json]) -> None:
        """Queue: entries are added, the oldest of them first."""
        documents = [orjson.dumps(entry) for entry in entries]
        if documents:
            named = self._key.rpartition(":")[2]
            args = (named, str(MOST), *documents)
            pipe.eval(_APPEND, 2, self._key, self._state, *cast(tuple[str, ...], args))

    def page(self, asked: Asked) -> Page[Json]:
        """Entries, newest first; raises ``InvalidCursor``."""
        at = read_cursor(asked.cursor)
        highest = "+inf" if at is None else f"({at.score!r}"
        found = cast(
            list[bytes],
            self._redis.zrange(self._key, highest, "-inf", desc=True, byscore=True, offset=0, num=asked.limit + 1),
        )
        read = [member.partition(b" ") for member in found[: asked.limit]]
        following = write_cursor(Place(float(read[-1][0]), b"-")) if len(found) > asked.limit else None
        return Page(tuple(orjson.loads(document) for *_, document in read), following)
