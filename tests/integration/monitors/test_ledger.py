"""Rows are counted once each, whole or not at all."""

from __future__ import annotations

import pytest

from backend.store.errors import MonitorFull, UnknownMonitor
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ids import Ids, padded
from backend.store.monitors.ledger import SLOTS, RowChanges
from backend.store.store import Store
from tests.integration.monitors.stored import HORIZON, NOW, change, ledger_of, tally
from tests.known import known

SLOT = HORIZON / SLOTS
#: Seconds for which an id is known at most: the horizon, the skew and a minute, and a slot.
LIFE = HORIZON + 300 + 60 + SLOT


def test_rows_that_are_new_are_written_and_counted(store: Store) -> None:
    ledger = ledger_of(store)
    names = [f"id-{i}".encode() for i in range(2500)]
    assert ledger.commit(change(names)) is None
    assert ledger.entries(Ids.of([*names, b"other"])) == [b"J1"] * 2500 + [None]
    assert (ledger.known(), ledger.totals()) == (2500, {"joined": 2500})
    assert ledger.buckets.counts(0, 9) == {"joined": 2500}
    assert len(ledger.buckets.tally(7, 7)) == 2500


def test_nothing_of_a_change_is_written_where_one_row_is_not_as_expected(store: Store) -> None:
    ledger = ledger_of(store)
    ledger.commit(change([b"one", b"two"]))
    conflict = known(ledger.commit(change([b"new", b"two", b"newer", b"new"], b"P")))
    assert (conflict.indices.tolist(), conflict.entries) == ([1, 3], [b"J1", None])
    assert (ledger.known(), ledger.totals(), len(ledger.buckets.tally(0, 9))) == (2, {"joined": 2}, 2)
    assert ledger.entries(Ids.of([b"new"])) == [None]


def test_an_entry_changes_only_from_what_was_read(store: Store) -> None:
    ledger = ledger_of(store)
    ledger.commit(change([b"a", b"b"], b"P\x00\x01\x00"))
    assert ledger.commit(change([b"a", b"b"], b"J", b"P\x00\x01")) is None
    again = known(ledger.commit(change([b"a"], b"J", b"P\x00\x01")))
    assert again.entries == [b"J"]
    assert ledger.commit(change([b"a"], None, b"J")) is None
    assert ledger.entries(Ids.of([b"a", b"b"])) == [None, b"J"]


def test_rows_without_ids_are_counted(store: Store) -> None:
    ledger = ledger_of(store)
    for _ in range(2):
        assert (
            ledger.commit(RowChanges(None, None, None, NOW, {7: (tally(5), tally(5, 1))}, totals={"joined": 5})) is None
        )
    assert (ledger.known(), ledger.totals(), len(ledger.buckets.tally(7, 7, "raw"))) == (0, {"joined": 10}, 10)


def test_more_ids_than_a_monitor_may_know_are_refused_whole(store: Store) -> None:
    ledger = ledger_of(store, max_ids=1000)
    ledger.commit(change([b"%d" % i for i in range(999)]))
    with pytest.raises(MonitorFull):
        ledger.commit(change([b"x", b"y"]))
    assert ledger.known() == 999
    assert ledger.commit(change([b"x"])) is None
    # Rows that are known already change it too.
    assert ledger.commit(change([b"x", b"1"], b"J2", b"J1")) is None


def test_ids_are_forgotten_a_piece_at_a_time_once_their_horizon_has_passed(store: Store) -> None:
    ledger = ledger_of(store)
    ledger.commit(change([b"a", b"b"], b"P"))
    ledger.commit(change([b"c"], b"P"))
    ledger.commit(change([b"late"], b"P", now=NOW + SLOT))
    # A row may be named as from the end of the skew, and clocks differ.
    assert ledger.due_slots(NOW + HORIZON + 300 + 60 - 1) == []
    (slot,) = ledger.due_slots(NOW + LIFE)
    pieces = known(ledger.oldest(slot))
    assert pieces.ids.strings() == [b"a", b"b", b"c"]
    forget = RowChanges(pieces.ids, padded([b"P"] * 3, 40), None, NOW, totals={"expired": 3}, forgets=pieces)
    assert ledger.commit(forget) is None
    assert (ledger.known(), ledger.totals()["expired"], ledger.oldest(slot)) == (1, 3, None)
    stale = known(ledger.commit(forget))
    assert not len(stale.indices)
    assert ledger.due_slots(NOW + LIFE) == []


def test_nothing_is_written_to_a_monitor_that_is_deleted(store: Store) -> None:
    ledger = ledger_of(store)
    ledger.commit(change([b"a"]))
    Definitions(store.redis, store.keys).delete("m")
    with pytest.raises(UnknownMonitor):
        ledger.commit(change([b"b"]))
    rest = [key for key in store.redis.keys("calibrant*") if b":audit" not in key]  # which says that it was deleted
    assert rest == [b"calibrant::tenants"]
