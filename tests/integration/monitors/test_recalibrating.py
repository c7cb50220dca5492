"""Recalibration: a challenger once an alarm, on rows that it has not seen; proposed, or the alias moved."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from backend.kinds.classes import map_record
from backend.monitors.challengers import accept, reject
from backend.monitors.looks import look_at
from backend.monitors.recalibration import recalibrate_at
from backend.store.budget import Quotas
from backend.store.errors import ProposalOutdated, UnknownProposal
from backend.store.keyspace import new_id
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.registry.aliases import promote
from backend.store.store import Store
from calibrant.calibrators import FitContext, Fitting, fit_curve, read_method
from calibrant.core.batch import read_batch
from calibrant.core.reductions import Event
from calibrant.maps.calibration_map import load
from calibrant.monitoring.event_tally import gain
from calibrant.monitoring.tally import tally_of
from schemas.base import DAY
from schemas.maps import FitSpec
from schemas.monitor_alarms import AuditEntry, Occasion
from schemas.monitors import MonitorRecord
from tests.integration.monitors.streams import BEGAN, HOUR, begun, entries_of, events_of, pour, rows, standing_of
from tests.known import known

NOW = BEGAN + HOUR


def alarmed(
    store: Store, policy: str = "auto", *, shift: float = 1.0, n: int = 20_000, map: str | None = None, **asked: Any
) -> MonitorRecord:
    """A monitor whose rows have raised an alarm, which requests a challenger."""
    recalibration = {"policy": policy, "least_rows": 500} | asked
    record = begun(store, windows=[{"name": "day", "seconds": DAY}], map=map, recalibration=recalibration)
    tally = rows(n, 0, shift=shift)
    pour(store, record, 0, tally, raw=None if map is None else tally)
    look_at(store, record, NOW)
    return record


def champion(store: Store, name: str, alias: str = "champion") -> str:
    """The id of a map that is made the newest version of a name, with an alias."""
    batch = read_batch(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1]))
    fitted = Fitting.read("identity", {}, "binary").run(batch, FitContext(0, "cpu", None))
    spec = FitSpec(method="identity", name=name, options={}, batch="", reduction="binary", seed=0)
    stored = store.maps.put(map_record(new_id("map"), spec, fitted, batch))
    store.aliases.point(name, alias, stored.version or 0, who=None, check=lambda _: None)
    return stored.id


def ask_again(store: Store, record: MonitorRecord) -> None:
    """As upon another alarm of the same rule."""

    def change(_: MonitorRecord, standing: Any) -> StandingChange:
        number = standing.rules["evidence"].alarms + len(standing.asked) + 1
        return StandingChange(standing.model_copy(update={"asked": [Occasion(rule="evidence", number=number)]}))

    Standings(store.redis, store.keys, record).change(change)


def entries(store: Store, record: MonitorRecord) -> list[AuditEntry]:
    return [entry for entry in entries_of(store, record) if not entry.action.startswith("alarm")]


def actions(store: Store, record: MonitorRecord) -> list[str]:
    return [entry.action for entry in entries(store, record)]


def test_auto_moves_the_alias_to_a_challenger_that_mends_the_rows(store: Store) -> None:
    record = alarmed(store)
    recalibrate_at(store, record, NOW)
    assert actions(store, record) == ["challenger-proposed", "alias-moved", "evidence-restarted"]
    alias = store.aliases.get("m", "champion")
    challenger = store.maps.get("m@champion")
    assert (alias.version, challenger.version, challenger.reduction) == (1, 1, "binary")
    assert 15_500 < (challenger.n or 0) < 16_500
    assert challenger.tags["monitor"] == "m"
    gained = known(entries(store, record)[0].found)
    assert 0.0 < (gained.low or 0.0) < (gained.gain or 0.0) < (gained.high or 0.0)
    # Log-odds are 1 too low, and the map adds as much.
    p = np.array([0.2, 0.5, 0.8])
    odds = p / (1 - p) * np.e
    np.testing.assert_allclose(load(challenger.document).apply(p), odds / (1 + odds), atol=0.02)
    # Evidence is reset, and the alarm ends with it.
    again = Definitions(store.redis, store.keys).get("m")
    assert again.started_at == BEGAN + 2 * HOUR
    look_at(store, again, NOW + 60)
    assert standing_of(store, record).rules["evidence"].status == "unknown"
    assert [event.type for event in events_of(store, record)] == [
        "monitor.alarm.raised",
        "monitor.recalibration.applied",
        "monitor.alarm.cleared",
    ]


def test_repeated_chores_fit_one_challenger_per_alarm(store: Store) -> None:
    record = alarmed(store)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: recalibrate_at(store, record, NOW), range(8)))
    assert store.maps.versions("m") == [1]
    assert actions(store, record) == ["challenger-proposed", "alias-moved", "evidence-restarted"]
    assert store.aliases.get("m", "champion").revision == 1


def test_a_bare_name_refers_to_the_challenger_only_after_promotion(store: Store) -> None:
    live = champion(store, "m")
    record = alarmed(store, "propose", map="m@champion")
    recalibrate_at(store, record, NOW)
    proposal = known(standing_of(store, record).proposal)
    assert proposal.found.champion == live
    assert store.maps.get("m").id == live
    for _ in range(2):  # as of a process that died before it noted that it was done
        promote(store.redis, store.keys, proposal.map, "m", "champion", who=None, check=lambda _: None)
        assert (store.maps.get("m").id, store.maps.get("m@champion").id) == (proposal.map, proposal.map)
    assert (store.maps.versions("m"), store.aliases.get("m", "champion").revision) == ([1, 2], 2)


@pytest.mark.parametrize(("alias", "watched"), [("other", {"map": "m@other"}), ("champion", {})])
def test_an_alias_is_moved_only_to_a_challenger_that_was_compared_with_it(
    store: Store, alias: str, watched: dict[str, Any]
) -> None:
    champion(store, "m", alias)
    aliases = store.aliases.all("m")
    record = alarmed(store, "auto", **watched)
    recalibrate_at(store, record, NOW)
    (entry,) = entries(store, record)
    assert (entry.action, "m@champion" in (entry.detail or "")) == ("recalibration-declined", True)
    assert store.aliases.all("m") == aliases != []


def test_auto_does_not_move_an_alias_that_points_elsewhere_by_then(store: Store) -> None:
    champion(store, "m")
    record = alarmed(store, "propose", map="m@champion")
    recalibrate_at(store, record, NOW)
    # Both as if decided, and the alias then moved away; its revision is as it was.
    other = champion(store, "m")
    revision = store.aliases.get("m", "champion").revision
    Standings(store.redis, store.keys, record).change(
        lambda _, standing: StandingChange(
            standing.model_copy(
                update={
                    "moving": standing.proposal and standing.proposal.model_copy(update={"revision": revision}),
                    "proposal": None,
                }
            )
        )
    )
    recalibrate_at(store, record, NOW + 1)
    last = entries(store, record)[-1]
    assert (last.action, "another map" in (last.detail or "")) == ("alias-not-moved", True)
    assert (store.aliases.get("m", "champion").map, store.maps.versions("m")) == (other, [1, 2])


@pytest.mark.parametrize(("quota", "is_made"), [(1, False), (2, True), (0, True)])
def test_no_challenger_is_made_beyond_the_quota_of_maps(store: Store, quota: int, is_made: bool) -> None:
    record = alarmed(store)
    of_a_tenant = Store.of(store.redis, quotas=Quotas(maps=quota))
    batch = read_batch(np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1]))
    fitted = Fitting.read("platt", {}, "binary").run(batch, FitContext(0, "cpu", None))
    spec = FitSpec(method="platt", name="other", options={}, batch="", reduction="binary", seed=0)
    store.maps.put(map_record(new_id("map"), spec, fitted, batch))
    recalibrate_at(of_a_tenant, record, NOW)
    assert store.maps.versions("m") == ([1] if is_made else [])
    if not is_made:
        (entry,) = entries(store, record)
        assert (entry.action, entry.found and entry.found.code) == ("recalibration-failed", "quota-exceeded")
        assert "1 maps" in (entry.detail or "")


def test_a_decision_that_was_not_carried_out_is_carried_out_by_the_next(store: Store) -> None:
    record = alarmed(store, "propose")
    recalibrate_at(store, record, NOW)
    standings = Standings(store.redis, store.keys, record)
    # As if the process that accepted it had ended before it moved the alias.
    standings.change(
        lambda _, standing: StandingChange(
            standing.model_copy(update={"moving": standing.proposal, "proposal": None, "moved_by": "anna"})
        )
    )
    recalibrate_at(store, record, NOW + 1)
    assert store.aliases.get("m", "champion").updated_by == "anna"
    assert standings.read().moving is None
    assert entries(store, record)[-2].who == "anna"


def test_a_proposal_waits_and_is_accepted(store: Store) -> None:
    record = alarmed(store, "propose", name="scores", alias="live")
    recalibrate_at(store, record, NOW)
    standing = standing_of(store, record)
    assert standing.proposal is not None
    assert (standing.proposal.name, standing.proposal.version, standing.proposal.alias) == ("scores", None, "live")
    assert store.maps.versions("scores") == []
    accepted = accept(store, record, "anna", NOW + 5)
    assert accepted == standing.proposal.model_copy(update={"version": 1})
    assert store.maps.get("scores").id == accepted.map == accepted.found.challenger
    assert store.aliases.get("scores", "live").version == 1
    log = [(entry.action, entry.who) for entry in entries(store, record)]
    assert log == [
        ("challenger-proposed", None),
        ("proposal-accepted", "anna"),
        ("alias-moved", "anna"),
        ("evidence-restarted", "anna"),
    ]
    with pytest.raises(UnknownProposal):
        accept(store, record, "anna", NOW + 6)


def test_a_proposal_is_rejected_and_its_map_stays_without_a_name(store: Store) -> None:
    record = alarmed(store, "propose")
    recalibrate_at(store, record, NOW)
    reject(store, record, "ben", NOW + 5)
    assert actions(store, record) == ["challenger-proposed", "proposal-rejected"]
    assert entries(store, record)[-1].who == "ben"
    rejected = known(entries(store, record)[-1].found)
    assert store.maps.get(rejected.challenger or "").name is None
    assert store.maps.versions("m") == []
    with pytest.raises(UnknownProposal):
        reject(store, record, "ben", NOW + 6)


def test_a_proposal_is_outdated_once_its_alias_is_moved(store: Store) -> None:
    record = alarmed(store, "propose")
    recalibrate_at(store, record, NOW)
    other = champion(store, "m")
    with pytest.raises(ProposalOutdated):
        accept(store, record, "anna", NOW + 5)
    assert store.aliases.get("m", "champion").map == other
    assert store.maps.versions("m") == [1]
    assert standing_of(store, record).proposal is not None


def test_within_the_pause_none_is_fitted_and_the_next_takes_the_place_of_the_last(store: Store) -> None:
    record = alarmed(store, "propose", pause=3600)
    recalibrate_at(store, record, NOW)
    ask_again(store, record)
    recalibrate_at(store, record, NOW + 3599)
    assert actions(store, record)[-1] == "recalibration-declined"
    assert "3600 s" in (entries(store, record)[-1].detail or "")
    ask_again(store, record)
    Standings(store.redis, store.keys, record).change(
        lambda _, standing: StandingChange(
            standing.model_copy(update={"asked": [Occasion(rule="evidence", number=9)]}),
        )
    )
    recalibrate_at(store, record, NOW + 3600)
    assert actions(store, record)[-2:] == ["proposal-replaced", "challenger-proposed"]
    assert store.maps.versions("m") == []


@pytest.mark.parametrize(
    ("asked", "action", "word"),
    [
        ({"least_rows": 30_000}, "recalibration-declined", "30000 are needed"),
        ({"method": "identity"}, "recalibration-declined", "not significantly better"),
        ({"method": "iop-oi"}, "recalibration-failed", "iop-oi"),
        ({"window": "gone"}, "recalibration-declined", "no longer has this window"),
    ],
)
def test_a_declined_proposal_has_its_reason_in_the_audit(
    store: Store, asked: dict[str, Any], action: str, word: str
) -> None:
    record = alarmed(store, **asked)
    recalibrate_at(store, record, NOW)
    (entry,) = entries(store, record)
    assert (entry.action, entry.who) == (action, None)
    assert word in (entry.detail or "")
    assert store.redis.keys("calibrant:default:map:*") == []


def test_the_interval_of_the_gain_is_that_of_the_rows_one_by_one() -> None:
    random = np.random.default_rng(0)
    p = np.round(random.uniform(0.02, 0.98, 5000), 3)
    y = (random.random(5000) < p**1.3).astype(np.int8)
    curve, _ = fit_curve(read_method("platt"), Event(p[:2500], y[:2500], None))
    estimate = gain(tally_of(p[2500:], y[2500:]), None, curve, 0.95)
    q, p, y = curve(p[2500:]), p[2500:], y[2500:]
    gains = np.log(np.where(y == 1, q, 1 - q)) - np.log(np.where(y == 1, p, 1 - p))
    reach = 1.96044 * gains.std(ddof=1) / np.sqrt(2500)
    np.testing.assert_allclose([estimate.value, estimate.high - estimate.value], [gains.mean(), reach], rtol=2e-3)
