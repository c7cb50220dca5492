"""How many requests each API key sent in a minute, counted over all processes."""

from __future__ import annotations

from collections.abc import Mapping

from redis.asyncio import Redis

from storage.keyspace import Shared

#: Seconds of a window.
WINDOW = 60


async def add_requests(redis: Redis, counts: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Add to the counts of ``(key id, window)`` and answer what they have come to, of all processes."""
    async with redis.pipeline() as pipe:
        for (key_id, window), count in counts.items():
            key = Shared.requests(key_id, window)
            pipe.incrby(key, count)
            pipe.expire(key, 2 * WINDOW)
        answers = await pipe.execute()
    return dict(zip(counts, answers[::2], strict=True))
