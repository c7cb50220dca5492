"""Tallies by bucket: added to by many, compacted meanwhile, dropped, and read off few lists."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
from redis import Redis

from backend.store.monitors.buckets import LONG, SPAN, Lists, TallyKind
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.store import Store
from calibrant.monitoring.tally import Tally, merged
from tests.integration.monitors.stored import HOUR, NOW, ledger_of, monitor, tally, unnamed


def _same(left: Tally, other: Tally) -> bool:
    exact = np.array_equal(left.keys, other.keys) and np.array_equal(left.rows, other.rows)
    return exact and np.allclose(left.p_sum, other.p_sum, rtol=1e-14, atol=0)


def _length(store: Store, series: str, number: int) -> int:
    uid = Definitions(store.redis, store.keys).get("m").id
    return store.redis.llen(store.keys.monitor(uid).tallies(series, number))


def test_a_tally_has_the_rows_of_the_requested_buckets(store: Store) -> None:
    ledger = ledger_of(store)
    tallies = {bucket: tally(20, bucket) for bucket in (3, 4, 60, 63, 64, 70, 127, 128, 200, 900)}
    for bucket in tallies:
        ledger.commit(unnamed(20, bucket, bucket))
    buckets = ledger.buckets
    for first, last in [(0, 999), (3, 3), (4, 63), (0, 63), (0, 127), (64, 128), (65, 899), (5, 59), (201, 300)]:
        inside = {bucket: part for bucket, part in tallies.items() if first <= bucket <= last}
        assert _same(buckets.tally(first, last), merged(inside.values())), (first, last)
        assert {b: t.to_bytes() for b, t in buckets.tallies(first, last).items()} == {
            b: t.to_bytes() for b, t in inside.items()
        }
        assert buckets.numbers(first, last) == list(inside)


def test_rows_of_many_buckets_in_one_change_are_in_each_and_in_the_whole(store: Store) -> None:
    ledger = ledger_of(store, windows=[{"name": "last", "rows": 10_000}])
    both = {bucket: (tally(30, bucket), tally(30, bucket + 1)) for bucket in (1, 2, 70)}
    counts = {bucket: {"joined": 30, "d3": bucket} for bucket in both}
    ledger.commit(RowChanges(None, None, None, NOW, both, counts))
    for i, kind in enumerate(cast(tuple[TallyKind, ...], ("measured", "raw"))):
        whole = merged(two[i] for two in both.values())
        assert _same(ledger.buckets.tally(0, 99, kind), whole)
        assert _same(ledger.buckets.latest_rows(1, kind), whole)
        assert _same(ledger.buckets.tally(2, 2, kind), both[2][i])
    assert ledger.buckets.counts(0, 99) == {"joined": 90, "d3": 73}
    assert ledger.buckets.counts(2, 99) == {"joined": 60, "d3": 72}
    assert ledger.buckets.counts_by_bucket(2, 99) == {b: {"joined": 30, "d3": b} for b in (2, 70)}


@pytest.mark.slow
def test_a_list_stays_short_and_nothing_is_lost_while_many_add_to_it(store: Store) -> None:
    record = monitor(store)
    longest = []

    def add(seed: int) -> None:
        ledger = Ledger(store.redis, store.keys, record)
        for i in range(40):
            ledger.commit(unnamed(10, 7, 40 * seed + i))
            longest.append(_length(store, "measured", 7))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(8)))
    buckets = Ledger(store.redis, store.keys, record).buckets
    assert _same(buckets.tally(7, 7), merged(tally(10, seed) for seed in range(320)))
    assert _same(buckets.tally(0, 99), merged(tally(10, seed) for seed in range(320)))
    assert max(longest) <= LONG[0] + LONG[1] + 8


class Between(Redis):
    """A client that does something between the read and the write of a compaction."""

    def __init__(self, redis: Redis, between: Callable[[], object]) -> None:
        super().__init__(connection_pool=redis.connection_pool)
        self._between = between

    def eval(self, *args: Any) -> Any:
        self._between()
        return super().eval(*args)


# One more and the commit in between makes the list long: it compacts it first, and the other comes to nothing.
@pytest.mark.parametrize(("before", "left"), [(LONG[0] - 2, 2), (LONG[0] - 1, 1)])
def test_what_comes_during_a_compaction_stays(store: Store, before: int, left: int) -> None:
    record = monitor(store)
    ledger = Ledger(store.redis, store.keys, record)
    for seed in range(before):
        ledger.commit(unnamed(10, 7, seed))
    between = Between(store.redis, lambda: ledger.commit(unnamed(10, 7, 999)))
    assert Lists(between, store.keys.monitor(record.id)).compact("measured", 7) == (left == 2)
    assert _same(ledger.buckets.tally(7, 7), merged(tally(10, seed) for seed in (*range(before), 999)))
    assert _length(store, "measured", 7) == left


def test_buckets_that_are_closed_become_one_tally_each(store: Store) -> None:
    ledger = ledger_of(store, windows=[{"name": "last", "rows": 1600}])
    newest = int(NOW // HOUR)
    for bucket in (newest - 70, newest - 1, newest):
        for seed in range(5):
            ledger.commit(unnamed(50, bucket, seed))
    before = ledger.buckets.tally(0, newest)
    ledger.buckets.compact_closed(NOW)
    lengths = [_length(store, "measured", bucket) for bucket in (newest - 70, newest - 1, newest)]
    assert lengths == [1, 1, 5]
    assert _length(store, "measured-rows", 0) == 1
    assert _same(ledger.buckets.tally(0, newest), before)
    ledger.commit(unnamed(50, newest - 1, 9))
    assert _length(store, "measured", newest - 1) == 2
    ledger.buckets.compact_closed(NOW)
    assert _length(store, "measured", newest - 1) == 1


def test_a_version_changes_with_what_is_added_alone_and_a_tail_is_what_was_added(store: Store) -> None:
    ledger = ledger_of(store)
    for bucket in (1, 2):
        both = {bucket: (tally(5), None)}
        ledger.commit(RowChanges(None, None, None, NOW, both, {bucket: {"joined": 5, "predictions": 6, "expired": 7}}))
    for series, numbers in (("measured", [1, 2]), ("measured-spans", [0])):
        before = ledger.buckets.versions(series, numbers)
        assert ledger.buckets.versions(series, numbers) == before
        ledger.commit(unnamed(5, 2, 3))
        after = ledger.buckets.versions(series, numbers)
        assert [v.length for v in after] == [v.length for v in before[:-1]] + [before[-1].length + 1]
        assert (after[0].predictions, after[0].joined, after[0].expired) in [(6, 5, 7), (12, 10, 14)]
        (tail,) = ledger.buckets.tails(series, [(numbers[-1], before[-1].length)])
        assert (tail.generation, len(tail.parts)) == (before[-1].generation, 1)
        assert _same(tail.parts[0], tally(5, 3))
    assert ledger.buckets.versions("measured", []) == []


def test_old_buckets_are_dropped_and_what_was_counted_in_all_stays(store: Store) -> None:
    ledger = ledger_of(store)
    for bucket in (1, 63, 64, 65, 100, 128):
        both = (tally(10, bucket), tally(10, bucket))
        ledger.commit(RowChanges(None, None, None, NOW, {bucket: both}, {bucket: {"joined": 10}}, {"joined": 10}))
    ledger.buckets.drop(100)
    assert ledger.buckets.numbers(0, 999) == [100, 128]
    assert ledger.totals() == {"joined": 60}
    # The span of bucket 100 still holds the rows of 64 and 65.
    assert _same(ledger.buckets.tally(0, 999), merged([tally(10, 100), tally(10, 128)]))
    assert ledger.buckets.counts(0, 999) == {"joined": 20}
    ledger.buckets.drop(1000)
    assert (len(ledger.buckets.tally(0, 999)), ledger.buckets.counts(0, 999)) == (0, {})
    left = {cast(bytes, key).decode().split(":")[4] for key in store.redis.keys("calibrant:default:monitor:*")}
    assert left == {"state", "once", "totals"}
    # A label that comes later for a row of a bucket that was dropped is dropped again.
    ledger.commit(unnamed(10, 64))
    ledger.buckets.drop(1000)
    assert len(ledger.buckets.tally(0, 999)) == 0


def test_a_bucket_that_comes_again_is_not_compacted_as_the_one_that_was(store: Store) -> None:
    ledger = ledger_of(store)
    for _ in range(2):
        ledger.commit(unnamed(10, 7))
    stale = ledger.buckets.versions("measured", [7])
    ledger.buckets.drop(8)
    for _ in range(2):
        ledger.commit(unnamed(10, 7))
    assert ledger.buckets.versions("measured", [7]) != stale


@pytest.mark.slow
@pytest.mark.parametrize("rows", [100, 1600])
def test_the_number_of_last_rows_is_exact_to_a_sixteenth_and_one_request(store: Store, rows: int) -> None:
    ledger = ledger_of(store, windows=[{"name": "a", "rows": rows}, {"name": "b", "rows": 4 * rows}])
    for seed in range(170):
        ledger.commit(unnamed(40, seed, seed))
    for n in (rows, 4 * rows):
        n_rows = len(ledger.buckets.latest_rows(n))
        assert n <= n_rows <= n + rows / 16 + 2 * 40
        newest = [tally(40, seed) for seed in reversed(range(170))][: n_rows // 40]
        assert _same(ledger.buckets.latest_rows(n), merged(newest))
    keys = store.redis.keys("calibrant:default:monitor:*:measured-rows:*")
    assert len(keys) <= 4 * rows / max(40, rows / 16) + 20


def test_a_monitor_without_windows_by_rows_keeps_no_rows_in_their_order(store: Store) -> None:
    ledger = ledger_of(store)
    ledger.commit(unnamed(10))
    assert store.redis.keys("*rows*") == []
    assert len(ledger.buckets.latest_rows(10)) == 0


def test_spans_are_read_where_a_window_is_long(store: Store) -> None:
    ledger = ledger_of(store)
    for bucket in range(3 * SPAN):
        ledger.commit(unnamed(3, bucket, bucket))
    asked = store.redis.info("commandstats")["cmdstat_lrange"]["calls"]
    assert len(ledger.buckets.tally(1, 3 * SPAN)) == 3 * (3 * SPAN - 1)
    assert store.redis.info("commandstats")["cmdstat_lrange"]["calls"] - asked == 2 + SPAN - 1


def test_tallies_that_are_merged_while_their_monitor_is_deleted_do_not_return(store: Store) -> None:
    ledger = ledger_of(store)
    for seed in range(2):
        ledger.commit(unnamed(20, 7, seed))
    record = Definitions(store.redis, store.keys).get("m")
    keys = store.keys.monitor(record.id)
    lists = Lists(store.redis, keys)
    (stored,) = lists.listed("measured", [7])
    # A deletion removes the lists first, and what is known about them last.
    store.redis.unlink(keys.tallies("measured", 7))
    assert not lists.replace("measured", stored, tally(40).to_bytes())
    assert not store.redis.exists(keys.tallies("measured", 7))
    store.monitors.delete("m")
    assert store.redis.keys("calibrant:default:monitor:*") == []
