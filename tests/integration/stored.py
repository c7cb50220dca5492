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
    for key, entry_of_key in stored["keys"].items():
        entry = entry_of_key["value"]
        if entry_of_key["type"] == "string":
            redis.set(key, _bytes(entry))
        elif entry_of_key["type"] == "hash":
            redis.hset(key, mapping=_fields(entry))
        elif entry_of_key["type"] == "zset":
            redis.zadd(key, dict(entry))
        elif entry_of_key["type"] == "set":
            redis.sadd(key, *entry)
        elif entry_of_key["type"] == "stream":
            for entry_id, fields in entry:
                redis.xadd(key, _fields(fields), id=entry_id)
        else:
            redis.rpush(key, *map(_bytes, entry))
        if "ttl" in entry_of_key:
            redis.expire(key, entry_of_key["ttl"])
    return stored


def _fields(texts: dict[str, Any]) -> dict[Any, Any]:
    return {field: _bytes(text) for field, text in texts.items()}


def _bytes(text: str | dict[str, str]) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])
