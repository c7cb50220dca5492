"""The list of maps: newest first, filtered, page by page."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import orjson
from redis import Redis

from schemas.listing import ListedMap, MapPage, MapQuery
from schemas.maps import MapRecord
from storage.errors import InvalidCursor
from storage.keyspace import Keyspace

#: Summaries that are read at once.
_CHUNK = 1000
#: Summaries that one page looks through. A page may so be shorter than was asked for though others follow.
MAX_SCANNED = 10_000
_PLAIN = ("name", "method", "reduction", "scale", "created_by", "n_classes")


class Position(NamedTuple):
    """A place in the list: the moment of a map's creation, and its id, which parts those of one moment."""

    created: float
    map_id: str


def write_cursor(position: Position) -> str:
    """A position as an opaque word for URLs."""
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")


def read_cursor(cursor: str) -> Position:
    """The position of a cursor; raises ``InvalidCursor``."""
    try:
        created, map_id = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, TypeError) as error:
        raise _invalid() from error
    if type(created) is not float or not math.isfinite(created) or not isinstance(map_id, str):
        raise _invalid()
    return Position(created, map_id)


class Listing:
    """The list of one tenant's maps.

    A page begins behind a position, not at a number: maps that come or go meanwhile make none appear twice, and none of
    those that stay be missed.
    """

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def page(self, query: MapQuery) -> MapPage:
        """The maps behind the query's cursor that pass its filters; raises ``InvalidCursor``.

        O(maps looked through), at most ``MAX_SCANNED`` of them.
        """
        position = None if query.cursor is None else read_cursor(query.cursor)
        found: list[bytes] = []
        for scanned, (place, summary) in enumerate(self._from(position, query)):
            if len(found) == query.limit or scanned == MAX_SCANNED:
                # There is at least this one more.
                return MapPage(items=self._with_aliases(found), next=write_cursor(cast(Position, position)))
            position = place
            if summary is not None and _passes(orjson.loads(summary), query):
                found.append(summary)
        return MapPage(items=self._with_aliases(found))

    def _from(self, position: Position | None, query: MapQuery) -> Iterator[tuple[Position, bytes | None]]:
        """Positions behind ``position`` with their summaries, newest first; None for a map deleted meanwhile."""
        filtered = any(getattr(query, name) is not None for name in _PLAIN) or bool(query.tag)
        size = _CHUNK if filtered else query.limit + 1
        while True:
            places = self._places(position, size, query)
            if not places:
                return
            yield from zip(places, self._summaries(places), strict=True)
            position = places[-1]

    def _places(self, position: Position | None, size: int, query: MapQuery) -> list[Position]:
        """The next ``size`` positions, or more, of the shortest list that holds all that pass."""
        if query.alias is not None:
            return self._behind(self._keys.aliased(query.alias), position, size)
        if query.name is not None:
            return self._of_name(query.name, position)[:size]
        return self._behind(self._keys.maps(), position, size)

    def _behind(self, key: str, position: Position | None, size: int) -> list[Position]:
        highest = "+inf" if position is None else f"({position.created!r}"
        with self._redis.pipeline() as pipe:
            if position is not None:
                pipe.zrange(key, position.created, position.created, byscore=True)
            pipe.zrange(key, highest, "-inf", byscore=True, desc=True, offset=0, num=size, withscores=True)
            *same, older = pipe.execute()
        places = [Position(float(created), map_id.decode()) for map_id, created in older]
        if position is None:
            return places
        ties = (Position(position.created, map_id.decode()) for map_id in same[0])
        return sorted((tie for tie in ties if tie < position), reverse=True) + places

    def _of_name(self, name: str, position: Position | None) -> list[Position]:
        ids = cast(list[bytes], self._redis.hvals(self._keys.versions(name)))
        if not ids:
            return []
        scores = self._redis.zmscore(self._keys.maps(), cast(Any, ids))
        places = (Position(s, i.decode()) for s, i in zip(scores, ids, strict=True) if s is not None)
        return sorted((place for place in places if position is None or place < position), reverse=True)

    def _summaries(self, places: list[Position]) -> list[bytes | None]:
        ids = [place.map_id for place in places]
        found = cast(list[bytes | None], self._redis.hmget(self._keys.summaries(), ids))
        missing = [i for i, summary in enumerate(found) if summary is None]
        if missing:  # stored before there were summaries, or deleted since
            records = cast(list[bytes | None], self._redis.mget([self._keys.map(ids[i]) for i in missing]))
            for i, record in zip(missing, records, strict=True):
                found[i] = record and MapRecord.model_validate_json(record).summary().model_dump_json().encode()
        return found

    def _with_aliases(self, summaries: list[bytes]) -> list[ListedMap]:
        """The maps of a page, each with the aliases that point at it."""
        maps = [ListedMap.model_validate_json(summary) for summary in summaries]
        names = sorted({listed.name for listed in maps if listed.name is not None})
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hvals(self._keys.aliases(name))
            pointing: dict[str, list[str]] = {}
            for data in (data for aliases in pipe.execute() for data in aliases):
                alias = orjson.loads(data)
                pointing.setdefault(alias["map"], []).append(alias["alias"])
        return [listed.model_copy(update={"aliases": sorted(pointing.get(listed.id, []))}) for listed in maps]


def _passes(summary: dict[str, Any], query: MapQuery) -> bool:
    for name in _PLAIN:
        wanted = getattr(query, name)
        if wanted is not None and summary.get(name) != wanted:
            return False
    tags = summary.get("tags", {})
    for asked in query.tag:
        tag, given, value = asked.partition("=")
        if tag not in tags or (given and tags[tag] != value):
            return False
    return True


def _invalid() -> InvalidCursor:
    return InvalidCursor("the cursor is not one that a page of this list gave", "/cursor")
