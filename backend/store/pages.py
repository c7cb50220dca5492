"""Pages of a list, newest first: a sorted set of ids by time, read from where the last page ended.

A page begins at a place in the order, not at a count of what was before it, so that nothing stands twice and
nothing is left out where ids come and go between two pages.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, cast

from redis import Redis

from backend.store.errors import InvalidCursor

Item = TypeVar("Item")

#: Ids that are read at once.
CHUNK = 100
#: Ids that are looked at for one page; a page that finds too few among them ends early and names the next.
MOST_LOOKED = 1000


class Place(NamedTuple):
    """Where an id stands: by its score, and among equal scores by its bytes, as Redis orders them."""

    score: float
    member: bytes


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Items of a list, and the cursor of those that follow; None at the end."""

    items: tuple[Item, ...]
    next: str | None


@dataclass(frozen=True)
class PageRequest:
    """Which page: at most ``limit`` items after ``cursor``, of scores from ``low`` up to but without ``high``."""

    limit: int
    cursor: str | None = None
    low: float = -math.inf
    high: float = math.inf


def read_page(
    redis: Redis,
    index: str,
    request: PageRequest,
    read: Callable[[Sequence[str]], Sequence[Item | None]],
    keep: Callable[[Item], bool] = lambda _: True,
) -> Page[Item]:
    """Read the page of ``index`` whose items ``keep`` holds true.

    ``read`` gives the items of ids, None for one that is gone, which then leaves the index. Raises
    ``InvalidCursor``. Cost: O(log n + ``MOST_LOOKED``).
    """
    found: list[tuple[Place, Item]] = []
    gone: list[bytes] = []
    at, looked, ended = read_cursor(request.cursor), 0, False
    while not ended and len(found) <= request.limit and looked < MOST_LOOKED:
        places = _following(redis, index, request, at)
        items = read([place.member.decode() for place in places]) if places else []
        for place, item in zip(places, items, strict=True):
            if item is None:
                gone.append(place.member)
            elif keep(item):
                found.append((place, item))
        looked += len(places)
        ended = len(places) < CHUNK
        at = places[-1] if places else at
    if gone:
        redis.zrem(index, *gone)
    if len(found) > request.limit:
        at, ended = found[request.limit - 1][0], False
    return Page(tuple(item for _, item in found[: request.limit]), None if ended or at is None else write_cursor(at))


def _following(redis: Redis, index: str, request: PageRequest, at: Place | None) -> list[Place]:
    """The next ``CHUNK`` places after ``at``, fewer at the end."""
    high = math.nextafter(request.high, -math.inf) if at is None else min(at.score, request.high)
    places: list[Place] = []
    offset = 0
    while len(places) < CHUNK:
        read = redis.zrevrangebyscore(index, high, request.low, start=offset, num=CHUNK, withscores=True)
        chunk = [Place(score, member) for member, score in cast(list[tuple[bytes, float]], read)]
        # Of the score where the last page ended, what stood on it comes again.
        places += [place for place in chunk if at is None or place < at]
        offset += CHUNK
        if len(chunk) < CHUNK:
            break
    return places[:CHUNK]


def write_cursor(at: Place) -> str:
    """A place as an opaque word for URLs."""
    return base64.urlsafe_b64encode(f"{at.score!r} ".encode() + at.member).decode().rstrip("=")


def read_cursor(cursor: str | None) -> Place | None:
    """The place of a cursor, None for none; raises ``InvalidCursor``."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        score, _, member = text.partition(b" ")
        at = Place(float(score), member)
    except (binascii.Error, ValueError) as error:
        raise _invalid() from error
    if not math.isfinite(at.score) or not member:
        raise _invalid()
    return at


def _invalid() -> InvalidCursor:
    return InvalidCursor("the cursor is none that a page gave", "/cursor")
