"""What is kept of a monitor beside its rows: states, events, audit, proposal, latest values, reference."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from storage.errors import InvalidCursor, UnknownMonitor
from storage.monitors.alarms import Alarms
from storage.monitors.audit import Audit
from storage.monitors.definitions import Definitions
from storage.monitors.journal import MOST
from storage.monitors.latest import put_latest, read_latest
from storage.monitors.proposals import Proposals
from storage.monitors.reference import put_reference, read_reference
from storage.pages import Asked
from storage.store import Store
from tests.integration.monitors.stored import monitor, tally


def test_a_rules_state_changes_only_from_what_was_read(store: Store) -> None:
    alarms = Alarms(store.redis, store.keys, monitor(store).uid)
    assert alarms.put("ece", {"raised": False}, expected=None)
    assert not alarms.put("ece", {"raised": True}, expected=None, events=[{"event": "lost"}], audit=[{"step": "lost"}])
    assert alarms.put("ece", {"raised": True}, expected={"raised": False}, events=[{"event": "raised"}])
    assert alarms.put("other", {}, expected=None)
    assert alarms.states() == {"ece": {"raised": True}, "other": {}}
    assert alarms.events(Asked(10)).items == ({"event": "raised"},)
    assert alarms.put("ece", None, expected={"raised": True})
    assert alarms.states() == {"other": {}}


def test_of_many_who_raise_an_alarm_at_once_one_does(store: Store) -> None:
    alarms = Alarms(store.redis, store.keys, monitor(store).uid)
    with ThreadPoolExecutor(8) as threads:
        raised = list(threads.map(lambda i: alarms.put("r", {"by": i}, expected=None, events=[{"by": i}]), range(16)))
    assert raised.count(True) == 1
    assert alarms.states()["r"] == alarms.events(Asked(10)).items[0]


def test_events_come_newest_first_in_pages_and_the_last_thousand_are_kept(store: Store) -> None:
    audit = Audit(store.redis, store.keys, monitor(store).uid)
    for start in range(0, MOST + 100, 100):
        audit.append(*({"n": n} for n in range(start, start + 100)))
    page = audit.page(Asked(600))
    audit.append({"n": "new"})
    rest = audit.page(Asked(600, page.next))
    assert [entry["n"] for entry in (*page.items, *rest.items)] == list(range(MOST + 99, 100, -1))
    assert rest.next is None
    with pytest.raises(InvalidCursor):
        audit.page(Asked(1, "none"))


def test_equal_entries_are_each_kept(store: Store) -> None:
    audit = Audit(store.redis, store.keys, monitor(store).uid)
    audit.append({"step": "same"}, {"step": "same"})
    assert len(audit.page(Asked(10)).items) == 2


def test_one_proposal_at_a_time_waits(store: Store) -> None:
    uid = monitor(store).uid
    proposals = Proposals(store.redis, store.keys, uid)
    assert proposals.put({"map": "one"}, expected=None, audit=[{"step": "proposed"}])
    assert not proposals.put({"map": "two"}, expected=None, audit=[{"step": "lost"}])
    assert proposals.get() == {"map": "one"}
    assert proposals.put(None, expected={"map": "one"}, audit=[{"step": "rejected"}])
    assert proposals.get() is None
    steps = [entry["step"] for entry in Audit(store.redis, store.keys, uid).page(Asked(10)).items]
    assert steps == ["rejected", "proposed"]


def test_the_latest_values_of_all_tenants_are_read_at_once_and_go_with_their_monitors(store: Store) -> None:
    other = Store.of(store.redis, "other")
    here, there = monitor(store), monitor(other)
    put_latest(store.redis, store.keys, here.uid, {"ece": 0.1})
    put_latest(store.redis, other.keys, there.uid, {"ece": 0.2})
    both = {("default", here.uid): {"ece": 0.1}, ("other", there.uid): {"ece": 0.2}}
    assert read_latest(store.redis) == both
    assert len(read_latest(store.redis, 1)) == 1
    Definitions(store.redis, store.keys).delete("m")
    assert read_latest(store.redis) == {("other", there.uid): {"ece": 0.2}}


def test_the_reference_of_a_monitor_is_kept_as_it_was(store: Store) -> None:
    uid = monitor(store).uid
    assert read_reference(store.redis, store.keys, uid) is None
    put_reference(store.redis, store.keys, uid, tally(1000))
    found = read_reference(store.redis, store.keys, uid)
    assert found is not None
    assert found.to_bytes() == tally(1000).to_bytes()
    put_reference(store.redis, store.keys, uid, None)
    assert read_reference(store.redis, store.keys, uid) is None


def test_nothing_is_written_for_a_monitor_that_is_deleted(store: Store) -> None:
    uid = monitor(store).uid
    Definitions(store.redis, store.keys).delete("m")
    alarms = Alarms(store.redis, store.keys, uid)
    for write in (
        lambda: alarms.put("r", {}, expected=None, events=[{}]),
        lambda: Audit(store.redis, store.keys, uid).append({}),
        lambda: Proposals(store.redis, store.keys, uid).put({}, expected=None),
        lambda: put_latest(store.redis, store.keys, uid, {}),
        lambda: put_reference(store.redis, store.keys, uid, tally(1)),
    ):
        with pytest.raises(UnknownMonitor):
            write()
    assert store.redis.keys("calibrant*") == [b"calibrant::tenants"]
