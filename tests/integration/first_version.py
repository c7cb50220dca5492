"""A store as the first version left it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from redis import Redis

_FILE = Path(__file__).parents[1] / "contract" / "stored" / "store-v1.json"


def read_first_store() -> dict[str, Any]:
    """The keys of the store, and what the first version answered from them."""
    stored: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return stored


def load_first_store(redis: Redis) -> dict[str, Any]:
    """Write the keys of the store into an empty one; give what the first version answered from them."""
    stored = read_first_store()
    for key, found in stored["keys"].items():
        value = found["value"]
        if found["type"] == "string":
            redis.set(key, _bytes(value))
        elif found["type"] == "hash":
            redis.hset(key, mapping={field: _bytes(text) for field, text in value.items()})
        elif found["type"] == "zset":
            redis.zadd(key, dict(value))
        elif found["type"] == "set":
            redis.sadd(key, *value)
        else:
            redis.rpush(key, *value)
        if "ttl" in found:
            redis.expire(key, found["ttl"])
    return stored


def _bytes(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
