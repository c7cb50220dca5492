"""Online recalibration: versions that follow the stream, once each, from which every prediction can be repeated."""

from __future__ import annotations

import contextlib
import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from backend.kinds.classes import map_record
from backend.monitors.answers import MonitorCache, MonitorReader
from backend.monitors.challengers import accept
from backend.monitors.looks import look_at
from backend.monitors.online_maps import online_options, read_online
from backend.monitors.recalibration import recalibrate_at, request_challenger
from backend.store.backup.contents import write_backup
from backend.store.backup.restoring import restore
from backend.store.budget import Quotas
from backend.store.chores import Chore
from backend.store.errors import UnknownMonitor, UnknownProposal
from backend.store.keyspace import Keyspace, Shared, new_id
from backend.store.monitors.buckets import Buckets
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger, RowChanges
from backend.store.monitors.standings import Standings
from backend.store.store import Store
from calibrant.calibrators import FitContext, Fitting
from calibrant.core.batch import read_batch
from calibrant.core.errors import InvalidDocument
from calibrant.maps.calibration_map import load
from calibrant.monitoring.online import FORMAT, OnlineMap, start_online
from calibrant.monitoring.tally import Tally, tally_of
from schemas.base import DAY
from schemas.maps import FitSpec
from schemas.monitor_online import OnlineStanding
from schemas.monitors import MonitorRecord
from tests.integration.monitors.stored import monitor
from tests.integration.monitors.streams import BEGAN, HOUR, actions_of, entries_of, events_of, pour, rows, standing_of
from tests.integration.monitors.test_recalibrating import champion
from tests.known import known


def online(store: Store, *, map: str | None = None, **asked: Any) -> MonitorRecord:
    """A monitor with an online map and a version every six hours, which starts with the stream."""
    policy = {"policy": "online", "every": 6 * int(HOUR)} | asked
    fields: dict[str, Any] = {"windows": [{"name": "day", "seconds": DAY}], "bucket": int(HOUR), "rules": []}
    record = monitor(store, **fields, retention=10 * DAY, horizon=DAY, map=map, recalibration=policy)
    recalibrate_at(store, record, BEGAN)
    return record


def hours(store: Store, record: MonitorRecord, first: int, last: int, *, shift: float = 0.0, n: int = 300) -> float:
    """Count rows of some hours, and follow them at the end of each."""
    now = BEGAN
    for hour in range(first, last):
        tally = rows(n, hour, shift=shift)
        now = pour(store, record, hour, tally, raw=None if record.map is None else tally) + 1.0
        recalibrate_at(store, record, now)
    return now


def progress(store: Store, record: MonitorRecord) -> OnlineStanding:
    return known(standing_of(store, record).online)


def state(store: Store, record: MonitorRecord) -> OnlineMap:
    _, states = Standings(store.redis, store.keys, record).read_online()
    return OnlineMap.from_document(json.loads(states["now"]))


def test_versions_are_written_on_schedule_and_the_alias_follows(store: Store) -> None:
    first = champion(store, "m")
    record = online(store, map="m@champion", level=0.999999)
    hours(store, record, 0, 13)
    standing = progress(store, record)
    assert (standing.static, standing.rounds, standing.rows, standing.unlabelled) == (first, 13, 3900, 0)
    assert [(written.reason, written.version, written.rounds) for written in standing.versions] == [
        ("schedule", 2, 6),
        ("schedule", 3, 12),
    ]
    alias = store.aliases.get("m", "champion")
    newest = store.maps.get("m@champion")
    assert (alias.version, alias.map, alias.revision) == (3, standing.in_force, 3)
    assert (newest.method, newest.n, newest.tags["reason"], newest.tags["rounds"]) == ("online", 3600, "schedule", "12")
    assert sum(standing.weights.values()) == pytest.approx(1.0)
    assert actions_of(store, record) == ["alias-moved", "alias-moved"]
    events = events_of(store, record)
    assert [event.type for event in events] == ["monitor.recalibration.applied"] * 2
    assert len({event.id for event in events}) == 2


def test_evidence_writes_a_version_that_mends_the_rows(store: Store) -> None:
    record = online(store, every=DAY)
    hours(store, record, 0, 4, shift=1.0)
    standing = progress(store, record)
    (version, *_) = standing.versions
    assert (version.reason, version.version) == ("evidence", 1)
    assert version.rounds < 3
    p = np.array([0.2, 0.5, 0.8])
    odds = p / (1 - p) * np.e
    newest = load(store.maps.get("m@champion").document)
    np.testing.assert_allclose(newest.apply(p), odds / (1 + odds), atol=0.06)
    # Evidence of the alarm does not restart: it is against the rows as they were predicted.
    assert Definitions(store.redis, store.keys).get("m").started_at == 0.0


def test_versions_caused_by_evidence_are_separated_by_a_pause(store: Store) -> None:
    record = online(store, every=5 * DAY, pause=4 * int(HOUR))
    hours(store, record, 0, 3, shift=1.5)
    hours(store, record, 3, 12, shift=-1.5)
    written = [record_of_version.at for record_of_version in progress(store, record).versions]
    assert len(written) > 1
    gaps = np.diff(np.array([time.rstrip("Z") for time in written], dtype="datetime64[s]")).astype(float)
    assert gaps.min() >= 4 * HOUR


@pytest.mark.slow
def test_every_prediction_can_be_repeated_from_the_stored_versions(store: Store) -> None:
    champion(store, "m")
    record = online(store, map="m@champion", level=0.999999)
    hours(store, record, 0, 20, shift=0.7)
    standing = progress(store, record)
    assert len(standing.versions) == 3
    # The state, and so each version, follows from the tallies and from the states that were in force.
    tallies = sorted(Buckets(store.redis, store.keys, record).tallies(0, 2**31, "raw").items())
    states = [(int(BEGAN // HOUR) + 1, start_online(load(store.maps.read(standing.static or "").document), delay=6))]
    again = states[0][1]
    for number, tally in tallies:
        event = tally.event()
        in_force = [state for start, state in states if start <= number]
        again = again.update(event.p, event.y, weights=event.w, predicted_by=in_force[-1] if in_force else None)
        for version in standing.versions:
            if version.rounds == again.rounds:
                stored = load(store.maps.read(version.map).document)
                expected = again.to_map().to_document()
                assert stored.to_document() == expected
                states.append((number + 2, again))  # written after the end of the bucket, in the next one
    assert again.to_document() == state(store, record).to_document()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 8])
def test_a_bucket_counts_once_for_concurrent_and_repeated_updates(store: Store, threads: int) -> None:
    record = online(store, level=0.999999)
    now = BEGAN
    for hour in range(12):
        now = pour(store, record, hour, rows(300, hour, shift=0.5))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: recalibrate_at(store, record, now + 1.0), range(12)))
    standing = progress(store, record)
    assert (standing.rounds, standing.rows) == (12, 3600)
    assert state(store, record).rounds == 12
    assert store.maps.versions("m") == [1]
    assert actions_of(store, record) == ["alias-moved"]


class Killed(Exception):
    """The process ends."""


@pytest.mark.slow
@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("method", ["transaction", "execute_command"])
def test_a_process_may_end_before_any_command(
    store: Store, method: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion(store, "m")
    record = online(store, map="m@champion", level=0.999999)
    now = BEGAN
    for hour in range(6):
        tally = rows(300, hour, shift=0.5)
        now = pour(store, record, hour, tally, raw=tally)
    now += 1.0
    run, calls = getattr(type(store.redis), method), iter(range(10**6))

    def ending(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == at:
            raise Killed
        return run(*args, **kwargs)

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(type(store.redis), method, ending)
        recalibrate_at(store, record, now)
    assert next(calls) > (at if method == "execute_command" or at < 5 else 4)
    for _ in range(2):
        recalibrate_at(store, record, now)
    standing = progress(store, record)
    assert (standing.rounds, standing.rows) == (6, 1800)
    assert [(written.version, written.rounds) for written in standing.versions] == [(2, 6)]
    assert store.aliases.get("m", "champion").map == standing.in_force == standing.versions[0].map
    assert actions_of(store, record) == ["alias-moved"]
    assert Standings(store.redis, store.keys, record).unqueued_events() == []


def test_a_process_whose_clock_is_behind_counts_nothing_again(store: Store) -> None:
    record = online(store, level=0.999999)
    now = hours(store, record, 0, 5)
    before = progress(store, record)
    recalibrate_at(store, record, now - 4 * HOUR)
    assert progress(store, record) == before
    hours(store, record, 5, 6)
    assert progress(store, record).rounds == 6


def test_labels_that_come_late_are_waited_for(store: Store) -> None:
    record = online(store, after=3 * int(HOUR))
    hours(store, record, 0, 5)
    standing = progress(store, record)
    assert (standing.rounds, standing.following) == (2, int(BEGAN // HOUR) + 2)
    assert state(store, record).delay == 9


def test_predictions_without_a_label_in_time_are_counted(store: Store) -> None:
    record = online(store)
    bucket = int(BEGAN // HOUR)
    counts = {bucket: {"predictions": 70}}
    assert Ledger(store.redis, store.keys, record).commit(RowChanges(None, None, None, BEGAN, {}, counts, {})) is None
    hours(store, record, 0, 1)
    assert progress(store, record).unlabelled == 70


def test_moving_the_alias_restarts_the_online_map_from_its_new_version(store: Store) -> None:
    champion(store, "m")
    record = online(store, map="m@champion", level=0.999999)
    now = hours(store, record, 0, 7)
    before = progress(store, record)
    assert before.rounds == 7
    theirs = champion(store, "m")
    recalibrate_at(store, record, now + 1.0)
    standing = progress(store, record)
    assert (standing.static, standing.in_force, standing.versions) == (theirs, theirs, [])
    assert standing.started_at > before.started_at
    assert store.aliases.get("m", "champion").map == theirs
    # It starts with the rows of the window, and goes on.
    assert standing.rounds == 7
    hours(store, record, 7, 14)
    assert [written.version for written in progress(store, record).versions] == [4]


def test_other_options_restart_the_map_and_keep_what_it_corrects(store: Store) -> None:
    first = champion(store, "m")
    record = online(store, map="m@champion", level=0.999999)
    now = hours(store, record, 0, 7)
    in_force = progress(store, record).in_force
    change = record.recalibration.model_copy(update={"options": {"memories": [1000]}})
    record = Definitions(store.redis, store.keys).patch("m", lambda r: r.model_copy(update={"recalibration": change}))
    recalibrate_at(store, record, now + 1.0)
    standing = progress(store, record)
    assert (standing.static, standing.in_force, standing.rounds) == (first, in_force, 7)
    assert state(store, record).memories == (1000,)


def test_an_alias_that_a_monitor_without_a_map_did_not_create_is_left_alone(store: Store) -> None:
    live = champion(store, "m")
    record = online(store)
    assert standing_of(store, record).online is None
    (entry,) = entries_of(store, record)
    assert (entry.action, entry.found and entry.found.code) == ("recalibration-declined", "alias-not-compared")
    assert store.aliases.get("m", "champion").map == live


def test_beyond_the_quota_of_maps_no_version_is_written_until_the_next_is_due(store: Store) -> None:
    record = online(store, level=0.999999)
    champion(store, "other")
    limited = Store.of(store.redis, quotas=Quotas(maps=1))
    hours(limited, record, 0, 9, shift=0.1)
    assert store.maps.versions("m") == []
    (entry,) = entries_of(store, record)
    assert (entry.action, entry.found and entry.found.code) == ("recalibration-failed", "quota-exceeded")
    hours(store, record, 9, 13, shift=0.1)
    assert [(written.reason, written.rounds) for written in progress(store, record).versions] == [("schedule", 12)]


def test_a_request_writes_a_version_at_once_if_there_are_new_rows(store: Store) -> None:
    record = online(store)
    now = hours(store, record, 0, 1)
    assert progress(store, record).versions == []
    request_challenger(store, record, "anna", now)
    recalibrate_at(store, record, now)
    assert [written.reason for written in progress(store, record).versions] == ["request"]
    request_challenger(store, record, "anna", now)
    recalibrate_at(store, record, now)
    last = entries_of(store, record)[-1]
    assert (last.action, last.found and last.found.code) == ("recalibration-declined", "no-new-rows")
    assert standing_of(store, record).asked == []
    with pytest.raises(UnknownProposal):
        accept(store, record, "anna", now)


def test_a_check_schedules_the_work_once_a_bucket_is_complete(store: Store) -> None:
    record = online(store)
    chore = Chore("recalibrate", "default", record.id).field
    look_at(store, record, BEGAN + 10.0)
    assert store.redis.zscore(Shared.chores_due(), chore) is None
    look_at(store, record, BEGAN + HOUR + 10.0)
    assert store.redis.zscore(Shared.chores_due(), chore) is not None
    store.redis.zrem(Shared.chores_due(), chore)
    recalibrate_at(store, record, BEGAN + HOUR + 10.0)
    look_at(store, record, BEGAN + HOUR + 20.0)
    assert store.redis.zscore(Shared.chores_due(), chore) is None


def test_evidence_continues_over_versions(store: Store) -> None:
    champion(store, "m")
    record = online(store, map="m@champion")
    for hour in range(7):
        now = hours(store, record, hour, hour + 1)
        look_at(store, Definitions(store.redis, store.keys).get("m"), now)
    assert store.aliases.get("m", "champion").version == 2
    assert Definitions(store.redis, store.keys).get("m").started_at == 0.0
    assert standing_of(store, record).applied == store.aliases.get("m", "champion").map


@pytest.mark.slow
def test_old_states_are_dropped_once_their_buckets_are_counted(store: Store) -> None:
    record = online(store, level=0.999999)
    hours(store, record, 0, 40)
    _, states = Standings(store.redis, store.keys, record).read_online()
    assert len(progress(store, record).versions) == 6
    assert len(states) <= 3
    assert sum(map(len, states.values())) < 200_000


def test_a_deleted_monitor_leaves_no_state(store: Store) -> None:
    record = online(store)
    hours(store, record, 0, 3)
    Definitions(store.redis, store.keys).delete("m")
    with pytest.raises(UnknownMonitor):
        recalibrate_at(store, record, BEGAN + 9 * HOUR)
    assert not list(store.redis.scan_iter(f"*{record.id}*"))


def test_a_restored_monitor_goes_on_as_if_nothing_had_happened(store: Store) -> None:
    record = online(store, level=0.999999)
    hours(store, record, 0, 8, shift=0.3)
    file = io.BytesIO()
    write_backup(store.redis, file)
    hours(store, record, 8, 13, shift=0.3)
    expected, versions = (
        state(store, record).to_document(),
        [written.map for written in progress(store, record).versions],
    )
    store.redis.flushall()
    file.seek(0)
    restore(store.redis, file, merge=False)
    hours(store, record, 8, 13, shift=0.3)
    assert state(store, record).to_document() == expected
    assert [written.map for written in progress(store, record).versions] == versions


@pytest.mark.parametrize("reduction", ["confidence", "class:2", "top:2"])
def test_the_map_is_for_predictions_in_the_form_of_the_monitor(store: Store, reduction: str) -> None:
    windows = [{"name": "day", "seconds": DAY}]
    fields: dict[str, Any] = {"windows": windows, "bucket": int(HOUR), "n_classes": 3, "scale": "logit", "rules": []}
    record = monitor(store, **fields, reduction=reduction, horizon=DAY, recalibration={"policy": "online"})
    recalibrate_at(store, record, BEGAN)
    hours(store, record, 0, 3, shift=1.5)
    newest = load(store.maps.get("m@champion").document)
    assert (newest.reduction, newest.scale, newest.n_classes) == (reduction, "logit", 3)
    logits = np.log([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    before = {"confidence": [0.5, 0.7], "class:2": [0.5, 0.1], "top:2": [0.3, 0.2]}[reduction]
    assert (newest.apply(logits) > np.array(before) + 0.05).all()


def test_a_map_of_the_whole_vector_is_not_followed(store: Store) -> None:
    batch = read_batch(
        np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1]] * 20), np.array([2, 0, 1] * 19 + [0, 1, 2])
    )
    fitted = Fitting.read("temperature", {}, None).run(batch, FitContext(0, "cpu", None))
    spec = FitSpec(method="temperature", name="m", options={}, batch="", reduction=fitted.reduction, seed=0)
    foreign = store.maps.put(map_record(new_id("map"), spec, fitted, batch))
    store.aliases.point("m", "champion", foreign.version or 0, who=None, check=lambda _: None)
    record = monitor(store, map="m@champion", n_classes=3, reduction="confidence", recalibration={"policy": "online"})
    recalibrate_at(store, record, BEGAN)
    (entry,) = entries_of(store, record)
    assert (entry.action, entry.found and entry.found.code) == ("recalibration-declined", "map-of-vector")
    assert standing_of(store, record).online is None
    # It is tried again only after the pause.
    look_at(store, record, BEGAN + 60.0)
    chore = Chore("recalibrate", "default", record.id).field
    assert store.redis.zscore(Shared.chores_due(), chore) is None
    look_at(store, record, BEGAN + HOUR + 1.0)
    assert store.redis.zscore(Shared.chores_due(), chore) is not None


def test_online_maps_of_tenants_are_separate(store: Store) -> None:
    other = Store.of(store.redis, "other")
    first, two = online(store), online(other)
    hours(store, first, 0, 7)
    assert (progress(store, first).rounds, progress(other, two).rounds) == (7, 0)
    assert (store.maps.versions("m"), other.maps.versions("m")) == ([1], [])
    assert Keyspace("other").monitor(two.id).online() != Keyspace().monitor(first.id).online()


def test_the_answer_has_the_weights_and_the_rounds(store: Store) -> None:
    record = online(store, level=0.999999)
    now = hours(store, record, 0, 7)
    reading = known(MonitorReader(store.redis, store.keys, record, MonitorCache()).online())
    assert (reading.rounds, reading.rows, len(reading.weights)) == (7, 2100, 23)
    assert reading.counted_until == BEGAN + 7 * HOUR
    assert reading.next_at == pytest.approx(BEGAN + 6 * HOUR + 1 + 6 * HOUR)
    assert reading.bound == pytest.approx(-np.log(1e-6))
    assert now < reading.next_at
    off = record.model_copy(update={"recalibration": record.recalibration.model_copy(update={"policy": "off"})})
    assert read_online(off, standing_of(store, record)) is None


@pytest.mark.slow
def test_the_log_loss_is_within_the_bound_of_the_best_expert(store: Store) -> None:
    """With a version for each bucket; each bucket has one row, so that rounds are rows."""
    record = online(store, every=int(HOUR), level=0.999999)
    assert online_options(record)["delay"] == 1
    random, total, losses = np.random.default_rng(0), 0.0, np.zeros(23)
    for hour in range(40):
        p = random.uniform(0.1, 0.9)
        y = int(random.random() < (0.9 if hour > 20 else p))
        _, states = Standings(store.redis, store.keys, record).read_online()
        starts = [int(name) for name in states if name != "now" and int(name) <= BEGAN // HOUR + hour]
        used = OnlineMap.from_document(json.loads(states[str(max(starts))] if starts else states["now"]))
        experts = used._predicted(np.array([p]))[:, 0]
        losses -= np.log(np.where(y, experts, 1 - experts))
        mixed = float(used.predict([p])[0])
        total -= float(np.log(mixed if y else 1 - mixed))
        recalibrate_at(store, record, pour(store, record, hour, one_row(p, y)) + 1.0)
    assert total <= losses.min() + 2 * np.log(23) + 1e-9


def one_row(p: float, y: int) -> Tally:
    return tally_of(np.array([p]), np.array([y], dtype=np.int8))


def test_a_newer_state_is_not_overwritten(store: Store) -> None:
    record = online(store)
    hours(store, record, 0, 1)
    key = store.keys.monitor(record.id).online()
    document = json.loads(store.redis.hget(key, "now"))  # type: ignore[arg-type]
    store.redis.hset(key, "now", json.dumps(document | {"format": FORMAT + 1}))
    before = progress(store, record)
    with pytest.raises(InvalidDocument, match="format"):
        hours(store, record, 1, 2)
    assert progress(store, record) == before
