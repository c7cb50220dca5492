"""Monitors by name and by uid; what is deleted leaves nothing behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from redis import Redis

from backend.store.budget import Quotas
from backend.store.errors import MonitorExists, QuotaExceeded, StorageError, UnknownMonitor
from backend.store.keyspace import Shared
from backend.store.monitors.definitions import Definitions, delete_left
from backend.store.monitors.ids import FIRST_GROUP, OTHER_GROUP
from backend.store.monitors.ledger import Ledger, MonitorGroups
from backend.store.monitors.standings import put_latest
from backend.store.pages import PageRequest
from backend.store.store import Store
from schemas.monitors import MonitorRecord, WindowSpec
from service.errors import PreconditionFailed
from tests.integration.monitors.stored import change, fill_standing, monitor, put_reference, record_of, tally


def _definitions(store: Store, most: int = 0) -> Definitions:
    return Definitions(store.redis, store.keys, Quotas(monitors=most))


def test_a_monitor_is_found_by_its_name_and_its_uid(store: Store) -> None:
    definitions = _definitions(store)
    record = record_of(hooks=[{"url": "https://alerts.example.com", "secret": "whsec_" + "A" * 32}])
    assert definitions.put(record) == record
    assert definitions.get("m") == definitions.by_uid(record.id) == record
    assert definitions.put(record) == record  # done again
    with pytest.raises(MonitorExists):
        definitions.put(record_of())
    with pytest.raises(UnknownMonitor):
        definitions.get("other")
    with pytest.raises(UnknownMonitor):
        definitions.by_uid("monitor_other")


def test_a_monitor_of_another_tenant_is_not_seen(store: Store) -> None:
    uid = monitor(store).id
    other = _definitions(Store.of(store.redis, "other"))
    asks: list[Callable[[], object]] = [
        lambda: other.get("m"), lambda: other.by_uid(uid), lambda: other.delete("m")
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(UnknownMonitor):
            ask()
    assert other.page(PageRequest(10)).items == ()


def test_a_deletion_checks_the_monitor_that_it_deletes(store: Store) -> None:
    definitions = _definitions(store)
    definitions.put(record_of())

    def check(record: MonitorRecord) -> None:
        """Passes for the first definition, which another request changes before the deletion."""
        if record.description is not None:
            raise PreconditionFailed("If-Match does not match the current state")
        definitions.patch("m", lambda record: record.model_copy(update={"description": "changed"}))

    with pytest.raises(PreconditionFailed):
        definitions.delete("m", check)
    assert definitions.get("m").description == "changed"


def test_pages_hold_the_newest_first(store: Store) -> None:
    definitions = _definitions(store)
    records = [definitions.put(record_of(f"m{i}")) for i in range(5)]
    for i, record in enumerate(records):
        store.redis.zadd(store.keys.monitors(), {record.id: float(i)})
    first = definitions.page(PageRequest(3))
    definitions.delete("m0")
    again = definitions.put(record_of("m0"))
    rest = definitions.page(PageRequest(3, first.next))
    assert [record.name for record in (*first.items, *rest.items)] == ["m4", "m3", "m2", "m1"]
    assert definitions.page(PageRequest(1)).items == (again,)
    assert (definitions.number(), [record.name for record in definitions.all()]) == (5, ["m0", "m1", "m2", "m3", "m4"])


def test_concurrent_creations_stop_at_the_quota_of_monitors(store: Store) -> None:
    def make(i: int) -> bool:
        try:
            _definitions(store, 3).put(record_of(f"m{i % 4}"))
        except (QuotaExceeded, MonitorExists):
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(make, range(16)))
    assert (outcomes.count(True), _definitions(store).number()) == (3, 3)


def test_concurrent_changes_are_all_kept(store: Store) -> None:
    definitions = _definitions(store)
    definitions.put(record_of(windows=[{"name": "w0", "seconds": 60}]))

    def add(i: int) -> MonitorRecord:
        window = WindowSpec(name=f"w{i}", seconds=60)
        return definitions.patch("m", lambda r: r.model_copy(update={"windows": [*r.windows, window]}))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(1, 8)))
    assert {window.name for window in definitions.get("m").windows} == {f"w{i}" for i in range(8)}
    with pytest.raises(UnknownMonitor):
        definitions.patch("other", lambda r: r)


def _filled(store: Store) -> MonitorRecord:
    """A monitor with something at every key."""
    record = monitor(store, windows=[{"name": "last", "rows": 1600}])
    ledger = Ledger(store.redis, store.keys, record)
    for bucket in range(3):
        names = [f"{bucket}-{i}".encode() for i in range(150)]
        both = {bucket: (tally(150), tally(150, 1))}
        for _ in range(2):
            ledger.commit(change(names, tallies=both, counts={bucket: {"joined": 150}}))
            names = [name + b"+" for name in names]
    MonitorGroups(store.redis, store.keys, record).indices(["a"])
    fill_standing(store, record)
    put_latest(store.redis, store.keys, record.id, {})
    put_reference(store, record.id, tally(10))
    return record


def test_nothing_is_left_of_a_monitor_that_is_deleted_and_its_name_is_free(store: Store) -> None:
    _filled(store)
    definitions = _definitions(store)
    before = set(cast(list[bytes], store.redis.keys("calibrant*")))
    record = definitions.put(record_of("kept"))
    assert len(before) > 25
    definitions.delete("m")
    definitions.delete("kept")
    rest = [key for key in store.redis.keys("calibrant*") if b":audit" not in key]  # which says what was deleted
    assert rest == [Shared.tenants().encode()]
    assert definitions.put(record_of("kept")).id != record.id


class Dying(Redis):
    """A client that dies before one of its commands."""

    left = 0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if not self.left:
            raise ConnectionError
        self.left -= 1
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


@pytest.mark.slow
def test_leftovers_of_a_deletion_that_died_are_removed_later(store: Store) -> None:
    dying = Dying(connection_pool=store.redis.connection_pool)
    for commands in range(100):
        _filled(store)
        other = monitor(store, f"other-{commands}")
        dying.left = commands
        with contextlib.suppress(ConnectionError):
            Definitions(dying, store.keys).delete("m")
        new = monitor(store)
        delete_left(store.redis)
        assert _definitions(store).get("m") == new
        assert store.redis.keys("calibrant:default:monitor:*") == []
        assert not store.redis.exists(Shared.monitors_to_delete())
        assert _definitions(store).delete("m") == new
        assert _definitions(store).get(other.name) == other
        if dying.left:
            break
    assert 5 < commands < 99


def test_a_stored_definition_of_a_later_format_is_refused(store: Store) -> None:
    monitor(store)
    stored = cast(bytes, store.redis.hget(store.keys.monitor_definitions(), "m"))
    store.redis.hset(store.keys.monitor_definitions(), "m", stored.replace(b'"format":2', b'"format":3').decode())
    with pytest.raises(StorageError, match="format 3"):
        _definitions(store).get("m")


def test_groups_are_numbered_as_they_come_and_bounded(store: Store) -> None:
    record = monitor(store, max_groups=3)
    groups = MonitorGroups(store.redis, store.keys, record)
    assert groups.indices(["b", "a", "b"]) == [FIRST_GROUP, FIRST_GROUP + 1, FIRST_GROUP]
    assert groups.indices(["c", "d", "a"]) == [FIRST_GROUP + 2, OTHER_GROUP, FIRST_GROUP + 1]
    assert groups.all() == {"b": 2, "a": 3, "c": 4}
    assert groups.indices([]) == []


def test_groups_that_come_at_once_have_one_number_each(store: Store) -> None:
    record = monitor(store)
    names = [f"g{i}" for i in range(50)]
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: MonitorGroups(store.redis, store.keys, record).indices(names), range(16)))
    assert numbers == [list(range(FIRST_GROUP, FIRST_GROUP + 50))] * 16
