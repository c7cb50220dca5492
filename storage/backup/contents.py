"""What the store holds, as the lines of a backup, while others read and write it.

Each document is read whole, in one moment of its own. What was there when this began and still is when it ends is
told; what comes or goes meanwhile may be. What refers to others is read before them and told behind them, so that
they are told too: jobs before batches and maps, and an alias in one transaction with its map. Version numbers are read
last: no map that is told has one above them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from schemas.aliases import StoredAlias
from schemas.jobs import FINAL
from storage.backup.arrays import batch_lines
from storage.backup.file import BackupWriter, Text
from storage.backup.monitors import monitor_lines
from storage.backup.records import Kept, chunks, kept
from storage.formats import read_stored
from storage.jobs.parts import is_part
from storage.keyspace import Keyspace, Shared, keys_of_all_tenants, read_key
from storage.transactions import transact

#: Names, ids or keys that are asked for at once.
_AT_ONCE = 500


def write_backup(redis: Redis, out: BinaryIO, *, batches: bool = True) -> dict[str, int]:
    """Write all that a store holds to a file; give how many lines there are of each kind.

    Without ``batches`` neither they are told nor the jobs that have not ended and need them.
    """
    writer = BackupWriter(out)
    with tempfile.TemporaryFile() as spool:
        for text in Contents(redis, batches).lines(spool):
            writer.add(text)
    return writer.end()


@dataclass(frozen=True)
class Contents:
    """What a store holds, with batches or without."""

    redis: Redis
    batches: bool

    def lines(self, spool: BinaryIO) -> Iterator[Text]:
        """Every line between the header and the end; ``spool`` is an empty file to put lines aside in."""
        for text in self._jobs():
            spool.write(text.json + b"\n")
        yield from self._keys()
        if self.batches:
            yield from self._batches()
        for tenant in self._tenants():
            yield from self._maps(Keyspace(tenant))
        yield from self._monitors()
        yield from self._answers()
        spool.seek(0)
        for line in spool:
            yield Text("job", line.rstrip(b"\n"))

    def _jobs(self) -> Iterator[Text]:
        for found in self._kept("job"):
            if is_part(found.name):  # made anew with its job
                continue
            if self.batches or orjson.loads(found.json)["status"] in FINAL:
                yield _line("job", tenant=found.tenant, record=found.json, life=found.life)

    def _keys(self) -> Iterator[Text]:
        for record in cast(dict[bytes, bytes], self.redis.hgetall(Shared.api_keys())).values():
            yield _line("key", record=record)

    def _batches(self) -> Iterator[Text]:
        for key in self.redis.scan_iter(keys_of_all_tenants("batch", "*"), count=_AT_ONCE):
            tenant, batch_id = read_key(key)
            yield from batch_lines(self.redis, Keyspace(tenant), batch_id)

    def _monitors(self) -> Iterator[Text]:
        for key in self.redis.scan_iter(keys_of_all_tenants("monitor-definitions"), count=_AT_ONCE):
            keys = Keyspace(read_key(key)[0])
            for record in cast(dict[bytes, bytes], self.redis.hgetall(keys.monitor_definitions())).values():
                yield from monitor_lines(self.redis, keys, record)

    def _answers(self) -> Iterator[Text]:
        for found in self._kept("idempotency"):
            yield _line("answer", tenant=found.tenant, digest=found.name, record=found.json, life=found.life)

    def _kept(self, kind: str) -> Iterator[Kept]:
        return kept(self.redis, self.redis.scan_iter(keys_of_all_tenants(kind, "*"), count=_AT_ONCE))

    def _tenants(self) -> list[str]:
        """The tenants that have, or had, maps."""
        found = {
            read_key(key)[0]
            for kind in ("maps", "newest-versions")
            for key in self.redis.scan_iter(keys_of_all_tenants(kind), count=_AT_ONCE)
        }
        return sorted(found)

    def _maps(self, keys: Keyspace) -> Iterator[Text]:
        """The maps of a tenant, those at which aliases point before all others, and what belongs to their names."""
        told: set[str] = set()
        for name in self._names_with_aliases(keys):
            aliases, maps = self._aliased(keys, name)
            for map_id, record in maps.items():
                told.add(map_id)
                yield _line("map", tenant=keys.tenant, record=record)
            for alias in aliases:
                yield _line("alias", tenant=keys.tenant, record=alias)
        ids = (member.decode() for member, _ in self.redis.zscan_iter(keys.maps(), count=_AT_ONCE))
        others = (keys.map(map_id).encode() for map_id in ids if map_id not in told)
        for found in kept(self.redis, others):
            yield _line("map", tenant=keys.tenant, record=found.json)
        for field, version in self.redis.hscan_iter(keys.newest_versions(), count=_AT_ONCE):
            yield _line("version", tenant=keys.tenant, name=field.decode(), version=int(version))

    def _names_with_aliases(self, keys: Keyspace) -> Iterator[str]:
        names = (name.decode() for name, _ in self.redis.hscan_iter(keys.newest_versions(), count=_AT_ONCE))
        for some in chunks(names, _AT_ONCE):
            with self.redis.pipeline(transaction=False) as pipe:
                for name in some:
                    pipe.exists(keys.aliases(name))
                yield from (name for name, there in zip(some, pipe.execute(), strict=True) if there)

    def _aliased(self, keys: Keyspace, name: str) -> tuple[list[bytes], dict[str, bytes]]:
        """The aliases of a name, and the maps at which they point."""

        def read(pipe: Pipeline) -> tuple[list[bytes], dict[str, bytes]]:
            aliases = cast(list[bytes], pipe.hvals(keys.aliases(name)))
            ids = {read_stored(StoredAlias, alias).map for alias in aliases}
            found = {map_id: cast(bytes | None, pipe.get(keys.map(map_id))) for map_id in sorted(ids)}
            pipe.multi()
            return aliases, {map_id: record for map_id, record in found.items() if record is not None}

        # A map is deleted only where no alias points at it, and whoever moves one touches this hash.
        return transact(self.redis, read, keys.aliases(name))


def _line(kind: str, *, record: bytes | None = None, **told: str | int | None) -> Text:
    """A line; the record stands in it as it is stored."""
    document = {"kind": kind, **told} | ({} if record is None else {"record": orjson.Fragment(record)})
    return Text(kind, orjson.dumps(document))
