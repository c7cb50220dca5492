"""Stored strings, many at once and yet never more than so many bytes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from redis import Redis

from storage.keyspace import read_key

Item = TypeVar("Item")

#: Keys whose sizes are asked for at once.
_AT_ONCE = 200
#: Bytes that are read at once, or one document that is larger.
_MOST_BYTES = 4 * 1024 * 1024


class Kept(NamedTuple):
    """A stored document: its tenant and name, its JSON, and the milliseconds that it is still kept, if not for ever."""

    tenant: str
    name: str
    json: bytes
    life: int | None


def kept(redis: Redis, keys: Iterable[bytes]) -> Iterator[Kept]:
    """The strings at these keys; those that are gone are left out."""
    for some in chunks(keys, _AT_ONCE):
        with redis.pipeline(transaction=False) as pipe:
            for key in some:
                pipe.strlen(key)
            sizes = pipe.execute()
        for group in _groups(some, sizes):
            yield from _read(redis, group)


def life_of(milliseconds: int) -> int | None:
    """What Redis tells of a key's time to live; None for one that is kept for ever."""
    return None if milliseconds < 0 else max(1, milliseconds)


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of the items, each but the last of that size."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _groups(keys: list[bytes], sizes: list[int]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    total = 0
    for key, size in zip(keys, sizes, strict=True):
        if group and total + size > _MOST_BYTES:
            yield group
            group, total = [], 0
        group.append(key)
        total += size
    yield group


def _read(redis: Redis, keys: list[bytes]) -> Iterator[Kept]:
    with redis.pipeline() as pipe:
        for key in keys:
            pipe.get(key)
            pipe.pttl(key)
        found = pipe.execute()
    for key, json, life in zip(keys, found[::2], found[1::2], strict=True):
        if json is not None:
            yield Kept(*read_key(key), json, life_of(life))
