"""Pages of a list, newest first: a sorted set of ids by time, read from the end of the previous page.

A page starts at a position in the order, not at an offset, so that no item is repeated or skipped if ids are added or
removed between two pages.
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

#: Number of ids read at once.
CHUNK = 100
#: Maximum number of ids examined for one page; a page with too few matches ends early and has a cursor.
MOST_LOOKED = 1000


class Place(NamedTuple):
    """The position of an id: its score, and among equal scores its bytes, in the order of Redis."""

    score: float
    member: bytes


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Items of a list, and the cursor of the next page; None at the end."""

    items: tuple[Item, ...]
    next: str | None


@dataclass(frozen=True)
class PageRequest:
    """The requested page: up to ``limit`` items after ``cursor``, with scores from ``low`` to below ``high``."""

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
    """Read the page of ``index`` with the items for which ``keep`` returns true.

    ``read`` returns the items of ids, None for missing ones, which are removed from the index. Raises
    ``InvalidCursor``. Cost: O(log n + ``MOST_LOOKED``).
    """
    placed: list[tuple[Place, Item]] = []
    gone: list[bytes] = []
    at, looked, ended = read_cursor(request.cursor), 0, False
    while not ended and len(placed) <= request.limit and looked < MOST_LOOKED:
        places = _following(redis, index, request, at)
        items = read([place.member.decode() for place in places]) if places else []
        for place, item in zip(places, items, strict=True):
            if item is None:
                gone.append(place.member)
            elif keep(item):
                placed.append((place, item))
        looked += len(places)
        ended = len(places) < CHUNK
        at = places[-1] if places else at
    if gone:
        redis.zrem(index, *gone)
    if len(placed) > request.limit:
        at, ended = placed[request.limit - 1][0], False
    return Page(tuple(item for _, item in placed[: request.limit]), None if ended or at is None else write_cursor(at))


def _following(redis: Redis, index: str, request: PageRequest, at: Place | None) -> list[Place]:
    """The next ``CHUNK`` places after ``at``, fewer at the end."""
    high = math.nextafter(request.high, -math.inf) if at is None else min(at.score, request.high)
    places: list[Place] = []
    offset = 0
    while len(places) < CHUNK:
        read = redis.zrevrangebyscore(index, high, request.low, start=offset, num=CHUNK, withscores=True)
        chunk = [Place(score, member) for member, score in cast(list[tuple[bytes, float]], read)]
        # The first score is read again, including the ids of the previous page.
        places += [place for place in chunk if at is None or place < at]
        offset += CHUNK
        if len(chunk) < CHUNK:
            break
    return places[:CHUNK]


def write_cursor(at: Place) -> str:
    """Encode a place as an opaque string for URLs."""
    return base64.urlsafe_b64encode(f"{at.score!r} ".encode() + at.member).decode().rstrip("=")


def read_cursor(cursor: str | None) -> Place | None:
    """Decode a cursor, None for None; raises ``InvalidCursor``."""
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
    return InvalidCursor("was not issued by a page of this list", "/cursor")
