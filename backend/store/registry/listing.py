"""The list of maps: newest first, filtered, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson
from redis import Redis

from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.pages import Place, read_cursor, write_cursor
from backend.store.registry.maps import INDEXED, add_missing, facet
from schemas.aliases import StoredAlias
from schemas.listing import FACETS, ListedMap, MapPage, MapQuery

#: Number of summaries read at once if there are several filters.
_CHUNK = 500
#: Maximum number of summaries examined per page, so a page may be shorter than requested although more follow.
MAX_SCANNED = 1_000


class Listing:
    """The list of one tenant's maps.

    A page starts after a position, not at an offset, so that no map is repeated or skipped if maps are added or
    removed.
    """

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def page(self, query: MapQuery) -> MapPage:
        """The maps after the query's cursor that match its filters; raises ``InvalidCursor``.

        One filter with an index costs O(log maps + limit). With other filters too, the index with the fewest maps is
        used, and at most ``MAX_SCANNED`` of its maps are examined.
        """
        position = read_cursor(query.cursor)
        indexes = _indexes(query)
        key = self._shortest(indexes)
        is_exact = len(indexes) < 2 and all(getattr(query, name) is None for name in FACETS if name not in INDEXED)
        size = query.limit + 1 if is_exact else _CHUNK
        summaries: list[bytes] = []
        for scanned, (place, summary) in enumerate(self._from(key, position, size)):
            if len(summaries) == query.limit or scanned == MAX_SCANNED:
                # There is at least one more.
                return MapPage(items=self._with_aliases(summaries), next=write_cursor(cast(Place, position)))
            position = place
            if summary is not None and _passes(orjson.loads(summary), query):
                summaries.append(summary)
        return MapPage(items=self._with_aliases(summaries))

    def _shortest(self, indexes: list[str]) -> str:
        """The key of the shortest index that contains every matching map."""
        keys = [self._keys.maps(), *(self._keys.index(index) for index in indexes)]
        with self._redis.pipeline() as pipe:
            pipe.hlen(self._keys.summaries())
            for key in keys:
                pipe.zcard(key)
            summaries, *lengths = pipe.execute()
        if summaries < lengths[0]:
            add_missing(self._redis, self._keys)
        # A summary does not contain aliases, so their index, the first one, must be used.
        if indexes and indexes[0].startswith("alias:"):
            return keys[1]
        return min(zip(lengths, keys, strict=True))[1]

    def _from(self, key: str, position: Place | None, size: int) -> Iterator[tuple[Place, bytes | None]]:
        """Positions of an index after ``position`` with their summaries, newest first; None for deleted maps."""
        while places := self._behind(key, position, size):
            ids = [place.member.decode() for place in places]
            summaries = cast(list[bytes | None], self._redis.hmget(self._keys.summaries(), ids))
            yield from zip(places, summaries, strict=True)
            position = places[-1]

    def _behind(self, key: str, position: Place | None, size: int) -> list[Place]:
        """The next ``size`` positions of an index, or some more if several have the same time."""
        highest = "+inf" if position is None else f"({position.score!r}"
        with self._redis.pipeline() as pipe:
            if position is not None:
                pipe.zrange(key, position.score, position.score, byscore=True)
            pipe.zrange(key, highest, "-inf", byscore=True, desc=True, offset=0, num=size, withscores=True)
            *same, older = pipe.execute()
        places = [Place(float(created), map_id) for map_id, created in older]
        if position is None:
            return places
        ties = (Place(position.score, map_id) for map_id in same[0])
        return sorted((tie for tie in ties if tie < position), reverse=True) + places

    def _with_aliases(self, summaries: list[bytes]) -> list[ListedMap]:
        """The maps of a page, each with the aliases that point at it."""
        maps = [read_stored(ListedMap, summary) for summary in summaries]
        names = sorted({listed.name for listed in maps if listed.name is not None})
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hvals(self._keys.aliases(name))
            pointing: dict[str, list[str]] = {}
            for data in (data for aliases in pipe.execute() for data in aliases):
                alias = read_stored(StoredAlias, data)
                pointing.setdefault(alias.map, []).append(alias.alias)
        return [listed.model_copy(update={"aliases": sorted(pointing.get(listed.id, []))}) for listed in maps]


def _indexes(query: MapQuery) -> list[str]:
    """The indexes of all filters that have one, that of an alias first."""
    filters = [("alias", query.alias), *((name, getattr(query, name)) for name in INDEXED)]
    return [facet(name, value) for name, value in filters if value is not None] + [facet("tag", t) for t in query.tag]


def _passes(summary: dict[str, Any], query: MapQuery) -> bool:
    for name in FACETS:
        wanted = getattr(query, name)
        if wanted is not None and summary.get(name) != wanted:
            return False
    tags = summary["tags"]
    for wanted_tag in query.tag:
        tag, has_value, value = wanted_tag.partition("=")
        if tag not in tags or (has_value and tags[tag] != value):
            return False
    return True
