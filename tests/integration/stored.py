"""Stores as earlier versions left them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from redis import Redis

_STORED = Path(__file__).parents[1] / "contract" / "stored"


def load_first_store(redis: Redis) -> dict[str, Any]:
    """Write the store of the first version into an empty one; return what that version answered from it."""
    return load_store(redis, "store-v1.json")


def load_store(redis: Redis, name: str) -> dict[str, Any]:
    """Write the keys of a file into an empty store; return the file."""
    stored: dict[str, Any] = json.loads((_STORED / name).read_text("utf-8"))
    for key, found in stored["keys"].items():
        value = found["value"]
        if found["type"] == "string":
            redis.set(key, _bytes(value))
        elif found["type"] == "hash":
            redis.hset(key, mapping=_fields(value))
        elif found["type"] == "zset":
            redis.zadd(key, dict(value))
        elif found["type"] == "set":
            redis.sadd(key, *value)
        elif found["type"] == "stream":
            for entry, fields in value:
                redis.xadd(key, _fields(fields), id=entry)
        else:
            redis.rpush(key, *map(_bytes, value))
        if "ttl" in found:
            redis.expire(key, found["ttl"])
    return stored


def _fields(value: dict[str, Any]) -> dict[Any, Any]:
    return {field: _bytes(text) for field, text in value.items()}


def _bytes(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
